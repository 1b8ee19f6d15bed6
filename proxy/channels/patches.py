"""Patches that an agent would apply: `*** Begin Patch … *** End Patch`, and diffs in a fence."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from .plain import PlainChannel
from .scanner import Rule

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .scanner import Proposed

TOOL = "apply_patch"


def _patch(text: str) -> list[Proposed]:
    return [(TOOL, json.dumps({"patch": text.strip("\n")}, ensure_ascii=False))]


def _fenced(text: str) -> list[Proposed] | None:
    return _patch(text) if text[:1].isspace() else None


class Patches(PlainChannel):
    """See the file's head."""

    name = "patches"
    rules: Sequence[Rule] = (
        Rule("*** Begin Patch", ("*** End Patch",), _patch, at_line=True),
        Rule("```diff", ("\n```",), _fenced),
        Rule("```patch", ("\n```",), _fenced),
    )

    def written(self, calls: Sequence[Proposed]) -> str:
        """Each as a patch of its own."""
        patches = (json.loads(arguments)["patch"] for _, arguments in calls)
        return "\n".join(f"*** Begin Patch\n{patch}\n*** End Patch" for patch in patches)
