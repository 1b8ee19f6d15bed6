"""Only here is run state kept. Every method is atomic; a store that does not answer in time raises StoreFault."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from proxy.core.limits import Amounts, Limits, Reservation, Shortage
    from proxy.core.runs import Run, RunChange


class Store(Protocol):
    """What the ledger needs. Times are epoch seconds and come as arguments."""

    async def find(self, keys: Sequence[str]) -> list[Run]:
        """The live runs that any of these evidence keys points to, without repeats, newest activity first."""

    async def create(self, run: Run, keys: Iterable[str] = ()) -> None:
        """Keeps a new run and points the keys to it."""

    async def commit(self, run_id: str, change: RunChange, keys: Iterable[str] = ()) -> Run:
        """Applies the change to the newest state of the run and points further keys to it."""

    async def reserve(
        self, run_id: str, asks: Sequence[Amounts], limits: Limits, now: float
    ) -> tuple[Run, list[Reservation | Shortage]]:
        """Reserves each ask in order, each all or nothing, over turn and run at once.

        An ask that does not fit is answered with its shortage and takes nothing; later ones are still tried.
        """

    async def settle(self, reservation: Reservation, spent: Amounts, now: float) -> Run:
        """Replaces what was reserved with what was spent (`Amounts()` gives it all back). Once only."""

    async def close(self) -> None:
        """Frees connections."""
