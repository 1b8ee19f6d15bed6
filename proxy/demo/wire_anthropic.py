"""An answer as Anthropic's Messages API writes it: body, stream, error.

Spaces before the closing brace of an event, the ping's own spelling and the empty first fragment of a
call's input are those of real traffic.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import orjson

from proxy.demo.answers import Answer, Call, Complaint, Ids, cut
from proxy.demo.strict_anthropic import complaint, signature

__all__ = ["body", "complaint", "error", "frames", "headers", "models"]

_FINISH = {
    "stop": "end_turn",
    "tool_calls": "tool_use",
    "length": "max_tokens",
    "content_filter": "refusal",
}
_PING = b'event: ping\ndata: {"type": "ping"}\n\n'
_Json = dict[str, Any]


def headers(ids: Ids) -> dict[str, str]:
    """Headers of every response."""
    return {"request-id": ids.next("req_011C", 20)}


def body(answer: Answer, request: Mapping[str, Any], ids: Ids) -> bytes:
    """The whole response."""
    head = orjson.dumps(_head(request, ids))
    content = b",".join(_whole(block) for block in _blocks(answer, ids))
    rest: _Json = {"stop_reason": _finish(answer), "stop_sequence": None}
    if answer.usage:
        rest["usage"] = _usage(*answer.usage)
    # Joined by hand: a call's input stands in the body as the script wrote it, even if it is no JSON.
    return head[:-1] + b',"content":[' + content + b"]," + orjson.dumps(rest)[1:]


def frames(answer: Answer, request: Mapping[str, Any], ids: Ids) -> list[bytes]:
    """The stream, one element an event."""
    message = _head(request, ids) | {"content": [], "stop_reason": None, "stop_sequence": None}
    if answer.usage:
        message["usage"] = _usage(answer.usage[0], 1)
    events: list[_Json] = [{"type": "message_start", "message": message}]
    for index, block in enumerate(_blocks(answer, ids)):
        events += [_placed(event, index) for event in _opened(block, answer.pieces)]
    closing: _Json = {"stop_reason": _finish(answer), "stop_sequence": None}
    last: _Json = {"type": "message_delta", "delta": closing}
    if answer.usage:
        last["usage"] = {
            "input_tokens": answer.usage[0],
            "cache_creation_input_tokens": 0,
            "cache_read_input_tokens": 0,
            "output_tokens": answer.usage[1],
        }
    events += [last, {"type": "message_stop"}]
    rendered = [_frame(event, place) for place, event in enumerate(events)]
    # The provider pings once the first block is open (or, without any, the message).
    place = 2 if len(rendered) > 3 else 1
    return [*rendered[:place], _PING, *rendered[place:]]


def error(found: Complaint, ids: Ids) -> bytes:
    """The provider's error body."""
    inner = {"type": found.kind, "message": found.message}
    return orjson.dumps({"type": "error", "error": inner, "request_id": ids.next("req_011C", 20)})


def models(names: tuple[str, ...]) -> bytes:
    """The list of models."""
    entries = [
        {"type": "model", "id": name, "display_name": name, "created_at": "2025-10-01T00:00:00Z"}
        for name in names
    ]
    page = {"data": entries, "has_more": False, "first_id": names[0], "last_id": names[-1]}
    return orjson.dumps(page)


def _head(request: Mapping[str, Any], ids: Ids) -> _Json:
    model = request.get("model", "scripted")
    return {"model": model, "id": ids.next("msg_01", 22), "type": "message", "role": "assistant"}


def _blocks(answer: Answer, ids: Ids) -> Iterator[_Json]:
    """The content blocks; the input of a call stays text until it is written."""
    if answer.thinking:
        yield {"type": "thinking", "thinking": answer.thinking, "signature": signature(answer.thinking)}
    for text in (answer.text, answer.refusal):
        if text:
            yield {"type": "text", "text": text}
    for call in answer.calls:
        yield _use(call, ids)
    if answer.text_after:
        yield {"type": "text", "text": answer.text_after}


def _use(call: Call, ids: Ids) -> _Json:
    key = ids.next("toolu_01", 22) if call.id is None else call.id
    return {"type": "tool_use", "id": key, "name": call.name, "input": call.text()}


def _whole(block: _Json) -> bytes:
    if block["type"] != "tool_use":
        return orjson.dumps(block)
    text = block["input"] or "{}"
    return orjson.dumps(block | {"input": 0})[:-2] + str(text).encode() + b"}"


def _opened(block: _Json, pieces: int) -> Iterator[_Json]:
    """The events of one block."""
    kind = block["type"]
    if kind == "tool_use":
        yield {"type": "content_block_start", "content_block": block | {"input": {}}}
        # A call without arguments sends nothing but the empty fragment.
        text = "" if block["input"] == "{}" else block["input"]
        for piece in ["", *cut(text, pieces)]:
            yield _delta("input_json_delta", "partial_json", piece)
    elif kind == "thinking":
        empty = {"type": "thinking", "thinking": "", "signature": ""}
        yield {"type": "content_block_start", "content_block": empty}
        for piece in cut(block["thinking"], pieces):
            yield _delta("thinking_delta", "thinking", piece)
        yield _delta("signature_delta", "signature", block["signature"])
    else:
        yield {"type": "content_block_start", "content_block": {"type": "text", "text": ""}}
        for piece in cut(block["text"], pieces):
            yield _delta("text_delta", "text", piece)
    yield {"type": "content_block_stop"}


def _delta(kind: str, key: str, piece: str) -> _Json:
    return {"type": "content_block_delta", "delta": {"type": kind, key: piece}}


def _placed(event: _Json, index: int) -> _Json:
    return {"type": event["type"], "index": index} | event


def _frame(event: _Json, place: int) -> bytes:
    name = str(event["type"]).encode()
    padding = b" " * (place * 7 % 16)
    return b"event: " + name + b"\ndata: " + orjson.dumps(event)[:-1] + padding + b"}\n\n"


def _finish(answer: Answer) -> str:
    if answer.finish is not None:
        return _FINISH.get(answer.finish, answer.finish)
    if answer.refusal:
        return "refusal"
    return "tool_use" if answer.calls else "end_turn"


def _usage(tokens_in: int, tokens_out: int) -> _Json:
    return {
        "input_tokens": tokens_in,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": 0,
        "cache_creation": {"ephemeral_5m_input_tokens": 0, "ephemeral_1h_input_tokens": 0},
        "output_tokens": tokens_out,
        "service_tier": "standard",
    }
