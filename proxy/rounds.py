"""One model request on its way: reserved before it leaves, sent, retried while nothing has reached the agent, and
settled exactly once on every path (success, error, hang-up, crash of a check).
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from .core.limits import Reservation, seconds_left
from .core.messages import Exchange, RequestEdit, Turn, Usage
from .errors import UpstreamFault
from .upstream import UNREACHABLE, UpstreamRequest, may_retry, retry_pause

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Callable

    from .core.limits import Limits
    from .core.messages import Frame, Request
    from .core.runs import Run
    from .core.verdicts import Facts, Verdict
    from .dialects import Dialect, Reader
    from .exchange import Incoming
    from .ledger import Ledger
    from .recorder import Recorder
    from .settings import Settings
    from .telemetry import ModelSpan
    from .upstream import Upstream, UpstreamAnswer

DRAIN_SECONDS = 2.0
"""How long the rest of an abandoned stream is read for its usage."""


def is_event_stream(answer: UpstreamAnswer) -> bool:
    """The answer comes as server-sent events."""
    kinds = [value for name, value in answer.headers if name.lower() == "content-type"]
    return bool(kinds) and kinds[0].lower().startswith("text/event-stream")


async def chunks_of(answer: UpstreamAnswer) -> AsyncGenerator[bytes, None]:
    """The body of an answer that nobody reads on the way."""
    try:
        while chunk := await answer.next_chunk():
            yield chunk
    finally:
        answer.close()


@dataclass(slots=True)
class State:
    """Where one turn of one agent stands."""

    id: str
    """Of this request: joins audit lines, headers and spans."""
    incoming: Incoming
    recorder: Recorder
    facts: Facts
    edit: RequestEdit = field(default_factory=RequestEdit)
    last: Verdict | None = None
    """Set: the answer that comes now is the last of this turn and may hold no call, for this reason."""
    reasks_left: int = 0
    retries_left: int = 0
    again: bool = False
    """The model is to be asked (again): another round follows."""
    earlier: list[Turn] = field(default_factory=list)
    """Answers of this turn that were abandoned for another one."""
    exchanges: list[Exchange] = field(default_factory=list)

    @property
    def dialect(self) -> Dialect:
        """The wire format of this agent."""
        return self.incoming.dialect

    @property
    def answer_id(self) -> str:
        """The id of an answer that the proxy itself has to open."""
        return f"msg_{self.id}"

    @property
    def request(self) -> Request:
        """What the agent asked."""
        return self.facts.request

    @property
    def run(self) -> Run:
        """The run as last seen."""
        return self.facts.run

    @run.setter
    def run(self, run: Run) -> None:
        self.facts = replace(self.facts, run=run)

    @property
    def body(self) -> bytes:
        """The request as it goes upstream now; the agent's own bytes where nothing is to be changed."""
        edit = replace(self.edit, exchanges=tuple(self.exchanges)) if self.exchanges else self.edit
        return self.dialect.edit_request(self.incoming.body, edit) if edit else self.incoming.body

    @property
    def earlier_text(self) -> str:
        """Visible text of the abandoned answers."""
        return "\n\n".join(turn.text for turn in self.earlier if turn.text)

    @property
    def earlier_usage(self) -> Usage:
        """What the abandoned answers cost."""
        return sum((turn.usage for turn in self.earlier if turn.usage), Usage())


