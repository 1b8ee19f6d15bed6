"""A content that is a text or a list of parts, with another text in it: what is no text keeps its bytes and its order."""

from __future__ import annotations

from typing import TYPE_CHECKING

import orjson

from proxy.core import json_text

if TYPE_CHECKING:
    from collections.abc import Callable

    from proxy.core.json_text import Span


def content_with(
    body: bytes,
    content: Span,
    text: str,
    is_text: Callable[[object], bool],
    part_of: Callable[[str], bytes],
    *,
    keep_empty: bool = False,
) -> bytes:
    """The content at `content` with `text` in place of all its text.

    In a list the first text part gives way to one that `part_of` makes (none for an empty text), further ones are left
    out; where there is none, the text comes first. `keep_empty`: a list is not left without any part. Raises ValueError.
    """
    if body[content.start : content.start + 1] != b"[":
        return json_text.quoted(text)
    parts: list[bytes] = []
    waiting = [part_of(text)] if text or keep_empty else []
    rest = []
    for span in json_text.elements(body, content.start).values:
        cut = span.cut(body)
        if not is_text(orjson.loads(cut)):
            rest.append(cut)
        elif waiting:
            parts, rest, waiting = [*parts, *rest, *waiting], [], []
    return b"[" + b",".join([*waiting, *parts, *rest]) + b"]"
