"""Runs the `test_*` rules of policies through the embedded engine, in this process."""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from .bundle import BundleFault, Sources, lint, read_sources
from .coverage import Covered, FileCoverage
from .failing import Failure, failure_of
from .findings import errors_of
from .layering import LAYERS, for_embedded
from .rewriting import Rewritten
from .syntax import RegoModule, RegoRule, written
from .worker import Evaluator, RegoError

_RULES = {"profile": "starter", "org": {}, "teams": {}, "agents": {}}
"""What tests find in `data.rules` unless they say otherwise."""


@dataclass(frozen=True, slots=True)
class RegoTest:
    """One test and what came of it."""

    package: str
    name: str
    file: str
    line: int
    passed: bool
    message: str = ""
    source: str = ""
    """The line where it begins."""
    failure: Failure | None = None
    """Which expression did not hold, where that can be told."""
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class TestChoice:
    """What is to be run."""

    __test__ = False

    named: re.Pattern[str] | None = None
    """Only tests whose `package.name` holds this."""
    shipped: bool = True
    """The product's own policies too; their rules are there for the others in any case."""
    watched: bool = False
    """Note which lines are reached."""


@dataclass(frozen=True, slots=True)
class TestRun:
    """All tests, and what they reached."""

    __test__ = False

    tests: tuple[RegoTest, ...]
    coverage: tuple[FileCoverage, ...] = ()
    """Of the policies that were asked for, without tests; empty where nothing was watched."""
    untested: tuple[Path, ...] = ()
    """Folders without a single test."""
    seconds: float = 0.0


def run_policy_tests(folders: Sequence[Path] = ()) -> list[RegoTest]:
    """The tests of the shipped policies and of these folders, in the order of the files.

    Only `true` passes. Raises BundleFault where the policies or their tests have errors.
    """
    return list(examined(folders).tests)


def examined(
    folders: Sequence[Path] = (),
    choice: TestChoice | None = None,
    progress: Callable[[int, int], None] = lambda _done, _all: None,
) -> TestRun:
    """Runs the chosen tests; `progress` hears how many of how many are done. Raises BundleFault as above."""
    begun = time.perf_counter()
    sources = read_sources(folders, with_tests=True)
    errors = errors_of([*sources.faults, *lint(sources)])
    if errors:
        raise BundleFault(errors)
    runner = _Runner(sources, choice or TestChoice())
    tests = tuple(runner.results(progress))
    return TestRun(
        tests,
        tuple(runner.coverage()),
        tuple(folder for folder in folders if not _has_tests(sources, folder)),
        time.perf_counter() - begun,
    )


def _has_tests(sources: Sources, folder: Path) -> bool:
    return any(_is_below(module, folder) and any(_tests_of(module)) for module in sources.modules)


def _is_below(module: RegoModule, folder: Path) -> bool:
    return Path(module.file).is_relative_to(folder)


def _tests_of(module: RegoModule) -> Iterator[RegoRule]:
    if module.is_test:
        yield from (rule for rule in module.rules if rule.name.startswith("test_"))


@dataclass
class _Runner:
    sources: Sources
    choice: TestChoice
    covered: Covered = field(default_factory=Covered)

    def __post_init__(self) -> None:
        self.embedded = for_embedded(self.sources.modules)
        self.texts = {file: module.text for file, module in self.embedded.items()}
        self.loaded = Evaluator(self.texts, {"rules": _RULES})
        if self.choice.watched:
            self.loaded.watch()

    def results(self, progress: Callable[[int, int], None]) -> Iterator[RegoTest]:
        every = [(module, rule) for module in self.sources.modules for rule in _tests_of(module)]
        seen = Counter((module.package, rule.name) for module, rule in every)
        chosen = [(module, rule) for module, rule in every if self._is_chosen(module, rule)]
        for done, (module, rule) in enumerate(chosen, 1):
            yield self._result(module, rule, is_alone=seen[module.package, rule.name] == 1)
            progress(done, len(chosen))

    def _is_wanted(self, module: RegoModule) -> bool:
        return self.choice.shipped or module.file not in self.sources.own

    def _is_chosen(self, module: RegoModule, rule: RegoRule) -> bool:
        named = self.choice.named
        full = f"{'.'.join(module.package)}.{rule.name}"
        return self._is_wanted(module) and (named is None or named.search(full) is not None)

    def _result(self, module: RegoModule, rule: RegoRule, *, is_alone: bool) -> RegoTest:
        begun = time.perf_counter()
        message = self._run(module, rule)
        seconds = time.perf_counter() - begun
        failure = failure_of(self.texts, _RULES, module, rule) if message else None
        if not is_alone:
            # Of two with one name, one alone would let both pass.
            message = "there are several tests of this name"
        return RegoTest(
            ".".join(module.package),
            rule.name,
            module.file,
            rule.place.line,
            passed=not message,
            message=message,
            source=module.text.splitlines()[rule.place.line - 1].strip(),
            failure=failure,
            seconds=seconds,
        )

    def _run(self, module: RegoModule, rule: RegoRule) -> str:
        """What is wrong; empty: nothing."""
        # A test may replace rules of others, which leaves traces in an engine: each gets a fresh one.
        evaluator = self.loaded.copy()
        try:
            value = evaluator.evaluate(written((*module.package, rule.name)), "{}").strip()
        except RegoError as error:
            return str(self._placed(error))
        finally:
            if self.choice.watched:
                self.covered.add(evaluator.lines())
        return "" if value == "true" else "is {}, not true".format(value.strip('"'))

    def _placed(self, error: RegoError) -> RegoError:
        """With the place in the file as it was written."""
        module = self.embedded.get(error.file)
        line, column = module.place(error.line, error.column) if module else (error.line, error.column)
        return RegoError(error.message, error.file, line, column)

    def coverage(self) -> Iterator[FileCoverage]:
        """Of the policies that were asked for."""
        if self.choice.watched:
            wanted: dict[str, Rewritten] = {
                module.file: self.embedded[module.file]
                for module in self.sources.modules
                # The layers are another text for the engine.
                if self._is_wanted(module) and not module.is_test and module.package != LAYERS
            }
            heads = {
                module.file: [rule.place.line for rule in module.rules] for module in self.sources.modules
            }
            yield from self.covered.files(wanted, heads)
