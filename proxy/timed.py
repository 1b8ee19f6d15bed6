"""Engine and store with a watch: how long each answer took, and which fault there was instead."""

from __future__ import annotations

import time
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, TypeAlias

from .errors import Fault

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence

    from .core.limits import Amounts, Limits, Reservation, Shortage
    from .core.runs import Run, RunChange
    from .engines import Engine
    from .stores import Store

Observe: TypeAlias = "Callable[[str, float, str], None]"
"""(what was asked, seconds, code of the fault or empty)."""
Clock: TypeAlias = "Callable[[], float]"


@asynccontextmanager
async def _timed(observe: Observe, asked: str, clock: Clock) -> AsyncIterator[None]:
    begun = clock()
    fault = ""
    try:
        yield
    except Fault as broken:
        fault = broken.code
        raise
    except BaseException as broken:
        fault = type(broken).__name__
        raise
    finally:
        observe(asked, clock() - begun, fault)


class TimedEngine:
    """An engine; `observe` hears the phase of each decision."""

    def __init__(self, engine: Engine, observe: Observe, clock: Clock = time.monotonic) -> None:
        self._engine = engine
        self._observe = observe
        self._clock = clock

    @property
    def revision(self) -> str:
        """Of the engine."""
        return self._engine.revision

    async def decide(self, document: Mapping[str, object]) -> Mapping[str, object]:
        """As the engine decides."""
        async with _timed(self._observe, str(document.get("phase", "")), self._clock):
            return await self._engine.decide(document)

    async def close(self) -> None:
        """Closes the engine."""
        await self._engine.close()


class TimedStore:
    """A store; `observe` hears the name of each operation."""

    def __init__(self, store: Store, observe: Observe, clock: Clock = time.monotonic) -> None:
        self._store = store
        self._observe = observe
        self._clock = clock

    async def find(self, keys: Sequence[str]) -> list[Run]:
        """As the store finds."""
        async with _timed(self._observe, "find", self._clock):
            return await self._store.find(keys)

    async def create(self, run: Run, keys: Iterable[str] = ()) -> None:
        """As the store creates."""
        async with _timed(self._observe, "create", self._clock):
            await self._store.create(run, keys)

    async def commit(self, run_id: str, change: RunChange, keys: Iterable[str] = ()) -> Run:
        """As the store commits."""
        async with _timed(self._observe, "commit", self._clock):
            return await self._store.commit(run_id, change, keys)

    async def reserve(
        self, run_id: str, asks: Sequence[Amounts], limits: Limits, now: float
    ) -> tuple[Run, list[Reservation | Shortage]]:
        """As the store reserves."""
        async with _timed(self._observe, "reserve", self._clock):
            return await self._store.reserve(run_id, asks, limits, now)

    async def settle(self, reservation: Reservation, spent: Amounts, now: float) -> Run:
        """As the store settles."""
        async with _timed(self._observe, "settle", self._clock):
            return await self._store.settle(reservation, spent, now)

    async def close(self) -> None:
        """Closes the store."""
        await self._store.close()
