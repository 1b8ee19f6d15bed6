"""Run state in this process: bounded and expiring. Every method is one step of the event loop, hence atomic."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cachetools import TTLCache

from proxy.core.limits import Amounts, Limits, Reservation, Shortage, shortage
from proxy.core.runs import Run, RunChange, applied
from proxy.errors import StoreFault

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

RUNS_A_KEY = 64
"""A key (a call id that some servers number from zero) points to the newest runs only."""
KEYS_A_RUN = 8
"""Room in the index, as a multiple of the room for runs."""


class MemoryStore:
    """Runs of one process. The oldest are forgotten when there are too many or they are idle too long."""

    def __init__(self, max_runs: int, idle_seconds: float, clock: Callable[[], float]) -> None:
        """`clock` gives seconds. A reservation that is never settled stays spent: the safe side."""
        self._runs: TTLCache[str, Run] = TTLCache(max_runs, idle_seconds, timer=clock)
        self._index: TTLCache[str, tuple[str, ...]] = TTLCache(
            max_runs * KEYS_A_RUN, idle_seconds, timer=clock
        )
        self._reserved: TTLCache[str, Reservation] = TTLCache(
            max_runs * KEYS_A_RUN, idle_seconds, timer=clock
        )
        self._count = 0

    async def find(self, keys: Sequence[str]) -> list[Run]:
        """See Store."""
        found: dict[str, Run] = {}
        for key in keys:
            for run_id in self._index.get(key, ()):
                run = self._runs.get(run_id)
                if run is not None:
                    found[run_id] = run
        return sorted(found.values(), key=lambda run: run.last_seen_at, reverse=True)

    async def create(self, run: Run, keys: Iterable[str] = ()) -> None:
        """See Store."""
        self._runs[run.id] = run
        self._point(run.id, keys)

    async def commit(self, run_id: str, change: RunChange, keys: Iterable[str] = ()) -> Run:
        """See Store. Raises StoreFault for a run that is not kept any more."""
        run = applied(self._known(run_id), change)
        self._runs[run_id] = run
        self._point(run_id, keys)
        return run

    async def reserve(
        self, run_id: str, asks: Sequence[Amounts], limits: Limits, now: float
    ) -> tuple[Run, list[Reservation | Shortage]]:
        """See Store."""
        run = self._known(run_id)
        answers: list[Reservation | Shortage] = []
        for ask in asks:
            short = shortage("turn", limits.turn, run.turn_spent, now - run.turn_started_at, ask) or shortage(
                "run", limits.run, run.spent, now - run.started_at, ask
            )
            if short is not None:
                answers.append(short)
                continue
            self._count += 1
            reservation = Reservation(f"{run_id}.{self._count}", run_id, ask, run.turn)
            self._reserved[reservation.id] = reservation
            run = applied(run, RunChange(at=now, spend=ask))
            answers.append(reservation)
        self._runs[run_id] = run
        return run, answers

    async def settle(self, reservation: Reservation, spent: Amounts, now: float) -> Run:
        """See Store. A reservation that lapsed or was settled before changes nothing."""
        run = self._known(reservation.run_id)
        known = self._reserved.pop(reservation.id, None)
        if known is None:
            return run
        run = applied(run, RunChange(at=now, spend=spent - known.amounts, spend_turn=known.turn))
        self._runs[run.id] = run
        return run

    async def close(self) -> None:
        """See Store."""

    def _known(self, run_id: str) -> Run:
        run = self._runs.get(run_id)
        if run is None:
            msg = "the state of this run is no longer kept: it was idle too long, or too many runs are live"
            raise StoreFault(msg)
        return run

    def _point(self, run_id: str, keys: Iterable[str]) -> None:
        for key in keys:
            others = tuple(known for known in self._index.get(key, ()) if known != run_id)
            self._index[key] = (*others, run_id)[-RUNS_A_KEY:]
