"""Reads a streamed Chat Completions answer: chunks into frames with events, pieces into calls.

Laws: a call is ready only when its choice has ended or the stream has (a stream that just stops readies none); a
piece belongs to exactly one call, and what comes for a call after it was ready starts another; a chunk in which a
call may hide from this reader is broken, and fails the stream.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from proxy.core.json_text import NotOneObject, read_object
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
    Usage,
    UsageSeen,
)

from .openai_chat_answer import history_message
from .openai_chat_hidden import refuse_hidden
from .openai_chat_parts import KEPT_FOR_HISTORY, CallPart, call_parts, hosted_calls, usage_of, visible_text
from .openai_errors import problem_of
from .sse import RawEvent, SseSplitter
from .values import Json, loaded, text

_DONE = b"[DONE]"
_ASSISTANTS = "thread."
"""The official SDK wraps the data of events with such names, so that it sees no chunk where others see one."""
_PIECE_MEMBERS = frozenset({"index", "id", "type", "function", "custom"})


@dataclass(frozen=True, slots=True)
class Piece:
    """Where a piece of a call stands in a chunk: which choice, which entry of its `tool_calls` (None: legacy)."""

    key: CallKey
    choice_at: int
    at: int | None
    first: bool


@dataclass(frozen=True, slots=True)
class Chunk:
    """A chunk for the writer."""

    value: Json
    name: str = ""
    """The `event` field of its block."""
    pieces: tuple[Piece, ...] = ()


@dataclass(frozen=True, slots=True)
class Done:
    """The provider's last word."""


@dataclass(frozen=True, slots=True)
class Broken:
    """A frame that must not leave as it is. No problem: it was cut off, and there is nothing to say about it."""

    problem: Problem | None = None


@dataclass(slots=True)
class _Call:
    """A call as far as it has come."""

    key: CallKey
    kind: ToolKind
    legacy: bool
    id: str = ""
    name: str = ""
    arguments: list[str] = field(default_factory=list)
    extras: Json = field(default_factory=dict)
    """What else its provider wants to see again (signatures)."""
    ready: ToolCall | None = None


@dataclass(slots=True)
class _Choice:
    """A choice as far as it has come."""

    text: list[str] = field(default_factory=list)
    kept: dict[str, list[Any]] = field(default_factory=dict)
    calls: list[_Call] = field(default_factory=list)
    hosted: int = 0
    open: dict[int | str | None, _Call] = field(default_factory=dict)
    """By the provider's index; the legacy call stands under None."""
    by_id: dict[str, _Call] = field(default_factory=dict)
    finish: str = ""
    ended: bool = False


