"""Runs the `test_*` rules of policies through the embedded engine, in this process."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from .bundle import BundleFault, Sources, lint, read_sources
from .findings import errors_of
from .layering import for_embedded
from .syntax import RegoModule, RegoRule
from .worker import Evaluator, RegoError


@dataclass(frozen=True, slots=True)
class RegoTest:
    """One test and what came of it."""

    package: str
    name: str
    file: str
    line: int
    passed: bool
    message: str = ""


def run_policy_tests(folders: Sequence[Path] = ()) -> list[RegoTest]:
    """The tests of the shipped policies and of these folders, in the order of the files.

    Only `true` passes. Raises BundleFault where the policies or their tests have errors.
    """
    sources = read_sources(folders, with_tests=True)
    errors = errors_of([*sources.faults, *lint(sources)])
    if errors:
        raise BundleFault(errors)
    return list(_results(sources))


def _results(sources: Sources) -> Iterator[RegoTest]:
    rules = {"profile": "starter", "org": {}, "teams": {}, "agents": {}}
    texts = {file: module.text for file, module in for_embedded(sources.modules).items()}
    loaded = Evaluator(texts, {"rules": rules})
    tests = [
        (module, rule)
        for module in sources.modules
        if module.is_test
        for rule in module.rules
        if rule.name.startswith("test_")
    ]
    seen = Counter((module.package, rule.name) for module, rule in tests)
    for module, rule in tests:
        # A test may replace rules of others, which leaves traces in an engine: each gets a fresh one.
        message = _run(loaded.copy(), module, rule)
        if seen[module.package, rule.name] > 1:
            # Of two with one name, one alone would let both pass.
            message = "there are several tests of this name"
        yield RegoTest(
            ".".join(module.package),
            rule.name,
            module.file,
            rule.place.line,
            passed=not message,
            message=message,
        )


def _run(evaluator: Evaluator, module: RegoModule, rule: RegoRule) -> str:
    """What is wrong; empty: nothing."""
    try:
        value = evaluator.evaluate(".".join(("data", *module.package, rule.name)), "{}").strip()
    except RegoError as error:
        return str(error)
    return "" if value == "true" else "is {}, not true".format(value.strip('"'))
