"""The stream gate: text leaves at once, a call waits until it is whole and judged.

Laws:
1. From the first frame that carries a piece of a call until every choice with a call has ended, frames are held;
   only text of choices of which nothing is held still passes.
2. The frames of a choice leave in the order in which they came, verbatim: the gate never writes.
3. A call that never becomes whole is never among `calls`: what broke off cannot be released.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .messages import CallDelta, CallReady, ChoiceEnded, StreamEnded, StreamFailed, TextDelta

if TYPE_CHECKING:
    from .messages import CallKey, Frame, ToolCall


class StreamGate:
    """Sorts the frames of one answer into those that leave now and those that wait. It never waits itself."""

    def __init__(self, max_held_bytes: int, *, holds_text: bool = False) -> None:
        """`max_held_bytes`: the most that is held back before the gate gives up on the calls (`overflowed`). `holds_text`:
        text waits as calls do, until its choice has ended: what a final answer says is judged before it leaves."""
        self._max_held_bytes = max_held_bytes
        self._holds_text = holds_text
        self._held: list[Frame] = []
        self._held_bytes = 0
        self._waiting: set[int] = set()
        self._behind: set[int] = set()
        self._pieces: dict[CallKey, None] = {}
        self._calls: list[ToolCall] = []
        self.failed = False
        """The provider reported an error while a call was held."""

    @property
    def holding(self) -> bool:
        """Frames are being held back."""
        return bool(self._held)

    @property
    def ready(self) -> bool:
        """The held calls are to be judged now."""
        return bool(self._held) and not self._waiting

    @property
    def overflowed(self) -> bool:
        """More is held than allowed: the calls can only be refused."""
        return self._held_bytes > self._max_held_bytes

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        """The held calls that are whole, in wire order."""
        return tuple(self._calls)

    @property
    def broken(self) -> tuple[CallKey, ...]:
        """Held calls of which only pieces came."""
        whole = {call.key for call in self._calls}
        return tuple(key for key in self._pieces if key not in whole)

    def feed(self, frame: Frame) -> Frame | None:
        """The frame if it may leave now, None if it is held."""
        starts = False
        for event in frame.events:
            if isinstance(event, CallDelta):
                self._waiting.add(event.key[0])
                self._pieces[event.key] = None
                starts = True
            elif isinstance(event, CallReady):
                self._waiting.add(event.call.key[0])
                self._calls.append(event.call)
                starts = True
            elif self._holds_text and isinstance(event, TextDelta) and event.text:
                self._waiting.add(event.choice)
                starts = True
        if not (starts or self._held):
            return frame
        if not starts and self._passes_by(frame):
            return frame
        self._held.append(frame)
        self._held_bytes += len(frame.raw)
        for event in frame.events:
            if isinstance(event, TextDelta):
                self._behind.add(event.choice)
            elif isinstance(event, ChoiceEnded):
                self._waiting.discard(event.choice)
                self._behind.add(event.choice)
            elif isinstance(event, StreamEnded):
                self._waiting.clear()
            elif isinstance(event, StreamFailed):
                self.failed = True
        return None

    def take(self) -> list[Frame]:
        """The held frames; the gate is open again."""
        held, self._held = self._held, []
        self._held_bytes = 0
        self._waiting.clear()
        self._behind.clear()
        self._pieces.clear()
        self._calls.clear()
        return held

    def _passes_by(self, frame: Frame) -> bool:
        return bool(frame.events) and all(
            isinstance(event, TextDelta) and event.choice not in self._waiting | self._behind
            for event in frame.events
        )
