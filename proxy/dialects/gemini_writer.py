"""Writes the agent's stream of a Gemini answer, as events or as one array, over any number of answers of the provider.

Laws: a frame that needs no change leaves as its own bytes; an array that was changed is still one array, with one opening
and one end; a candidate ends once.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from proxy.core import json_text
from proxy.core.json_text import Splice, quoted
from proxy.core.messages import (
    CallKey,
    ChoiceEnded,
    Frame,
    Problem,
    Request,
    StreamFailed,
    TextDelta,
    Turn,
    Usage,
)

from . import sse
from .gemini_answer import answer_record, candidate_number, part_places, read_parts, text_part
from .gemini_parts import (
    APART,
    ORDINARY_FINISH,
    Json,
    error_record,
    finish_of,
    is_visible,
    member,
    promises_calls,
    usage_with,
)
from .gemini_reader import Closed, Piece, Unreadable
from .values import dumped, loaded, objects, text


class GeminiWriter:
    """Writes one stream to one agent."""

    def __init__(self, request: Request, answer_id: str) -> None:
        """`answer_id` is used if the proxy itself has to open the answer."""
        self._request = request
        self._answer_id = answer_id
        self._is_array = request.stream_type == "application/json"
        # What the agent has got, over all answers.
        self._id = ""
        self._elements = 0
        self._line_end = b"\r\n"  # as the API writes it, until it is seen to write another
        self._exact = True  # all that left is the provider's own, delimiters included
        self._over = False
        self._closed = False
        self._texted = False
        self._usage_before: Usage | None = None
        self._begin_answer()

    def _begin_answer(self) -> None:
        self._apart = self._texted
        self._continues = self._elements > 0
        self._refused: set[CallKey] = set()
        self._kept: set[int] = set()  # choices with a call that left
        self._unsigned: dict[int, str] = {}  # signatures of refused calls, by choice
        self._note = ""
        self._waiting: list[int] = []  # choices that wait for the note

    # --- frames of the provider ---

    def passed(self, frame: Frame) -> bytes:
        """The frame as the agent gets it."""
        payload = frame.payload
        if self._closed:
            # White space behind the end of an array that nobody changed.
            return frame.raw if self._exact and not self._over and payload is None else b""
        if isinstance(payload, Unreadable):
            return self.failed(payload.problem) if payload.problem is not None else b""
        if isinstance(payload, Closed):
            front = self._rest_of_note()
            return front + self._array_end(frame.raw)
        if not isinstance(payload, Piece):
            return frame.raw if self._exact or not self._is_array else b""
        if not self._elements:
            self._is_array = payload.in_array  # what the provider sends, whatever was asked
        self._learn(frame)
        data = self._edited(payload, frame)
        if data is None:
            return b""
        self._remember(frame, payload.value)
        if data is payload.data and (self._exact or not self._is_array):
            self._elements += 1
            return frame.raw
        return self._element(data)

    def rewritten(self, frame: Frame, said: str) -> bytes:
        """The frame with other visible text in its first choice."""
        payload = frame.payload
        if not isinstance(payload, Piece):
            return self.passed(frame)
        kept = tuple(one for one in frame.events if not (isinstance(one, TextDelta) and one.choice == 0))
        if not said and not kept and self._elements:
            self._exact = False
            return b""
        events = (TextDelta(0, said), *kept) if said else kept
        self._exact = False
        changed = _with_text(payload, said)
        self._learn(frame)
        raw = b"" if payload.in_array else self._event(changed.data)
        return self.passed(replace(frame, raw=raw, payload=changed, events=events))

    def resolved(self, frames: Sequence[Frame], refused: Collection[CallKey], note: str) -> bytes:
        """Held frames less the refused calls, with the note in every choice that loses a call."""
        self._refused.update(refused)
        if note:
            self._note = note
            self._waiting = sorted({choice for choice, _ in refused} or {0})
        return b"".join([*map(self.passed, frames), self._rest_of_note()])

    def abandoned(self, frames: Sequence[Frame], turn: Turn) -> bytes:
        """Another answer will continue the stream. Nothing is open that would have to be closed."""
        del frames
        if turn.usage is not None:
            self._usage_before = (self._usage_before or Usage()) + turn.usage
        if self._elements:
            self._exact = False
        self._begin_answer()
        return b""

    # --- words of the proxy ---

    def closing(self, said: str) -> bytes:
        """The text as the rest of the answer, and its ordinary end."""
        if self._closed:
            return b""
        text_ = (APART if self._texted and said else "") + said
        record = answer_record(
            self._request, self._id or self._answer_id, text_, self._usage_before or Usage(), ends=True
        )
        out = self._element(dumped(record)) + self._array_end(b"")
        self._over = self._closed = True
        return out

    def failed(self, problem: Problem) -> bytes:
        """An error in the middle of the stream."""
        if self._closed:
            return b""
        out = self._element(dumped(error_record(problem))) + self._array_end(b"")
        self._over = self._closed = True
        return out

    def keep_alive(self) -> bytes:
        """An empty event: Google's clients take a comment for content, and one of them a lone blank line for the beginning
        of the next event. Around elements of an array white space means nothing either."""
        return self._line_end * 2

    # --- one frame ---

    def _learn(self, frame: Frame) -> None:
        if frame.raw.endswith(b"\n"):
            self._line_end = b"\r\n" if frame.raw.endswith(b"\r\n") else b"\n"

    def _event(self, data: bytes) -> bytes:
        """With the provider's line ends: a client of Google's takes two events for one where theirs differ."""
        return sse.event(data).replace(b"\n", self._line_end)

    def _element(self, data: bytes) -> bytes:
        """A piece of the stream with this JSON."""
        self._elements += 1
        if not self._is_array:
            return self._event(data)
        self._exact = False
        return (b"[" if self._elements == 1 else b",\r\n") + data

    def _array_end(self, raw: bytes) -> bytes:
        self._closed = True
        if not self._is_array:
            return raw
        if raw and self._exact:
            return raw
        return b"\n]\n" if self._elements else b"[]\n"

    def _rest_of_note(self) -> bytes:
        """The note, where no frame had a place for it."""
        if not self._waiting or not self._note:
            return b""
        waiting, self._waiting = self._waiting, []
        candidates = [
            {"content": {"role": "model", "parts": [{"text": self._noted()}]}, "index": choice}
            for choice in waiting
        ]
        return self._element(dumped({"candidates": candidates, "responseId": self._id or self._answer_id}))

    def _noted(self) -> str:
        said = (APART if self._texted else "") + self._note
        self._texted, self._apart = True, False
        return said

    def _remember(self, frame: Frame, value: Json) -> None:
        self._id = self._id or text(value.get("responseId"))
        if any(isinstance(event, TextDelta) for event in frame.events):
            self._texted = True

    def _edited(self, piece: Piece, frame: Frame) -> bytes | None:
        """The piece as the agent may see it, what stays to the letter; None: nothing is left of it."""
        data, value = piece.data, piece.value
        if not (self._refused or self._waiting or self._continues or self._usage_before):
            return data
        splices: list[Splice] = []
        if self._continues and self._id:
            splices += _replaced(data, "responseId", quoted(self._id))
        if self._usage_before is not None and isinstance(value.get("usageMetadata"), dict):
            total = usage_with(value["usageMetadata"], self._usage_before)
            splices += _replaced(data, "usageMetadata", dumped(total))
        candidates = objects(value.get("candidates"))
        ends = any(isinstance(event, ChoiceEnded | StreamFailed) for event in frame.events)
        left = 0
        for at, candidate in enumerate(candidates):
            parts, changed = self._parts(piece, at, candidate, ends=ends)
            left += len(parts)
            splices += _with_parts(data, at, candidate, parts) if changed else []
            number = candidate_number(candidate, at)
            if promises_calls(finish_of(candidate)) and number not in self._kept and self._refused:
                splices += _replaced(data, "candidates", at, "finishReason", quoted(ORDINARY_FINISH))
        if not (ends or left) and any(key in self._refused for key in piece.calls.values()):
            self._exact = False
            return None
        return json_text.spliced(data, splices)

    def _parts(self, piece: Piece, at: int, candidate: Json, *, ends: bool) -> tuple[list[bytes], bool]:
        """The parts of a candidate as they leave, and whether that is another list."""
        number = candidate_number(candidate, at)
        parts: list[bytes] = []
        changed = False
        for place, part in enumerate(read_parts(candidate)):
            key = piece.calls.get((at, place))
            raw = piece.part(at, place)
            if key in self._refused:
                changed = True
                signature = member(part, "thoughtSignature")
                if isinstance(signature, str) and number not in self._kept:
                    self._unsigned.setdefault(number, signature)
                continue
            edited = raw
            if key is not None:
                if number in self._waiting:
                    self._waiting.remove(number)
                    parts.append(text_part(self._noted()))
                    changed = True
                edited = self._signed(raw, part, number)
                self._kept.add(number)
            elif is_visible(part) and part["text"] and self._apart and number == 0:
                self._apart = False
                said = {"text": quoted(APART + part["text"])}
                edited = json_text.spliced(raw, json_text.object_edit(json_text.members(raw), put=said))
            changed |= edited is not raw
            parts.append(edited)
        if (finish_of(candidate) or ends) and number in self._waiting:
            self._waiting.remove(number)
            parts.append(text_part(self._noted()))
            changed = True
        return parts, changed

    def _signed(self, raw: bytes, part: Json, number: int) -> bytes:
        """The first call that stays carries the signature of the step."""
        signature = self._unsigned.pop(number, "")
        if not signature or member(part, "thoughtSignature") is not None:
            return raw
        signed = {"thoughtSignature": quoted(signature)}
        return json_text.spliced(raw, json_text.object_edit(json_text.members(raw), put=signed))


def _replaced(data: bytes, *path: str | int | bytes) -> list[Splice]:
    """The value at a path gives way to the last argument, where it is there."""
    *steps, value = path
    span = json_text.locate(data, *[step for step in steps if not isinstance(step, bytes)])
    return [json_text.replaced(span, value)] if span is not None and isinstance(value, bytes) else []


def _with_parts(data: bytes, at: int, candidate: Json, parts: Sequence[bytes]) -> list[Splice]:
    written = b"[" + b",".join(parts) + b"]"
    content = candidate.get("content")
    if isinstance(content, dict) and isinstance(content.get("parts"), list):
        return _replaced(data, "candidates", at, "content", "parts", written)
    span = json_text.locate(data, "candidates", at)
    whole = {"content": b'{"role":"model","parts":' + written + b"}"}
    return json_text.object_edit(json_text.members(data, span.start), put=whole) if span is not None else []


def _with_text(piece: Piece, said: str) -> Piece:
    """The piece with other visible text in choice 0, and where its calls stand then."""
    waiting = [text_part(said)] if said else []
    splices: list[Splice] = []
    calls = dict(piece.calls)
    for at, candidate in enumerate(objects(piece.value.get("candidates"))):
        if candidate_number(candidate, at) != 0:
            continue
        parts: list[bytes] = []
        for place, part in enumerate(read_parts(candidate)):
            key = calls.pop((at, place), None)
            if key is None and is_visible(part):
                parts += waiting
                waiting = []
                continue
            if key is not None:
                calls[at, len(parts)] = key
            parts.append(piece.part(at, place))
        splices += _with_parts(piece.data, at, candidate, parts)
    data = json_text.spliced(piece.data, splices)
    value = loaded(data)
    return Piece(value if isinstance(value, dict) else {}, data, calls, part_places(data), piece.in_array)
