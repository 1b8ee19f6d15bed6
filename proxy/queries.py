"""The query of a path: which parameters carry keys, and the path without some of them, every other byte as it came."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from urllib.parse import unquote_plus


def parameters(path: str) -> Iterator[tuple[str, str]]:
    """Names (small letters) and values of the query of this path, decoded once, in order."""
    _, _, query = path.partition("?")
    for piece in query.split("&") if query else ():
        name, _, value = piece.partition("=")
        yield unquote_plus(name).strip().lower(), unquote_plus(value)


def without(path: str, unwanted: Callable[[str, str], bool]) -> str:
    """The path less the parameters (name in small letters, value) that are unwanted."""
    place, mark, query = path.partition("?")
    if not query:
        return path
    pieces = query.split("&")
    kept = [piece for piece, pair in zip(pieces, parameters(path), strict=True) if not unwanted(*pair)]
    if len(kept) == len(pieces):
        return path
    return f"{place}{mark}{'&'.join(kept)}" if kept else place
