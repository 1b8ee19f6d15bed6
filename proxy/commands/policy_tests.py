"""`callgate test`."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.progress import Progress

from proxy.engines import TestChoice, TestRun, examined
from proxy.engines.coverage import percent
from proxy.errors import Fault
from proxy.policy_test_report import as_json, coverage_lines, failure_lines
from proxy.terminal import (
    FOUND_WRONG,
    WRONG_USAGE,
    ConfigFile,
    complain,
    complaints,
    out,
    settings_from,
    stop,
)


def run_tests(  # noqa: PLR0913, PLR0917 - the options of the command
    folders: Annotated[
        list[Path] | None, typer.Argument(help="Folders with policies. Default: those of policy.folders.")
    ] = None,
    run: Annotated[
        str, typer.Option(help="Only tests whose `package.name` holds this (a regular expression).")
    ] = "",
    shipped: Annotated[
        bool,
        typer.Option("--shipped", help="The shipped policies too. They are all there is without a folder."),
    ] = False,
    coverage: Annotated[
        bool, typer.Option("--coverage", help="Say which lines of the policies no test reached.")
    ] = False,
    min_coverage: Annotated[
        float | None,
        typer.Option(min=0, max=100, help="Exit code 1 where fewer percent of the lines are reached."),
    ] = None,
    as_json_: Annotated[bool, typer.Option("--json", help="Print JSON for programs.")] = False,
    config: ConfigFile = None,
) -> None:
    """Run the Rego tests (`test_*` rules in `*_test.rego`) of these folders; say what failed, why and where."""
    chosen = [*(folders or settings_from(config).policy.folders)]
    try:
        named = re.compile(run) if run else None
    except re.error as error:
        stop([f"--run {run}: {error}"], WRONG_USAGE)
    watched = coverage or min_coverage is not None
    done = _examined(chosen, TestChoice(named, shipped or not chosen, watched))
    if run and not done.tests:
        stop([f"--run {run}: no test is called so"], WRONG_USAGE)
    for test in done.tests:
        if not test.passed:
            complain(failure_lines(test))
    for folder in done.untested:
        complain([f"{folder}: there is no test in it (test_* rules in *_test.rego)"])
    if as_json_:
        out.print(json.dumps(as_json(done, with_coverage=watched)), markup=False)
    else:
        _print(done, with_coverage=coverage)
    raise typer.Exit(_code(done, min_coverage))


def _examined(folders: Sequence[Path], choice: TestChoice) -> TestRun:
    missing = [f"{folder}: there is no such folder" for folder in folders if not folder.is_dir()]
    if missing:
        stop(missing, WRONG_USAGE)
    try:
        with Progress(console=complaints, transient=True) as bar:
            task = bar.add_task("Testing", total=None)
            return examined(folders, choice, lambda at, of: bar.update(task, completed=at, total=of))
    except Fault as fault:
        stop(str(fault).splitlines(), FOUND_WRONG)


def _print(done: TestRun, *, with_coverage: bool) -> None:
    if with_coverage:
        for line in coverage_lines(done.coverage):
            out.print(line, markup=False)
    failed = sum(not test.passed for test in done.tests)
    out.print(f"{len(done.tests) - failed} passed, {failed} failed in {done.seconds:.1f} s")


def _code(done: TestRun, least: float | None) -> int:
    reached = percent(done.coverage)
    if least is not None and reached < least:
        complain([f"{reached:.1f} % of the lines are reached by tests, {least:g} % are wanted"])
        return FOUND_WRONG
    return FOUND_WRONG if any(not test.passed for test in done.tests) or not done.tests else 0
