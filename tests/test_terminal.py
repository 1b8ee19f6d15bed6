"""What all commands share at the terminal."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest
import typer

from proxy.terminal import WRONG_USAGE, run_loop, settings_from, stop

if TYPE_CHECKING:
    from pathlib import Path


def test_settings_that_are_wrong_end_the_program_with_every_fault(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """F1: whoever starts it in a pipeline sees all that is wrong at once."""
    file = tmp_path / "callgate.yaml"
    file.write_text("listen: {prot: 1}\nadmin: {port: [x]}\n")

    with pytest.raises(typer.Exit) as ended:
        settings_from(file)

    assert ended.value.exit_code == WRONG_USAGE
    said = capsys.readouterr().err
    assert "prot" in said
    assert "admin.port" in said


def test_an_override_that_is_none_leaves_the_default() -> None:
    assert settings_from(None, {"listen.port": None}).listen.port == 8788
    assert settings_from(None, {"listen.port": 1}).listen.port == 1


def test_brackets_in_a_complaint_are_no_markup(capsys: pytest.CaptureFixture[str]) -> None:
    """What is complained about comes from outside."""
    with pytest.raises(typer.Exit):
        stop(["[bold]x[/bold] [/]"], 1)

    assert "[bold]x[/bold] [/]" in capsys.readouterr().err


def test_a_loop_gives_what_its_coroutine_gives() -> None:
    async def three() -> int:
        await asyncio.sleep(0)
        return 3

    assert run_loop(three()) == 3
