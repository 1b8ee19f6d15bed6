"""Which policies are evaluated, and by what."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from proxy.setting_kinds import Part, Positive, Seconds


class Policy(Part):
    """Which policies are evaluated, and how."""

    folders: tuple[Path, ...] = ()
    """Folders with further policies, beside the shipped ones."""
    data: Path | None = None
    """A YAML or JSON file with roles, tools, argument constraints and limits, for those who write no Rego."""
    profile: Literal["starter", "strict"] = "starter"
    """What holds where nothing is said: `starter` lets unnamed tools pass, `strict` refuses them."""
    deadline_seconds: Seconds = 1.0
    """The longest a decision may take; then everything is refused (or `faults.engine` says otherwise)."""
    workers: Positive = 1
    """Engine workers."""
