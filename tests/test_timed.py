"""Engine and store are timed, faults included, and otherwise left as they are (D13)."""

import asyncio
from collections.abc import Mapping
from typing import Any, cast

import pytest

from proxy.core.limits import Amounts, Limits, Reservation
from proxy.core.runs import RunChange
from proxy.engines import Engine
from proxy.errors import EngineFault, StoreFault
from proxy.stores import Store
from proxy.timed import TimedEngine, TimedStore

from . import sample_run as sample


class Watch:
    """A clock that moves a second each time somebody looks, and what was observed."""

    def __init__(self) -> None:
        self.now = 0.0
        self.seen: list[tuple[str, float, str]] = []

    def __call__(self) -> float:
        self.now += 1
        return self.now

    def observe(self, asked: str, seconds: float, fault: str) -> None:
        self.seen.append((asked, seconds, fault))


class Slate:
    """A store and an engine that answer with what they were asked, or with a fault."""

    revision = "rev1"

    def __init__(self, fault: BaseException | None = None) -> None:
        self.fault = fault
        self.closed = False

    def __getattr__(self, asked: str) -> Any:
        async def answer(*arguments: object) -> object:
            if self.fault:
                raise self.fault
            return (asked, *arguments)

        return answer

    async def decide(self, document: Mapping[str, object]) -> Mapping[str, object]:
        if self.fault:
            raise self.fault
        return document

    async def close(self) -> None:
        self.closed = True


async def test_a_store_answers_as_it_did_and_each_operation_is_timed() -> None:
    watch, slate = Watch(), Slate()
    store = TimedStore(cast("Store", slate), watch.observe, watch)
    run, change, limits, amounts = sample.run(), RunChange(1.0), Limits(), Amounts()
    reservation = Reservation("r", "run_1", amounts, 1)
    typed: Any = store

    assert await typed.find(["k"]) == ("find", ["k"])
    await store.create(run, ["k"])
    assert await typed.commit("run_1", change, ["k"]) == ("commit", "run_1", change, ["k"])
    assert await typed.reserve("run_1", [amounts], limits, 2.0) == (
        "reserve",
        "run_1",
        [amounts],
        limits,
        2.0,
    )
    assert await typed.settle(reservation, amounts, 3.0) == ("settle", reservation, amounts, 3.0)
    await store.close()

    assert slate.closed
    assert watch.seen == [(asked, 1.0, "") for asked in ("find", "create", "commit", "reserve", "settle")]


async def test_an_engine_is_timed_by_phase() -> None:
    watch, slate = Watch(), Slate()
    engine = TimedEngine(cast("Engine", slate), watch.observe, watch)

    assert await engine.decide({"phase": "calls"}) == {"phase": "calls"}
    assert engine.revision == "rev1"
    await engine.close()

    assert slate.closed
    assert watch.seen == [("calls", 1.0, "")]


@pytest.mark.parametrize(
    ("fault", "told"),
    [
        (EngineFault("down"), "policy_error"),
        (StoreFault("down"), "state_unavailable"),
        (asyncio.CancelledError(), "CancelledError"),
    ],
)
async def test_a_fault_is_told_by_its_code_and_passed_on(fault: BaseException, told: str) -> None:
    watch = Watch()
    engine = TimedEngine(cast("Engine", Slate(fault)), watch.observe, watch)
    store = TimedStore(cast("Store", Slate(fault)), watch.observe, watch)

    with pytest.raises(type(fault)):
        await engine.decide({})
    with pytest.raises(type(fault)):
        await store.find([])

    assert watch.seen == [("", 1.0, told), ("find", 1.0, told)]
