"""The other side of the Messages API for tests: streams to be read, the official SDK that reads them, a strict reader."""

import json
from collections.abc import Iterable, Iterator, Sequence
from itertools import count
from pathlib import Path
from typing import Any

import anthropic
import httpx2
from anthropic.types import Message

from proxy.core.messages import Frame, Request
from proxy.dialects.anthropic import ANTHROPIC
from proxy.dialects.anthropic_reader import AnthropicReader
from proxy.dialects.anthropic_writer import AnthropicWriter
from tests.conftest import skip_or_fail

RECORDINGS = Path(__file__).resolve().parents[3] / "shared" / "wire" / "anthropic-messages"
ASKED = Request("anthropic-messages", "model-x", (), stream=True)
USAGE = {
    "input_tokens": 100,
    "cache_read_input_tokens": 7,
    "cache_creation_input_tokens": 3,
    "output_tokens": 1,
}

Json = dict[str, Any]


def recordings() -> list[Json]:
    """All recorded exchanges; skips where there are none."""
    if not RECORDINGS.is_dir():
        skip_or_fail(f"no recordings beside the checkout ({RECORDINGS.name})")
    return [json.loads(path.read_text("utf-8")) for path in sorted(RECORDINGS.glob("am-*.json"))]


def recorded_streams() -> list[Json]:
    return [
        entry for entry in recordings() if "stream" in entry["tags"] and entry["response"]["status"] == 200
    ]


def sse(body: Json) -> bytes:
    """One event as the provider writes it, padding included."""
    return f"event: {body['type']}\ndata: {json.dumps(body)}   \n\n".encode()


def opening(content: Sequence[Json] = (), finish: str | None = None, answer: str = "msg_1") -> bytes:
    message = {
        "id": answer,
        "type": "message",
        "role": "assistant",
        "model": "model-x",
        "content": list(content),
        "stop_reason": finish,
        "stop_sequence": None,
        "usage": USAGE,
    }
    return sse({"type": "message_start", "message": message})


def text(index: int, *pieces: str) -> bytes:
    return _block(
        index, {"type": "text", "text": ""}, [{"type": "text_delta", "text": piece} for piece in pieces]
    )


def thinking(index: int, thought: str, signature: str = "c2ln") -> bytes:
    deltas = [
        {"type": "thinking_delta", "thinking": thought},
        {"type": "signature_delta", "signature": signature},
    ]
    return _block(index, {"type": "thinking", "thinking": "", "signature": ""}, deltas)


def call(
    index: int, call_id: str, name: str, *pieces: str, given: Json | None = None, kind: str = "tool_use"
) -> bytes:
    block = {"type": kind, "id": call_id, "name": name, "input": given or {}}
    return _block(index, block, [{"type": "input_json_delta", "partial_json": piece} for piece in pieces])


def _block(index: int, block: Json, deltas: Iterable[Json]) -> bytes:
    events = [
        {"type": "content_block_start", "index": index, "content_block": block},
        *({"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas),
        {"type": "content_block_stop", "index": index},
    ]
    return b"".join(map(sse, events))


def ending(finish: str = "end_turn", output: int = 20) -> bytes:
    delta = {"stop_reason": finish, "stop_sequence": None}
    return sse({"type": "message_delta", "delta": delta, "usage": {"output_tokens": output}}) + sse(
        {"type": "message_stop"}
    )


PING = b'event: ping\ndata: {"type": "ping"}\n\n'


def ids() -> Iterator[str]:
    return (f"toolu_made_{number}" for number in count(1))


def reader() -> AnthropicReader:
    return ANTHROPIC.reader(ids().__next__)


def writer() -> AnthropicWriter:
    return ANTHROPIC.writer(ASKED, "msg_own")


def frames_of(stream: bytes) -> list[Frame]:
    read = reader()
    return read.feed(stream) + read.end()


def events_of(stream: bytes) -> list[Json]:
    """The events of a stream, each with an event line that says what its data says."""
    events = []
    for block in stream.replace(b"\r\n", b"\n").split(b"\n\n"):
        lines = [line for line in block.decode().split("\n") if line and not line.startswith(":")]
        if not lines:
            continue
        named, datum = lines
        body: Json = json.loads(datum.removeprefix("data:"))
        assert named.removeprefix("event:").strip() == body["type"], block
        events.append(body)
    return events


def read_strictly(stream: bytes) -> list[Json]:
    """The events but pings: one opening and first, blocks 0..n-1 in order and stopped, one end and last."""
    events = [event for event in events_of(stream) if event["type"] != "ping"]
    kinds = [event["type"] for event in events]
    assert kinds[0] == "message_start"
    assert kinds.count("message_start") == 1
    assert kinds.count("message_stop") == 1
    assert kinds[-1] == "message_stop"
    assert kinds.count("message_delta") <= 1
    if "message_delta" in kinds:
        assert kinds[-2] == "message_delta"
    next_index, running = len(events[0]["message"]["content"]), set()
    for event in events:
        if event["type"] == "content_block_start":
            assert event["index"] == next_index
            running.add(next_index)
            next_index += 1
        elif event["type"] == "content_block_delta":
            assert event["index"] in running
        elif event["type"] == "content_block_stop":
            running.remove(event["index"])
    assert not running
    return events


def client_of(body: bytes, kind: str, status: int = 200) -> anthropic.Anthropic:
    """The official client, whose provider answers everything with `body`."""

    def answer(request: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(status, content=body, headers={"content-type": kind}, request=request)

    transport = httpx2.MockTransport(answer)
    return anthropic.Anthropic(api_key="k", max_retries=0, http_client=httpx2.Client(transport=transport))


def sdk_streams(stream: bytes) -> Message:
    """The message that the official SDK makes of a stream."""
    with client_of(stream, "text/event-stream") as client:
        asked: Any = {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "x"}]}
        with client.messages.stream(**asked) as events:
            for _ in events:
                pass
            return events.get_final_message()


def sdk_reads(body: bytes, status: int = 200) -> Message:
    """The message that the official SDK makes of a whole answer."""
    with client_of(body, "application/json", status) as client:
        return client.messages.create(model="m", max_tokens=9, messages=[{"role": "user", "content": "x"}])
