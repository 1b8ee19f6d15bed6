"""An answer of the Messages API to the letter: a frame as the writer needs it, and inputs as they stand on the wire."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson

from proxy.core import json_text
from proxy.core.messages import CallKey, Problem

from .anthropic_blocks import Json, compact, object_of

UNREADABLE_KIND = "unreadable"
"""Of frames that nobody may get, since a more lenient reader might see a call in them."""
UNREADABLE = Problem(502, "api_error", "The provider sent an event that cannot be read.", retryable=True)


@dataclass(frozen=True, slots=True)
class Wire:
    """What the writer needs to know of a frame."""

    kind: str = ""
    data: bytes = b""
    body: Mapping[str, Any] = field(default_factory=dict)
    keys: tuple[CallKey | None, ...] = ()
    """Of a block's event: the call it belongs to. Of an opening: one entry for each block in it."""
    made_ids: Mapping[CallKey, str] = field(default_factory=dict)
    """Ids that the provider left out."""
    whole: bool = True
    """False: the stream broke off inside this event."""


def index_of(body: Mapping[str, Any]) -> int | str | None:
    """The index of an event's block, as clients would use it."""
    index = body.get("index")
    if isinstance(index, float) and index.is_integer():
        return int(index)
    return index if isinstance(index, int | str) and not isinstance(index, bool) else None


def is_ambiguous(text: bytes) -> bool:
    """A block that reads as no call, though a reader that takes the first of two equal keys may find one in it."""
    if b"tool_use" not in text and b"\\u00" not in text:
        return False
    try:
        json_text.refuse_double_keys(text)
    except ValueError:
        return True
    return False


def block_texts(data: bytes, *path: str) -> list[bytes]:
    """The blocks of the content list at this path as they stand on the wire; none where that is not clear."""
    try:
        span = json_text.locate(data, *path)
        return [part.cut(data) for part in json_text.elements(data, span.start).values] if span else []
    except ValueError:
        return []


def exact_input(text: bytes, block: object) -> str:
    """The input of a block that stands on the wire as `text`, to the letter; nothing for an empty or absent one."""
    if not object_of(block).get("input"):
        return ""
    try:
        span = json_text.members(text).values["input"]
    except (ValueError, KeyError):
        # A key occurs twice somewhere: an input that no strict reader takes for an object.
        return "ambiguous"
    return span.cut(text).decode("utf-8", "replace")


def started_input(data: bytes, entry: Json) -> str:
    """The input with which a block's start event comes, to the letter."""
    if not entry.get("input"):
        return ""
    try:
        span = json_text.locate(data, "content_block")
    except ValueError:
        span = None
    return exact_input(span.cut(data) if span else b"", entry)


def assistant_message(blocks: list[bytes]) -> bytes:
    """An assistant message of these blocks."""
    return b'{"role":"assistant","content":[' + b",".join(blocks) + b"]}"


def call_block(body: Json, call_id: str, arguments: str) -> bytes:
    """A call's block for a history. Input that is no JSON object is wrapped, as the provider advises."""
    try:
        valid = isinstance(orjson.loads(arguments.strip() or "{}"), dict)
    except orjson.JSONDecodeError:
        valid = False
    given = arguments.strip() or "{}" if valid else compact({"INVALID_JSON": arguments})
    rest = {key: value for key, value in body.items() if key not in {"id", "input"}}
    return compact({**rest, "id": call_id})[:-1].encode() + b',"input":' + given.encode() + b"}"