class Round:
    """One model request. Use as an async context manager: leaving it settles and lets go of the connection."""

    def __init__(
        self,
        state: State,
        *,
        ledger: Ledger,
        upstream: Upstream,
        settings: Settings,
        clock: Callable[[], float],
    ) -> None:
        """Nothing is reserved or sent yet."""
        self._state = state
        self._ledger = ledger
        self._upstream = upstream
        self._settings = settings
        self._clock = clock
        self._reservation: Reservation | None = None
        self._attempts: list[Reservation] = []
        self._answer: UpstreamAnswer | None = None
        self._span: ModelSpan | None = None
        self._sent = False
        self._turn: Turn | None = None
        self._error = ""
        self.text_bytes = 0
        """Bytes of the answer seen so far: what an answer without usage is charged by."""

    async def __aenter__(self) -> Round:
        """Nothing is sent yet."""
        return self

    async def __aexit__(self, *_: object) -> None:
        """Settles, ends the span, closes the connection at once (without reading on)."""
        if self._answer is not None:
            self._answer.close()
        self._end_span()
        for attempt in self._attempts:
            await asyncio.shield(self._ledger.keep(attempt))
        if self._reservation is not None:
            reservation, self._reservation = self._reservation, None
            usage = self._turn.usage if self._turn else None
            if usage is not None:
                self._state.recorder.answered(self._state.run, usage)
            self._state.run = await asyncio.shield(
                self._ledger.settle_round(reservation, usage, text_bytes=self.text_bytes, sent=self._sent)
            )

    def reserved(self, reservation: Reservation) -> None:
        """This is what the round may cost; from now on it is settled whatever happens."""
        self._reservation = reservation

    def read(self, turn: Turn) -> None:
        """The answer as far as it was read: its usage is what is settled."""
        self._turn = turn

    def failed(self, error: str) -> None:
        """The answer broke off, or the provider reported this error in it."""
        self._error = error

    async def send(self, body: bytes, limits: Limits) -> UpstreamAnswer:
        """Sends the request and gives the answer's head. Retries as configured: nothing has reached the agent yet.

        Every further try is a round of its own in the books (E2). Raises UpstreamFault.
        """
        attempt = 0
        while True:
            attempt += 1
            self._span = self._state.recorder.trace.model_call(
                dialect=self._state.dialect,
                request=self._state.request,
                round_number=self._state.run.spent.rounds,
                attempt=attempt,
                base_url=self._settings.upstream.provider(self._state.dialect.name).base_url or "",
            )
            try:
                self._answer = await self._upstream.send(self._outgoing(body, limits))
            except UpstreamFault as fault:
                self._sent = self._sent or fault.code != UNREACHABLE
                self.failed(fault.code)
                if not await self._one_more(fault, attempt, limits):
                    raise
                self._end_span()
                continue
            self._sent = True
            if not await self._one_more(self._answer, attempt, limits):
                return self._answer
            self.failed(str(self._answer.status))
            self._answer.close()
            self._end_span()

    async def _one_more(self, got: UpstreamAnswer | UpstreamFault, attempt: int, limits: Limits) -> bool:
        """Whether a further try is worth the wait and paid for; if so, the wait is over."""
        reason, headers = (got, ()) if isinstance(got, UpstreamFault) else (got.status, got.headers)
        pause = retry_pause(headers, attempt) if may_retry(reason, attempt, self._settings) else None
        if pause is None:
            return False
        self._state.run, answer = await self._ledger.reserve_attempt(self._state.run, limits)
        if not isinstance(answer, Reservation):
            return False
        self._attempts.append(answer)
        await asyncio.sleep(pause)
        return True

    async def frames(self, reader: Reader, heartbeat: float) -> AsyncIterator[list[Frame] | None]:
        """Batches of frames as they arrive; None when nothing came for `heartbeat` seconds. Ends with the stream.

        Raises UpstreamFault when the stream breaks off.
        """
        answer = self._answer
        if answer is None:
            return
        while True:
            try:
                async with asyncio.timeout(heartbeat):
                    chunk = await answer.next_chunk()
            except TimeoutError:
                yield None
                continue
            self.text_bytes += len(chunk)
            if self._span is not None and chunk:
                self._span.first_chunk()
            frames = reader.feed(chunk) if chunk else reader.end()
            if frames:
                yield frames
            if not chunk:
                return

    async def drain(self, reader: Reader) -> None:
        """Reads the short rest of an answer that nobody will see, for its usage."""
        answer = self._answer
        if answer is None:
            return
        try:
            async with asyncio.timeout(DRAIN_SECONDS):
                while chunk := await answer.next_chunk():
                    reader.feed(chunk)
        except (TimeoutError, UpstreamFault):
            self.failed("abandoned")
        self.read(reader.turn())

    def _outgoing(self, body: bytes, limits: Limits) -> UpstreamRequest:
        now, run = self._clock(), self._state.run
        left = seconds_left(limits, now - run.turn_started_at, now - run.started_at)
        trace_headers = self._span.headers() if self._span else {}
        return UpstreamRequest.of(
            self._state.incoming, body, self._settings, seconds_left=left, trace_headers=trace_headers
        )

    def _end_span(self) -> None:
        if self._span is None:
            return
        status = self._answer.status if self._answer is not None else 0
        self._span.finished(self._turn, status, self._error)
        self._span, self._error = None, ""
