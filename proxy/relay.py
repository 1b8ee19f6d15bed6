"""One streamed answer on its way to the agent: text out at once, calls held until the gate has judged them."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import TYPE_CHECKING

from .core.actions import Answer, AskAgain, Release
from .core.messages import Problem, StreamFailed, TextDelta
from .core.stream_gate import StreamGate

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Sequence

    from .core.actions import CallsMove
    from .core.messages import CallKey, Frame, ToolCall
    from .core.verdicts import Verdict
    from .dialects import Reader, Writer

INCOMPLETE = "[callgate] A tool call arrived incomplete and was not run."
TOO_LARGE = "[callgate] A tool call was larger than this system accepts and was not run."
BROKEN = Problem(
    502, "upstream_error", "the provider's stream ended inside a tool call; the call was not released"
)
UNCHECKED = Problem(
    502,
    "upstream_error",
    "the provider's stream ended before its answer could be checked; it was not released",
)
LONG_ANSWER = "[callgate] The answer was longer than this system can check and was not released."
UNFINISHED = Problem(502, "call_incomplete", "the provider ended its answer before a tool call was whole")
"""What is recorded; the agent gets the rest of the answer and is told in it."""


class Relay:
    """Feeds on the frames of one answer. When `stopped`, no further frame of it may reach the agent."""

    def __init__(  # noqa: PLR0913 - independent parts, all but the first by name
        self,
        reader: Reader,
        writer: Writer,
        judge: Callable[[Sequence[ToolCall]], Awaitable[CallsMove]],
        max_held_bytes: int,
        *,
        fresh: bool,
        heartbeat: float = 15.0,
        holds_text: bool = False,
    ) -> None:
        """`judge` decides about whole calls, and about a final answer (no calls) where `holds_text`; while it takes longer than `heartbeat` seconds, the agent gets a sign of
        life each time (C031). `fresh`: nothing has reached the agent yet, so an error that comes first
        may still be hidden by another try."""
        self._reader = reader
        self._writer = writer
        self._judge = judge
        self._gate = StreamGate(max_held_bytes, holds_text=holds_text)
        self._heartbeat = heartbeat
        self.fresh = fresh
        self.move: Answer | AskAgain | None = None
        """What the gate decided instead of letting the answer go on."""
        self.failed: Problem | None = None
        """The provider reported this error in the stream."""
        self.released = 0
        """How many calls left."""
        self.refused: dict[CallKey, Verdict] = {}
        """The calls that were taken out of the answer, and why."""
        self.stopped = False
        """No further frame is wanted."""
        self._dropped: list[Frame] = []
        self._said: list[str] = []

    @property
    def said(self) -> str:
        """The text that the agent has got, notes included: what it will send back as this answer."""
        return "".join(self._said)

    @property
    def holding(self) -> bool:
        """Something is being held back from the agent."""
        return self._gate.holding

    async def feed(self, frames: Sequence[Frame], *, may_retry: bool) -> AsyncGenerator[bytes, None]:
        """The bytes that these frames let out, in order. Text goes out before calls are judged."""
        error = next(
            (event.problem for frame in frames for event in frame.events if isinstance(event, StreamFailed)),
            None,
        )
        if error is not None and error.retryable and self.fresh and may_retry:
            # Seen before anything is written: the writer must not believe that the agent has got a beginning.
            self.failed, self.stopped = error, True
            return
        out = bytearray()
        for frame in frames:
            self._note_error(frame)
            passed = self._gate.feed(frame)
            if passed is not None:
                self._hear(passed)
                out += self._writer.passed(passed)
            elif self._gate.ready or self._gate.failed or self._gate.overflowed:
                if out:
                    self.fresh = False
                    yield bytes(out)
                    out.clear()
                async with aclosing(self._alive(self._judged())) as parts:
                    async for part in parts:
                        if part is None:
                            yield self._writer.keep_alive()
                        else:
                            out += part
            if self.stopped:
                break
        if out:
            self.fresh = False
            yield bytes(out)

    async def _alive(self, work: Coroutine[object, object, bytes]) -> AsyncGenerator[bytes | None, None]:
        """What the work gives, once, after a None for each time that it took a heartbeat longer."""
        task = asyncio.get_running_loop().create_task(work)
        try:
            while not (await asyncio.wait({task}, timeout=self._heartbeat))[0]:
                yield None
            yield task.result()
        finally:
            # Whoever stops listening ends the work too.
            if not task.done():
                task.cancel()
                await asyncio.wait({task})

    def _note_error(self, frame: Frame) -> None:
        for event in frame.events:
            if isinstance(event, StreamFailed):
                self.failed = event.problem

    def _hear(self, *frames: Frame) -> None:
        for frame in frames:
            if frame.shown is not None:
                self._said.append(frame.shown)
                continue
            said = (event for event in frame.events if isinstance(event, TextDelta) and event.choice == 0)
            self._said += [event.text for event in said]

    def end(self) -> bytes:
        """The stream is over. Held frames of calls that never became whole are dropped, and the agent is told."""
        if not self._gate.holding or self.stopped:
            return b""
        inside_call = bool(self._gate.calls or self._gate.broken)
        self._gate.take()
        self.failed = BROKEN if inside_call else UNCHECKED
        return self._writer.failed(self.failed)

    def abandoned(self) -> bytes:
        """The model is asked again. Called when the rest of the answer was read, since its usage comes last."""
        return self._writer.abandoned(self._dropped, self._reader.turn())

    async def _judged(self) -> bytes:
        calls, broken = self._gate.calls, self._gate.broken
        keys: set[CallKey] = {*(call.key for call in calls), *broken}
        if self._gate.failed and not keys:
            self._gate.take()
            return self._writer.failed(self.failed or UNCHECKED)
        if self._gate.failed:
            return self._resolved(self._gate.take(), keys, "")
        if self._gate.overflowed:
            answer = (
                Answer.of(TOO_LARGE, "call_too_large") if keys else Answer.of(LONG_ANSWER, "answer_too_large")
            )
            self.move, self.stopped = answer, True
            self._gate.take()
            return b""
        if broken:
            self.failed = UNFINISHED
            return self._resolved(self._gate.take(), keys, INCOMPLETE)
        move = await self._judge(calls)
        held = self._gate.take()
        if isinstance(move, Release):
            self.released += len(calls) - len(move.refused)
            refused = {calls[place].key: verdict for place, verdict in move.refused.items()}
            self.refused |= refused
            return self._resolved(held, {*refused}, move.note)
        self.move, self.stopped, self._dropped = move, True, held
        return b""

    def _resolved(self, held: Sequence[Frame], refused: set[CallKey], note: str) -> bytes:
        self._hear(*held)
        self._said.append(note)
        return self._writer.resolved(held, refused, note)
