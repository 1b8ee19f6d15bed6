"""`callgate test`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from proxy.engines import run_policy_tests
from proxy.errors import Fault
from proxy.terminal import FOUND_WRONG, ConfigFile, complain, out, settings_from, stop


def run_tests(
    folders: Annotated[
        list[Path] | None, typer.Argument(help="Folders with policies. Default: those of policy.folders.")
    ] = None,
    config: ConfigFile = None,
) -> None:
    """Run the Rego tests (`test_*` rules in `*_test.rego`) of the shipped policies and of these folders."""
    try:
        results = run_policy_tests(folders or settings_from(config).policy.folders)
    except Fault as fault:
        stop(str(fault).splitlines(), FOUND_WRONG)
    failed = [result for result in results if not result.passed]
    for result in failed:
        complain([f"{result.file}:{result.line}: {result.package}.{result.name}: {result.message}"])
    out.print(f"{len(results) - len(failed)} passed, {len(failed)} failed")
    if failed:
        raise typer.Exit(FOUND_WRONG)
