"""Edits of a whole answer of the Messages API."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from proxy.core import json_text
from proxy.core.messages import CallKey, Malformed, Turn

from .anthropic_blocks import (
    COUNTS,
    ORDINARY_FINISH,
    TOOLS_FINISH,
    Json,
    counts_from,
    counts_of,
    is_call,
    is_text_block,
    joined_text,
    object_of,
)
from .anthropic_edits import SEPARATOR, content_edit, rewritten, text_block
from .anthropic_request import parsed
from .texts import content_with


def edit_response(
    body: bytes, turn: Turn, refused: Collection[CallKey], note: str, earlier: Sequence[Turn]
) -> bytes:
    """See `Dialect.edit_response`. Raises Malformed for a body that is no answer."""
    read = parsed(body, "answer")
    content = read.get("content")
    blocks = content if isinstance(content, list) else []
    calls = dict(
        zip(
            (place for place, block in enumerate(blocks) if is_call(object_of(block))),
            turn.calls,
            strict=True,
        )
    )
    drop = {place for place, call in calls.items() if call.key in refused}
    ids = {place: call.id for place, call in calls.items() if call.made_id}
    first = next((place for place in calls if place not in drop), None)
    inserted: dict[int, list[bytes]] = {0: _earlier_text(earlier, blocks, note)}
    if note:
        inserted.setdefault(len(blocks) if first is None else first, []).append(text_block(note))
    changes: list[tuple[tuple[str, ...], object]] = []
    if drop and first is None and read.get("stop_reason") == TOOLS_FINISH:
        changes.append((("stop_reason",), ORDINARY_FINISH))
    if earlier:
        changes.append((("usage",), _summed(read.get("usage"), earlier)))
    if not (drop or ids or changes or any(inserted.values())):
        return body
    return content_edit(rewritten(body, read, changes), (), drop, ids, inserted)


def rewrite_response(body: bytes, text: str) -> bytes:
    """See `Dialect.rewrite_response`. Raises Malformed for a body that is no answer."""
    parsed(body, "answer")
    try:
        content = json_text.locate(body, "content")
        if content is None:
            raise Malformed("The answer has no content.")
        written = content_with(body, content, text, is_text_block, text_block)
        return json_text.spliced(body, [json_text.replaced(content, written)])
    except ValueError:
        raise Malformed("The answer cannot be edited.") from None


def _earlier_text(earlier: Sequence[Turn], blocks: list[Any], note: str) -> list[bytes]:
    texts = [turn.text for turn in earlier if turn.text]
    follows = note or joined_text(blocks, "")
    return [text_block(SEPARATOR.join(texts) + (SEPARATOR if follows else ""))] if texts else []


def _summed(usage: object, earlier: Sequence[Turn]) -> Json:
    """The answer's usage record with the counts of earlier answers added."""
    total = counts_of(usage)
    for turn in earlier:
        for key, count in (counts_from(turn.usage) if turn.usage else {}).items():
            total[key] = total.get(key, 0) + count
    return object_of(usage) | {key: total[key] for key in COUNTS if key in total}
