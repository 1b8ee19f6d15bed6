"""JSON values of any provider: read as clients read them, written compactly, identified by what they mean.

Laws: what one dialect reads and writes so, all do; nothing here knows a provider's keys.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from hashlib import blake2b
from typing import Any

import orjson

from proxy.core import json_text
from proxy.core.messages import Malformed

Json = dict[str, Any]

MAX_DEPTH = 200
"""Levels of nesting in an answer: what is deeper cannot be written again by every writer of JSON."""


def loaded(raw: bytes) -> object:
    """The JSON value. Half surrogate pairs are read as clients read them. Raises ValueError where it is none, and where
    it is too deep to be written again."""
    if raw.count(b"{") + raw.count(b"[") > MAX_DEPTH and json_text.is_deeper(raw, MAX_DEPTH):
        raise ValueError("nested too deep")
    try:
        return orjson.loads(raw)
    except orjson.JSONDecodeError:
        pass
    try:
        return json.loads(raw.decode())
    except RecursionError:
        raise ValueError("nested too deep") from None


def dumped(value: object) -> bytes:
    """The value as compact JSON."""
    try:
        return orjson.dumps(value)
    except TypeError:  # half a surrogate pair, or very deep
        return json.dumps(value, separators=(",", ":")).encode()


def canonical(value: object) -> bytes:
    """One spelling for one meaning. Raises Malformed where the value is nested too deep to be spelled."""
    try:
        return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
    except TypeError:
        raise Malformed("a message is nested too deep") from None


def text(value: object) -> str:
    """The value if it is text, else nothing."""
    return value if isinstance(value, str) else ""


def objects(value: object) -> list[Json]:
    """The objects in a list, or nothing."""
    return [part for part in value if isinstance(part, dict)] if isinstance(value, list) else []


def count(value: object) -> int:
    """The value if it is a count, else 0."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0


def assistant_digest(said: str, calls: Iterable[tuple[str, str, str]]) -> bytes:
    """Identifies an assistant message by its text and its calls (id, name, arguments): what frameworks send back
    differs in absent members, in white space around the text, and in how the same arguments are spelled."""
    spelled = [[id_, name, _spelled(arguments)] for id_, name, arguments in calls]
    return digest(["assistant", said.strip(), spelled])


def digest(value: object) -> bytes:
    """16 bytes that identify the value."""
    return blake2b(canonical(value), digest_size=16).digest()


def _spelled(arguments: str) -> str:
    if not arguments.strip():
        return "{}"
    try:
        return canonical(orjson.loads(arguments)).decode()
    except (orjson.JSONDecodeError, Malformed):
        return arguments
