"""Streams of Ollama's chat API: one JSON object a line, the last one says that it is done.

Laws: a call comes whole in one line, and is ready there; a line that cannot be read, or that readers could take
differently, fails the stream and is never passed on. Edits are splices in the provider's own lines.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

import orjson

from proxy.core import json_text
from proxy.core.json_text import Span, Splice, quoted
from proxy.core.messages import (
    CallDelta,
    CallKey,
    CallReady,
    ChoiceEnded,
    Event,
    Frame,
    Malformed,
    Problem,
    Request,
    StreamEnded,
    StreamFailed,
    TextDelta,
    ToolCall,
    Turn,
    TurnStarted,
    Usage,
    UsageSeen,
)

from .ollama_parts import (
    APART,
    MESSAGE,
    ORDINARY_FINISH,
    TOP,
    CallIds,
    Json,
    calls_edit,
    error_body,
    object_at,
    problem_of,
    said_message,
    usage_edit,
    usage_of,
    usage_record,
    wire_calls,
)
from .sse import MAX_EVENT_BYTES
from .values import dumped, loaded, text

_BROKEN = Problem(
    502, "upstream_unreadable", "The provider sent a line that cannot be read; the answer ends here."
)
_NO_TIME = "1970-01-01T00:00:00Z"
# Some clients cut a text into lines at these as well; all other such characters JSON has to escape anyhow.
_LINE_ENDS = {ord(letter): f"\\u{ord(letter):04x}" for letter in "\u0085\u2028\u2029"}


@dataclass(frozen=True, slots=True)
class Line:
    """A line for the writer."""

    value: Json
    keys: tuple[CallKey, ...] = ()
    """Of the entries of its `tool_calls`."""


@dataclass(frozen=True, slots=True)
class Broken:
    """A line that must not leave as it is. No problem: it was cut off, and there is nothing to say about it."""

    problem: Problem | None = None


class OllamaReader:
    """Reads one streamed answer."""

    def __init__(self) -> None:
        self._pending = bytearray()
        self._ids = CallIds()
        self._started = False
        self._model = self._finish = ""
        self._text: list[str] = []
        self._thinking: list[str] = []
        self._calls: list[ToolCall] = []
        self._written: list[bytes] = []
        self._usage: Usage | None = None
        self._error: Problem | None = None

    def feed(self, chunk: bytes) -> list[Frame]:
        """The frames that are complete with these bytes. Raises Malformed where a line is too long."""
        head, end, rest = chunk.rpartition(b"\n")
        self._pending += head + end
        frames: list[Frame] = []
        if end:
            frames = [self._frame(line + end) for line in bytes(self._pending).split(end)[:-1]]
            self._pending.clear()
        self._pending += rest
        if len(self._pending) > MAX_EVENT_BYTES:
            raise Malformed("a line is too long")
        return frames

    def end(self) -> list[Frame]:
        """What is left. A last line without its end is read if it is whole otherwise, as clients would."""
        left = bytes(self._pending)
        self._pending.clear()
        if not left:
            return []
        try:
            loaded(left)
        except ValueError:
            return [Frame(left, payload=Broken() if left.strip() else None)]
        return [self._frame(left)]

    def turn(self) -> Turn:
        """The answer as read so far."""
        said, thought = "".join(self._text), "".join(self._thinking)
        return Turn(
            model=self._model,
            text=said,
            calls=tuple(self._calls),
            finish=(self._finish,) if self._finish else (),
            usage=self._usage,
            message=message_for_history(said, thought, self._written),
            error=self._error,
        )

    def _frame(self, raw: bytes) -> Frame:
        if not raw.strip():
            return Frame(raw)
        try:
            value = loaded(raw)
            if not isinstance(value, dict):
                return self._broken(raw)
            top = object_at(raw, Span(0, len(raw)), TOP, "the line")
            if value.get("error"):
                self._error = problem_of(value["error"])
                payload = Broken(self._error) if "message" in value else Line(value)
                return Frame(raw, (StreamFailed(self._error),), payload)
            return self._read(raw, value, top)
        except (Malformed, ValueError):
            return self._broken(raw)

    def _broken(self, raw: bytes) -> Frame:
        self._error = _BROKEN
        return Frame(raw, (StreamFailed(_BROKEN),), Broken(_BROKEN))

    def _read(self, raw: bytes, value: Json, top: json_text.Members) -> Frame:
        events: list[Event] = []
        keys: list[CallKey] = []
        place = top.values.get("message")
        if place is not None and value["message"] is not None:
            message = object_at(raw, place, MESSAGE, "the message")
            found = wire_calls(raw, message)
            for call in found:
                ready = self._ids.call(call, (0, len(self._calls)))
                self._calls.append(ready)
                keys.append(ready.key)
            if found:
                entries = json_text.elements(raw, message.values["tool_calls"].start).values
                self._written += [entry.cut(raw) for entry in entries]
            said = text(value["message"].get("content"))
            self._text.append(said)
            self._thinking.append(text(value["message"].get("thinking")))
            events += [TextDelta(0, said)] if said else []
        if not self._started:
            self._started, self._model = True, text(value.get("model"))
            events.insert(0, TurnStarted("", self._model))
        for ready in self._calls[len(self._calls) - len(keys) :]:
            events += [CallDelta(ready.key), CallReady(ready)]
        usage = usage_of(value)
        if usage is not None:
            self._usage = usage
            events.append(UsageSeen(usage))
        if value.get("done") is True:
            self._finish = text(value.get("done_reason")) or ORDINARY_FINISH
            events += [ChoiceEnded(0, self._finish), StreamEnded()]
        return Frame(raw, tuple(events), Line(value, tuple(keys)))


def message_for_history(said: str, thought: str, calls: Sequence[bytes]) -> bytes:
    """The assistant's message as it goes back into a history, its calls in their own bytes, where those are JSON to all."""
    parts = [said_message(said)[:-1]]
    if thought:
        parts.append(b'"thinking":' + quoted(thought))
    if calls:
        parts.append(b'"tool_calls":[' + b",".join(map(_sound, calls)) + b"]")
    return b",".join(parts) + b"}"


