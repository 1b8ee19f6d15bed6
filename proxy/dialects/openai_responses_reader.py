"""Reads one streamed answer of the Responses API: events into frames, items by their place in the output.

Laws: ids may change from event to event, places do not; a call is whole when its item is done, and only if all that was
said of its arguments on the way agrees; what the last event says again must be what was said before.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

from proxy.core.messages import (
    CallDelta,
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

from .openai_errors import problem_of
from .openai_responses_answer import finish_of, turn_of, usage_of
from .openai_responses_items import (
    FORMS,
    Item,
    Json,
    call_of,
    hosted_call_of,
    is_call,
    is_cut_off,
    is_hosted,
    refuse_ambiguity,
    refuse_hidden,
    type_of,
)
from .sse import RawEvent, SseSplitter
from .values import dumped, loaded, objects, text

ADDED, DONE = "response.output_item.added", "response.output_item.done"
TEXT, TEXT_DONE = "response.output_text.delta", "response.output_text.done"
ENDS = frozenset({"response.completed", "response.incomplete"})
FAILS = frozenset({"error", "response.failed", "response.cancelled"})
OPENS = frozenset({"response.created", "response.in_progress", "response.queued"})
_PIECES = {
    "response.function_call_arguments.delta": "function_call",
    "response.custom_tool_call_input.delta": "custom_tool_call",
}
_WHOLES = {
    "response.function_call_arguments.done": "arguments",
    "response.custom_tool_call_input.done": "input",
}
_MAY_CALL = re.compile(rb'"(?:item|output|response)"|_call|arguments|mcp_approval|\\u00', re.IGNORECASE)
"""Nearly all events are pieces of text and have none of these: only the others are looked at closely."""
_UNKNOWN_PLACE = 1_000_000
"""Where a call stands whose place in the output nobody knows; below it, calls that only the last event names."""
_ELSEWHERE = 100_000


@dataclass(frozen=True, slots=True)
class Said:
    """An event for the writer."""

    value: Json
    kind: str
    name: str = ""
    """The `event` field of its block."""
    place: int | None = None
    """Its item's place in the output."""


