"""Reads one streamed answer of Gemini's API.

Laws: a call mostly comes whole in one part; one that comes in pieces is whole when a piece says that none follows. A call
that stands anywhere but in the parts of a candidate is never guessed at: the frame is unreadable.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from proxy.core.json_text import Span
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

from .gemini_answer import (
    call_at,
    candidate_number,
    candidates_of,
    part_places,
    read_parts,
    refuse_ambiguity,
    refuse_misplaced,
)
from .gemini_frames import Block, Splitter
from .gemini_parts import (
    CallNames,
    Json,
    finish_of,
    hosted_call,
    is_call,
    is_visible,
    member,
    object_member,
    problem_of,
    usage_of,
)
from .values import dumped, loaded, text

_PATH = re.compile(r"\.([^.\[\]]+)|\[(\d{1,6})\]|\[['\"]([^'\"]+)['\"]\]")
_VALUES = ("stringValue", "numberValue", "boolValue")
_DEEPEST = 64


@dataclass(frozen=True, slots=True)
class Piece:
    """An element for the writer: its value, and which of its parts belong to which call."""

    value: Json
    data: bytes
    calls: dict[tuple[int, int], CallKey] = field(default_factory=dict)
    """By candidate and part."""
    places: Sequence[Sequence[Span]] = ()
    """Where the parts of each candidate stand."""
    in_array: bool = False
    """The stream is an array."""

    def part(self, at: int, place: int) -> bytes:
        """A part of a candidate as it stands on the wire."""
        return self.places[at][place].cut(self.data)


@dataclass(frozen=True, slots=True)
class Closed:
    """The end of the array."""


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A frame that must not leave as it is. No problem: it was cut off."""

    problem: Problem | None = None


@dataclass(slots=True)
class _Open:
    """A call that comes in pieces."""

    key: CallKey
    part: Json
    arguments: Json
    ended: set[str] = field(default_factory=set)
    """Paths whose value is whole."""


@dataclass(slots=True)
class _Choice:
    """A candidate as far as it has come."""

    names: CallNames = field(default_factory=CallNames)
    text: list[str] = field(default_factory=list)
    parts: list[bytes] = field(default_factory=list)
    calls: list[ToolCall] = field(default_factory=list)
    slots: int = 0
    open: _Open | None = None
    finish: str = ""


