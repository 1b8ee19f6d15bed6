"""The other side of Ollama's chat API for tests: lines to be read, and the official client that reads them."""

import json
from collections.abc import Iterable
from typing import Any

import httpx
import ollama

from proxy.dialects.ollama_parts import CallIds, WireCall

Json = dict[str, Any]
COUNTS = {"prompt_eval_count": 200, "eval_count": 30}
_TIME = "2026-09-01T10:00:00.5Z"


def line(message: Json, **more: Any) -> bytes:
    """One line of a stream as the server writes it."""
    head = {"model": "maple-1", "created_at": _TIME, "message": {"role": "assistant", **message}}
    return json.dumps({**head, "done": False, **more}, ensure_ascii=False).encode() + b"\n"


def said(text: str) -> bytes:
    return line({"content": text})


def call(name: str, arguments: Json, index: int = 0) -> Json:
    """An entry of `tool_calls`."""
    return {"function": {"index": index, "name": name, "arguments": arguments}}


def calling(*calls: Json) -> bytes:
    return line({"content": "", "tool_calls": list(calls)})


def ending() -> bytes:
    return line({"content": ""}, done=True, done_reason="stop", **COUNTS)


def whole(text: str, *calls: Json) -> Json:
    """A whole answer."""
    message = {"role": "assistant", "content": text, "tool_calls": list(calls)}
    return {
        "model": "maple-1",
        "created_at": _TIME,
        "message": message,
        "done_reason": "stop",
        "done": True,
        **COUNTS,
    }


def named(*calls: tuple[str, Any]) -> list[str]:
    """The ids by which the proxy knows these calls of one answer."""
    ids = CallIds()
    return [ids.call(WireCall("", name, json.dumps(arguments)), (0, 0)).id for name, arguments in calls]


def client_of(body: bytes, status: int = 200) -> ollama.Client:
    """The official client, whose server answers everything with `body`."""
    transport = httpx.MockTransport(lambda _: httpx.Response(status, content=body))
    return ollama.Client("http://server", transport=transport)


def _read(answers: Iterable[Any]) -> tuple[str, list[tuple[str, Any]]]:
    text, calls = "", []
    for answer in answers:
        text += answer.message.content or ""
        calls += [
            (one.function.name, dict(one.function.arguments)) for one in answer.message.tool_calls or ()
        ]
    return text, calls


def sdk_streams(stream: bytes) -> tuple[str, list[tuple[str, Any]]]:
    """Text and calls (name, arguments) that the official client makes of a stream."""
    client = client_of(stream)
    try:
        return _read(list(client.chat("m", messages=[{"role": "user", "content": "x"}], stream=True)))
    finally:
        client._client.close()


def sdk_reads(body: bytes, status: int = 200) -> tuple[str, list[tuple[str, Any]]]:
    """The same of a whole answer."""
    client = client_of(body, status)
    try:
        return _read([client.chat("m", messages=[{"role": "user", "content": "x"}])])
    finally:
        client._client.close()
