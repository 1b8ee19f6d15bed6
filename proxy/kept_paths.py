"""The path of a request about an answer that the provider keeps."""

from __future__ import annotations

from urllib.parse import quote, unquote

from . import queries
from .errors import ClientFault

_NO = frozenset({"", "0", "false"})


def renamed(path: str, shown: str, actual: str) -> str:
    """The canonical path with the provider's own id, encoded, where the agent's stands; else every byte as it was."""
    if shown == actual:
        return path
    place, mark, query = path.partition("?")
    place = "/".join(quote(actual, safe="") if unquote(part) == shown else part for part in place.split("/"))
    return f"{place}{mark}{query}"


def unstreamed(path: str, parameter: str) -> None:
    """Raises ClientFault (400) where this parameter asks for a stream: a kept answer is judged as a whole."""
    if parameter and any(
        name == parameter and said.strip().lower() not in _NO for name, said in queries.parameters(path)
    ):
        raise ClientFault(
            f"A kept answer is fetched as a whole here. Leave the parameter `{parameter}` out.",
            code="stream_refused",
        )
