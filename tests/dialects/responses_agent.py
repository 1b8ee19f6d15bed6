"""The other side of the Responses API for tests: streams to be read, and the official SDK that reads them."""

import json
from typing import Any

import httpx2
import openai
from openai.types.responses import Response

Json = dict[str, Any]
HEAD: Json = {
    "id": "resp_1",
    "object": "response",
    "created_at": 1790000000,
    "status": "in_progress",
    "error": None,
    "incomplete_details": None,
    "instructions": None,
    "metadata": {},
    "model": "maple-1",
    "output": [],
    "parallel_tool_calls": True,
    "store": True,
    "temperature": 1.0,
    "tool_choice": "auto",
    "tools": [],
    "top_p": 1.0,
    "usage": None,
}
USAGE = {
    "input_tokens": 200,
    "input_tokens_details": {"cached_tokens": 0},
    "output_tokens": 30,
    "output_tokens_details": {"reasoning_tokens": 0},
    "total_tokens": 230,
}


def sse(kind: str, number: int, **more: Any) -> bytes:
    """One event as the provider writes it."""
    body = json.dumps({"type": kind, **more, "sequence_number": number}, ensure_ascii=False)
    return f"event: {kind}\ndata: {body}\n\n".encode()


def message(text: str, item_id: str = "msg_1") -> Json:
    part = {"type": "output_text", "text": text, "annotations": [], "logprobs": []}
    return {"id": item_id, "type": "message", "status": "completed", "role": "assistant", "content": [part]}


def call(call_id: str, name: str, arguments: str) -> Json:
    return {
        "id": f"fc_{call_id}",
        "type": "function_call",
        "status": "completed",
        "arguments": arguments,
        "call_id": call_id,
        "name": name,
    }


def response(*items: Json, **more: Any) -> Json:
    return {**HEAD, "status": "completed", "output": list(items), "usage": USAGE, **more}


def stream(*items: Json, **more: Any) -> bytes:
    """A stream with these items, text and arguments in two pieces."""
    out: list[tuple[str, Json]] = [
        ("response.created", {"response": {**HEAD, **more}}),
        ("response.in_progress", {"response": {**HEAD, **more}}),
    ]
    for place, item in enumerate(items):
        where = {"item_id": item["id"], "output_index": place}
        at = {"output_index": place}
        if item["type"] == "message":
            text = item["content"][0]["text"]
            part = {**where, "content_index": 0}
            out.append(
                (
                    "response.output_item.added",
                    {**at, "item": {**item, "content": [], "status": "in_progress"}},
                )
            )
            out.append(("response.content_part.added", {**part, "part": {**item["content"][0], "text": ""}}))
            deltas = ({**part, "delta": piece, "logprobs": []} for piece in (text[:8], text[8:]))
            out.extend(("response.output_text.delta", delta) for delta in deltas)
            out.append(("response.output_text.done", {**part, "text": text, "logprobs": []}))
            out.append(("response.content_part.done", {**part, "part": item["content"][0]}))
        elif item["type"] == "function_call":
            out.append(
                (
                    "response.output_item.added",
                    {**at, "item": {**item, "arguments": "", "status": "in_progress"}},
                )
            )
            pieces = ({**where, "delta": piece} for piece in (item["arguments"][:5], item["arguments"][5:]))
            out.extend(("response.function_call_arguments.delta", piece) for piece in pieces)
            out.append(("response.function_call_arguments.done", {**where, "arguments": item["arguments"]}))
        else:
            out.append(("response.output_item.added", {**at, "item": item}))
        out.append(("response.output_item.done", {**at, "item": item}))
    out.append(("response.completed", {"response": response(*items, **more)}))
    return b"".join(sse(kind, number, **body) for number, (kind, body) in enumerate(out))


def client_of(body: bytes, kind: str, status: int = 200) -> openai.OpenAI:
    """The official client, whose provider answers everything with `body`."""

    def answer(request: httpx2.Request) -> httpx2.Response:
        del request
        return httpx2.Response(status, headers={"content-type": kind}, content=body)

    http = httpx2.Client(transport=httpx2.MockTransport(answer))
    return openai.OpenAI(api_key="k", base_url="http://provider.test/v1", http_client=http, max_retries=0)


def sdk_streams(body: bytes) -> Response:
    """What the SDK's own reader of streams makes of it; the events and the last one have to agree."""
    deltas: list[str] = []
    done: list[Any] = []
    with client_of(body, "text/event-stream") as client:
        final = None
        for event in client.responses.create(model="m", input="x", stream=True):
            if event.type == "response.output_text.delta":
                deltas.append(event.delta)
            elif event.type == "response.output_item.done":
                done.append(event.item)
            elif event.type in {"response.completed", "response.incomplete"}:
                final = event.response
    assert final is not None
    said = "".join(deltas)
    if said:
        assert final.output_text == said
    calls = [item.call_id for item in done if item.type == "function_call"]
    if done:
        assert [item.call_id for item in final.output if item.type == "function_call"] == calls
    return final


def sdk_reads(body: bytes) -> Response:
    with client_of(body, "application/json") as client:
        return client.responses.create(model="m", input="x")