class ChatReader:
    """Reads one streamed answer."""

    def __init__(self, fresh_id: Callable[[], str]) -> None:
        """`fresh_id` makes an id for a call that came without one."""
        self._fresh_id = fresh_id
        self._splitter = SseSplitter()
        self._started = False
        self._id = self._model = ""
        self._choices: dict[int, _Choice] = {}
        self._ready: list[ToolCall] = []
        self._hosted: list[ToolCall] = []
        self._usage: Usage | None = None
        self._error: Problem | None = None

    def feed(self, chunk: bytes) -> list[Frame]:
        """The frames that are complete with these bytes. Raises Malformed where one is too large."""
        return [self._frame(block) for block in self._splitter.feed(chunk)]

    def end(self) -> list[Frame]:
        """What is left. A last frame without its blank line is read if it is whole otherwise, since some clients
        would read it too; else it is broken."""
        return [self._frame(block) for block in self._splitter.end()]

    def turn(self) -> Turn:
        """The answer as read so far. Calls that never became whole are not in it."""
        choices = [self._choices[number] for number in sorted(self._choices)]
        first = choices[0] if choices else _Choice()
        return Turn(
            id=self._id,
            model=self._model,
            text="".join(first.text),
            calls=tuple(self._ready),
            hosted_calls=tuple(self._hosted),
            finish=tuple(choice.finish for choice in choices),
            usage=self._usage,
            message=_for_history(first) if choices else b"",
            error=self._error,
        )

    def _frame(self, block: RawEvent) -> Frame:
        if block.strange:
            return self._broken(block.raw)
        if block.data is None:
            return Frame(block.raw)
        said = block.data.strip()
        if said == _DONE:
            return Frame(block.raw, (*self._all_ready(), StreamEnded()), Done())
        try:
            value = loaded(said)
        except ValueError:
            value = None
        if not isinstance(value, dict):
            # Clients that trim more than blanks, or look into lists, may find a chunk here.
            if block.whole and (b"{" in said or said[:1] == b"["):
                return self._broken(block.raw)
            return Frame(block.raw) if block.whole else Frame(block.raw, payload=Broken())
        if block.event.startswith(_ASSISTANTS):
            return self._broken(block.raw)
        pieces: list[Piece] = []
        try:
            refuse_hidden(said, value)
            events = list(self._events(value, block.event, pieces))
        except Malformed:
            return self._broken(block.raw)
        usage_only = not (value.get("choices") or value.get("error")) and usage_of(value) is not None
        return Frame(block.raw, tuple(events), Chunk(value, block.event, tuple(pieces)), usage_only)

    def _broken(self, raw: bytes) -> Frame:
        said = "The provider sent a chunk that cannot be read."
        self._error = Problem(502, "upstream_error", said, retryable=True)
        return Frame(raw, (StreamFailed(self._error),), Broken(self._error))

    # --- one chunk ---

    def _events(self, value: Json, name: str, pieces: list[Piece]) -> Iterator[Event]:
        self._id = self._id or text(value.get("id"))
        self._model = self._model or text(value.get("model"))
        choices = value.get("choices")
        if choices is not None and not isinstance(choices, list):
            raise Malformed("choices has to be a list")
        if not self._started and (self._id or choices):
            self._started = True
            yield TurnStarted(self._id, self._model)
        error = value.get("error") or (value if name == "error" else None)
        for place, choice in enumerate(choices or ()):
            if not isinstance(choice, dict):
                raise Malformed("a choice has to be an object")
            yield from self._choice_events(place, choice, pieces, failed=bool(error or self._error))
        usage = usage_of(value)
        if usage is not None:
            self._usage = usage
            yield UsageSeen(usage)
        if error:
            self._error = problem_of(error)
            yield StreamFailed(self._error)

    def _choice_events(
        self, place: int, value: Json, pieces: list[Piece], *, failed: bool
    ) -> Iterator[Event]:
        number = choice_number(value, place)
        choice = self._choices.setdefault(number, _Choice())
        delta = value.get("delta")
        if delta is not None and not isinstance(delta, dict):
            raise Malformed("a delta has to be an object")
        beside = value.get("message")
        if isinstance(beside, dict) and any(not part.is_filler for part in call_parts(beside)):
            raise Malformed("a chunk holds a tool call outside its delta")
        yield from self._delta_events(number, choice, delta or {}, place, pieces)
        finish = text(value.get("finish_reason"))
        if not finish:
            return
        choice.finish = finish
        if failed:
            return
        fresh = list(self._make_ready(choice))
        yield from fresh
        if fresh or not choice.ended:
            choice.ended = True
            yield ChoiceEnded(number, finish)

    def _delta_events(
        self, number: int, choice: _Choice, delta: Json, place: int, pieces: list[Piece]
    ) -> Iterator[Event]:
        said = visible_text(delta.get("content"))
        if said:
            choice.text.append(said)
            yield TextDelta(number, said)
        for key in KEPT_FOR_HISTORY:
            if delta.get(key):
                choice.kept.setdefault(key, []).append(delta[key])
        for part in call_parts(delta):
            call, first = self._call_of(number, choice, part)
            if call is None:
                continue
            _add(call, part)
            if (known := choice.by_id.get(call.id)) is None or known.ready is not None:
                choice.by_id[call.id] = call
            if part.at is not None:
                extras = delta["tool_calls"][part.at]
                call.extras |= {key: extra for key, extra in extras.items() if key not in _PIECE_MEMBERS}
            pieces.append(Piece(call.key, place, part.at, first))
            yield CallDelta(call.key)
        for hosted in hosted_calls(delta, number):
            if hosted.key[1] >= choice.hosted:
                choice.hosted = hosted.key[1] + 1
                self._hosted.append(hosted)
                yield HostedCall(hosted)

    # --- calls ---

    def _call_of(self, number: int, choice: _Choice, part: CallPart) -> tuple[_Call | None, bool]:
        """The call that the piece belongs to (None: it says nothing), and whether the piece begins it."""
        legacy = part.at is None
        place = None if legacy else part.index if part.index is not None else ""
        open_ = choice.open.get(place)
        if part.index is None and not legacy:
            open_ = choice.by_id.get(part.id) if part.id else open_
        if open_ is not None and _continues(open_, part):
            return open_, False
        if part.is_filler:
            return None, False
        if legacy and open_ is not None:
            raise Malformed("a choice holds two legacy calls")
        call = _Call((number, len(choice.calls)), part.kind, legacy)
        choice.calls.append(call)
        choice.open[place] = call
        return call, True

    def _make_ready(self, choice: _Choice) -> Iterator[CallReady]:
        for call in choice.calls:
            if call.ready is None:
                id_ = call.id or self._fresh_id()
                arguments = "".join(call.arguments)
                call.ready = ToolCall(id_, call.name, arguments, call.key, call.kind, not call.id)
                self._ready.append(call.ready)
                yield CallReady(call.ready)

    def _all_ready(self) -> Iterator[CallReady]:
        if self._error is None:
            for number in sorted(self._choices):
                yield from self._make_ready(self._choices[number])


