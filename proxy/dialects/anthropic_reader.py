"""Reads a streamed answer of the Messages API: whole frames with what they mean, and the answer so far.

Laws: a call is ready only at the stop of its own block; pieces of arguments that belong to no open call, or that
contradict its start, make a call that never becomes whole. Some clients go by the type inside an event's data, some
by the event's name: an event that is not the same to both, or that cannot be read, fails the stream.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import zip_longest

import orjson

from proxy.core.messages import (
    CallDelta,
    CallKey,
    CallReady,
    ChoiceEnded,
    Event,
    Frame,
    HostedCall,
    Malformed,
    Problem,
    StreamEnded,
    StreamFailed,
    TextDelta,
    ToolCall,
    ToolKind,
    Turn,
    TurnStarted,
    UsageSeen,
)

from .anthropic_blocks import (
    Json,
    call_name,
    compact,
    counts_of,
    is_call,
    is_hosted_call,
    object_of,
    problem_of,
    text_of,
    usage_of,
)
from .anthropic_programs import container_id, with_container
from .anthropic_wire import (
    UNREADABLE,
    UNREADABLE_KIND,
    Wire,
    assistant_message,
    block_texts,
    call_block,
    exact_input,
    index_of,
    is_ambiguous,
    started_input,
)
from .sse import RawEvent, SseSplitter

_CONTENT = frozenset({"message", "content_block", "content", "delta"})
"""Members that no error has: a client that looks no further than for them would find an answer."""
_Reading = tuple[list[Event], list[CallKey | None]]
"""What a frame means, and the calls that its blocks are."""


@dataclass(slots=True)
class _Block:
    """A content block as it grows."""

    body: Json
    key: CallKey | None = None
    call_id: str = ""
    made_id: bool = False
    given: str = ""
    """The input, where it came with the start."""
    pieces: list[str] = field(default_factory=list)
    grown: dict[str, list[str]] = field(default_factory=dict)
    """Pieces of the texts of a block that is no call, by the name of the text."""
    stopped: bool = False
    broken: bool = False

    @property
    def arguments(self) -> str:
        joined = "".join(self.pieces)
        return joined if joined.strip() else self.given

    @property
    def call(self) -> ToolCall:
        return ToolCall(
            self.call_id, call_name(self.body), self.arguments, self.key or (0, -1), made_id=self.made_id
        )

    @property
    def hosted_call(self) -> ToolCall:
        name = text_of(self.body.get("name"))
        return ToolCall(text_of(self.body.get("id")), name, self.arguments, (0, -1), ToolKind.HOSTED)

    @property
    def text(self) -> str:
        """Visible text."""
        if self.body.get("type") != "text":
            return ""
        return text_of(self.body.get("text")) + "".join(self.grown.get("text", ()))

    def whole(self) -> bool:
        """The call is all there and says one thing only."""
        return self.stopped and not self.broken and not (self.given and any(self.pieces))

    def grow(self, delta: Json) -> None:
        """A piece of a block that is no call; pieces of an unknown kind change nothing here."""
        kind = delta.get("type")
        for name in ("text", "thinking", "signature"):
            if kind == f"{name}_delta" and isinstance(delta.get(name), str):
                self.grown.setdefault(name, []).append(delta[name])
        if kind == "citations_delta":
            earlier = self.body.get("citations")
            self.body["citations"] = [*(earlier if isinstance(earlier, list) else ()), delta.get("citation")]
        if kind == "compaction_delta":
            self.body["content"] = delta.get("content")

    def written(self) -> bytes:
        """The block for a history; nothing where it may not stand in one (a broken call, an empty text)."""
        try:
            return self._written()
        except Malformed:  # too deep to be written, so no provider would take it back
            return b""

    def _written(self) -> bytes:
        if self.key is not None:
            return call_block(self.body, self.call_id, self.arguments) if self.whole() else b""
        if is_hosted_call(self.body) and any(self.pieces):
            return call_block(self.body, text_of(self.body.get("id")), self.arguments)
        grown = {name: text_of(self.body.get(name)) + "".join(pieces) for name, pieces in self.grown.items()}
        body = self.body | grown
        return b"" if body.get("type") == "text" and not body.get("text") else compact(body).encode()


class AnthropicReader:
    """A `Reader` of one answer."""

    def __init__(self, fresh_id: Callable[[], str]) -> None:
        self._fresh_id = fresh_id
        self._splitter = SseSplitter()
        self._blocks: list[_Block] = []
        self._open: dict[int | str | None, _Block] = {}
        self._slots = 0
        self._stray: _Block | None = None
        self._made_ids: dict[CallKey, str] = {}
        self._begun = self._lost = False
        self._named: bool | None = None
        self._head: Json = {}
        self._counts: dict[str, int] = {}
        self._finish = self._container = ""
        self._error: Problem | None = None
        self._read: dict[str, Callable[[Wire], _Reading]] = {
            "message_start": self._opened,
            "content_block_start": self._started,
            "content_block_delta": self._grew,
            "content_block_stop": self._stopped,
            "message_delta": self._closed,
            "message_stop": self._over,
        }

    def feed(self, chunk: bytes) -> list[Frame]:
        """The frames that are complete with this chunk. One that is larger than allowed fails the stream."""
        if self._lost:
            return []
        try:
            return [self._frame(raw) for raw in self._splitter.feed(chunk)]
        except Malformed:
            self._lost = True
            return [self._failed(b"", UNREADABLE, UNREADABLE_KIND)]

    def end(self) -> list[Frame]:
        """What is left: a frame that is not finished means nothing."""
        if self._lost:
            return []
        return [
            self._frame(raw) if raw.whole else Frame(raw.raw, payload=Wire(whole=False))
            for raw in self._splitter.end()
        ]

    def turn(self) -> Turn:
        """The answer so far; only whole calls are in it."""
        calls = [block.call for block in self._blocks if block.key is not None and block.whole()]
        blocks = [written for block in self._blocks if (written := block.written())]
        hosted = [block.hosted_call for block in self._blocks if is_hosted_call(block.body) and block.stopped]
        return Turn(
            id=text_of(self._head.get("id")),
            model=text_of(self._head.get("model")),
            text="".join(block.text for block in self._blocks),
            calls=tuple(calls),
            hosted_calls=tuple(hosted),
            finish=(self._finish,) if self._finish else (),
            usage=usage_of(self._counts) if self._counts else None,
            message=with_container(assistant_message(blocks), self._container),
            error=self._error,
        )

    def _frame(self, raw: RawEvent) -> Frame:
        said = (raw.data or b"").strip()
        if not raw.strange and said in {b"", b"[DONE]"}:
            return Frame(raw.raw, payload=Wire())
        try:
            body = orjson.loads(said)
        except orjson.JSONDecodeError:
            body = None
        if raw.strange or raw.data is None or not isinstance(body, dict):
            return self._failed(raw.raw, UNREADABLE, UNREADABLE_KIND)
        kind = text_of(body.get("type"))
        if kind == "error" or raw.event == "error":
            is_error_only = kind == "error" and not _CONTENT.intersection(body)
            word = "error" if is_error_only else UNREADABLE_KIND
            return self._failed(raw.raw, problem_of(body.get("error")), word)
        wire = Wire(kind, raw.data, body)
        read = self._read.get(kind)
        if read is None and raw.event not in self._read:
            return Frame(raw.raw, payload=wire)
        if read is None or self._is_ambiguous(raw.event, kind) or _hides_call(wire):
            return self._failed(raw.raw, UNREADABLE, UNREADABLE_KIND)
        events, keys = read(wire)
        made = {key: self._made_ids[key] for key in keys if key is not None and key in self._made_ids}
        return Frame(raw.raw, tuple(events), Wire(kind, raw.data, body, tuple(keys), made))

    def _is_ambiguous(self, name: str, kind: str) -> bool:
        """Clients that go by names, and clients that do not, would take this event differently. A stream without any
        names is the same to all that read it."""
        if self._named is None:
            self._named = bool(name)
        return name != (kind if self._named else "")

    def _failed(self, raw: bytes, problem: Problem, kind: str) -> Frame:
        self._error = self._error or problem
        return Frame(raw, (StreamFailed(problem),), Wire(kind))

    def _opened(self, wire: Wire) -> _Reading:
        """An answer begins. It may hold whole blocks, calls among them, and be at its end already."""
        message = object_of(wire.body.get("message"))
        events: list[Event] = []
        if not self._begun:
            self._begun, self._head = True, message
            events.append(TurnStarted(text_of(message.get("id")), text_of(message.get("model"))))
        keys: list[CallKey | None] = []
        content = message.get("content")
        entries = content if isinstance(content, list) else []
        for text, entry in zip_longest(block_texts(wire.data, "message", "content"), entries, fillvalue=b""):
            block = self._block(object_of(entry), exact_input(bytes(text), entry))
            block.stopped = True
            keys.append(block.key)
            events += self._seen(block)
        events += self._counted(message.get("usage"))
        self._container = container_id(message) or self._container
        return events + self._ended(message.get("stop_reason")), keys

    def _started(self, wire: Wire) -> _Reading:
        entry = object_of(wire.body.get("content_block"))
        block = self._block(dict(entry), started_input(wire.data, entry))
        # Whoever waits for the finish word has judged by now: a call that begins later never becomes whole.
        block.broken = bool(self._finish)
        self._open[index_of(wire.body)] = block
        if block.key is not None:
            return [CallDelta(block.key)], [block.key]
        text = text_of(entry.get("text")) if entry.get("type") == "text" else ""
        return [TextDelta(0, text)] if text else [], [None]

    def _grew(self, wire: Wire) -> _Reading:
        delta = object_of(wire.body.get("delta"))
        block = self._open.get(index_of(wire.body))
        if delta.get("type") == "input_json_delta" or "partial_json" in delta:
            return self._argued(block, delta)
        if block is not None and block.key is not None:
            # What a client makes of such a piece is not known, so neither is what it would call.
            block.broken = True
            return [CallDelta(block.key)], [block.key]
        text = text_of(delta.get("text")) if delta.get("type") == "text_delta" else ""
        if block is not None:
            block.grow(delta)
        return [TextDelta(0, text)] if text else [], [None]

    def _argued(self, block: _Block | None, delta: Json) -> _Reading:
        """A piece of arguments; one that belongs to no open call makes a call that stays broken, and so does one that
        only some clients would take for a piece."""
        piece = delta.get("partial_json")
        if block is not None and is_hosted_call(block.body):
            block.pieces.append(text_of(piece))
            return [], [None]
        if block is None or block.key is None:
            block = self._stray = self._stray or self._block({"type": "tool_use"}, "")
            block.broken = True
        if isinstance(piece, str) and delta.get("type") == "input_json_delta":
            block.pieces.append(piece)
        else:
            block.broken = True
        key = block.key or (0, -1)
        return [CallDelta(key)], [key]

    def _stopped(self, wire: Wire) -> _Reading:
        block = self._open.pop(index_of(wire.body), None)
        if block is None:
            return [], [None]
        block.stopped = True
        if block.key is not None or is_hosted_call(block.body):
            return self._seen(block), [block.key]
        return [], [None]

    def _closed(self, wire: Wire) -> _Reading:
        events = self._counted(wire.body.get("usage"))
        delta = object_of(wire.body.get("delta"))
        self._container = container_id(delta) or self._container
        return events + self._ended(delta.get("stop_reason")), []

    def _over(self, wire: Wire) -> _Reading:
        del wire
        return [StreamEnded()], []

    def _block(self, body: Json, given: str) -> _Block:
        block = _Block(body, given=given)
        self._blocks.append(block)
        if is_call(body):
            block.key = (0, self._slots)
            self._slots += 1
            block.call_id = text_of(body.get("id"))
            if not block.call_id:
                block.call_id, block.made_id = self._fresh_id(), True
                self._made_ids[block.key] = block.call_id
        return block

    def _seen(self, block: _Block) -> list[Event]:
        """What a block says that has come to its end."""
        if is_hosted_call(block.body):
            return [HostedCall(block.hosted_call)]
        if block.key is not None:
            piece = CallDelta(block.key)
            return [piece, CallReady(block.call)] if block.whole() else [piece]
        text = text_of(block.body.get("text")) if block.body.get("type") == "text" else ""
        return [TextDelta(0, text)] if text else []

    def _counted(self, usage: object) -> list[Event]:
        """Counts are totals so far: a later one replaces an earlier one of the same name."""
        counts = counts_of(usage)
        self._counts |= counts
        return [UsageSeen(usage_of(self._counts))] if counts else []

    def _ended(self, finish: object) -> list[Event]:
        if not isinstance(finish, str):
            return []
        self._finish = finish
        return [ChoiceEnded(0, finish)]


def _hides_call(wire: Wire) -> bool:
    """A block begins that is a call to some readers only."""
    begins = wire.kind == "content_block_start" and not is_call(object_of(wire.body.get("content_block")))
    return begins and is_ambiguous(wire.data)
