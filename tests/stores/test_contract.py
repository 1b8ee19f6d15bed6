"""What every store promises: atomic, all or nothing, settled once, and never a negative count."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field, replace
from random import Random

import pytest

from proxy.core.limits import Amounts, Bounds, Limits, Reservation, Shortage
from proxy.core.results import StepStatus, ToolTraits
from proxy.core.runs import Identity, Outcome, Run, RunChange, Step
from proxy.errors import StoreFault
from proxy.stores import Store
from proxy.stores.memory import MemoryStore
from tests.talk import NOW, Clock

Opening = Callable[[Clock], AbstractAsyncContextManager[Store]]


@asynccontextmanager
async def memory(clock: Clock) -> AsyncIterator[Store]:
    store = MemoryStore(1000, 3600.0, clock)
    yield store
    await store.close()


STORES: tuple[Opening, ...] = (memory,)
"""All stores; each is opened empty."""


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture(params=STORES, ids=lambda opening: opening.__name__)
async def store(request: pytest.FixtureRequest, clock: Clock) -> AsyncIterator[Store]:
    opening: Opening = request.param
    async with opening(clock) as opened:
        yield opened


def run(name: str = "run_1", **changes: object) -> Run:
    made = Run(name, Identity().key, NOW, turn_started_at=NOW, last_seen_at=NOW)
    return replace(made, **changes)  # type: ignore[arg-type]  # the test names real fields


def step(call_id: str = "c1", **changes: object) -> Step:
    made = Step(0, 0, 1, call_id, "lookup", "{}", "f", released_at=NOW)
    return replace(made, **changes)  # type: ignore[arg-type]  # the test names real fields


def a_call(tool: str = "lookup") -> Amounts:
    return Amounts(calls=1, per_tool={tool: 1})


async def names(store: Store, *keys: str) -> list[str]:
    return [found.id for found in await store.find(keys)]


async def reserved(store: Store, ask: Amounts, name: str = "run_1") -> Reservation:
    _, (answer,) = await store.reserve(name, [ask], Limits(), NOW)
    assert isinstance(answer, Reservation)
    return answer


# ---- runs and their keys ----


async def test_a_run_is_found_by_any_of_its_keys_as_it_was_kept(store: Store) -> None:
    """Every field comes back as it went in, text from outside included."""
    whole = run(
        dialect="sample",
        label="task \u2028 ünï",
        turn=3,
        steps=(
            step(number=1, turn=1, status=StepStatus.REFUSED, refused_as="tool_unknown"),
            step(
                number=2,
                turn=2,
                result="\x00 ok",
                result_at=NOW + 0.25,
                arguments='{"a":"ü"}',
                seen_only=True,
            ),
        ),
        spent=Amounts(3, 2, 100, 50, {"lookup": 2}, 7),
        turn_spent=Amounts(1, 1, 10, 5, {"lookup": 1}),
        outcome=Outcome.LIMIT_REACHED,
        outcome_detail="budget_rounds",
        stop_report="Stopped.",
        state_lost=True,
        seen_messages=7,
        prefix=b"\x00\xff" * 8,
        answers=(b"\x01" * 16, b"\xfe" * 16),
        traits={"lookup": ToolTraits(effect="read", volatile_arguments=("at",), polling=True)},
        trace={"traceparent": "00-1-2-01"},
    )
    await store.create(whole, ["a", "b"])

    for key in "ab":
        assert await store.find([key]) == [whole]
    assert await store.find(["c"]) == []
    assert await store.find([]) == []


async def test_several_keys_of_one_run_find_it_once(store: Store) -> None:
    await store.create(run(), ["a", "b"])

    assert await names(store, "a", "b", "c", "a") == ["run_1"]


async def test_the_run_that_was_active_last_comes_first(store: Store) -> None:
    for number in range(3):
        await store.create(run(f"run_{number}", last_seen_at=NOW + number), ["key"])
    await store.commit("run_0", RunChange(at=NOW + 10))

    assert await names(store, "key") == ["run_0", "run_2", "run_1"]


async def test_a_commit_changes_the_newest_state_and_adds_keys(store: Store) -> None:
    """Not the state that the caller has seen."""
    await store.create(run(), ["a"])
    await store.commit("run_1", RunChange(at=NOW + 1, add_steps=(step("c1"),)), ["b"])
    changed = await store.commit("run_1", RunChange(at=NOW + 2, add_steps=(step("c2"),)), ["c"])

    assert [(each.number, each.call_id, each.turn) for each in changed.steps] == [(1, "c1", 1), (2, "c2", 1)]
    assert changed.last_seen_at == NOW + 2
    for key in "abc":
        assert await store.find([key]) == [changed]


async def test_a_key_that_every_run_has_points_to_the_newest(store: Store) -> None:
    """Ids numbered from zero: the key of `call_0` never grows without bound."""
    for number in range(300):
        await store.create(run(f"run_{number}", last_seen_at=NOW + number), ["common", f"own_{number}"])
    found = await names(store, "common")

    assert 32 <= len(found) <= 256
    assert found == [f"run_{number}" for number in range(299, 299 - len(found), -1)]
    assert await names(store, "own_0") == ["run_0"]


async def test_the_first_outcome_that_stops_a_run_stays(store: Store) -> None:
    """C12"""
    await store.create(run())
    await store.commit(
        "run_1", RunChange(NOW, outcome=Outcome.NO_PROGRESS, outcome_detail="cycle", stop_report="S")
    )
    kept = await store.commit("run_1", RunChange(NOW, outcome=Outcome.COMPLETED))

    assert (kept.outcome, kept.outcome_detail, kept.stop_report) == (Outcome.NO_PROGRESS, "cycle", "S")


async def test_an_unknown_run_is_a_fault(store: Store) -> None:
    """A lost run must not look like a fresh one: its limits would start anew."""
    lost = Reservation("r", "nobody", Amounts(rounds=1), 1)

    with pytest.raises(StoreFault):
        await store.commit("nobody", RunChange(at=NOW))
    with pytest.raises(StoreFault):
        await store.reserve("nobody", [Amounts(rounds=1)], Limits(), NOW)
    with pytest.raises(StoreFault):
        await store.settle(lost, Amounts(), NOW)


# ---- reservations ----


async def test_what_is_reserved_is_spent_at_once_and_settled_to_what_it_was(store: Store) -> None:
    """E2, E4"""
    await store.create(run())
    put_aside = Amounts(rounds=1, input_tokens=100, output_tokens=200)
    one = await reserved(store, put_aside)
    two = await reserved(store, put_aside)
    assert (await store.commit("run_1", RunChange(NOW))).spent == put_aside + put_aside

    first = await store.settle(one, Amounts(rounds=1, input_tokens=80, output_tokens=20), NOW)
    second = await store.settle(two, Amounts(), NOW)

    assert first.spent == Amounts(rounds=2, input_tokens=180, output_tokens=220)
    assert second.spent == second.turn_spent == Amounts(rounds=1, input_tokens=80, output_tokens=20)


async def test_a_reservation_is_settled_once(store: Store) -> None:
    await store.create(run())
    one = await reserved(store, a_call())
    await reserved(store, a_call())
    await store.settle(one, Amounts(), NOW)
    again = await store.settle(one, Amounts(), NOW)

    assert again.spent == a_call()


async def test_a_reservation_that_was_never_made_gives_nothing_back(store: Store) -> None:
    await store.create(run())
    await reserved(store, a_call())
    kept = await store.settle(Reservation("made-up", "run_1", a_call(), 1), Amounts(), NOW)

    assert kept.spent == a_call()


async def test_an_ask_takes_all_or_nothing_and_later_ones_are_still_tried(store: Store) -> None:
    """E5, C014: turn and run at once, in order; what is short is named with its figures."""
    await store.create(run())
    limits = Limits(turn=Bounds(calls=3), run=Bounds(calls=10, per_tool={"send": 1}))
    asks = [a_call("send"), a_call("send"), a_call("read"), a_call("read"), a_call("read")]
    kept, answers = await store.reserve("run_1", asks, limits, NOW)

    assert [type(answer) for answer in answers] == [Reservation, Shortage, Reservation, Reservation, Shortage]
    assert answers[1] == Shortage("run", "per_tool.send", 1, 1)
    assert answers[4] == Shortage("turn", "calls", 3, 3)
    assert kept.spent == kept.turn_spent == Amounts(calls=3, per_tool={"send": 1, "read": 2})
    assert len({answer.id for answer in answers if isinstance(answer, Reservation)}) == 3


async def test_time_is_measured_from_the_start_of_turn_and_run(store: Store) -> None:
    """E3: waits included."""
    await store.create(run())
    limits = Limits(turn=Bounds(seconds=10), run=Bounds(seconds=100))

    async def short(at: float) -> object:
        _, (answer,) = await store.reserve("run_1", [Amounts(rounds=1)], limits, at)
        return answer

    assert isinstance(await short(NOW + 9.9), Reservation)
    assert await short(NOW + 10) == Shortage("turn", "seconds", 10, 10)
    await store.commit("run_1", RunChange(at=NOW + 95, new_turn=True))
    assert isinstance(await short(NOW + 99), Reservation)
    assert await short(NOW + 100.5) == Shortage("run", "seconds", 100, 100.5)


async def test_a_new_turn_starts_its_own_count(store: Store) -> None:
    """What was put aside before and is settled after is booked to the run, and not to the new turn."""
    await store.create(run())
    before = await reserved(store, Amounts(rounds=1, input_tokens=100))
    await store.commit("run_1", RunChange(at=NOW, new_turn=True))
    during = await reserved(store, Amounts(rounds=1, input_tokens=50))
    assert (before.turn, during.turn) == (1, 2)

    await store.settle(before, Amounts(rounds=1, input_tokens=7), NOW)
    kept = await store.settle(during, Amounts(rounds=1, input_tokens=5), NOW)

    assert kept.spent == Amounts(rounds=2, input_tokens=12)
    assert kept.turn_spent == Amounts(rounds=1, input_tokens=5)


async def test_ten_at_once_against_room_for_three(store: Store) -> None:
    """C012, E5: atomically, and none waits for the others."""
    await store.create(run(spent=Amounts(rounds=2)))
    limits = Limits(run=Bounds(rounds=5))
    answers = await asyncio.gather(
        *(store.reserve("run_1", [Amounts(rounds=1)], limits, NOW) for _ in range(10))
    )
    made = [answer for _, (answer,) in answers if isinstance(answer, Reservation)]

    assert len(made) == 3
    assert len({answer.id for answer in made}) == 3
    assert (await store.commit("run_1", RunChange(NOW))).spent.rounds == 5


async def test_runs_never_share_a_count(store: Store) -> None:
    await store.create(run("run_1"))
    await store.create(run("run_2"))
    await reserved(store, a_call(), "run_1")

    assert (await store.commit("run_2", RunChange(NOW))).spent == Amounts()


@dataclass
class Books:
    """The same accounts, kept the plain way: what was settled, and what is still open."""

    settled: Amounts = Amounts()
    settled_in: dict[int, Amounts] = field(default_factory=dict)
    open: dict[str, Reservation] = field(default_factory=dict)
    turn: int = 1

    def spent(self) -> Amounts:
        return sum((each.amounts for each in self.open.values()), self.settled)

    def turn_spent(self) -> Amounts:
        here = [each.amounts for each in self.open.values() if each.turn == self.turn]
        return sum(here, self.settled_in.get(self.turn, Amounts()))

    def settle(self, reservation: Reservation, spent: Amounts) -> None:
        if self.open.pop(reservation.id, None) is not None:
            self.settled += spent
            turn = reservation.turn
            self.settled_in[turn] = self.settled_in.get(turn, Amounts()) + spent


def amounts(chance: Random) -> Amounts:
    tools = Counter(chance.choices("abc", k=chance.randint(0, 2)))
    tokens = [chance.choice([0, 0, chance.randint(1, 50)]) for _ in range(3)]
    return Amounts(chance.randint(0, 2), tools.total(), tokens[0], tokens[1], dict(tools), tokens[2])


def in_order(limits: Limits, kept: Run) -> bool:
    """Whether the counts that are checked exactly are within their limits."""
    return all(
        limit is None or used <= limit
        for bounds, spent in ((limits.turn, kept.turn_spent), (limits.run, kept.spent))
        for limit, used in (
            (bounds.rounds, spent.rounds),
            (bounds.calls, spent.calls),
            *((limit, spent.per_tool.get(tool, 0)) for tool, limit in bounds.per_tool.items()),
        )
    )


def not_negative(spent: Amounts) -> bool:
    counts = (spent.rounds, spent.calls, spent.input_tokens, spent.output_tokens, spent.unverified_tokens)
    return min((*counts, *spent.per_tool.values())) >= 0


@pytest.mark.parametrize("seed", range(25))
async def test_spent_is_what_was_settled_and_what_is_still_open(store: Store, seed: int) -> None:
    """E2, E4, D12: over any sequence of acts, per tool and per turn; never negative, and never past a limit."""
    chance = Random(seed)
    limits = Limits(
        turn=Bounds(rounds=6, calls=5, per_tool={"a": 3}),
        run=Bounds(rounds=25, calls=20, per_tool={"b": 7}, total_tokens=1500),
    )
    books, past = Books(), list[Reservation]()
    await store.create(run())
    for _ in range(80):
        act = chance.random()
        if act < 0.5:
            asks = [amounts(chance) for _ in range(chance.randint(1, 3))]
            _, answers = await store.reserve("run_1", asks, limits, NOW)
            for ask, answer in zip(asks, answers, strict=True):
                if isinstance(answer, Reservation):
                    assert (answer.amounts, answer.turn, answer.run_id) == (ask, books.turn, "run_1")
                    books.open[answer.id] = answer
                    past.append(answer)
        elif act < 0.9 and past:
            reservation = chance.choice(past)
            less = chance.choice([reservation.amounts, Amounts(), Amounts(reservation.amounts.rounds)])
            await store.settle(reservation, less, NOW)
            books.settle(reservation, less)
        elif act >= 0.9:
            await store.commit("run_1", RunChange(at=NOW, new_turn=True))
            books.turn += 1
        kept = await store.commit("run_1", RunChange(at=NOW))

        assert kept.spent == books.spent()
        assert kept.turn_spent == books.turn_spent()
        assert kept.turn == books.turn
        assert not_negative(kept.spent)
        assert not_negative(kept.turn_spent)
        assert in_order(limits, kept)
