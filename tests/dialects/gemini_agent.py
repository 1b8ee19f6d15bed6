"""The other side of Gemini's API for tests: streams to be read, and the official SDK that reads them."""

import json
import warnings
from typing import Any

import httpx
from google import genai
from google.genai import types

from proxy.dialects.gemini_parts import CallNames

Json = dict[str, Any]
USAGE = {"promptTokenCount": 200, "candidatesTokenCount": 30, "totalTokenCount": 230}


def piece(*parts: Json, finish: str = "", usage: bool = True, **more: Any) -> Json:
    """One element of a stream."""
    candidate: Json = {"content": {"role": "model", "parts": list(parts)}, "index": 0}
    if finish:
        candidate["finishReason"] = finish
    record: Json = {"candidates": [candidate], "modelVersion": "maple-1", "responseId": "resp_1", **more}
    return {**record, "usageMetadata": USAGE} if usage else record


def call(name: str, args: Json | None, **more: Any) -> Json:
    """A part that calls."""
    said: Json = {"name": name} if args is None else {"name": name, "args": args}
    return {"functionCall": said, **more}


def events(*pieces: Json) -> bytes:
    """As server-sent events, in the API's own manner."""
    return b"".join(b"data: " + json.dumps(one, ensure_ascii=False).encode() + b"\r\n\r\n" for one in pieces)


def array(*pieces: Json) -> bytes:
    """As one array."""
    return b"[" + b"\n,\r\n".join(json.dumps(one, ensure_ascii=False).encode() for one in pieces) + b"\n]\n"


def named(*calls: tuple[str, Any]) -> list[str]:
    """The ids by which these calls of one answer are known."""
    names = CallNames()
    return [names.call("", name, json.dumps(args), (0, 0)).id for name, args in calls]


def client_of(body: bytes, kind: str, status: int = 200) -> genai.Client:
    """The official client, whose provider answers everything with `body`."""
    transport = httpx.MockTransport(
        lambda _: httpx.Response(status, headers={"content-type": kind}, content=body)
    )
    options = types.HttpOptions(
        base_url="http://provider.test", httpx_client=httpx.Client(transport=transport)
    )
    return genai.Client(api_key="k", http_options=options)


def _read(answers: Any) -> tuple[str, str, list[tuple[str, str, Any]]]:
    """Id, text and calls (id, name, arguments); each stream is one answer."""
    id_, text, calls = "", "", []
    for answer in answers:
        id_ = id_ or answer.response_id or ""
        for candidate in (answer.candidates or [])[:1]:
            for part in (candidate.content.parts if candidate.content else None) or []:
                if part.text and not part.thought:
                    text += part.text
                if part.function_call is not None and part.function_call.name:
                    calls.append(
                        (part.function_call.id or "", part.function_call.name, part.function_call.args or {})
                    )
    return id_, text, calls


def sdk_streams(body: bytes) -> tuple[str, str, list[tuple[str, str, Any]]]:
    """What the official SDK makes of a stream of events."""
    client = client_of(body, "text/event-stream")
    try:
        with warnings.catch_warnings(action="ignore"):  # words that the SDK does not know
            return _read(list(client.models.generate_content_stream(model="m", contents="x")))
    finally:
        client.close()


def sdk_reads(body: bytes, status: int = 200) -> tuple[str, str, list[tuple[str, str, Any]]]:
    """The same of a whole answer."""
    client = client_of(body, "application/json", status)
    try:
        with warnings.catch_warnings(action="ignore"):  # as above
            return _read([client.models.generate_content(model="m", contents="x")])
    finally:
        client.close()
