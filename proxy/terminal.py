"""What all commands share at the terminal: where text and complaints go, how settings are read, how a loop is run."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, NoReturn, TypeVar

import typer
from rich.console import Console

from .config import SettingsFault, load_settings
from .settings import Settings

Result = TypeVar("Result")

ConfigFile = Annotated[
    Path | None,
    typer.Option(
        "--config", "-c", help="YAML file with settings. Default: callgate.yaml here, if it is there."
    ),
]
out = Console(highlight=False, soft_wrap=True)
complaints = Console(stderr=True, highlight=False, soft_wrap=True)

FOUND_WRONG = 1
"""Exit code: something was found wrong."""
WRONG_USAGE = 2
"""Exit code: the command, or a file that it was given, cannot be understood."""


def settings_from(config: Path | None, overrides: Mapping[str, object] | None = None) -> Settings:
    """The settings from file and environment; overrides that are None count for nothing. Ends the program with 2 and
    every fault with its place where they are wrong."""
    said = {name: value for name, value in (overrides or {}).items() if value is not None}
    try:
        return load_settings(config, said)
    except SettingsFault as fault:
        stop(fault.problems, WRONG_USAGE)


def complain(lines: Iterable[str]) -> None:
    """Says what is wrong, in red, on standard error."""
    for line in lines:
        complaints.print(line, style="red", markup=False)


def stop(lines: Iterable[str], code: int) -> NoReturn:
    """Complains and ends the program with this code."""
    complain(lines)
    raise typer.Exit(code) from None


def run_loop(coroutine: Coroutine[Any, Any, Result]) -> Result:
    """Runs an event loop until the coroutine is done."""
    try:
        import uvloop  # noqa: PLC0415 - not to be had on every system
    except ImportError:
        return asyncio.run(coroutine)
    return uvloop.run(coroutine)
