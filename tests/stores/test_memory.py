"""Run state in this process is bounded and expires; what every store promises is in test_contract."""

import pytest

from proxy.core.limits import Amounts, Limits, Reservation
from proxy.core.runs import Run, RunChange
from proxy.errors import StoreFault
from proxy.stores.memory import KEYS_A_RUN, RUNS_A_KEY, MemoryStore
from tests.talk import NOW, Clock


def run(name: str) -> Run:
    return Run(name, "k", NOW, last_seen_at=NOW)


async def ids(store: MemoryStore, key: str) -> list[str]:
    return [found.id for found in await store.find([key])]


@pytest.fixture
def clock() -> Clock:
    return Clock()


async def test_a_run_that_is_idle_too_long_is_forgotten(clock: Clock) -> None:
    """A fault and not a fresh count, for who still holds it."""
    store = MemoryStore(10, 60.0, clock)
    await store.create(run("idle"), ["a"])
    await store.create(run("busy"), ["b"])
    clock.now += 40
    await store.commit("busy", RunChange(at=clock.now))
    clock.now += 40

    assert await ids(store, "a") == []
    with pytest.raises(StoreFault, match="idle too long"):
        await store.commit("idle", RunChange(at=clock.now))
    await store.commit("busy", RunChange(at=clock.now))


async def test_a_key_lives_as_long_as_it_is_used(clock: Clock) -> None:
    store = MemoryStore(10, 60.0, clock)
    await store.create(run("busy"), ["task"])
    for _ in range(4):
        clock.now += 40
        await store.commit("busy", RunChange(at=clock.now), ["task"])

    assert await ids(store, "task") == ["busy"]


async def test_the_runs_unused_for_longest_make_room(clock: Clock) -> None:
    store = MemoryStore(3, 60.0, clock)
    for name in "abc":
        await store.create(run(name), [name])
    await store.commit("a", RunChange(at=NOW))
    await store.create(run("d"), ["d"])

    assert [await ids(store, name) for name in "abcd"] == [["a"], [], ["c"], ["d"]]


async def test_everything_that_is_kept_is_bounded(clock: Clock) -> None:
    """Hostile: any number of runs, keys and reservations."""
    store = MemoryStore(5, 60.0, clock)
    for number in range(200):
        await store.create(run(f"run_{number}"), ["common", *(f"{number}.{part}" for part in range(20))])
        await store.reserve(f"run_{number}", [Amounts(rounds=1)] * 20, Limits(), NOW)

    assert len(store._runs) == 5
    assert len(store._index) == len(store._reserved) == 5 * KEYS_A_RUN
    assert len(store._index["common"]) == RUNS_A_KEY
    assert await ids(store, "common") == [f"run_{number}" for number in range(195, 200)]


async def test_a_reservation_that_lapsed_stays_spent(clock: Clock) -> None:
    """E4, E13: the safe side; the run goes on."""
    store = MemoryStore(10, 60.0, clock)
    await store.create(run("r"))
    _, (answer,) = await store.reserve("r", [Amounts(rounds=1, input_tokens=100)], Limits(), NOW)
    assert isinstance(answer, Reservation)
    for _ in range(2):
        clock.now += 40
        await store.commit("r", RunChange(at=clock.now))

    assert (await store.settle(answer, Amounts(), clock.now)).spent.input_tokens == 100
