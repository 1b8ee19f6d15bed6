"""An agent on plain HTTP, in either wire format: it keeps its history as the provider wants it, and reads answers with
the dialect's own readers."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from proxy.core.messages import CallReady, StreamFailed, ToolCall, Turn
from proxy.dialects import DIALECTS, Dialect
from tests.playbook import CHAT, MESSAGES, Answered, Play

_SCHEMA = {"type": "object", "properties": {"order_id": {"type": "string"}}, "required": ["order_id"]}
TOOLS = ("get_order", "search_policy", "refund")


@dataclass(frozen=True, slots=True)
class Wire:
    """One wire format."""

    name: str
    path: str
    dialect: Dialect

    def tools(self, names: Iterable[str] = TOOLS) -> list[Any]:
        """Definitions of tools that take an `order_id`."""
        if self.path == CHAT:
            return [{"type": "function", "function": {"name": name, "parameters": _SCHEMA}} for name in names]
        return [{"name": name, "input_schema": _SCHEMA} for name in names]

    def results(self, results: Iterable[tuple[str, str]], *, is_error: bool = False) -> list[Any]:
        """Messages with these results (id and text)."""
        if self.path == CHAT:
            return [{"role": "tool", "tool_call_id": key, "content": text} for key, text in results]
        flag = {"is_error": True} if is_error else {}
        blocks = [
            {"type": "tool_result", "tool_use_id": key, "content": text} | flag for key, text in results
        ]
        return [{"role": "user", "content": blocks}]

    def results_of(self, body: Any) -> list[tuple[str, str]]:
        """Id and text of each tool result in a request, in order."""
        if self.path == CHAT:
            found = [message for message in body["messages"] if message["role"] == "tool"]
            return [(message["tool_call_id"], message["content"]) for message in found]
        blocks = [block for message in body["messages"] for block in _blocks(message)]
        return [
            (block["tool_use_id"], block["content"]) for block in blocks if block["type"] == "tool_result"
        ]

    def choice_of(self, body: Any) -> Any:
        """The tool choice of a request as a word; None: none is said."""
        choice = body.get("tool_choice")
        return choice["type"] if isinstance(choice, dict) else choice


def _blocks(message: Any) -> list[Any]:
    return message["content"] if isinstance(message["content"], list) else []


WIRES = (
    Wire("chat", CHAT, next(dialect for dialect in DIALECTS if dialect.name == "openai-chat")),
    Wire("messages", MESSAGES, next(dialect for dialect in DIALECTS if dialect.name == "anthropic-messages")),
)


@dataclass(slots=True)
class WireAgent:
    """One conversation."""

    stage: Play
    wire: Wire
    stream: bool = False
    more: dict[str, Any] = field(default_factory=dict)
    """Further members of every request."""
    headers: dict[str, str] = field(default_factory=dict)
    messages: list[Any] = field(default_factory=list)
    answered: list[Answered] = field(default_factory=list)
    """All answers so far."""
    usage_wanted: bool = True

    @property
    def last(self) -> Answered:
        """The newest answer."""
        return self.answered[-1]

    def body(self) -> bytes:
        """The request as it would go out now."""
        asked: dict[str, Any] = {
            "model": "scripted-large",
            "max_tokens": 100,
            "messages": self.messages,
            "tools": self.wire.tools(),
        }
        if self.stream:
            asked["stream"] = True
            if self.wire.path == CHAT and self.usage_wanted:
                asked["stream_options"] = {"include_usage": True}
        return json.dumps(asked | self.more).encode()

    async def says(self, text: str) -> Turn:
        """The user speaks; gives what the model answers."""
        self.messages.append({"role": "user", "content": text})
        return await self.asks()

    async def brings(self, *texts: str, is_error: bool = False) -> Turn:
        """Results for the calls of the last answer, in order; gives what the model answers to them."""
        calls = read(self.wire, self.last, stream=self.stream).calls
        pairs = [(call.id, text) for call, text in zip(calls, texts, strict=True)]
        self.messages += self.wire.results(pairs, is_error=is_error)
        return await self.asks()

    async def asks(self) -> Turn:
        """Sends the conversation as it stands and keeps the answer in it."""
        self.answered.append(await self.stage.post(self.wire.path, self.body(), self.headers))
        if self.last.status != 200:
            return Turn(text=self.last.body.decode())
        turn = read(self.wire, self.last, stream=self.stream)
        self.messages.append(json.loads(turn.message))
        return turn


def read(wire: Wire, answered: Answered, *, stream: bool) -> Turn:
    """A whole answer, streamed or not, as its SDK would read it."""
    made = (f"made_{number}" for number in count())
    if not stream:
        return wire.dialect.parse_response(answered.body, lambda: next(made))
    reader = wire.dialect.reader(lambda: next(made))
    frames = [*reader.feed(answered.body), *reader.end()]
    failed = [event for frame in frames for event in frame.events if isinstance(event, StreamFailed)]
    assert not failed, failed
    return reader.turn()


def calls_in(wire: Wire, piece: bytes) -> list[ToolCall]:
    """The whole calls in the beginning of a stream."""
    reader = wire.dialect.reader(lambda: "made")
    return [
        event.call for frame in reader.feed(piece) for event in frame.events if isinstance(event, CallReady)
    ]


async def until_holds(pieces: AsyncIterator[bytes], wanted: bytes) -> bytes:
    """Reads a stream until these bytes have come; gives what was read."""
    got = b""
    async for piece in pieces:
        got += piece
        if wanted in got:
            return got
    raise AssertionError(f"the stream ended without {wanted!r}: {got!r}")
