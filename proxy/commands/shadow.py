"""`callgate shadow`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

from proxy.audit_records import Record, records
from proxy.shadow_report import print_report, reported
from proxy.terminal import FOUND_WRONG, WRONG_USAGE, out, stop


def shadow(
    files: Annotated[list[Path], typer.Argument(help="Audit files, rotated ones too.")],
    fail_on_new_refusals: Annotated[
        bool,
        typer.Option(
            "--fail-on-new-refusals", help="Exit code 1 if a call that was let through would be refused."
        ),
    ] = False,
    json_: Annotated[bool, typer.Option("--json", help="Print JSON for programs.")] = False,
) -> None:
    """Report where checks, rules and policies in shadow differ from what was enforced."""
    try:
        report = reported(_records(files))
    except OSError as error:
        stop([f"{error.filename}: cannot be read: {error.strerror}"], WRONG_USAGE)
    if json_:
        out.print_json(json.dumps(report.as_json()))
    else:
        print_report(out, report)
    if fail_on_new_refusals and report.newly_refused:
        raise typer.Exit(FOUND_WRONG)


def _records(files: list[Path]) -> Iterator[Record]:
    for file in files:
        with file.open("rb") as lines:
            yield from records(lines)
