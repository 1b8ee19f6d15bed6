"""Reads a streamed answer of the Converse API: messages into frames with events, pieces into calls.

Laws: a call is ready only at the stop of its own block. Some clients go by the index of a block, some take every piece for
the call that began last: a call is whole only if both read the same, so blocks of calls stand alone and under an index of
their own. A message that cannot be read, or that readers could take differently, fails the stream.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from proxy.core import json_text
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
    Turn,
    TurnStarted,
    Usage,
    UsageSeen,
)

from .bedrock_frames import Message, MessageSplitter
from .bedrock_parts import (
    Json,
    assistant_message,
    call_block,
    call_of,
    is_call,
    is_hosted_call,
    object_of,
    problem_of,
    text_block,
    usage_of,
)
from .values import dumped, loaded, text

UNREADABLE = Problem(
    502, "modelStreamErrorException", "The provider sent an event that cannot be read; the answer ends here."
)
_BLOCKS = frozenset({"contentBlockStart", "contentBlockDelta", "contentBlockStop"})


@dataclass(frozen=True, slots=True)
class Said:
    """A message for the writer."""

    message: Message
    value: Json
    index: int | None = None
    key: CallKey | None = None
    """The call that its block is."""
    made_id: str = ""
    """The id that the provider left out."""


@dataclass(frozen=True, slots=True)
class Broken:
    """A message that must not leave as it is. No problem: it was cut off, and there is nothing to say about it."""

    problem: Problem | None = None


@dataclass(slots=True)
class _Block:
    """A content block as it grows."""

    start: Json
    key: CallKey | None = None
    call_id: str = ""
    made_id: bool = False
    pieces: list[str] = field(default_factory=list)
    """Of its input."""
    said: list[str] = field(default_factory=list)
    thought: dict[str, list[str]] = field(default_factory=dict)
    result: list[Any] = field(default_factory=list)
    stopped: bool = False
    broken: bool = False

    @property
    def call(self) -> ToolCall:
        slot = self.key[1] if self.key else -1
        return call_of(self.start, slot, "".join(self.pieces), self.call_id)

    def whole(self) -> bool:
        return self.key is not None and self.stopped and not self.broken

    def written(self) -> bytes:
        """The block for a history; nothing where it may not stand in one (a broken call, a blank text)."""
        use = object_of(self.start.get("toolUse"))
        if self.key is not None:
            return call_block(use, self.call_id, "".join(self.pieces)) if self.whole() else b""
        if is_hosted_call(self.start):
            return call_block(use, text(use.get("toolUseId")), "".join(self.pieces))
        if "toolResult" in self.start:
            return dumped({"toolResult": object_of(self.start["toolResult"]) | {"content": self.result}})
        if self.thought:
            thought = {key: "".join(pieces) for key, pieces in self.thought.items()}
            hidden = thought.get("redactedContent")
            record = {"redactedContent": hidden} if hidden else {"reasoningText": thought}
            return dumped({"reasoningContent": record})
        said = "".join(self.said)
        return text_block(said) if said.strip() else b""


class ConverseReader:
    """Reads one streamed answer."""

    def __init__(self, fresh_id: Callable[[], str]) -> None:
        """`fresh_id` makes an id for a call that came without one."""
        self._fresh_id = fresh_id
        self._splitter = MessageSplitter()
        self._blocks: list[_Block] = []
        self._open: dict[int, _Block] = {}
        self._calls_at: set[int] = set()
        self._used: set[int] = set()
        self._slots = 0
        self._started = False
        self._finish = ""
        self._usage: Usage | None = None
        self._error: Problem | None = None

    def feed(self, chunk: bytes) -> list[Frame]:
        """The frames that are complete with these bytes."""
        return [self._frame(message) for message in self._splitter.feed(chunk)]

    def end(self) -> list[Frame]:
        """What is left: a message that is cut off means nothing."""
        return [self._frame(message) for message in self._splitter.end()]

    def turn(self) -> Turn:
        """The answer as read so far; only whole calls are in it."""
        hosted = [block.call for block in self._blocks if block.stopped and is_hosted_call(block.start)]
        return Turn(
            text="".join(part for block in self._blocks for part in block.said),
            calls=tuple(block.call for block in self._blocks if block.whole()),
            hosted_calls=tuple(hosted),
            finish=(self._finish,) if self._finish else (),
            usage=self._usage,
            message=assistant_message([written for block in self._blocks if (written := block.written())]),
            error=self._error,
        )

    def _frame(self, message: Message) -> Frame:
        if not message.whole:
            return Frame(message.raw, payload=Broken())
        kind = message.headers.get(":message-type")
        try:
            value = loaded(message.payload or b"{}")
            if kind in {"exception", "error"}:
                return self._failed(message, object_of(value))
            json_text.refuse_double_keys(message.payload or b"{}")
            if message.sound and kind == "event" and isinstance(value, dict):
                return self._read(message, value)
        except ValueError:  # Malformed is one
            pass
        self._error = UNREADABLE
        return Frame(message.raw, (StreamFailed(UNREADABLE),), Broken(UNREADABLE))

    def _failed(self, message: Message, value: Json) -> Frame:
        kind = message.headers.get(":exception-type") or message.headers.get(":error-code", "")
        said = value.get("message") or value.get("Message") or message.headers.get(":error-message")
        self._error = problem_of(kind, said)
        return Frame(message.raw, (StreamFailed(self._error),), Said(message, value))

    def _read(self, message: Message, value: Json) -> Frame:
        kind = message.headers.get(":event-type", "")
        events: list[Event] = []
        if not self._started:
            self._started = True
            events.append(TurnStarted("", ""))
        if kind in _BLOCKS:
            return self._of_block(message, value, events)
        if kind == "messageStop":
            self._finish = text(value.get("stopReason"))
            events.append(ChoiceEnded(0, self._finish))
        elif kind == "metadata":
            usage = usage_of(value.get("usage"))
            self._usage = usage or self._usage
            events += [UsageSeen(usage)] if usage else []
            events.append(StreamEnded())
        return Frame(message.raw, tuple(events), Said(message, value))

    def _of_block(self, message: Message, value: Json, events: list[Event]) -> Frame:
        index = value.get("contentBlockIndex")
        if not isinstance(index, int) or isinstance(index, bool):
            raise Malformed("no index")
        kind = message.headers[":event-type"]
        block: _Block | None
        if kind == "contentBlockStart":
            block, said = self._begun(index, object_of(value.get("start")))
        elif kind == "contentBlockDelta":
            block, said = self._grown(index, object_of(value.get("delta")))
        else:
            block, said = self._stopped(index)
        events += said
        made = block.call_id if block is not None and block.made_id else ""
        key = block.key if block is not None else None
        return Frame(message.raw, tuple(events), Said(message, value, index, key, made))

    def _begun(self, index: int, start: Json) -> tuple[_Block, list[Event]]:
        self._break_calls_beside(None)
        block = _Block(dict(start))
        if is_call(start):
            found = call_of(start, self._slots, "", "")
            self._called(block, index, found.id)
            # Whoever waits for the finish word has judged by now: a call that begins later never becomes whole.
            block.broken = block.broken or bool(self._finish) or index in self._used
        self._used.add(index)
        self._open[index] = block
        self._blocks.append(block)
        return block, [CallDelta(block.key)] if block.key else []

    def _called(self, block: _Block, index: int, call_id: str) -> None:
        block.key = (0, self._slots)
        self._slots += 1
        self._calls_at.add(index)
        block.call_id, block.made_id = call_id or self._fresh_id(), not call_id

    def _break_calls_beside(self, block: _Block | None) -> None:
        """Calls that are open while something else begins or grows: clients differ about whose piece that is."""
        for other in self._open.values():
            if other is not block and other.key is not None:
                other.broken = True

    def _grown(self, index: int, delta: Json) -> tuple[_Block, list[Event]]:
        begun = self._open.get(index)
        is_hosted = begun is not None and is_hosted_call(begun.start)
        of_call = begun.key is not None if begun is not None else index in self._calls_at
        if of_call or ("toolUse" in delta and not is_hosted):
            return self._argued(index, begun, delta)
        block = begun or _Block({})
        if begun is None:
            self._used.add(index)
            self._open[index] = block
            self._blocks.append(block)
        said = text(delta.get("text"))
        if said:
            block.said.append(said)
        if is_hosted:
            block.pieces.append(text(object_of(delta.get("toolUse")).get("input")))
        for name, piece in object_of(delta.get("reasoningContent")).items():
            block.thought.setdefault(name, []).append(text(piece))
        parts = delta.get("toolResult")
        block.result += parts if isinstance(parts, list) else []
        return block, [TextDelta(0, said)] if said else []

    def _argued(self, index: int, block: _Block | None, delta: Json) -> tuple[_Block, list[Event]]:
        """A piece of arguments. One that belongs to no open call, or that is something else to some clients, makes a
        call that never becomes whole."""
        if block is None or block.key is None:
            block = _Block({"toolUse": {"name": ""}}, broken=True)
            self._called(block, index, "")
            self._blocks.append(block)
        self._break_calls_beside(block)
        piece = object_of(delta.get("toolUse")).get("input")
        if isinstance(piece, str) and delta.keys() == {"toolUse"}:
            block.pieces.append(piece)
        else:
            block.broken = True
        return block, [CallDelta(block.key or (0, -1))]

    def _stopped(self, index: int) -> tuple[_Block | None, list[Event]]:
        block = self._open.pop(index, None)
        self._break_calls_beside(None)
        if block is None:
            return None, []
        block.stopped = True
        if block.key is not None:
            piece = CallDelta(block.key)
            return block, [piece, CallReady(block.call)] if block.whole() else [piece]
        return block, [HostedCall(block.call)] if is_hosted_call(block.start) else []
