"""One model request on its way: reserved before it leaves, sent, retried while nothing has reached the agent, and
settled exactly once on every path (success, error, hang-up, crash of a check).
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import contextmanager
from typing import TYPE_CHECKING

from .bodies import looked_into
from .core.limits import Reservation, seconds_left
from .core.messages import Malformed, Turn
from .core.runs import Outcome
from .core.spending import CHARACTERS_A_TOKEN
from .errors import StoreFault, UpstreamFault
from .upstream import UNREACHABLE, UpstreamRequest, may_retry, retry_pause

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine, Iterator

    from .core.limits import Limits
    from .core.messages import Frame
    from .dialects import Reader
    from .ledger import Ledger
    from .settings import Settings
    from .telemetry import ModelSpan
    from .turn_state import State
    from .upstream import Upstream, UpstreamAnswer

DRAIN_SECONDS = 2.0
"""How long the rest of an abandoned stream is read for its usage."""
REFUSED = 400
"""A status from here on says that the provider refused or failed before it made anything (C013)."""

CLIENT_GONE = "client_gone"
"""Why a run was cancelled: the agent hung up before its answer was there."""

log = logging.getLogger(__name__)


def is_answer(answer: UpstreamAnswer) -> bool:
    """Clients read every 2xx as an answer, so all of them are judged (C3)."""
    return answer.status in range(200, 300)


@contextmanager
def being_read() -> Iterator[None]:
    """What a dialect cannot read or edit in here is the provider's fault. Raises UpstreamFault."""
    try:
        yield
    except Malformed as fault:
        said = f"The provider's answer cannot be read: {fault}"
        raise UpstreamFault(said, code="upstream_unreadable") from None


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
        """The request left at least once."""
        self._costs = False
        """The provider may have worked on it: it did not refuse it at once."""
        self._reader: Reader | None = None
        self._turn: Turn | None = None
        self._error = ""
        self._held_since = 0.0
        self.text_bytes = 0
        """Bytes of the answer seen so far: what an answer without usage is charged by."""

    async def __aenter__(self) -> Round:
        """Nothing is sent yet."""
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Settles, ends the span, closes the connection at once (without reading on)."""
        if self._answer is not None:
            self._answer.close()
        if self._turn is None and self._reader is not None:
            self._turn = self._reader.turn()
        left = kind is not None and issubclass(kind, asyncio.CancelledError | GeneratorExit)
        self._end_span(left=left)
        await _to_its_end(self._settle(left=left))

    async def settle(self) -> None:
        """Books the round now that its answer was read: what is decided next rests on what it really cost."""
        await _to_its_end(self._settle(left=False))

    async def _settle(self, *, left: bool) -> None:
        """Books what the round and its further tries cost; `left`: the agent hung up (B2). A store that is gone takes
        no answer back: what was put aside stays spent, which is the safe side."""
        reservation, self._reservation = self._reservation, None
        attempts, self._attempts = self._attempts, []
        try:
            if reservation is not None:
                await self._settle_first(reservation)
            for attempt in attempts:
                settled = self._ledger.keep if self._sent else self._ledger.give_back
                self._state.run = await settled(attempt)
            state = self._state
            over = self._turn is not None and any(self._turn.finish) and not state.holding
            if left and not over and state.run.outcome is not Outcome.CANCELLED:
                state.run = await self._ledger.record_answer(state.run, "", Outcome.CANCELLED, CLIENT_GONE)
                state.recorder.concluded(state.run)
        except StoreFault as fault:
            log.warning("a round stays booked as it was put aside: %s", fault.message)

    async def _settle_first(self, reservation: Reservation) -> None:
        turn = self._turn or Turn()
        if turn.usage is not None:
            self._state.recorder.answered(self._state.run, turn.usage)
        text_bytes = self.text_bytes
        if self._reader is None and not text_bytes:
            # Nothing was seen of an answer that comes whole: all that was put aside may have been used.
            text_bytes = reservation.amounts.output_tokens * CHARACTERS_A_TOKEN
        self._state.run = await self._ledger.settle_round(
            reservation,
            turn.usage,
            self._state.meter,
            text_bytes=text_bytes,
            sent=self._sent,
            ended=self._reader is None or any(turn.finish),
            cost_nothing=not self._costs or (turn.error is not None and not turn.id and turn.usage is None),
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

        Every further try is a round of its own in the books (E2). Raises UpstreamFault, and ClientFault where the
        agent's headers cannot travel.
        """
        attempt = 0
        while True:
            attempt += 1
            self._span = self._state.recorder.trace.model_call(
                dialect=self._state.dialect,
                request=self._state.request,
                round_number=self._state.run.spent.rounds,
                attempt=attempt,
                base_url=self._settings.upstream.provider(self._state.incoming.provider).base_url or "",
            )
            try:
                self._answer = await self._tried(body, limits)
            except UpstreamFault as fault:
                self.failed(fault.code)
                if not await self._one_more(fault, attempt, limits):
                    raise
                self._end_span()
                continue
            if not await self._one_more(self._answer, attempt, limits):
                return self._answer
            self.failed(str(self._answer.status))
            self._answer.close()
            self._end_span()
            self._answer = None

    async def _tried(self, body: bytes, limits: Limits) -> UpstreamAnswer:
        """One try. Whoever hangs up while it lasts has still sent it (E13)."""
        outgoing = self._outgoing(body, limits)
        before = self._sent, self._costs
        self._sent = self._costs = True
        try:
            answer = await self._upstream.send(outgoing)
        except UpstreamFault as fault:
            if fault.code == UNREACHABLE:
                self._sent, self._costs = before
            raise
        if answer.status >= REFUSED:
            self._costs = before[1]
        return answer

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

    async def streams(self, answer: UpstreamAnswer) -> tuple[UpstreamAnswer, bool]:
        """The answer to go on with, and whether it is the stream that was asked for. Raises UpstreamFault."""
        if not is_answer(answer):
            return answer, False
        self._answer, is_stream = await looked_into(answer, self._state.request.stream_type)
        return self._answer, is_stream

    async def frames(
        self, reader: Reader, heartbeat: float, holding: Callable[[], bool] = bool
    ) -> AsyncIterator[list[Frame] | None]:
        """Batches of frames as they arrive. Ends with the stream; None: nothing has come, or all that came is being
        held back (`holding`), for `heartbeat` seconds, so that the agent needs a sign of life (C031).

        Raises UpstreamFault when the stream breaks off or cannot be read.
        """
        answer, self._reader = self._answer, reader
        if answer is None:
            return
        quiet_since = self._clock()
        while True:
            left = min(heartbeat, quiet_since + heartbeat - self._clock())
            chunk = await _next_chunk(answer, left) if left > 0 else None
            if chunk is None:
                yield None
                quiet_since = self._clock()
                continue
            self.text_bytes += len(chunk)
            if self._span is not None and chunk:
                self._span.first_chunk()
            frames = _read(reader, chunk)
            if frames:
                self._held_since = self._held_since if holding() else self._clock()
                yield frames
                if not holding():
                    quiet_since = self._clock()
            if not chunk:
                return

    def calls_judged(self) -> None:
        """Calls that were held back are judged: how long they were held is told."""
        self._state.recorder.trace.calls_held(self._clock() - self._held_since)

    async def drain(self, reader: Reader) -> None:
        """Reads the short rest of an answer that nobody will see, for its usage."""
        answer = self._answer
        if answer is None:
            return
        try:
            async with asyncio.timeout(DRAIN_SECONDS):
                while chunk := await answer.next_chunk():
                    self.text_bytes += len(chunk)
                    _read(reader, chunk)
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

    def _end_span(self, *, left: bool = False) -> None:
        if self._span is None:
            return
        status = self._answer.status if self._answer is not None else 0
        if left:
            self._span.abandoned(self._turn)
        else:
            self._span.finished(self._turn, status, self._error)
        self._span, self._error = None, ""


async def _next_chunk(answer: UpstreamAnswer, seconds: float) -> bytes | None:
    """The next bytes; None: they do not come in time."""
    try:
        async with asyncio.timeout(seconds):
            return await answer.next_chunk()
    except TimeoutError:
        return None


def _read(reader: Reader, chunk: bytes) -> list[Frame]:
    with being_read():
        return reader.feed(chunk) if chunk else reader.end()


async def _to_its_end(work: Coroutine[object, object, None]) -> None:
    """Does the work whole, however often the waiting for it is cancelled. What it waits for has time limits."""
    task = asyncio.get_running_loop().create_task(work)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        raise cancelled
    task.result()
