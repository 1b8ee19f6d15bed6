"""Writes the agent's stream of the Messages API, over any number of the provider's answers.

Laws: blocks are numbered 0, 1, 2 … as they leave, whatever became of others; every block that was begun is stopped;
there is one opening and one end. A frame that fits as it is leaves verbatim; one that does not is edited in place.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace

import orjson

from proxy.core.messages import CallDelta, CallKey, CallReady, Frame, Problem, Request, Turn

from .anthropic_blocks import (
    COUNTS,
    ORDINARY_FINISH,
    TOOLS_FINISH,
    Json,
    blocks_with_text,
    compact,
    counts_from,
    counts_of,
    error_type,
    object_of,
    place_of_text,
    text_of,
    visible,
)
from .anthropic_edits import SEPARATOR, content_edit, rewritten, text_block
from .anthropic_wire import UNREADABLE, UNREADABLE_KIND, Wire, block_texts, exact_input, index_of
from .sse import comment, event

_Change = tuple[tuple[str, ...], object]


class AnthropicWriter:
    """A `Writer` for one agent's stream."""

    def __init__(self, request: Request, answer_id: str) -> None:
        self._model = request.model
        self._answer_id = answer_id
        self._opened = False  # an opening was sent
        self._closed = False  # the finish word was sent
        self._over = False  # nothing follows any more
        self._next = 0  # the number of the next block
        self._open: dict[int, None] = {}  # numbers of blocks begun and not stopped, in order
        self._base: dict[str, int] = {}  # counts of abandoned answers
        self._texted = False  # visible text was sent
        self._apart = False  # the next text is to be set apart from the one before
        self._renumbered = False
        self._write: dict[str, Callable[[bytes, Wire], bytes]] = {
            "message_start": self._opening_frame,
            "content_block_start": self._start_frame,
            "content_block_delta": self._delta_frame,
            "content_block_stop": self._stop_frame,
            "message_delta": self._finish_frame,
            "message_stop": self._end_frame,
            "error": self._error_frame,
            UNREADABLE_KIND: self._unreadable_frame,
        }
        self._begin_answer()

    def _begin_answer(self) -> None:
        self._begun = False  # this answer's own opening was seen
        self._counts: dict[str, int] = {}
        self._places: dict[int | str | None, int | None] = {}  # its index -> number sent; None: taken out
        self._refused: set[CallKey] = set()
        self._blank: set[CallKey] = set()  # calls whose arguments are nothing but white space
        self._kept = 0
        self._note = ""

    # --- the protocol -------------------------------------------------------------------------------------------

    def passed(self, frame: Frame) -> bytes:
        """The frame's own bytes, re-labelled where the stream asks for it. What broke off is left out."""
        wire = frame.payload if isinstance(frame.payload, Wire) else Wire()
        if self._over or not wire.whole:
            return b""
        write = self._write.get(wire.kind)
        return write(frame.raw, wire) if write else frame.raw

    def rewritten(self, frame: Frame, text: str) -> bytes:
        """The frame with other visible text."""
        wire = frame.payload if isinstance(frame.payload, Wire) else Wire()
        path, old = place_of_text(wire.body)
        if path is None or not wire.whole:
            return self.passed(frame)
        if not text and wire.kind == "content_block_delta":
            return b""
        value: object = text
        if isinstance(old, list):
            value = blocks_with_text(old, text)
        data = rewritten(wire.data, wire.body, [(path, value)])
        body = orjson.loads(data)
        return self.passed(
            replace(frame, raw=event(data, wire.kind), payload=replace(wire, data=data, body=body))
        )

    def resolved(self, frames: Sequence[Frame], refused: Collection[CallKey], note: str) -> bytes:
        """The frames without the refused calls and without those that never became whole."""
        events = [event for frame in frames for event in frame.events]
        ready = [event.call for event in events if isinstance(event, CallReady)]
        pieces = {event.key for event in events if isinstance(event, CallDelta)}
        self._refused |= set(refused) | (pieces - {call.key for call in ready})
        self._blank |= {call.key for call in ready if not call.arguments.strip()}
        self._note = note or self._note
        return b"".join([*map(self.passed, frames), self._noted()])

    def abandoned(self, frames: Sequence[Frame], turn: Turn) -> bytes:
        """Stops what is open; another answer follows in the same stream."""
        del frames
        counts = counts_from(turn.usage) if turn.usage else self._counts
        self._base = self._with_base(counts)
        stops = self._stops()
        self._begin_answer()
        self._renumbered = self._opened
        self._apart = self._texted
        return stops

    def closing(self, text: str) -> bytes:
        """The ordinary end of the stream, with an opening if none was sent."""
        if self._over:
            return b""
        counts = self._with_base(self._counts)
        parts = [] if self._opened else [self._opening()]
        parts.append(self._stops())
        if not self._closed:
            parts += self._text(text)
            usage = {
                key: counts.get(key, 0) for key in COUNTS if key in counts or not key.startswith("cache")
            }
            delta = {"stop_reason": ORDINARY_FINISH, "stop_sequence": None}
            parts.append(_event({"type": "message_delta", "delta": delta, "usage": usage}))
        parts.append(_event({"type": "message_stop"}))
        self._over = True
        return b"".join(parts)

    def failed(self, problem: Problem) -> bytes:
        """An error event; nothing follows it."""
        if self._over:
            return b""
        self._over = True
        return _event(problem_record(problem))

    def keep_alive(self) -> bytes:
        """A comment."""
        return comment("keep-alive")

    # --- frames by kind -----------------------------------------------------------------------------------------

    def _opening_frame(self, raw: bytes, wire: Wire) -> bytes:
        message = object_of(wire.body.get("message"))
        refused = {place for place, key in enumerate(wire.keys) if key in self._refused}
        if self._begun:
            # The provider opens twice. Clients overlook that, so it passes, unless it brings content.
            return b"" if self._renumbered or wire.keys else raw
        self._begun = True
        self._counts |= counts_of(message.get("usage"))
        if self._opened:
            return self._continued(wire, message, refused)
        self._opened = True
        kept = [place for place in range(len(wire.keys)) if place not in refused]
        calls = [place for place in kept if wire.keys[place] is not None]
        self._kept += len(calls)
        changes: list[_Change] = []
        inserted: dict[int, list[bytes]] = {}
        finish = message.get("stop_reason")
        if self._note and (calls or isinstance(finish, str)):
            inserted[calls[0] if calls else len(wire.keys)] = [self._note_json()]
        if self._must_correct(finish):
            changes.append((("message", "stop_reason"), ORDINARY_FINISH))
        made = {
            place: wire.made_ids[key]
            for place, key in enumerate(wire.keys)
            if key is not None and key in wire.made_ids
        }
        self._next = len(kept) + len(inserted)
        content = message.get("content")
        for place, block in enumerate(content if isinstance(content, list) else ()):
            self._texted |= place not in refused and bool(visible(block))
        if not (refused or made or inserted or changes):
            return raw
        self._renumbered = True
        data = rewritten(wire.data, wire.body, changes)
        return event(content_edit(data, ("message",), refused, made, inserted), wire.kind)

    def _continued(self, wire: Wire, message: Json, refused: Collection[int]) -> bytes:
        """The opening of a further answer is left out; whole blocks and an end in it become events of their own."""
        content = message.get("content")
        texts = block_texts(wire.data, "message", "content")
        parts: list[bytes] = []
        for place, entry in enumerate(content if isinstance(content, list) else ()):
            if place in refused:
                continue
            block = object_of(entry)
            given = exact_input(texts[place] if texts else b"", block)
            if (key := wire.keys[place]) is not None:
                parts.append(self._noted())
                self._kept += 1
                block = {**block, "id": wire.made_ids.get(key, block.get("id"))}
            parts += self._whole_block(block, given)
        if isinstance(finish := message.get("stop_reason"), str):
            word = ORDINARY_FINISH if self._must_correct(finish) else finish
            delta = {"stop_reason": word, "stop_sequence": message.get("stop_sequence")}
            self._closed = True
            usage = self._with_base(self._counts)
            parts += [self._noted(), _event({"type": "message_delta", "delta": delta, "usage": usage})]
        return b"".join(parts)

    def _start_frame(self, raw: bytes, wire: Wire) -> bytes:
        key = wire.keys[0]
        if key in self._refused:
            self._places[index_of(wire.body)] = None
            return b""
        front = b""
        if key is not None:
            front = self._noted()
            self._kept += 1
        number = self._take()
        self._places[index_of(wire.body)] = number
        self._open[number] = None
        block = object_of(wire.body.get("content_block"))
        changes = self._numbered(wire, number) + self._set_apart(visible(block), ("content_block", "text"))
        if key is not None and key in wire.made_ids:
            changes.append((("content_block", "id"), wire.made_ids[key]))
        return front + _changed(raw, wire, changes)

    def _delta_frame(self, raw: bytes, wire: Wire) -> bytes:
        key = wire.keys[0]
        delta = object_of(wire.body.get("delta"))
        if key in self._refused or (key in self._blank and delta.get("partial_json")):
            return b""
        number = self._places.get(index_of(wire.body), -1)
        if number is None or number < 0:
            return b"" if number is None or self._renumbered else raw
        text = text_of(delta.get("text")) if delta.get("type") == "text_delta" else ""
        return _changed(raw, wire, self._numbered(wire, number) + self._set_apart(text, ("delta", "text")))

    def _stop_frame(self, raw: bytes, wire: Wire) -> bytes:
        number = self._places.get(index_of(wire.body), -1)
        if number is None or number < 0:
            return b"" if number is None or self._renumbered else raw
        self._open.pop(number, None)
        return _changed(raw, wire, self._numbered(wire, number))

    def _finish_frame(self, raw: bytes, wire: Wire) -> bytes:
        front = self._noted()
        self._counts |= counts_of(wire.body.get("usage"))
        finish = object_of(wire.body.get("delta")).get("stop_reason")
        self._closed |= isinstance(finish, str)
        changes: list[_Change] = []
        if self._must_correct(finish):
            changes.append((("delta", "stop_reason"), ORDINARY_FINISH))
        if self._base:
            usage = object_of(wire.body.get("usage")) | self._with_base(self._counts)
            changes.append((("usage",), usage))
        return front + _changed(raw, wire, changes)

    def _end_frame(self, raw: bytes, wire: Wire) -> bytes:
        del wire
        front = self._noted()
        self._over = True
        return front + raw

    def _error_frame(self, raw: bytes, wire: Wire) -> bytes:
        del wire
        self._over = True
        return raw

    def _unreadable_frame(self, raw: bytes, wire: Wire) -> bytes:
        del raw, wire
        return self.failed(UNREADABLE)

    # --- parts --------------------------------------------------------------------------------------------------

    def _opening(self) -> bytes:
        self._opened = True
        usage = {"input_tokens": self._base.get("input_tokens", 0), "output_tokens": 0}
        message: Json = {
            "id": self._answer_id,
            "type": "message",
            "role": "assistant",
            "model": self._model,
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
            "usage": usage,
        }
        return _event({"type": "message_start", "message": message})

    def _take(self) -> int:
        self._next += 1
        return self._next - 1

    def _stops(self) -> bytes:
        stops = [_event({"type": "content_block_stop", "index": number}) for number in self._open]
        self._open.clear()
        return b"".join(stops)

    def _numbered(self, wire: Wire, number: int) -> list[_Change]:
        index = wire.body.get("index")
        if type(index) is int and index == number:
            return []
        self._renumbered = True
        return [(("index",), number)]

    def _set_apart(self, text: str, where: tuple[str, ...]) -> list[_Change]:
        """The first text of a continuation begins with a blank line."""
        if not text:
            return []
        apart, self._apart, self._texted = self._apart, False, True
        return [(where, SEPARATOR + text)] if apart else []

    def _text(self, text: str) -> list[bytes]:
        """A block of text, set apart from text before it."""
        if not text:
            return []
        self._apart = self._texted
        return self._whole_block({"type": "text", "text": text}, "")

    def _note_json(self) -> bytes:
        note, self._note = self._note, ""
        self._texted = True
        return text_block(note)

    def _noted(self) -> bytes:
        """The note, if it was not said yet and the answer has begun."""
        if not (self._note and self._opened):
            return b""
        note, self._note = self._note, ""
        return b"".join(self._text(note))

    def _whole_block(self, block: Json, given: str) -> list[bytes]:
        """The events of a block that is all there; `given` is the exact text of its input, if it has one."""
        number = self._take()
        delta: Json = {}
        if text := visible(block):
            delta = {"type": "text_delta", "text": SEPARATOR + text if self._set_apart(text, ()) else text}
            block = {**block, "text": ""}
        elif given:
            delta = {"type": "input_json_delta", "partial_json": given}
            block = {**block, "input": {}}
        start = _event({"type": "content_block_start", "index": number, "content_block": block})
        stop = _event({"type": "content_block_stop", "index": number})
        if not delta:
            return [start, stop]
        return [start, _event({"type": "content_block_delta", "index": number, "delta": delta}), stop]

    def _must_correct(self, finish: object) -> bool:
        return finish == TOOLS_FINISH and bool(self._refused) and not self._kept

    def _with_base(self, counts: Json) -> dict[str, int]:
        """Counts of this answer and of the abandoned ones together."""
        keys = [key for key in COUNTS if key in self._base or key in counts]
        return {key: self._base.get(key, 0) + counts.get(key, 0) for key in keys}


def problem_record(problem: Problem) -> Json:
    """An error as the official SDK expects it, the fields for programs beside its type and message."""
    error = {**problem.fields, "type": error_type(problem), "message": problem.message}
    return {"type": "error", "error": error}


def _event(body: Json) -> bytes:
    return event(compact(body).encode(), body["type"])


def _changed(raw: bytes, wire: Wire, changes: list[_Change]) -> bytes:
    return event(rewritten(wire.data, wire.body, changes), wire.kind) if changes else raw