class GeminiReader:
    """Reads one streamed answer."""

    def __init__(self) -> None:
        """Nothing is read yet."""
        self._splitter = Splitter()
        self._choices: dict[int, _Choice] = {}
        self._hosted: list[ToolCall] = []
        self._id = self._model = ""
        self._started = False
        self._usage: Usage | None = None
        self._error: Problem | None = None

    def feed(self, chunk: bytes) -> list[Frame]:
        """The frames that are complete with this chunk."""
        return [self._frame(block) for block in self._splitter.feed(chunk)]

    def end(self) -> list[Frame]:
        """What is left."""
        return [self._frame(block) for block in self._splitter.end()]

    def turn(self) -> Turn:
        """The answer as read so far."""
        first = self._choices.get(0, _Choice())
        choices = [choice for _, choice in sorted(self._choices.items())]
        return Turn(
            id=self._id,
            model=self._model,
            text="".join(first.text),
            calls=tuple(call for choice in choices for call in choice.calls),
            hosted_calls=tuple(self._hosted),
            finish=tuple(choice.finish for choice in choices if choice.finish),
            usage=self._usage,
            message=b'{"role":"model","parts":[' + b",".join(first.parts) + b"]}",
            error=self._error,
        )

    # --- frames ---

    def _frame(self, block: Block) -> Frame:
        if block.is_end:
            return Frame(block.raw, (StreamEnded(),), Closed())
        if block.data is None:
            return self._broken(block.raw) if block.strange else Frame(block.raw)
        try:
            value = loaded(block.data)
            if not isinstance(value, dict) or block.strange:
                return self._broken(block.raw)
            refuse_ambiguity(block.data, value)
            refuse_misplaced(block.data, value)
            places = part_places(block.data)
            piece = Piece(value, block.data, places=places, in_array=self._splitter.is_array)
            events = tuple(self._events(piece))
        except (Malformed, ValueError):
            # What broke off is left out; some streams end without the blank line that ends an event.
            return self._broken(block.raw) if block.whole else Frame(block.raw, (), Unreadable())
        return Frame(block.raw, events, piece)

    def _broken(self, raw: bytes) -> Frame:
        problem = Problem(
            502, "upstream_unreadable", "The provider sent a piece that cannot be read.", retryable=True
        )
        self._error = problem
        return Frame(raw, (StreamFailed(problem),), Unreadable(problem))

    def _events(self, piece: Piece) -> Iterator[Event]:
        value = piece.value
        self._id = self._id or text(value.get("responseId"))
        self._model = self._model or text(value.get("modelVersion"))
        candidates = candidates_of(value)
        if not self._started and (self._id or candidates):
            self._started = True
            yield TurnStarted(self._id, self._model)
        for at, candidate in enumerate(candidates):
            yield from self._candidate(piece, at, candidate)
        usage = usage_of(value.get("usageMetadata"))
        if usage is not None:
            self._usage = usage
            yield UsageSeen(usage)
        feedback = object_member(value, "promptFeedback")
        if feedback.get("blockReason") and not candidates:
            choice = self._choices.setdefault(0, _Choice())
            choice.finish = "BLOCKED"
            yield ChoiceEnded(0, choice.finish)
        if value.get("error"):
            self._error = problem_of(value["error"])
            yield StreamFailed(self._error)

    def _candidate(self, piece: Piece, at: int, candidate: Json) -> Iterator[Event]:
        number = candidate_number(candidate, at)
        choice = self._choices.setdefault(number, _Choice())
        for place, part in enumerate(read_parts(candidate)):
            if is_call(part):
                yield from self._call(piece, number, choice, (at, place), part)
                continue
            if is_visible(part) and part["text"]:
                choice.text.append(part["text"])
                yield TextDelta(number, part["text"])
            if choice.open is None:
                choice.parts.append(piece.part(at, place))
            hosted = hosted_call(part, place)
            if hosted is not None:
                self._hosted.append(hosted)
                yield HostedCall(hosted)
        finish = finish_of(candidate)
        if finish:
            if choice.open is not None:
                raise Malformed("a candidate ends before its call is whole")
            choice.finish = finish
            yield ChoiceEnded(number, finish)

    # --- calls ---

    def _call(
        self, piece: Piece, number: int, choice: _Choice, where: tuple[int, int], part: Json
    ) -> Iterator[Event]:
        said = object_member(part, "functionCall")
        open_ = choice.open
        fragments = member(said, "partialArgs")
        goes_on = member(said, "willContinue") is True
        if open_ is None and fragments is None and not goes_on:
            key = (number, choice.slots)
            choice.slots += 1
            piece.calls[where] = key
            at, place = where
            call = call_at(piece.data, part, piece.places[at][place], choice.names, key)
            choice.calls.append(call)
            choice.parts.append(piece.part(at, place))
            yield CallDelta(key)
            yield CallReady(call)
            return
        if open_ is None:
            open_ = choice.open = _Open((number, choice.slots), part, {})
            choice.slots += 1
            whole = said.get("args")
            open_.arguments.update(whole if isinstance(whole, dict) else {})
        elif text(said.get("name")) not in {"", text(object_member(open_.part, "functionCall").get("name"))}:
            raise Malformed("a call begins before another one is whole")
        piece.calls[where] = open_.key
        for fragment in fragments if isinstance(fragments, list) else []:
            _put(open_, fragment)
        yield CallDelta(open_.key)
        if not goes_on:
            choice.open = None
            yield CallReady(self._assembled(choice, open_))

    def _assembled(self, choice: _Choice, open_: _Open) -> ToolCall:
        said = object_member(open_.part, "functionCall")
        arguments = dumped(open_.arguments).decode("utf-8", "surrogatepass")
        call = choice.names.call(text(said.get("id")), text(said.get("name")), arguments, open_.key)
        choice.calls.append(call)
        written = {key: value for key, value in said.items() if key in {"id", "name"}} | {
            "args": open_.arguments
        }
        rest = {
            key: value for key, value in open_.part.items() if key not in {"functionCall", "function_call"}
        }
        choice.parts.append(dumped({"functionCall": written, **rest}))
        return replace(call, key=open_.key)


def _put(call: _Open, fragment: object) -> None:
    """Puts a fragment where its path says. Raises Malformed where the path cannot be followed, or its value is whole."""
    if not isinstance(fragment, dict):
        raise Malformed("a piece of arguments is no object")
    path = text(member(fragment, "jsonPath"))
    found = list(_PATH.finditer(path, 1))
    if not found or len(found) > _DEEPEST or "$" + "".join(step[0] for step in found) != path:
        raise Malformed("a piece of arguments has no path that can be followed")
    steps = [step[1] or step[3] or int(step[2]) for step in found]
    if path in call.ended:
        raise Malformed("a value of the arguments comes twice")
    if member(fragment, "willContinue") is not True:
        call.ended.add(path)
    value: Any = None
    for name in _VALUES:
        if member(fragment, name) is not None:
            value = member(fragment, name)
    holder: Any = call.arguments
    for step, following in zip(steps, [*steps[1:], None], strict=True):
        if following is None:
            _set(holder, step, value)
        else:
            holder = _inner(holder, step, is_list=isinstance(following, int))


def _set(holder: Any, step: str | int, value: Any) -> None:
    _grow(holder, step)
    old = holder[step] if isinstance(step, int) else holder.get(step)
    # Texts come in pieces, everything else whole.
    if isinstance(old, str) and isinstance(value, str):
        value = old + value
    elif old is not None:
        raise Malformed("a value of the arguments comes twice")
    holder[step] = value


def _inner(holder: Any, step: str | int, *, is_list: bool) -> Any:
    _grow(holder, step)
    old = holder[step] if isinstance(step, int) else holder.get(step)
    if old is None:
        old = holder[step] = [] if is_list else {}
    return old


def _grow(holder: Any, step: str | int) -> None:
    if isinstance(step, int):
        if not isinstance(holder, list) or step > len(holder):
            raise Malformed("a path of arguments does not fit")
        if step == len(holder):
            holder.append(None)
    elif not isinstance(holder, dict):
        raise Malformed("a path of arguments does not fit")
