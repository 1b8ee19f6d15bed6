"""Writes the agent's stream of a Chat Completions answer, over any number of answers of the provider.

Laws: a frame that needs no change leaves as its own bytes; a client that joins what it gets, by index and by string,
gets exactly the calls that were judged; a choice has one opening, one end, and after the last word comes nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from typing import Any

from proxy.core.messages import (
    CallKey,
    CallReady,
    ChoiceEnded,
    Frame,
    Problem,
    Request,
    StreamFailed,
    TextDelta,
    ToolCall,
    Turn,
    Usage,
    UsageSeen,
)

from . import sse
from .openai_chat_answer import APART
from .openai_chat_parts import (
    CALL_FINISHES,
    ORDINARY_FINISH,
    call_form,
    usage_record,
    usage_with,
    with_other_text,
)
from .openai_chat_reader import Broken, Chunk, Done, Piece, choice_number
from .openai_errors import error_record
from .values import Json, dumped, text

_DONE = b"data: [DONE]\n\n"


class ChatWriter:
    """Writes one stream to one agent."""

    def __init__(self, request: Request, answer_id: str) -> None:
        """`answer_id` is used if the proxy itself has to open the answer."""
        self._request = request
        self._answer_id = answer_id
        # What the agent has got, over all answers.
        self._head: Json = {}
        self._opened = False
        self._done = False
        self._roles: set[int] = set()
        self._texts: set[int] = set()
        self._ended: set[int] = set()
        self._places: dict[int, list[int | str]] = {}  # the indices of released calls, by choice
        self._kept: dict[int, int] = {}  # how many calls were released, by choice
        self._usage_sent = False
        # Of the answers before this one.
        self._continued = False
        self._roles_before: set[int] = set()
        self._ended_before: set[int] = set()
        self._apart: set[int] = set()
        self._usage_before: Usage | None = None
        # Of this answer.
        self._usage: Usage | None = None
        self._refused: set[CallKey] = set()
        self._calls: dict[CallKey, ToolCall] = {}
        self._place_of: dict[CallKey, int | str] = {}
        self._seen: set[CallKey] = set()

    # --- frames of the provider ---

    def passed(self, frame: Frame) -> bytes:
        """The frame as the agent gets it."""
        self._learn(frame)
        return self._written(frame)

    def rewritten(self, frame: Frame, said: str) -> bytes:
        """The frame with other visible text in its first choice."""
        payload = frame.payload
        if not isinstance(payload, Chunk):
            return self.passed(frame)
        kept = tuple(
            event for event in frame.events if not (isinstance(event, TextDelta) and event.choice == 0)
        )
        if not said and not kept and self._opened:
            return b""
        value = with_text(payload.value, said)
        events = (TextDelta(0, said), *kept) if said else kept
        raw = sse.event(dumped(value), payload.name)
        return self.passed(replace(frame, raw=raw, payload=replace(payload, value=value), events=events))

    def resolved(self, frames: Sequence[Frame], refused: Collection[CallKey], note: str) -> bytes:
        """Held frames less the refused calls, with the note in every choice that loses a call."""
        self._refused.update(refused)
        for frame in frames:
            self._learn(frame)
        waiting = sorted({choice for choice, _ in refused} or {0}) if note else []
        out = []
        for frame in frames:
            self._adopt_head(frame)
            for choice in [choice for choice in waiting if self._is_place_for_note(frame, choice)]:
                waiting.remove(choice)
                out.append(self._said(choice, note))
            out.append(self._written(frame))
        return b"".join([*out, *(self._said(choice, note) for choice in waiting)])

    def abandoned(self, frames: Sequence[Frame], turn: Turn) -> bytes:
        """Another answer will continue the stream. Nothing is open that would have to be closed."""
        del frames
        if turn.usage is not None:
            self._usage_before = (self._usage_before or Usage()) + turn.usage
        self._continued = self._opened
        self._roles_before, self._ended_before = set(self._roles), set(self._ended)
        self._apart = set(self._texts)
        self._usage = None
        for own in (self._refused, self._calls, self._place_of, self._seen):
            own.clear()
        return b""

    # --- words of the proxy ---

    def closing(self, text: str) -> bytes:
        """The text in every choice that is still open (else in the first), and the end of the stream."""
        if self._done:
            return b""
        choices = range(self._request.choices)
        is_open = [choice for choice in choices if choice not in self._ended]
        out = [self._said(choice, text) for choice in is_open or [0]]
        out += [self._own_chunk(choice, {}, ORDINARY_FINISH) for choice in is_open]
        self._ended.update(is_open)
        usage = self._usage_so_far()
        if self._request.asks_usage and usage is not None and not self._usage_sent:
            out.append(sse.event(dumped({**self._own_head(), "choices": [], "usage": usage_record(usage)})))
        self._done = True
        return b"".join([*out, _DONE])

    def failed(self, problem: Problem) -> bytes:
        """An error in the middle of the stream."""
        self._done = True
        return sse.event(dumped(error_record(problem)))

    def keep_alive(self) -> bytes:
        """A comment."""
        return sse.comment("keep-alive")

    def _said(self, choice: int, said: str) -> bytes:
        """A chunk with visible text, set apart from what was said before."""
        apart = APART if choice in self._texts else ""
        self._texts.add(choice)
        self._apart.discard(choice)
        return self._own_chunk(choice, {"content": apart + said})

    def _own_chunk(self, choice: int, delta: Json, finish: str | None = None) -> bytes:
        self._opened = True
        if choice not in self._roles:
            delta = {"role": "assistant", **delta}
            self._roles.add(choice)
            self._roles_before.add(choice)
        record = {"index": choice, "delta": delta, "logprobs": None, "finish_reason": finish}
        return sse.event(dumped({**self._own_head(), "choices": [record]}))

    def _own_head(self) -> Json:
        if not self._head:
            self._head = {"id": self._answer_id, "created": 0, "model": self._request.model}
        return {"id": self._head["id"], "object": "chat.completion.chunk", **self._head}

    def _usage_so_far(self) -> Usage | None:
        known = [usage for usage in (self._usage_before, self._usage) if usage is not None]
        return sum(known, Usage()) if known else None

    # --- what is known of the answer ---

    def _learn(self, frame: Frame) -> None:
        for event in frame.events:
            if isinstance(event, CallReady):
                self._calls[event.call.key] = event.call
            elif isinstance(event, UsageSeen):
                self._usage = event.usage

    def _adopt_head(self, frame: Frame) -> None:
        """The first chunk names the answer, for all that follows."""
        if not self._head and isinstance(frame.payload, Chunk):
            value = frame.payload.value
            created = value.get("created")
            if text(value.get("id")):
                self._head = {
                    "id": value["id"],
                    "created": created if isinstance(created, int) else 0,
                    "model": text(value.get("model")) or self._request.model,
                }

    def _is_place_for_note(self, frame: Frame, choice: int) -> bool:
        """The first kept call of the choice, or its end, or the end of everything."""
        payload = frame.payload
        if not isinstance(payload, Chunk):
            return isinstance(payload, Done | Broken)
        kept = any(piece.key[0] == choice and piece.key not in self._refused for piece in payload.pieces)
        ends = any(
            (isinstance(event, ChoiceEnded) and event.choice == choice) or isinstance(event, StreamFailed)
            for event in frame.events
        )
        return kept or ends

    # --- one frame ---

    def _written(self, frame: Frame) -> bytes:
        payload = frame.payload
        if isinstance(payload, Broken):
            return self.failed(payload.problem) if payload.problem is not None else b""
        if isinstance(payload, Done):
            self._done = True
        if not isinstance(payload, Chunk):
            return frame.raw
        if frame.usage_only and not self._request.asks_usage:
            return b""
        self._adopt_head(frame)
        edited = self._edited(payload) if self._may_change(payload) else payload.value
        if edited is None:
            return b""
        self._remember(frame, edited)
        return frame.raw if edited == payload.value else sse.event(dumped(edited), payload.name)

    def _may_change(self, chunk: Chunk) -> bool:
        return bool(
            self._continued or chunk.pieces or self._refused or self._roles_before or self._usage_before
        )

    def _remember(self, frame: Frame, sent: Json) -> None:
        self._opened = True
        for event in frame.events:
            if isinstance(event, TextDelta):
                self._texts.add(event.choice)
            elif isinstance(event, ChoiceEnded):
                self._ended.add(event.choice)
            elif isinstance(event, UsageSeen):
                self._usage_sent = self._usage_sent or isinstance(sent.get("usage"), dict)
        for place, choice in enumerate(sent.get("choices") or ()):
            if "role" in (choice.get("delta") or {}):
                self._roles.add(choice_number(choice, place))

    def _edited(self, chunk: Chunk) -> Json | None:
        """The chunk as the agent may see it; None: nothing is left of it."""
        value = dict(chunk.value)
        if self._continued:
            value |= {key: known for key, known in self._head.items() if value.get(key) is not None}
        if self._usage_before is not None:
            _add_usage(value, self._usage_before)
        choices = value.get("choices")
        if choices:
            left = [
                edited
                for place, choice in enumerate(choices)
                if (edited := self._choice(chunk, place, choice))
            ]
            if not left and not isinstance(value.get("usage"), dict) and not value.get("error"):
                return None
            value["choices"] = left
        return value

    def _choice(self, chunk: Chunk, place: int, choice: Json) -> Json | None:
        number = choice_number(choice, place)
        if number in self._ended_before:
            return None
        edited = dict(choice)
        delta = choice.get("delta")
        if delta:
            pieces = [piece for piece in chunk.pieces if piece.choice_at == place]
            edited["delta"] = self._delta(number, delta, pieces)
        if text(choice.get("finish_reason")) in CALL_FINISHES and self._is_emptied(number):
            edited["finish_reason"] = ORDINARY_FINISH
        if (
            edited.get("delta") != delta
            and not choice.get("finish_reason")
            and self._is_empty(number, edited)
        ):
            return None
        return edited

    def _is_empty(self, number: int, choice: Json) -> bool:
        """The delta says nothing that the agent does not know."""
        return not any(
            value for key, value in choice["delta"].items() if key != "role" or number not in self._roles
        )

    def _is_emptied(self, number: int) -> bool:
        """The choice had calls, and none of them was released."""
        return not self._kept.get(number) and any(choice == number for choice, _ in self._refused)

    def _delta(self, number: int, delta: Json, pieces: list[Piece]) -> Json:
        edited = dict(delta)
        if number in self._roles_before:
            edited.pop("role", None)
        if pieces:
            entries = list(self._entries(delta, [piece for piece in pieces if piece.at is not None]))
            if entries:
                edited["tool_calls"] = entries
            else:
                edited.pop("tool_calls", None)
            if not all(self._keeps_legacy(piece) for piece in pieces if piece.at is None):
                edited.pop("function_call", None)
        if number in self._apart and delta.get("content"):
            self._apart.discard(number)
            edited["content"] = _set_apart(delta["content"])
        return edited

    # --- calls ---

    def _keeps_legacy(self, piece: Piece) -> bool:
        if piece.key in self._refused:
            return False
        self._count(piece)
        return True

    def _entries(self, delta: Json, pieces: list[Piece]) -> Iterator[Json]:
        """The entries that stay: those of kept calls; where none was refused also the empty ones."""
        by_place = {piece.at: piece for piece in pieces}
        gone = any(piece.key in self._refused for piece in pieces)
        for at, entry in enumerate(delta.get("tool_calls") or ()):
            piece = by_place.get(at)
            if piece is None:
                if not gone:
                    yield entry
            elif piece.key not in self._refused:
                self._count(piece)
                yield self._entry(entry, piece)

    def _count(self, piece: Piece) -> None:
        if piece.key not in self._seen:
            self._seen.add(piece.key)
            self._kept[piece.key[0]] = self._kept.get(piece.key[0], 0) + 1

    def _entry(self, entry: Json, piece: Piece) -> Json:
        """Id and name stand on a call's first piece and nowhere else, since clients join what is repeated."""
        edited = dict(entry)
        call = self._calls.get(piece.key)
        form = call_form(entry)
        if not piece.first:
            if entry.get("id"):
                del edited["id"]
            if form and entry[form].get("name"):
                edited[form] = {key: value for key, value in entry[form].items() if key != "name"}
        elif call is not None:
            if call.id != entry.get("id"):
                edited["id"] = call.id
                if form and not entry.get("type"):
                    edited["type"] = form
            if form and call.name != entry[form].get("name"):
                edited[form] = entry[form] | {"name": call.name}
        if entry.get("index") is not None:
            edited["index"] = self._index(piece.key, entry["index"])
        return edited

    def _index(self, key: CallKey, wire: Any) -> int | str:
        """The index under which the agent gets the call: its own, unless that leaves a gap or is taken already."""
        if key not in self._place_of:
            taken = self._places.setdefault(key[0], [])
            loses = any(choice == key[0] for choice, _ in self._refused)
            place = wire
            if loses or wire in taken:
                place = len(taken)
                while place in taken:
                    place += 1
            taken.append(place)
            self._place_of[key] = place
        return self._place_of[key]


def with_text(value: Json, said: str) -> Json:
    """The chunk with other visible text in its first choice."""
    choices = list(value.get("choices") or ())
    for place, choice in enumerate(choices):
        delta = choice.get("delta")
        if choice_number(choice, place) == 0 and isinstance(delta, dict) and (said or "content" in delta):
            content = delta.get("content")
            choices[place] = {**choice, "delta": {**delta, "content": with_other_text(content, said)}}
            said = ""
    return {**value, "choices": choices} if choices else value


def _set_apart(content: object) -> object:
    if isinstance(content, list):
        return [{"type": "text", "text": APART}, *content]
    return APART + content if isinstance(content, str) else content


def _add_usage(value: Json, more: Usage) -> None:
    """Adds the tokens of earlier answers wherever the chunk carries usage."""
    if isinstance(value.get("usage"), dict):
        value["usage"] = usage_with(value["usage"], more)
    nested = value.get("x_groq")
    if isinstance(nested, dict) and isinstance(nested.get("usage"), dict):
        value["x_groq"] = nested | {"usage": usage_with(nested["usage"], more)}
