"""Writes the agent's stream of a Responses answer, over any number of answers of the provider.

Laws: a frame that needs no change leaves as its own bytes; there is one response with one id; items are numbered 0, 1, 2 …
as they leave, events too; the last event names exactly the items that left.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from proxy.core.messages import CallKey, CallReady, Frame, Problem, Request, Turn, Usage

from . import sse
from .openai_errors import error_record
from .openai_responses_answer import APART, gone_with, response_record, text_part, usage_record, usage_with
from .openai_responses_items import Json, is_call, message_item, type_of
from .openai_responses_reader import ADDED, DONE, ENDS, FAILS, OPENS, TEXT, TEXT_DONE, Said, Unreadable
from .values import dumped, objects, text

_NUMBER = "sequence_number"
_PART_ADDED, _PART_DONE = "response.content_part.added", "response.content_part.done"
Part = tuple[int, int]
"""A text of this answer: the place of its item, and its place in the content."""


class ResponsesWriter:
    """Writes one stream to one agent."""

    def __init__(self, request: Request, answer_id: str) -> None:
        """`answer_id` is used if the proxy itself has to open the answer."""
        self._request = request
        self._answer_id = answer_id
        # What the agent has got, over all answers.
        self._head: Json = {}
        self._over = False  # the answer has its end, or its error
        self._closed = False  # by the proxy itself
        self._items: list[tuple[int | None, Json]] = []  # finished ones; the place is that in this answer
        self._next_place = 0
        self._next_number = 0
        self._texted = False
        self._own = 0  # messages of the proxy's own
        self._usage_before: Usage | None = None
        self._changed = False  # from here on frames are written anew
        self._begin_answer()

    def _begin_answer(self) -> None:
        self._continues = bool(self._head)
        self._apart = self._texted
        self._places: dict[int, int] = {}  # its place -> place sent
        self._open: dict[int, Json] = {}  # items that have begun, by their place
        self._refused: set[int] = set()
        self._made_ids: dict[int, str] = {}  # of calls that came without one
        self._left: dict[Part, str] = {}  # the texts as they left
        self._altered: set[Part] = set()
        self._note = ""

    # --- frames of the provider ---

    def passed(self, frame: Frame) -> bytes:
        """The frame as the agent gets it."""
        said = frame.payload
        if isinstance(said, Unreadable):
            return self.failed(said.problem) if said.problem is not None else b""
        if not isinstance(said, Said):
            return frame.raw
        if self._closed:
            return b""
        front = self._noted() if self._is_place_for_note(said) else b""
        value = self._edited(said)
        if value is None:
            return front
        return front + self._sent(value, said.kind, said.name, frame.raw if value == said.value else b"")

    def rewritten(self, frame: Frame, said: str) -> bytes:
        """The frame with other visible text."""
        event = frame.payload
        if not isinstance(event, Said) or event.place is None:
            return self.passed(frame)
        self._changed = True
        if event.kind == TEXT:
            self._altered.add(_part(event))
            self._left.setdefault(_part(event), "")
            if not said:
                return b""
            value = {**event.value, "delta": said}
            return self.passed(Frame(b"", (), Said(value, event.kind, event.name, event.place)))
        waiting = [said]
        for part in _parts_in(event):
            self._left[part] = waiting.pop() if waiting else ""
            self._altered.add(part)
        return self.passed(frame)

    def resolved(self, frames: Sequence[Frame], refused: Collection[CallKey], note: str) -> bytes:
        """Held frames less the refused calls, with the note before the first call that stays, else before the end."""
        self._refused |= {place for _, place in refused}
        self._note = note or self._note
        for frame in frames:
            for event in frame.events:
                if isinstance(event, CallReady) and event.call.made_id:
                    self._made_ids[event.call.key[1]] = event.call.id
        self._changed |= bool(refused or note or self._made_ids)
        return b"".join([*map(self.passed, frames), self._noted()])

    def abandoned(self, frames: Sequence[Frame], turn: Turn) -> bytes:
        """Finishes what has begun; another answer follows in the same stream."""
        del frames
        if turn.usage is not None:
            self._usage_before = (self._usage_before or Usage()) + turn.usage
        self._changed |= bool(self._head)
        finished = self._finished()
        # Reasoning that led to calls which never left would stand alone.
        while self._items and type_of(self._items[-1][1]) == "reasoning":
            self._items.pop()
        self._items = [(None, item) for _, item in self._items]
        self._begin_answer()
        return finished

    # --- words of the proxy ---

    def closing(self, said: str) -> bytes:
        """The ordinary end of the stream, with an opening if none was sent."""
        if self._over:
            return b""
        self._changed = True
        parts = [] if self._head else [self._opening()]
        parts.append(self._finished())
        if said:
            parts.append(self._message(said))
        record = {**self._head, "status": "completed", "output": [item for _, item in self._items]}
        record["usage"] = usage_record(self._usage_before or Usage())
        parts.append(self._event("response.completed", {"response": record}))
        self._over = self._closed = True
        return b"".join(parts)

    def failed(self, problem: Problem) -> bytes:
        """An error in the middle of the stream; nothing follows it."""
        if self._over:
            return b""
        self._over = self._closed = True
        error = error_record(problem)["error"]
        return self._event("error", {**error, "type": "error", "error": error})

    def keep_alive(self) -> bytes:
        """A comment."""
        return sse.comment("keep-alive")

    def _opening(self) -> bytes:
        self._head = response_record(self._request, self._answer_id, "in_progress", 0)
        return self._event("response.created", {"response": self._head}) + self._event(
            "response.in_progress", {"response": self._head}
        )

    def _noted(self) -> bytes:
        """The note, if it was not said yet."""
        note, self._note = self._note, ""
        return self._message(note) if note and not self._over else b""

    def _message(self, said: str) -> bytes:
        """The events of a message of the proxy's own, set apart from text before it."""
        self._own += 1
        said = (APART if self._texted else "") + said
        self._texted = True
        self._apart = False
        item = message_item(said, f"msg_{text(self._head.get('id')) or self._answer_id}_{self._own}")
        place, self._next_place = self._next_place, self._next_place + 1
        self._items.append((None, item))
        at = {"output_index": place}
        begun = {**item, "status": "in_progress", "content": []}
        where = {"item_id": item["id"], "output_index": place, "content_index": 0}
        return b"".join(
            [
                self._event(ADDED, {**at, "item": begun}),
                self._event(_PART_ADDED, {**where, "part": text_part("")}),
                self._event(TEXT, {**where, "delta": said, "logprobs": []}),
                self._event(TEXT_DONE, {**where, "text": said, "logprobs": []}),
                self._event(_PART_DONE, {**where, "part": text_part(said)}),
                self._event(DONE, {**at, "item": item}),
            ]
        )

    def _finished(self) -> bytes:
        """The ends of items that have begun: with the text that left, or as they are."""
        out = []
        for place, item in self._open.items():
            whole = {**item, "status": "completed"}
            if type_of(item) == "message":
                texts = [said for part, said in sorted(self._left.items()) if part[0] == place]
                whole["content"] = [text_part(said) for said in texts]
            self._items.append((place, whole))
            out.append(self._event(DONE, {"output_index": self._places[place], "item": whole}))
        self._open.clear()
        return b"".join(out)

    def _event(self, kind: str, value: Json) -> bytes:
        record = {"type": kind, **value, _NUMBER: self._next_number}
        self._next_number += 1
        return sse.event(dumped(record), kind)

    # --- one frame ---

    def _sent(self, value: Json, kind: str, name: str, raw: bytes) -> bytes:
        number = value.get(_NUMBER)
        if isinstance(number, int):
            if self._changed and number != self._next_number:
                value, raw = {**value, _NUMBER: self._next_number}, b""
                number = self._next_number
            self._next_number = number + 1
        if kind in ENDS or kind in FAILS:
            self._over = True
        return raw or sse.event(dumped(value), name)

    def _is_place_for_note(self, said: Said) -> bool:
        if said.kind in ENDS or said.kind in FAILS:
            return True
        item = said.value.get("item")
        return isinstance(item, dict) and is_call(item) and said.place not in self._refused

    def _edited(self, said: Said) -> Json | None:
        """The event as the agent may see it; None: nothing is left of it."""
        value, kind, place = said.value, said.kind, said.place
        if kind in OPENS:
            return self._opened(value)
        if place is not None:
            if place in self._refused:
                return None
            value = self._placed(value, place)
        if kind == TEXT:
            value = self._said(said, value)
        elif kind in {TEXT_DONE, _PART_DONE, _PART_ADDED}:
            value = self._said_whole(said, value)
        elif kind in {ADDED, DONE} and place is not None:
            value = self._item(value, kind, place)
        response = value.get("response")
        if isinstance(response, dict):
            value = {**value, "response": self._response(response, ends=kind in ENDS)}
        return value

    def _opened(self, value: Json) -> Json | None:
        if self._continues:
            return None
        response = value.get("response")
        if not self._head and isinstance(response, dict):
            self._head = {**response, "output": []}
        return value

    def _placed(self, value: Json, place: int) -> Json:
        if place not in self._places:
            self._places[place] = self._next_place
            self._next_place += 1
        sent = self._places[place]
        return value if sent == place else {**value, "output_index": sent}

    def _said(self, said: Said, value: Json) -> Json:
        delta = text(value.get("delta"))
        if delta and said.place is not None:
            part = _part(said)
            if self._apart:
                self._altered.add(part)
                delta, self._apart = APART + delta, False
                value = {**value, "delta": delta}
            self._texted = True
            self._left[part] = self._left.get(part, "") + delta
        return value

    def _said_whole(self, said: Said, value: Json) -> Json:
        if said.place is None:
            return value
        part = _part(said)
        if said.kind == TEXT_DONE:
            self._first_said(part, text(value.get("text")))
            return {**value, "text": self._left[part]} if part in self._altered else value
        inner = value.get("part")
        if isinstance(inner, dict) and inner.get("type") == "output_text" and part in self._altered:
            return {**value, "part": {**inner, "text": self._left.get(part, "")}}
        return value

    def _first_said(self, part: Part, said: str) -> None:
        """A text of which no piece came before."""
        if part in self._left or not said:
            self._left.setdefault(part, "")
            return
        if self._apart:
            self._altered.add(part)
            said, self._apart = APART + said, False
        self._texted = True
        self._left[part] = said

    def _item(self, value: Json, kind: str, place: int) -> Json:
        item = value.get("item")
        if not isinstance(item, dict):
            return value
        edited = self._whole_item(item, place) if kind == DONE else self._named(item, place)
        if kind == ADDED:
            self._open[place] = edited
        else:
            self._open.pop(place, None)
            self._items.append((place, edited))
        return value if edited is item else {**value, "item": edited}

    def _named(self, item: Json, place: int) -> Json:
        return {**item, "call_id": self._made_ids[place]} if place in self._made_ids else item

    def _whole_item(self, item: Json, place: int) -> Json:
        """A finished item, with its texts as they left."""
        item = self._named(item, place)
        content = item.get("content")
        if type_of(item) != "message" or not isinstance(content, list):
            return item
        for at, part in enumerate(content):
            if isinstance(part, dict) and part.get("type") == "output_text":
                self._first_said((place, at), text(part.get("text")))
        if not any((place, at) in self._altered for at in range(len(content))):
            return item
        parts = [
            {**part, "text": self._left.get((place, at), "")}
            if (place, at) in self._altered and isinstance(part, dict)
            else part
            for at, part in enumerate(content)
        ]
        return {**item, "content": parts}

    def _response(self, response: Json, *, ends: bool) -> Json:
        """The response object of an event: the agent's id, the items that left, the usage of all answers."""
        output = objects(response.get("output"))
        if ends:
            for place, item in enumerate(output):
                if place not in self._places and place not in self._refused:
                    self._places[place] = self._next_place
                    self._next_place += 1
                    self._items.append((place, self._whole_item(item, place)))
        if not self._changed:
            return response
        edited = {**response, "id": self._head.get("id", response.get("id"))}
        if ends or output:
            gone = gone_with(output, self._refused)
            edited["output"] = [item for place, item in self._items if place not in gone]
        if "output_text" in response:
            edited["output_text"] = "".join(_texts(edited.get("output")))
        if self._usage_before is not None and ends:
            edited["usage"] = usage_with(response.get("usage"), self._usage_before)
        return edited


def _part(said: Said) -> Part:
    at = said.value.get("content_index")
    return (said.place or 0, at if isinstance(at, int) else 0)


def _parts_in(said: Said) -> Iterator[Part]:
    """The texts that an event gives whole."""
    item = said.value.get("item")
    if isinstance(item, dict):
        for at, part in enumerate(objects(item.get("content"))):
            if part.get("type") == "output_text":
                yield (said.place or 0, at)
    else:
        yield _part(said)


def _texts(items: object) -> Iterator[str]:
    for item in objects(items):
        for part in objects(item.get("content")):
            yield text(part.get("text"))
