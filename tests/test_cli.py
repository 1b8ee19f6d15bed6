"""The command line as a whole."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from typer.testing import CliRunner

from proxy import __version__
from proxy.cli import app
from tests.typed import typed

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("arguments", [["replay", "nowhere.jsonl"], ["serve", "--config", "nowhere.yaml"]])
def test_a_file_that_is_not_there_is_named_without_a_traceback(tmp_path: Path, arguments: list[str]) -> None:
    """Wrong usage is exit code 2."""
    done = typed(*arguments, cwd=tmp_path)

    assert done.returncode == 2
    assert "nowhere" in done.stderr
    assert "Traceback" not in done.stderr


def test_every_command_has_help_in_a_sentence() -> None:
    """Whoever types a command and --help learns what it does."""
    runner = CliRunner()

    assert runner.invoke(app, ["version"]).stdout.strip() == __version__
    for command in ("serve", "check", "test", "explain", "demo", "replay", "learn"):
        shown = runner.invoke(app, [command, "--help"])
        assert shown.exit_code == 0
        assert "--" in shown.stdout
