"""Processes that this one has started."""

from __future__ import annotations

import os
from pathlib import Path


def children() -> list[int]:
    """The worker processes of this process that live."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                stat = (entry / "stat").read_text()
                line = (entry / "cmdline").read_bytes()
            except OSError:
                continue
            parent = int(stat.rpartition(")")[2].split()[1])
            if parent == os.getpid() and b"worker.py" in line:
                found.append(int(entry.name))
    return sorted(found)
