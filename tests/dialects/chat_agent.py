"""The other side of Chat Completions for tests: streams to be read, and the official SDK that reads them."""

import json
from collections.abc import Collection
from itertools import count
from typing import Any

import httpx2
import openai
from openai.lib.streaming.chat import ChatCompletionStreamState
from openai.types.chat import ChatCompletion

from proxy.core.messages import CallReady, Event, Frame, Request, ToolCall
from proxy.core.stream_gate import StreamGate
from proxy.dialects.openai_chat import OPENAI_CHAT
from proxy.dialects.openai_chat_reader import ChatReader
from proxy.dialects.openai_chat_writer import ChatWriter

Json = dict[str, Any]

DONE = b"data: [DONE]\n\n"
ASKED = Request("openai-chat", "maple-1", (), stream=True)
QUIET = Request("openai-chat", "maple-1", (), stream=True, asks_usage=False)


def sse(body: Json) -> bytes:
    """One event as the provider writes it."""
    return b"data: " + json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode() + b"\n\n"


def chunk(delta: Json | None = None, finish: str | None = None, choice: int = 0, **more: Any) -> bytes:
    """A chunk with one choice; `delta` None: with none."""
    choices = [] if delta is None else [{"index": choice, "delta": delta, "finish_reason": finish}]
    head = {"id": "chatcmpl-k1", "object": "chat.completion.chunk", "created": 1790000000, "model": "maple-1"}
    return sse({**head, "choices": choices, **more})


def opening(choice: int = 0) -> bytes:
    return chunk({"role": "assistant", "content": None}, choice=choice)


def said(text: str, choice: int = 0) -> bytes:
    return chunk({"content": text}, choice=choice)


def piece(
    index: int | None, arguments: str | None = None, id_: str | None = None, name: str | None = None
) -> Json:
    """An entry of `tool_calls`; what is None is absent."""
    entry: Json = {} if index is None else {"index": index}
    if id_ is not None:
        entry |= {"id": id_, "type": "function"}
    function: Json = {} if name is None else {"name": name}
    if arguments is not None:
        function["arguments"] = arguments
    return entry | {"function": function}


def pieces(*entries: Json, choice: int = 0, finish: str | None = None, **more: Any) -> bytes:
    return chunk({"tool_calls": list(entries)}, finish, choice, **more)


def ending(finish: str = "tool_calls", choice: int = 0) -> bytes:
    return chunk({}, finish, choice)


def usage(prompt: int, completion: int) -> bytes:
    record = {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}
    return chunk(usage=record)


def reader() -> ChatReader:
    numbers = count(1)
    return OPENAI_CHAT.reader(lambda: f"made_{next(numbers)}")


def writer(request: Request = ASKED) -> ChatWriter:
    return OPENAI_CHAT.writer(request, "chatcmpl-own")


def frames_of(stream: bytes) -> list[Frame]:
    read = reader()
    return read.feed(stream) + read.end()


def events_of(stream: bytes) -> list[Event]:
    return [event for frame in frames_of(stream) for event in frame.events]


def calls_of(stream: bytes) -> list[ToolCall]:
    return [event.call for event in events_of(stream) if isinstance(event, CallReady)]


def through(out: ChatWriter, stream: bytes, refused: Collection[str] = (), note: str = "") -> bytes:
    """The stream through the gate, with the calls of these tools refused."""
    gate = StreamGate(10**6)
    sent = b""
    for frame in frames_of(stream):
        passed = gate.feed(frame)
        if passed is not None:
            sent += out.passed(passed)
        elif gate.ready:
            keys = {call.key for call in gate.calls if call.name in refused} | set(gate.broken)
            sent += out.resolved(gate.take(), keys, note)
    return sent


def chunks_of(stream: bytes) -> list[Json]:
    """The chunks that a client reads, without the last word."""
    blocks = stream.replace(b"\r\n", b"\n").split(b"\n\n")
    found = [
        b"".join(line[5:] for line in block.split(b"\n") if line.startswith(b"data:")) for block in blocks
    ]
    return [json.loads(one) for one in found if one and one.strip() != b"[DONE]"]


def client_of(body: bytes, kind: str, status: int = 200) -> openai.OpenAI:
    """The official client, whose provider answers everything with `body`."""

    def answer(request: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(status, content=body, headers={"content-type": kind}, request=request)

    transport = httpx2.MockTransport(answer)
    return openai.OpenAI(
        api_key="k",
        base_url="http://provider/v1",
        max_retries=0,
        http_client=httpx2.Client(transport=transport),
    )


def sdk_streams(stream: bytes) -> Any:
    """The completion that the official SDK makes of a stream."""
    with client_of(stream, "text/event-stream") as client:
        state: ChatCompletionStreamState[None] = ChatCompletionStreamState()
        asked: Any = {"model": "m", "messages": [{"role": "user", "content": "x"}], "stream": True}
        with client.chat.completions.create(**asked) as chunks:
            for one in chunks:
                state.handle_chunk(one)
        return state.current_completion_snapshot


def sdk_reads(body: bytes, status: int = 200) -> ChatCompletion:
    """The completion that the official SDK makes of a whole answer."""
    with client_of(body, "application/json", status) as client:
        return client.chat.completions.create(model="m", messages=[{"role": "user", "content": "x"}])


def sdk_calls(completion: Any, choice: int = 0) -> list[tuple[str, str, str]]:
    """The calls (id, name, arguments) in a completion of the SDK."""
    calls = completion.choices[choice].message.tool_calls or ()
    return [(call.id, call.function.name, call.function.arguments) for call in calls]
