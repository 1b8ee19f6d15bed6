"""Names of tools and ids in messages: shown so that nothing invisible is hidden in them (C025)."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

NAME_LENGTH = 80
NAMES_LISTED = 40


def spelled(name: str) -> str:
    """The name in double quotes; what is not printable ASCII is escaped, what is too long is cut."""
    cut = name if len(name) <= NAME_LENGTH else name[:NAME_LENGTH] + "…"
    shown = cut if cut.isascii() and cut.isprintable() else cut.encode("unicode_escape").decode("ascii")
    return f'"{shown}"'


def listed(names: Iterable[str]) -> str:
    """The names in their order, so many as a model reads with profit; the rest is counted."""
    names = list(names)
    shown = ", ".join(spelled(name) for name in names[:NAMES_LISTED])
    more = len(names) - NAMES_LISTED
    return f"{shown} and {more} more" if more > 0 else shown
