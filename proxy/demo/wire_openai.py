"""An answer as OpenAI's Chat Completions writes it: body, stream, error.

Key order, nulls, the shape of the first chunk and the obfuscation field are those of real traffic.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import orjson

from proxy.demo.answers import Answer, Call, Complaint, Ids, cut
from proxy.demo.strict_openai import complaint

__all__ = ["body", "complaint", "error", "frames", "headers", "models"]

_CREATED = 1_760_000_000  # no clock: the same script gives the same bytes
_FINISH = {"end_turn": "stop", "stop_sequence": "stop", "tool_use": "tool_calls", "max_tokens": "length"}
_Json = dict[str, Any]


def headers(ids: Ids) -> dict[str, str]:
    """Headers of every response."""
    return {"x-request-id": ids.next("req_", 32), "openai-version": "2020-10-01"}


def body(answer: Answer, request: Mapping[str, Any], ids: Ids) -> bytes:
    """The whole response, indented as the provider does."""
    calls = _named(answer, ids)
    message: _Json = {"role": "assistant", "content": answer.text + answer.text_after or None}
    if answer.thinking:
        message["reasoning_content"] = answer.thinking
    if calls:
        message["tool_calls"] = [_whole(call) for call in calls]
    message |= {"refusal": answer.refusal or None, "annotations": []}
    if message["content"] is None and not (calls or answer.refusal):
        message["content"] = ""
    finish = _finish(answer)
    whole: _Json = {
        "id": ids.next("chatcmpl-", 29),
        "object": "chat.completion",
        "created": _CREATED,
        "model": request.get("model", "scripted"),
        "choices": [
            {"index": index, "message": message, "logprobs": None, "finish_reason": finish}
            for index in range(_choices(answer, request))
        ],
    }
    if answer.usage:
        whole["usage"] = _usage(answer.usage)
    whole |= {"service_tier": "default", "system_fingerprint": "fp_5c41ca11"}
    return orjson.dumps(whole, option=orjson.OPT_INDENT_2) + b"\n"


def frames(answer: Answer, request: Mapping[str, Any], ids: Ids) -> list[bytes]:
    """The stream, one element an event."""
    calls = _named(answer, ids)
    options = request.get("stream_options") or {}
    with_usage = bool(options.get("include_usage")) and answer.usage is not None
    head: _Json = {
        "id": ids.next("chatcmpl-", 29),
        "object": "chat.completion.chunk",
        "created": _CREATED,
        "model": request.get("model", "scripted"),
        "service_tier": "default",
        "system_fingerprint": "fp_5c41ca11",
    }

    def chunk(choices: list[_Json], usage: _Json | None = None) -> bytes:
        event = head | {"choices": choices}
        if with_usage:
            event["usage"] = usage
        if options.get("include_obfuscation", True):
            event["obfuscation"] = _padding(len(events))
        return b"data: " + orjson.dumps(event) + b"\n\n"

    events: list[bytes] = []
    places = range(_choices(answer, request))
    finish = _finish(answer)
    for delta, reason in [*((delta, None) for delta in _deltas(answer, calls)), ({}, finish)]:
        for place in places:
            choice = {"index": place, "delta": delta, "logprobs": None, "finish_reason": reason}
            events.append(chunk([choice]))
    if with_usage and answer.usage:
        events.append(chunk([], _usage(answer.usage)))
    return [*events, b"data: [DONE]\n\n"]


def error(found: Complaint, ids: Ids) -> bytes:
    """The provider's error body."""
    del ids  # the request's id travels in a header only
    inner = {"message": found.message, "type": found.kind, "param": found.param, "code": found.code}
    return orjson.dumps({"error": inner}, option=orjson.OPT_INDENT_2)


def models(names: tuple[str, ...]) -> bytes:
    """The list of models."""
    entries = [{"id": name, "object": "model", "created": _CREATED, "owned_by": "system"} for name in names]
    return orjson.dumps({"object": "list", "data": entries}, option=orjson.OPT_INDENT_2)


def _deltas(answer: Answer, calls: list[tuple[str, Call]]) -> Iterator[_Json]:
    """The deltas of one choice, in order, without the closing one."""
    speaks = bool(answer.text or answer.refusal or answer.thinking or not calls)
    if speaks:
        yield {"role": "assistant", "content": "", "refusal": None}
    elif len(calls) > 1:
        # Several calls and no text: the role comes alone, content is null and refusal absent.
        yield {"role": "assistant", "content": None}
    for piece in cut(answer.thinking, answer.pieces):
        yield {"content": None, "reasoning_content": piece}
    for piece in cut(answer.text, answer.pieces):
        yield {"content": piece}
    for piece in cut(answer.refusal, answer.pieces):
        yield {"refusal": piece}
    for index, named in enumerate(calls):
        start = [{"index": index} | _whole(named, arguments="")]
        if len(calls) == 1 and not speaks:
            # A single call and no text: role and call share the first chunk.
            yield {"role": "assistant", "content": None, "tool_calls": start, "refusal": None}
        else:
            yield {"tool_calls": start}
        for piece in cut(named[1].text(), answer.pieces):
            yield {"tool_calls": [{"index": index, "function": {"arguments": piece}}]}
    for piece in cut(answer.text_after, answer.pieces):
        yield {"content": piece}


def _named(answer: Answer, ids: Ids) -> list[tuple[str, Call]]:
    return [(ids.next("call_") if call.id is None else call.id, call) for call in answer.calls]


def _whole(named: tuple[str, Call], arguments: str | None = None) -> _Json:
    key, call = named
    text = call.text() if arguments is None else arguments
    return {"id": key, "type": "function", "function": {"name": call.name, "arguments": text}}


def _finish(answer: Answer) -> str:
    if answer.finish is not None:
        return _FINISH.get(answer.finish, answer.finish)
    return "tool_calls" if answer.calls else "stop"


def _choices(answer: Answer, request: Mapping[str, Any]) -> int:
    asked = request.get("n")
    return asked if answer.choices == 1 and isinstance(asked, int) and asked > 0 else answer.choices


def _usage(tokens: tuple[int, int]) -> _Json:
    return {
        "prompt_tokens": tokens[0],
        "completion_tokens": tokens[1],
        "total_tokens": sum(tokens),
        "prompt_tokens_details": {"cached_tokens": 0, "audio_tokens": 0},
        "completion_tokens_details": {
            "reasoning_tokens": 0,
            "audio_tokens": 0,
            "accepted_prediction_tokens": 0,
            "rejected_prediction_tokens": 0,
        },
    }


def _padding(place: int) -> str:
    """Filler of changing length, by which the provider hides how long a token is."""
    return "a7Kq2ZxP9dWm3"[: 3 + place * 5 % 11]
