"""Which calls are the same call, and which results the same result: digests of meaning, not of spelling.

Laws: key order, white space around and within strings, escapes, Unicode form and the way a number is written
make no difference (D10); anything else does. Nothing here recurses, so depth cannot break it.
"""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Collection, Iterator, Mapping
from hashlib import sha256
from typing import TYPE_CHECKING

from .json_text import NotOneObject, read_object

if TYPE_CHECKING:
    from .results import ToolTraits

CANONICAL_CHARACTERS = 65_536
"""Longer results are compared as text: bringing them into one form would hold up every other stream."""
READ_CHARACTERS = 1_048_576
"""Longer results are not even searched for their identity fields."""

_DIGEST_LENGTH = 32


def folded(text: str) -> str:
    """The text in Unicode form NFC, trimmed, each stretch of white space a single space (D10)."""
    return " ".join(unicodedata.normalize("NFC", text).split())


def canonical(value: object) -> bytes:
    """One spelling for every way to write the same JSON value.

    Equal for values that differ only in key order, Unicode form, white space in strings, or number form
    (1, 1.0, 1e0; -0 is 0). `true` is not 1. Keys are treated like strings.
    """
    parts: list[str] = []
    waiting: list[object] = [value]
    while waiting:
        part = waiting.pop()
        if isinstance(part, _Written):
            parts.append(part.text)
        elif isinstance(part, Mapping):
            parts.append("{")
            waiting.append(_Written("}"))
            waiting.extend(reversed(list(_members(part))))
        elif isinstance(part, list | tuple):
            parts.append("[")
            waiting.append(_Written("]"))
            waiting.extend(reversed(part))
        else:
            parts.append(_scalar(part))
    return "".join(parts).encode("ascii")


class _Written:
    """Text that is ready to be put out."""

    __slots__ = ("text",)

    def __init__(self, text: str) -> None:
        self.text = text


def _members(part: Mapping[object, object]) -> Iterator[object]:
    # Two keys can fold to one spelling: the exact one then decides their order.
    for name, key in sorted((_scalar(str(key)), str(key)) for key in part):
        yield _Written(name)
        yield part[key]


def _scalar(value: object) -> str:
    if isinstance(value, str):
        return json.dumps(folded(value)) + ","
    if value is None or isinstance(value, bool):
        return f"{value},"
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, int):
        return f"{value:x},"  # decimal digits of a huge number take quadratic time
    return f"{value!r},"


def call_fingerprint(tool: str, arguments_text: str, volatile: Collection[str] = ()) -> str:
    """Identifies a call: its tool (exact) and what its arguments mean, less the top-level `volatile` ones.

    Arguments that are not exactly one JSON object (free-form calls, broken ones) count as text.
    """
    try:
        arguments: dict[str, object] = read_object(arguments_text)
    except NotOneObject:
        return _digest("text", tool, folded(arguments_text).encode("utf-8", "surrogatepass"))
    for name in volatile:
        arguments.pop(name, None)
    return _digest("json", tool, canonical(arguments))


def result_identity(text: str, traits: ToolTraits) -> str:
    """Identifies what a result says (D9).

    Where the tool declares identity fields and the result has any of them, at any depth, their values are the
    result; else all its content is, less the declared volatile fields. What is not JSON counts as text.
    """
    value = _read(text, READ_CHARACTERS if traits.identity_fields else CANONICAL_CHARACTERS)
    if traits.identity_fields and value is not None:
        found = {canonical([name, part]) for name, part in _named(value, frozenset(traits.identity_fields))}
        if found:
            return _digest("fields", "", b"".join(sorted(found)))
    if value is None or len(text) > CANONICAL_CHARACTERS:
        return _digest("text", "", folded(text).encode("utf-8", "surrogatepass"))
    if traits.volatile_results:
        _drop(value, frozenset(traits.volatile_results))
    return _digest("json", "", canonical(value))


def _read(text: str, most: int) -> dict[str, object] | list[object] | None:
    """The JSON object or array that the text is; None for anything else, and for more than `most` characters."""
    if len(text) > most:
        return None
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict | list) else None


def _named(value: object, names: frozenset[str]) -> Iterator[tuple[str, object]]:
    waiting = [value]
    while waiting:
        part = waiting.pop()
        if isinstance(part, list):
            waiting.extend(part)
        elif isinstance(part, dict):
            for key, member in part.items():
                if key in names:
                    yield key, member
                else:
                    waiting.append(member)


def _drop(value: object, names: frozenset[str]) -> None:
    """Takes all members of these names out of the value, which is the reader's own."""
    waiting = [value]
    while waiting:
        part = waiting.pop()
        if isinstance(part, dict):
            for name in names & part.keys():
                del part[name]
            waiting.extend(part.values())
        elif isinstance(part, list):
            waiting.extend(part)


def _digest(kind: str, tool: str, content: bytes) -> str:
    head = json.dumps([kind, tool]).encode("ascii")
    return sha256(head + content).hexdigest()[:_DIGEST_LENGTH]
