"""An answer as Ollama writes it on its own chat route: body, lines, error. Calls have no ids, and come whole."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson

from proxy.demo.answers import Answer, Complaint, Ids, cut

__all__ = ["body", "complaint", "error", "frames", "headers", "models"]

_Json = dict[str, Any]
_TIME = "2026-09-01T10:00:00.5Z"  # no clock: the same script gives the same bytes
_ROLES = frozenset({"system", "user", "assistant", "tool"})


def headers(ids: Ids) -> dict[str, str]:
    """Headers of every response: nothing of its own."""
    del ids
    return {}


def body(answer: Answer, request: Mapping[str, Any], ids: Ids) -> bytes:
    """The whole response."""
    del ids
    message: _Json = {"role": "assistant", "content": answer.text + answer.text_after}
    if answer.thinking:
        message["thinking"] = answer.thinking
    if answer.calls:
        message["tool_calls"] = _calls(answer)
    return _written({**_head(request), "message": message, **_end(answer)})


def frames(answer: Answer, request: Mapping[str, Any], ids: Ids) -> list[bytes]:
    """The stream, one element a line."""
    del ids
    said: list[_Json] = [{"content": "", "thinking": part} for part in cut(answer.thinking, answer.pieces)]
    said += [{"content": part} for part in cut(answer.text, answer.pieces)]
    said += [{"content": "", "tool_calls": [call]} for call in _calls(answer)]
    said += [{"content": part} for part in cut(answer.text_after, answer.pieces)]
    head = _head(request)
    lines = [{**head, "message": {"role": "assistant", **message}, "done": False} for message in said]
    last = {**head, "message": {"role": "assistant", "content": ""}, **_end(answer)}
    return [_written(line) + b"\n" for line in [*lines, last]]


def error(found: Complaint, ids: Ids) -> bytes:
    """The error body."""
    del ids
    return orjson.dumps({"error": found.message})


def models(names: tuple[str, ...]) -> bytes:
    """The list of models."""
    return orjson.dumps({"models": [{"name": name, "model": name} for name in names]})


def complaint(request: object, headers: Mapping[str, str]) -> Complaint | None:
    """What the server would object to first. It takes nearly everything."""
    del headers
    if not isinstance(request, dict):
        return Complaint("invalid JSON")
    if not request.get("model"):
        return Complaint("model is required")
    for message in request.get("messages") or ():
        if not isinstance(message, dict) or message.get("role") not in _ROLES:
            return Complaint("invalid role")
        calls = message.get("tool_calls") or ()
        if not all(isinstance(call["function"]["arguments"], dict) for call in calls):
            return Complaint(
                "json: cannot unmarshal string into Go struct field of type map[string]interface {}"
            )
    return None


def _head(request: Mapping[str, Any]) -> _Json:
    return {"model": request.get("model", ""), "created_at": _TIME}


def _calls(answer: Answer) -> list[_Json]:
    return [
        {"function": {"index": at, "name": call.name, "arguments": orjson.Fragment(call.text())}}
        for at, call in enumerate(answer.calls)
    ]


def _end(answer: Answer) -> _Json:
    reason = "length" if answer.finish in {"length", "max_tokens"} else "stop"
    counts = {}
    if answer.usage is not None:
        counts = {"prompt_eval_count": answer.usage[0], "eval_count": answer.usage[1]}
    return {"done_reason": reason, "done": True, "total_duration": 8_313_421, **counts}


def _written(value: _Json) -> bytes:
    return orjson.dumps(value)