@dataclass(frozen=True, slots=True)
class Last:
    """The provider's mark behind the last event, which only some send."""


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A frame that must not leave as it is. No problem: it was cut off, and there is nothing to say about it."""

    problem: Problem | None = None


@dataclass(slots=True)
class _Open:
    """An item as far as it has come."""

    item: Json
    call: bool = False
    pieces: list[str] = field(default_factory=list)
    whole: str | None = None
    texts: dict[int, list[str]] = field(default_factory=dict)
    ready: ToolCall | None = None
    done: bool = False


class ResponsesReader:
    """Reads one streamed answer."""

    def __init__(self, fresh_id: Callable[[], str]) -> None:
        """`fresh_id` makes an id for a call that came without one."""
        self._fresh_id = fresh_id
        self._splitter = SseSplitter()
        self._items: dict[int, _Open] = {}
        self._head: Json = {}
        self._final: Json | None = None
        self._started = False
        self._finish = ""
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
        items = [open_ for _, open_ in sorted(self._items.items())]
        answer = {**(self._final or self._head), "output": [one.item for one in items]}
        answer.pop("error", None)
        known = {one.ready.key: one.ready for one in items if one.ready is not None}
        cuts = [
            dumped(
                {**one.item, "call_id": one.ready.id}
                if one.ready is not None and one.ready.made_id
                else one.item
            )
            for one in items
        ]
        said = "".join("".join(part) for one in items for part in one.texts.values())
        try:
            turn = turn_of({**answer, "output": [one.item for one in items if not one.call]}, cuts, str)
        except Malformed:
            turn = Turn(text(self._head.get("id")), text(self._head.get("model")))
        return replace(
            turn,
            text=said,
            calls=tuple(known.values()),
            finish=(self._finish,) if self._finish else (),
            usage=self._usage,
            error=self._error,
        )

    # --- frames ---

    def _frame(self, block: RawEvent) -> Frame:
        if block.strange:
            return self._broken(block.raw)
        if block.data is None:
            return Frame(block.raw)
        if block.data.strip() == b"[DONE]":
            return Frame(block.raw, (StreamEnded(),), Last())
        try:
            value = _event_of(block)
            kind = text(value.get("type")) or block.event
            place = self._place(value)
            said = Said(value, kind, block.event, place)
            events = tuple(self._events(value, kind, place))
        except (Malformed, ValueError):
            if not block.whole:
                return Frame(block.raw, (), Unreadable())
            return self._broken(block.raw)
        return Frame(block.raw, events, said)

    def _broken(self, raw: bytes) -> Frame:
        problem = Problem(
            502, "upstream_unreadable", "The provider sent an event that cannot be read.", retryable=True
        )
        self._error = problem
        return Frame(raw, (StreamFailed(problem),), Unreadable(problem))

    def _place(self, value: Json) -> int | None:
        place = value.get("output_index")
        if isinstance(place, float) and place.is_integer():
            place = int(place)
        if isinstance(place, int) and not isinstance(place, bool) and 0 <= place < _ELSEWHERE:
            return place
        return None

    def _events(self, value: Json, kind: str, place: int | None) -> Iterator[Event]:
        response = value.get("response")
        if isinstance(response, dict):
            if kind not in ENDS and any(map(is_call, objects(response.get("output")))):
                raise Malformed("an answer that has not ended names a tool call")
            yield from self._headed(response)
        if value.get("error") and kind not in FAILS:
            yield self._failed(value, None)  # the official SDK raises it, whatever the event is called
        elif kind in {ADDED, DONE}:
            yield from self._item_event(value, kind, place)
        elif kind in _PIECES or kind in _WHOLES:
            yield from self._argued(value, kind, place)
        elif kind == TEXT:
            yield from self._text(place, value.get("content_index"), text(value.get("delta")), piece=True)
        elif kind == TEXT_DONE:
            yield from self._text(place, value.get("content_index"), text(value.get("text")), piece=False)
        elif kind in ENDS:
            yield from self._ended(response if isinstance(response, dict) else {})
        elif kind in FAILS:
            yield self._failed(value, response)
        elif "item" in value and isinstance(value["item"], dict) and is_call(value["item"]):
            raise Malformed("an event of an unknown kind holds a tool call")

    def _headed(self, response: Json) -> Iterator[Event]:
        self._head = {**self._head, **{key: part for key, part in response.items() if key != "output"}}
        if not self._started:
            self._started = True
            yield TurnStarted(text(response.get("id")), text(response.get("model")))
        usage = usage_of(response.get("usage"))
        if usage is not None:
            self._usage = usage
            yield UsageSeen(usage)

    def _failed(self, value: Json, response: object) -> Event:
        inner = response.get("error") if isinstance(response, dict) else value.get("error")
        self._error = problem_of(inner if isinstance(inner, dict) else value)
        return StreamFailed(self._error)

    # --- items ---

    def _item_event(self, value: Json, kind: str, place: int | None) -> Iterator[Event]:
        item = value.get("item")
        if not isinstance(item, dict):
            raise Malformed("an item of the output is no object")
        calls = is_call(item)
        if place is None:
            if calls:
                raise Malformed("a tool call has no place in the output")
            return
        known = self._items.get(place)
        if known is None:
            known = self._items[place] = _Open(item, call=calls)
        elif known.call != calls or (known.done and calls) or type_of(known.item) != type_of(item):
            raise Malformed("an item of the output becomes another")
        if calls:
            yield CallDelta((0, place))
        if kind == DONE:
            yield from self._item_done(known, item, place)

    def _item_done(self, known: _Open, item: Json, place: int) -> Iterator[Event]:
        started, known.item, known.done = known.item, item, True
        if known.call:
            call = call_of(item, (0, place), self._fresh_id())
            before = call_of(started, (0, place), call.id)
            other_id = type_of(item) in _PIECES.values() and text(started.get("call_id")) not in {"", call.id}
            if before.name not in {"", call.name} or other_id or not _grew(started, item):
                raise Malformed("a tool call changes while it comes")
            for said in ("".join(known.pieces), known.whole):
                if said and said != call.arguments:
                    raise Malformed("the arguments of a tool call change while they come")
            if not is_cut_off(item):
                known.ready = call
                yield CallReady(call)
        elif is_hosted(item):
            yield HostedCall(hosted_call_of(item, place))
        elif type_of(item) == "message" and not known.texts:
            for at, part in enumerate(objects(item.get("content"))):
                if part.get("type") == "output_text":
                    yield from self._text(place, at, text(part.get("text")), piece=False)

    def _argued(self, value: Json, kind: str, place: int | None) -> Iterator[Event]:
        known = self._items.get(place) if place is not None else None
        if known is None or not known.call or known.done or place is None:
            if known is not None and is_hosted(known.item):
                return
            raise Malformed("arguments come for no tool call")
        form = FORMS.get(type_of(known.item))
        if kind in _PIECES:
            known.pieces.append(text(value.get("delta")))
        elif form is not None and form.arguments == _WHOLES[kind]:
            known.whole = text(value.get(_WHOLES[kind]))
        yield CallDelta((0, place))

    def _text(self, place: int | None, part: object, said: str, *, piece: bool) -> Iterator[Event]:
        known = self._items.setdefault(_UNKNOWN_PLACE if place is None else place, _Open({"type": "message"}))
        if known.call:
            raise Malformed("text comes for a tool call")
        pieces = known.texts.setdefault(part if isinstance(part, int) else 0, [])
        if said and (piece or not pieces):
            pieces.append(said)
            yield TextDelta(0, said)

    # --- the end ---

    def _ended(self, response: Json) -> Iterator[Event]:
        self._final = {key: part for key, part in response.items() if key != "output"}
        yield from self._last_items(objects(response.get("output")))
        self._finish = finish_of(response) or "completed"
        yield ChoiceEnded(0, self._finish)

    def _last_items(self, items: list[Json]) -> Iterator[Event]:
        """The last event names all items again. A call that only it names is a call; one that it names otherwise than
        before never becomes whole, since nobody knows which of the two would be run."""
        ready = [one.ready for one in self._items.values() if one.ready is not None]
        for at, item in enumerate(items):
            if not is_call(item):
                self._note_silent(at, item)
                continue
            call = call_of(item, (0, at), "")
            if any(_is_same(one, call) for one in ready):
                continue
            here = self._items[at].ready if at in self._items else None
            if here is not None and call.form and replace(call, id=here.id, made_id=here.made_id) == here:
                continue  # ids of such calls change from event to event
            if at in self._items or any(one.id == call.id for one in ready):
                yield CallDelta((0, _ELSEWHERE + at))
                continue
            call = replace(call, id=call.id or self._fresh_id())
            self._items[at] = _Open(item, call=True, ready=call, done=True)
            yield CallDelta(call.key)
            yield CallReady(call)

    def _note_silent(self, at: int, item: Item) -> None:
        if at not in self._items:
            self._items[at] = _Open(dict(item), done=True)


def _event_of(block: RawEvent) -> Json:
    """The object of an event. Raises Malformed, and ValueError where it is no JSON."""
    raw = block.data or b""
    value = loaded(raw)
    if not isinstance(value, dict):
        raise Malformed("an event of the stream is no object")
    if _MAY_CALL.search(raw):
        refuse_ambiguity(raw)
        refuse_hidden(value)
        response = value.get("response")
        if isinstance(response, dict):
            refuse_hidden(response)
    return value


def _grew(early: Item, late: Item) -> bool:
    """Whether what an item had to do when it began is a beginning of what it has to do in the end."""
    form = FORMS.get(type_of(late))
    return form is None or _begins(early.get(form.arguments), late.get(form.arguments))


def _begins(early: object, late: object) -> bool:
    if early is None:
        return True
    if isinstance(early, str) and isinstance(late, str):
        return late.startswith(early)
    if isinstance(early, dict) and isinstance(late, dict):
        return all(_begins(part, late.get(key)) for key, part in early.items())
    if isinstance(early, list) and isinstance(late, list):
        return len(early) <= len(late) and all(map(_begins, early, late))
    return early == late


def _is_same(one: ToolCall, other: ToolCall) -> bool:
    known_id = other.made_id or one.made_id or one.id == other.id
    return known_id and (one.name, one.arguments, one.form) == (other.name, other.arguments, other.form)
