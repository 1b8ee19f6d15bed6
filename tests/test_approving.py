"""Asking people, and listening (D4). On a real book; a clock that stands still."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, replace
from typing import Any, TypeVar, cast

import pytest

from proxy.approval_settings import ApprovalSettings
from proxy.approving import Approvals
from proxy.core.approvals import Approval, ApprovalStatus
from proxy.core.limits import Bounds, Limits
from proxy.core.verdicts import Decision, Demand, Facts
from proxy.stores.approvals import MemoryApprovals
from tests.checks.build import call, facts, run
from tests.staged import Witness
from tests.talk import Clock

T = TypeVar("T")
DEMANDS = Decision(demands=(Demand("c", "Ask.", None, "org"),))
REFUND, OTHER = call("refund", {"sum": 5}), call("refund", {"sum": 6})


@dataclass
class Desk:
    """Approvals with their book, and who was told."""

    approvals: Approvals
    book: MemoryApprovals
    clock: Clock
    audit: Witness
    told: asyncio.Queue[Approval]
    counted: list[tuple[str, float | None]]

    def records(self) -> list[tuple[str, str]]:
        return [(args[0].status.value, args[0].decided_by) for _, args, _ in self.audit.told]


def desk(**settings: Any) -> Desk:
    clock, audit = Clock(), Witness()
    book = MemoryApprovals(10, 10)
    told: asyncio.Queue[Approval] = asyncio.Queue()
    said = ApprovalSettings.model_validate({"when_needed": "hold"} | settings)
    counted: list[tuple[str, float | None]] = []
    approvals = Approvals(
        said,
        book,
        clock,
        cast("Any", audit),
        told.put_nowait,
        lambda status, waited: counted.append((status, waited)),
    )
    return Desk(approvals, book, clock, audit, told, counted)


def asking(*calls: Any, **more: Any) -> Facts:
    return facts(*(calls or (REFUND,)), decision=DEMANDS, **more)


async def statuses(desk: Desk, whole: Facts) -> list[str]:
    asked = await desk.approvals.asked(whole, range(len(whole.calls)))
    return [each.status.value for _, each in sorted(asked.approvals.items())]


def started(work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
    return asyncio.get_running_loop().create_task(work)


async def test_a_held_call_waits_for_its_approval() -> None:
    """D4: who said it is written down, and that it was used when it leaves."""
    it = desk()
    waits = started(it.approvals.asked(asking(), [0]))
    asked = await it.told.get()
    it.clock.now += 30
    await it.approvals.decide(asked.id, approve=True, by="boss", reason="fine")
    got = (await waits).approvals[0]
    it.approvals.used([got])

    assert (got.status, got.id, got.reason) == (ApprovalStatus.USED, asked.id, "fine")
    assert it.records() == [("pending", ""), ("approved", "boss"), ("used", "boss")]
    assert it.counted == [("pending", None), ("approved", 30.0), ("used", None)]


async def test_a_held_call_hears_a_rejection() -> None:
    it = desk()
    waits = started(statuses(it, asking()))
    await it.approvals.decide((await it.told.get()).id, approve=False, by="boss", reason="")

    assert await waits == ["rejected"]


async def test_a_call_is_held_so_long_and_no_longer() -> None:
    it = desk(hold_seconds=0.01)

    assert await statuses(it, asking()) == ["pending"]
    assert await statuses(it, asking()) == ["pending"]
    assert it.told.qsize() == 1


async def test_no_call_is_held_longer_than_its_run_may_take() -> None:
    """E3: waits included."""
    it = desk()
    limits = Limits(run=Bounds(seconds=60))
    it.clock.now += 60

    assert await statuses(it, asking(limits=limits)) == ["pending"]


async def test_what_nobody_decides_in_time_is_refused() -> None:
    """D4."""
    it = desk()
    waits = started(statuses(it, asking()))
    await it.told.get()
    it.clock.now += 3600
    assert [each.status for each in await it.approvals.listed()] == [ApprovalStatus.EXPIRED]

    assert await waits == ["expired"]
    assert it.records() == [("pending", ""), ("expired", "")]


async def test_without_holding_the_call_passes_when_it_comes_again() -> None:
    """D4: once."""
    it = desk(when_needed="pending")
    assert await statuses(it, asking()) == ["pending"]
    await it.approvals.decide(it.told.get_nowait().id, approve=True, by="boss", reason="")

    assert await statuses(it, asking()) == ["used"]
    assert await statuses(it, asking()) == ["pending"]


@pytest.mark.parametrize(
    "other",
    [
        lambda: asking(OTHER),
        lambda: asking(call("refunds", {"sum": 5})),
        lambda: asking(run=run(id="run_2")),
        lambda: replace(asking(), identity=replace(asking().identity, key="key:other")),
    ],
    ids=["argument", "tool", "run", "caller"],
)
async def test_no_other_call_uses_it(other: Callable[[], Facts]) -> None:
    """D4: not with another argument, of another tool, in another run, or by another caller."""
    it = desk(when_needed="pending")
    await statuses(it, asking())
    await it.approvals.decide(it.told.get_nowait().id, approve=True, by="boss", reason="")

    assert await statuses(it, other()) == ["pending"]
    assert await statuses(it, asking()) == ["used"]


async def test_two_at_once_do_not_share_one_approval() -> None:
    """D4: the second asks anew."""
    it = desk()
    waits = [started(statuses(it, asking())) for _ in range(2)]
    await it.approvals.decide((await it.told.get()).id, approve=True, by="boss", reason="")
    second = await it.told.get()
    await it.approvals.decide(second.id, approve=False, by="boss", reason="once is enough")

    assert sorted([(await wait)[0] for wait in waits]) == ["rejected", "used"]


async def test_equal_calls_of_one_answer_need_an_approval_each() -> None:
    it = desk()
    waits = started(statuses(it, asking(REFUND, REFUND)))
    for _ in range(2):
        await it.approvals.decide((await it.told.get()).id, approve=True, by="boss", reason="")

    assert await waits == ["used", "used"]


async def test_all_calls_of_an_answer_are_asked_about_at_once() -> None:
    it = desk()
    waits = started(statuses(it, asking(REFUND, OTHER)))
    asked = [await it.told.get() for _ in range(2)]
    for each in reversed(asked):
        await it.approvals.decide(each.id, approve=True, by="boss", reason="")

    assert await waits == ["used", "used"]


async def test_whoever_hangs_up_gives_back_what_was_taken() -> None:
    """D4: the question stays open, and what was approved can be used by the next try."""
    it = desk()
    waits = started(statuses(it, asking(REFUND, OTHER)))
    first, second = [await it.told.get() for _ in range(2)]
    await it.approvals.decide(first.id, approve=True, by="boss", reason="")
    while (await it.book.get(first.id, it.clock())).status is not ApprovalStatus.USED:  # type: ignore[union-attr]  # noqa: ASYNC110 - a store tells nobody
        await asyncio.sleep(0)
    waits.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waits
    left = {each.id: each.status for each in await it.approvals.listed()}

    assert left == {first.id: ApprovalStatus.APPROVED, second.id: ApprovalStatus.PENDING}


async def test_a_decision_that_changes_nothing_is_not_written_down() -> None:
    it = desk(when_needed="pending")
    await statuses(it, asking())
    asked = it.told.get_nowait()
    for by in ("boss", "other"):
        await it.approvals.decide(asked.id, approve=True, by=by, reason="")

    assert it.records() == [("pending", ""), ("approved", "boss")]
    assert await it.approvals.decide("apr_none", approve=True, by="boss", reason="") is None
    assert await it.approvals.find("apr_none") is None
    found = await it.approvals.find(asked.id)
    assert found is not None
    assert found.decided_by == "boss"


async def test_nobody_is_asked_about_nothing() -> None:
    it = desk()

    assert await statuses(it, facts()) == []
    assert it.audit.told == []


async def test_ids_cannot_be_guessed() -> None:
    """D4."""
    it = desk(when_needed="pending")
    await statuses(it, asking(REFUND, OTHER))
    ids = [it.told.get_nowait().id for _ in range(2)]

    assert len({*ids}) == 2
    assert all(len(each) == len("apr_") + 32 for each in ids)
