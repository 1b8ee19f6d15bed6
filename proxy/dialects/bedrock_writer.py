"""Writes the agent's stream of the Converse API, over any number of the provider's answers.

Laws: blocks are numbered 0, 1, 2 … as they leave, whatever became of others; every block that was begun is stopped; there
is one opening and one end. A message that fits as it is leaves verbatim; one that does not keeps its headers.
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
    UsageSeen,
)

from . import bedrock_frames as frames_of
from .bedrock_parts import (
    APART,
    ORDINARY_FINISH,
    TOOLS_FINISH,
    exception_type,
    usage_edit,
    usage_record,
)
from .bedrock_reader import Broken, Said
from .values import dumped, text


class ConverseWriter:
    """Writes the agent's stream."""

    def __init__(self, request: Request) -> None:
        del request  # the answer names nothing of it
        self._opened = self._ended = self._over = self._said = self._apart = False
        self._next = 0
        self._open: dict[int, None] = {}
        self._text_at: int | None = None
        self._before: Usage | None = None
        # Of this answer.
        self._places: dict[int, int] = {}
        self._unsaid: set[int] = set()
        self._refused: set[CallKey] = set()
        self._kept = 0
        self._usage: Usage | None = None

    # --- messages of the provider ---

    def passed(self, frame: Frame) -> bytes:
        """The message as the agent gets it."""
        payload = frame.payload
        if isinstance(payload, Broken):
            return self.failed(payload.problem) if payload.problem else b""
        if not isinstance(payload, Said):
            return frame.raw
        for event in frame.events:
            if isinstance(event, UsageSeen):
                self._usage = event.usage
        kind = payload.message.kind
        if payload.index is not None:
            return self._of_block(frame, payload, payload.index)
        if kind == "messageStart":
            opened, self._opened = self._opened, True
            return b"" if opened else frame.raw
        if kind == "messageStop":
            return self._stop(payload)
        if kind == "metadata":
            self._over = True
            return self._with(payload, usage_edit(payload.message.payload, self._before))
        if any(isinstance(event, StreamFailed) for event in frame.events):
            self._ended = self._over = True
        return frame.raw

    def rewritten(self, frame: Frame, said: str) -> bytes:
        """The message with other visible text."""
        payload = frame.payload
        if not isinstance(payload, Said) or not any(isinstance(event, TextDelta) for event in frame.events):
            return self.passed(frame)
        if not said and payload.index is not None:
            self._unsaid.add(payload.index)
            return b""
        body = payload.message.payload
        place = json_text.locate(body, "delta", "text")
        edited = json_text.spliced(body, [json_text.replaced(place, quoted(said))] if place else [])
        raw = frames_of.with_payload(payload.message, edited)
        value = payload.value | {"delta": payload.value["delta"] | {"text": said}}
        message = replace(payload.message, raw=raw, payload=edited)
        events = tuple(TextDelta(0, said) if isinstance(one, TextDelta) else one for one in frame.events)
        return self.passed(
            replace(frame, raw=raw, payload=replace(payload, message=message, value=value), events=events)
        )

    def resolved(self, frames: Sequence[Frame], refused: Collection[CallKey], note: str) -> bytes:
        """Held messages less the refused calls, the note in front of the first call that stays."""
        self._refused.update(refused)
        out = []
        for frame in frames:
            if note and self._is_place_for_note(frame):
                out.append(self._own(note))
                note = ""
            out.append(self.passed(frame))
        return b"".join([*out, self._own(note) if note else b""])

    def abandoned(self, frames: Sequence[Frame], turn: Turn) -> bytes:
        """Another answer will continue the stream: what is open is stopped."""
        del frames
        if turn.usage is not None:
            self._before = (self._before or Usage()) + turn.usage
        closed = self._stops()
        self._apart, self._usage, self._kept = self._said, None, 0
        for own in (self._places, self._unsaid, self._refused):
            own.clear()
        return closed

    # --- words of the proxy ---

    def closing(self, said: str) -> bytes:
        """The text in a block of its own, and the end."""
        if self._over:
            return b""
        self._over = True
        out = [self._opening(), self._stops(), self._own(said) if said else b""]
        if not self._ended:
            self._ended = True
            out.append(frames_of.event("messageStop", dumped({"stopReason": ORDINARY_FINISH})))
        usage = sum((usage for usage in (self._before, self._usage) if usage is not None), Usage())
        record = {"usage": usage_record(usage), "metrics": {"latencyMs": 0}}
        return b"".join([*out, frames_of.event("metadata", dumped(record))])

    def failed(self, problem: Problem) -> bytes:
        """An exception in the middle of a stream."""
        self._ended = self._over = True
        fields = {key: value for key, value in problem.fields.items() if key not in {"message", "reason"}}
        said = dumped({"message": problem.message, "reason": problem.code, **fields})
        return frames_of.exception(exception_type(problem), said)

    def keep_alive(self) -> bytes:
        """No text, added to a text that was said: this format has no comments, and clients stumble over events that they
        do not know. Nothing where nothing was said yet."""
        if self._text_at is None or self._ended:
            return b""
        return frames_of.event(
            "contentBlockDelta", dumped({"contentBlockIndex": self._text_at, "delta": {"text": ""}})
        )

    def _opening(self) -> bytes:
        opened, self._opened = self._opened, True
        return b"" if opened else frames_of.event("messageStart", dumped({"role": "assistant"}))

    def _stops(self) -> bytes:
        """The ends of all blocks that are open."""
        stops = [frames_of.event("contentBlockStop", dumped({"contentBlockIndex": at})) for at in self._open]
        self._open.clear()
        return b"".join(stops)

    def _own(self, said: str) -> bytes:
        """A block of text by the proxy, set apart from what was said before."""
        apart = APART if self._said else ""
        self._said, self._apart = True, False
        at, self._next = self._next, self._next + 1
        self._text_at = at
        delta = {"contentBlockIndex": at, "delta": {"text": apart + said}}
        stop = dumped({"contentBlockIndex": at})
        return (
            self._opening()
            + frames_of.event("contentBlockDelta", dumped(delta))
            + frames_of.event("contentBlockStop", stop)
        )

    def _is_place_for_note(self, frame: Frame) -> bool:
        payload = frame.payload
        keeps = isinstance(payload, Said) and payload.key is not None and payload.key not in self._refused
        return keeps or any(isinstance(event, ChoiceEnded | StreamFailed) for event in frame.events)

    # --- one message ---

    def _stop(self, said: Said) -> bytes:
        self._ended = True
        splices: list[Splice] = []
        if text(said.value.get("stopReason")) == TOOLS_FINISH and self._refused and not self._kept:
            place = json_text.locate(said.message.payload, "stopReason")
            splices += [json_text.replaced(place, quoted(ORDINARY_FINISH))] if place else []
        return self._with(said, splices)

    def _of_block(self, frame: Frame, said: Said, index: int) -> bytes:
        if said.key is not None and said.key in self._refused:
            return b""
        kind, body = said.message.kind, said.message.payload
        if kind == "contentBlockStop" and index in self._unsaid and index not in self._places:
            return b""
        at = self._places.get(index)
        if at is None:
            at = self._places[index] = self._next
            self._next += 1
        if kind == "contentBlockStop":
            self._open.pop(at, None)
        else:
            self._open[at] = None
        self._opened = True
        splices: list[Splice] = []
        place = json_text.locate(body, "contentBlockIndex")
        if at != index and place is not None:
            splices.append(json_text.replaced(place, b"%d" % at))
        if kind == "contentBlockStart" and said.key is not None:
            self._kept += 1
            use = json_text.locate(body, "start", "toolUse") if said.made_id else None
            if use is not None:
                members = json_text.members(body, use.start)
                splices += json_text.object_edit(members, put={"toolUseId": quoted(said.made_id)})
        if any(isinstance(event, TextDelta) for event in frame.events):
            words = json_text.locate(body, "delta", "text") if self._apart else None
            splices += [json_text.prepended_text(words, APART)] if words else []
            self._said, self._apart, self._text_at = True, False, at
        return self._with(said, splices)

    def _with(self, said: Said, splices: Sequence[Splice]) -> bytes:
        if not splices:
            return said.message.raw
        edited = json_text.spliced(said.message.payload, splices)
        return frames_of.with_payload(said.message, edited)