def choice_number(choice: Mapping[str, Any], place: int) -> int:
    """Which choice a chunk's choice is: its index, else its place."""
    index = choice.get("index")
    return index if isinstance(index, int) and not isinstance(index, bool) else place


def _continues(call: _Call, part: CallPart) -> bool:
    """Whether a piece goes on with the call that its index has: a new id or a new name starts another (C001)."""
    if call.ready is not None or (part.kind is not call.kind and not part.is_filler):
        return False
    if part.id and call.id:
        return part.id == call.id and part.name in {"", call.name}
    if not part.name or not call.name:
        return True
    # The same name once more, and no ids to tell by: another call if this one is whole and a new object begins.
    begins = (
        part.arguments.lstrip().startswith("{") and call.arguments[-1:] and call.arguments[-1].endswith("}")
    )
    return part.name == call.name and not (begins and _is_whole("".join(call.arguments)))


def _is_whole(arguments: str) -> bool:
    try:
        return bool(arguments.strip()) and read_object(arguments) is not None
    except NotOneObject:
        return False


def _add(call: _Call, part: CallPart) -> None:
    call.id = call.id or part.id
    call.name = call.name or part.name
    if part.arguments:
        call.arguments.append(part.arguments)


# --- the message for a history ---------------------------------------------------------------------------------


def _for_history(choice: _Choice) -> bytes:
    calls = [(call, call.ready) for call in choice.calls if call.ready is not None]
    entries = [_entry(ready) | call.extras for call, ready in calls if not call.legacy]
    legacy = next(
        ({"name": ready.name, "arguments": ready.arguments} for call, ready in calls if call.legacy), None
    )
    kept = {key: _joined(parts) for key, parts in choice.kept.items()}
    said = "".join(choice.text)
    return history_message(said or None if calls else said, entries, legacy, kept)


def _entry(call: ToolCall) -> Json:
    if call.kind is ToolKind.CUSTOM:
        return {"id": call.id, "type": "custom", "custom": {"name": call.name, "input": call.arguments}}
    return {
        "id": call.id,
        "type": "function",
        "function": {"name": call.name, "arguments": call.arguments},
    }


def _joined(parts: list[Any]) -> object:
    """Pieces of reasoning as one: text is joined, and so is the text in consecutive entries of the same kind; of objects
    (signatures) the later members count."""
    if all(isinstance(part, dict) for part in parts):
        return {key: value for part in parts for key, value in part.items()}
    if not any(isinstance(part, list) for part in parts):
        return "".join(text(part) for part in parts)
    entries: list[Any] = []
    for entry in (entry for part in parts if isinstance(part, list) for entry in part):
        last = entries[-1] if entries else None
        if isinstance(entry, dict) and isinstance(last, dict) and _same_entry(last, entry):
            for key in ("text", "summary"):
                if isinstance(entry.get(key), str):
                    last[key] = text(last.get(key)) + entry[key]
            last |= {key: value for key, value in entry.items() if last.get(key) is None}
        else:
            entries.append(dict(entry) if isinstance(entry, dict) else entry)
    return entries


def _same_entry(left: Json, right: Json) -> bool:
    same = all(left.get(key) == right.get(key) for key in ("type", "index", "id"))
    return same and isinstance(right.get("text", right.get("summary")), str)