def _sound(call: bytes) -> bytes:
    """The call; without its arguments where only some readers take them for JSON (a NaN, half a surrogate pair)."""
    try:
        orjson.loads(call)
    except orjson.JSONDecodeError:
        entry = loaded(call)
        name = entry["function"]["name"] if isinstance(entry, dict) else ""
        return b'{"function":{"name":' + quoted(name) + b',"arguments":{}}}'
    return call


class OllamaWriter:
    """Writes the agent's stream."""

    def __init__(self, request: Request) -> None:
        self._model = request.model
        self._time = _NO_TIME
        self._said = self._apart = self._done = self._begun = False
        self._refused: set[CallKey] = set()
        self._kept = 0
        self._counts = False
        """Calls are numbered anew, since some are gone or others came before."""
        self._before: Usage | None = None
        self._usage: Usage | None = None

    def passed(self, frame: Frame) -> bytes:
        """The line as the agent gets it."""
        payload = frame.payload
        if isinstance(payload, Broken):
            return self.failed(payload.problem) if payload.problem else b""
        if not isinstance(payload, Line):
            return frame.raw
        self._model = text(payload.value.get("model")) or self._model
        self._time = text(payload.value.get("created_at")) or self._time
        written = self._edited(frame, payload)
        for event in frame.events:
            if isinstance(event, UsageSeen):
                self._usage = event.usage
            elif isinstance(event, StreamEnded):
                self._done = True
        self._said = self._said or any(isinstance(event, TextDelta) for event in frame.events)
        self._begun = self._begun or bool(written)
        return written

    def rewritten(self, frame: Frame, said: str) -> bytes:
        """The line with other visible text."""
        payload = frame.payload
        if not isinstance(payload, Line) or not any(isinstance(event, TextDelta) for event in frame.events):
            return self.passed(frame)
        kept = tuple(event for event in frame.events if not isinstance(event, TextDelta))
        message = payload.value["message"] | {"content": said}
        if not said and self._begun and not _says(message, payload.value):
            return b""
        content = json_text.locate(frame.raw, "message", "content")
        splices = [json_text.replaced(content, quoted(said))] if content else []
        events = (TextDelta(0, said), *kept) if said else kept
        value = payload.value | {"message": message}
        raw = json_text.spliced(frame.raw, splices)
        return self.passed(replace(frame, raw=raw, events=events, payload=replace(payload, value=value)))

    def resolved(self, frames: Sequence[Frame], refused: Collection[CallKey], note: str) -> bytes:
        """Held lines less the refused calls, the note in front of the first call that stays."""
        self._refused.update(refused)
        self._counts = self._counts or bool(refused)
        out = []
        for frame in frames:
            if note and self._is_place_for_note(frame):
                out.append(self._own(note))
                note = ""
            out.append(self.passed(frame))
        return b"".join([*out, self._own(note) if note else b""])

    def abandoned(self, frames: Sequence[Frame], turn: Turn) -> bytes:
        """Another answer will continue the stream. Nothing is open that would have to be closed."""
        del frames
        if turn.usage is not None:
            self._before = (self._before or Usage()) + turn.usage
        self._usage = None
        self._counts, self._apart = True, self._said
        self._refused.clear()
        return b""

    def closing(self, said: str) -> bytes:
        """The text and the last line."""
        if self._done:
            return b""
        self._done = True
        known = [usage for usage in (self._before, self._usage) if usage is not None]
        counts = usage_record(sum(known, Usage())) if known else {}
        last = {"done_reason": ORDINARY_FINISH, "done": True, **counts}
        return (self._own(said) if said else b"") + self._line("", last)

    def failed(self, problem: Problem) -> bytes:
        """An error in the middle of a stream."""
        self._done = True
        return _one_line(error_body(problem))

    def keep_alive(self) -> bytes:
        """Nothing: clients take every line for JSON."""
        return b""

    def _own(self, said: str) -> bytes:
        apart = APART if self._said else ""
        self._said, self._apart = True, False
        return self._line(apart + said, {"done": False})

    def _line(self, said: str, more: Json) -> bytes:
        self._begun = True
        message = {"role": "assistant", "content": said}
        return _one_line(dumped({"model": self._model, "created_at": self._time, "message": message, **more}))

    def _is_place_for_note(self, frame: Frame) -> bool:
        payload = frame.payload
        keeps = isinstance(payload, Line) and any(key not in self._refused for key in payload.keys)
        ends = any(isinstance(event, StreamEnded | StreamFailed) for event in frame.events)
        return keeps or ends

    def _edited(self, frame: Frame, line: Line) -> bytes:
        """The line less refused calls, with what earlier answers cost; b"": nothing is left of it."""
        raw = frame.raw
        gone = frozenset(at for at, key in enumerate(line.keys) if key in self._refused)
        ends = any(isinstance(event, StreamEnded) for event in frame.events)
        splices: list[Splice] = []
        if ends and self._before is not None:
            splices += usage_edit(raw, json_text.members(raw), self._before)
        place = json_text.locate(raw, "message") if line.keys or self._apart else None
        if place is not None and line.value.get("message"):
            message = json_text.members(raw, place.start)
            left = dict(line.value["message"])
            if line.keys and len(gone) == len(line.keys):
                splices += json_text.object_edit(message, drop={"tool_calls"})
                left.pop("tool_calls", None)
                if not _says(left, line.value):
                    return b""
            elif line.keys:
                splices += calls_edit(raw, message, gone, self._kept if self._counts else None)
            self._kept += len(line.keys) - len(gone)
            if self._apart and left.get("content"):
                self._apart = False
                splices.append(json_text.prepended_text(message.values["content"], APART))
        return json_text.spliced(raw, splices)


def _says(message: Json, line: Json) -> bool:
    """Something is left in the line that an agent would miss."""
    return bool(
        line.get("done") or message.get("content") or message.get("thinking") or message.get("tool_calls")
    )


def _one_line(value: bytes) -> bytes:
    return value.decode().translate(_LINE_ENDS).encode() + b"\n"
