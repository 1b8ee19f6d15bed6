"""Whole answers of the Converse API: read, edited, and made by program."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from proxy.core import json_text
from proxy.core.json_text import Splice, quoted
from proxy.core.messages import CallKey, Malformed, ToolCall, Turn, Usage

from .bedrock_parts import (
    APART,
    ORDINARY_FINISH,
    TOOLS_FINISH,
    Json,
    assistant_message,
    block_text,
    call_block,
    call_of,
    exact_input,
    is_call,
    is_hosted_call,
    is_text_block,
    object_of,
    text_block,
    usage_edit,
    usage_of,
    usage_record,
)
from .texts import content_with
from .values import dumped, loaded, text

_CONTENT = ("output", "message", "content")


def _read(body: bytes) -> tuple[Json, list[tuple[json_text.Span, Json]]]:
    """The answer and its blocks, each with its place. Raises Malformed where it is no answer."""
    try:
        answer = loaded(body)
        if not isinstance(answer, dict):
            raise Malformed("the answer is no object")
        content = json_text.locate(body, *_CONTENT)
        if content is None:
            raise Malformed("the answer holds no message")
        blocks = []
        for place in json_text.elements(body, content.start).values:
            json_text.members(body, place.start)
            blocks.append((place, object_of(loaded(place.cut(body)))))
    except ValueError as fault:
        said = str(fault) if isinstance(fault, Malformed) else "the answer is not valid JSON, or not clear"
        raise Malformed(said) from None
    return answer, blocks


def parse_response(body: bytes, fresh_id: Callable[[], str]) -> Turn:
    """Reads a whole answer. Raises Malformed."""
    answer, blocks = _read(body)
    calls: list[ToolCall] = []
    hosted: list[ToolCall] = []
    written: list[bytes] = []
    for place, block in blocks:
        if is_call(block):
            no_id = not object_of(block["toolUse"]).get("toolUseId")
            calls.append(call_of(block, len(calls), exact_input(body, place), fresh_id() if no_id else ""))
            use = object_of(block["toolUse"])
            written.append(call_block(use, calls[-1].id, calls[-1].arguments))
            continue
        if is_hosted_call(block):
            hosted.append(call_of(block, -1, exact_input(body, place)))
        if "text" not in block or text(block["text"]).strip():
            written.append(place.cut(body))
    finish = text(answer.get("stopReason"))
    return Turn(
        text="".join(block_text(block) for _, block in blocks),
        calls=tuple(calls),
        hosted_calls=tuple(hosted),
        finish=(finish,) if finish else (),
        usage=usage_of(answer.get("usage")),
        message=assistant_message(written),
    )


def edit_response(
    body: bytes, turn: Turn, refused: Collection[CallKey], note: str, earlier: Sequence[Turn]
) -> bytes:
    """See `Dialect.edit_response`. Raises Malformed for a body that is no answer."""
    if not (refused or note or earlier or any(call.made_id for call in turn.calls)):
        return body
    answer, blocks = _read(body)
    calls = iter(turn.calls)
    before = APART.join(one.text for one in earlier if one.text)
    parts = [text_block(before + (APART if turn.text or note else ""))] if before else []
    noted = text_block((APART if turn.text else "") + note) if note else b""
    for place, block in blocks:
        raw = place.cut(body)
        if is_call(block):
            call = next(calls)
            if call.key in refused:
                continue
            if noted:
                parts.append(noted)
                noted = b""
            raw = _with_id(raw, call) if call.made_id else raw
        parts.append(raw)
    parts += [noted] if noted else []
    try:
        content = json_text.locate(body, *_CONTENT)
        splices: list[Splice] = []
        if content is not None:
            splices.append(json_text.replaced(content, b"[" + b",".join(parts) + b"]"))
        finish = json_text.locate(body, "stopReason")
        none_left = all(call.key in refused for call in turn.calls)
        if refused and none_left and finish is not None and answer.get("stopReason") == TOOLS_FINISH:
            splices.append(json_text.replaced(finish, quoted(ORDINARY_FINISH)))
        known = [one.usage for one in earlier if one.usage is not None]
        splices += usage_edit(body, sum(known, Usage()) if known else None)
        return json_text.spliced(body, splices)
    except ValueError:
        raise Malformed("the answer cannot be edited") from None


def _with_id(raw: bytes, call: ToolCall) -> bytes:
    use = json_text.members(raw, json_text.members(raw).values["toolUse"].start)
    return json_text.spliced(raw, json_text.object_edit(use, put={"toolUseId": quoted(call.id)}))


def rewrite_response(body: bytes, said: str) -> bytes:
    """See `Dialect.rewrite_response`. Raises Malformed for a body that is no answer."""
    try:
        content = json_text.locate(body, *_CONTENT)
        if content is None:
            raise Malformed("the answer holds no message")
        written = content_with(body, content, said, is_text_block, text_block)
        return json_text.spliced(body, [json_text.replaced(content, written)])
    except ValueError:
        raise Malformed("the answer cannot be edited") from None


def render_answer(said: str, usage: Usage) -> bytes:
    """A whole answer made by program: an ordinary end without a call."""
    content = [{"text": said}] if said else []
    return dumped(
        {
            "metrics": {"latencyMs": 0},
            "output": {"message": {"content": content, "role": "assistant"}},
            "stopReason": ORDINARY_FINISH,
            "usage": usage_record(usage),
        }
    )
