"""Commands typed at a terminal: real processes with an environment of their own."""

from __future__ import annotations

import subprocess
import sys
from typing import IO, TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

CALLGATE = [sys.executable, "-m", "proxy"]


def typed(*arguments: str, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """What `callgate …` says in this folder, run to its end."""
    variables = {"PATH": "/usr/bin:/bin", **environment}
    return subprocess.run(
        [*CALLGATE, *arguments],
        cwd=cwd,
        env=variables,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def until(word: str, lines: IO[str]) -> str:
    """What is written, up to the line that begins with this word."""
    text = ""
    for line in iter(lines.readline, ""):
        text += line
        if line.startswith(word):
            break
    return text
