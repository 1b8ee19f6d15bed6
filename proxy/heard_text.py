"""A streamed answer in whose text calls are listened for: which frames may leave, and which hold a call."""

from __future__ import annotations

import hashlib
from collections import deque
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from .core.fingerprint import call_fingerprint
from .core.messages import (
    CallDelta,
    CallReady,
    ChoiceEnded,
    Frame,
    Message,
    Role,
    StreamEnded,
    StreamFailed,
    TextDelta,
    ToolCall,
    ToolResult,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from .channels.scanner import Proposed, Region, Scanner
    from .core.messages import Turn
    from .dialects import Reader

FIRST_SLOT = 10_000
"""Calls in text have slots from here on; native ones are far below."""
MOST_HELD_BYTES = 4 * 1024 * 1024
"""A region that is longer than this is held by the gate, which gives up on it."""


@dataclass(slots=True)
class _Kept:
    """A frame that waits until it is known what its text is."""

    frame: Frame
    start: int
    end: int


class HeardText:
    """A `Reader` that adds the calls in the text of the first choice to the frames that hold them."""

    def __init__(self, reader: Reader, scanner: Scanner) -> None:
        """Nothing is read yet."""
        self._reader = reader
        self._waiting: deque[_Kept] = deque()
        self._bytes = 0
        self._calls: list[tuple[Region, tuple[ToolCall, ...]]] = []
        self._ids: dict[str, int] = {}
        self._ended = False
        self.scanner = scanner
        self.spans: dict[int, tuple[int, int]] = {}
        """By the identity of a frame that was given out: which characters of the text it holds."""
        self._given: list[Frame] = []  # keeps identities unique

    def feed(self, chunk: bytes) -> list[Frame]:
        """The frames whose text is known for what it is."""
        return self._taken(self._reader.feed(chunk))

    def end(self) -> list[Frame]:
        """What is left."""
        frames = self._taken(self._reader.end())
        self._end()
        return frames + self._released()

    def turn(self) -> Turn:
        """The answer as read so far, with the calls in its text."""
        turn = self._reader.turn()
        calls = tuple(call for _, found in self._calls for call in found)
        cut = self.scanner.cut
        return replace(turn, text=turn.text if cut is None else turn.text[:cut], calls=turn.calls + calls)

    def _taken(self, frames: Iterable[Frame]) -> list[Frame]:
        out = []
        for frame in frames:
            said = "".join(
                event.text for event in frame.events if isinstance(event, TextDelta) and event.choice == 0
            )
            start = len(self.scanner.text)
            # What was judged has ended: nothing can be added to it.
            is_behind = said and self._ended and self.scanner.regions
            if said and not is_behind:
                self.scanner.feed(said)
                self._ended = False
            if any(
                isinstance(event, StreamEnded | StreamFailed)
                or (isinstance(event, ChoiceEnded) and event.choice == 0)
                for event in frame.events
            ):
                self._end()
            shown = replace(frame, shown="") if is_behind else frame
            self._waiting.append(_Kept(shown, start, len(self.scanner.text)))
            self._bytes += len(frame.raw)
            out += self._released()
        return out

    def _end(self) -> None:
        self._ended = True
        self.scanner.end()

    def _released(self) -> list[Frame]:
        for region in self.scanner.regions[len(self._calls) :]:
            first = FIRST_SLOT + sum(len(calls) for _, calls in self._calls)
            calls = tuple(identified(region.calls, self._ids, first, channel=region.channel))
            self._calls.append((region, calls))
        out = []
        overflows = self._bytes > MOST_HELD_BYTES
        while self._waiting and (self._waiting[0].end <= self.scanner.settled or overflows):
            kept = self._waiting.popleft()
            self._bytes -= len(kept.frame.raw)
            out.append(self._marked(kept, overflows=overflows))
        return out

    def _marked(self, kept: _Kept, *, overflows: bool) -> Frame:
        """The frame with the calls whose text it holds; one that is too long to be known for one begins a call that
        never becomes whole."""
        events: list[CallDelta | CallReady] = []
        if overflows and kept.end > self.scanner.settled:
            events.append(CallDelta((0, FIRST_SLOT - 1)))
        for region, calls in self._calls:
            if kept.start < region.end and kept.end > region.start:
                events += [CallDelta(call.key) for call in calls]
                if kept.end >= region.end:
                    events += [CallReady(call) for call in calls]
        frame = replace(kept.frame, events=(*events, *kept.frame.events)) if events else kept.frame
        cut = self.scanner.cut
        if cut is not None and kept.end > cut and kept.end > kept.start:
            frame = replace(frame, shown=self.scanner.text[kept.start : max(kept.start, cut)])
        self.spans[id(frame)] = (kept.start, kept.end)
        self._given.append(frame)
        return frame


# --- parts -----------------------------------------------------------------------------------------------------------


def identified(
    calls: Iterable[Proposed], seen: dict[str, int], first: int = FIRST_SLOT, *, channel: str
) -> Iterator[ToolCall]:
    """The calls with ids made from what they say and how often that was said in this answer: the same when they are made
    and when they come back in a history."""
    for place, (name, arguments) in enumerate(calls):
        meaning = call_fingerprint(name, arguments)
        seen[meaning] = seen.get(meaning, 0) + 1
        yield ToolCall(
            f"text_{meaning[:24]}_{seen[meaning]}", name, arguments, (0, first + place), channel=channel
        )


def calls_of(scanner: Scanner) -> Iterator[ToolCall]:
    """All calls of a text."""
    seen: dict[str, int] = {}
    first = FIRST_SLOT
    for region in scanner.regions:
        yield from identified(region.calls, seen, first, channel=region.channel)
        first += len(region.calls)


def paired_results(calls: Sequence[ToolCall], texts: Sequence[str]) -> tuple[ToolResult, ...]:
    """Results in order; of several calls with one text of results each has it."""
    if len(texts) < len(calls):
        texts = [*texts, *[texts[-1]] * (len(calls) - len(texts))]
    return tuple(ToolResult(call.id, text, is_hearsay=True) for call, text in zip(calls, texts, strict=False))


def said_by(role: Role, text: str) -> Message:
    """A message that is known by its words alone, however they end."""
    digest = hashlib.sha256(f"{role}\0{text.rstrip()}".encode("utf-8", "surrogatepass")).digest()[:16]
    return Message(role, text, digest=digest)


def applied_edits(text: str, start: int, edits: Iterable[tuple[int, int, str]]) -> str:
    """The text, which begins at `start`, with what overlaps an edit replaced; the replacement stands where it begins."""
    out: list[str] = []
    at = start
    end = start + len(text)
    for first, last, instead in edits:
        if last <= start or first >= end:
            continue
        out.append(text[at - start : max(first, at) - start])
        if first >= start:
            out.append(instead)
        at = max(at, min(last, end))
    return "".join([*out, text[at - start :]])
