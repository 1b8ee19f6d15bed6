"""The book of approvals: decided once, used once, bounded (D4)."""

import asyncio
from dataclasses import replace

import pytest
from hypothesis import given, strategies as st

from proxy.core.approvals import Approval, ApprovalStatus, Word, asked_for
from proxy.core.messages import ToolCall
from proxy.core.runs import Identity, Run
from proxy.stores.approvals import KEPT_A_WAITING_ONE, MemoryApprovals
from tests.checks.build import NOW

YES, NO = Word(True, "boss", use_by=NOW + 100), Word(False, "boss", "no")


def book(most: int = 4, each: int = 4) -> MemoryApprovals:
    return MemoryApprovals(most, each)


def asked(number: int = 1, arguments: str = "{}", *, caller: str = "ann", turn: int = 1) -> Approval:
    run = Run("run_1", caller, NOW, turn=turn)
    call = ToolCall("c", "refund", arguments)
    return asked_for(f"apr_{number}", Identity(caller), run, call, (), now=NOW, expires_at=NOW + 60)


async def statuses(kept: MemoryApprovals, now: float = NOW) -> dict[str, str]:
    return {each.id: each.status.value for each in await kept.listed(now)}


async def test_the_same_call_asks_once() -> None:
    """D4."""
    kept = book()

    assert await kept.ask(asked(1), NOW) == asked(1)
    assert (await kept.ask(asked(2), NOW)).id == "apr_1"
    assert await statuses(kept) == {"apr_1": "pending"}


async def test_an_approval_is_used_once() -> None:
    """D4: by one of several that want it at once; then the same call asks anew."""
    kept = book()
    await kept.ask(asked(1), NOW)
    await kept.decide("apr_1", YES, NOW)

    took = await asyncio.gather(*(kept.take("apr_1", NOW) for _ in range(5)))

    assert [each.status for each in took if each] == [ApprovalStatus.USED]
    assert (await kept.ask(asked(2), NOW)).id == "apr_2"


async def test_what_was_not_needed_after_all_can_be_used_later() -> None:
    kept = book()
    await kept.ask(asked(1), NOW)
    await kept.decide("apr_1", YES, NOW)
    await kept.take("apr_1", NOW)
    await kept.give_back("apr_1")

    assert (await kept.ask(asked(2), NOW)).status is ApprovalStatus.APPROVED
    assert await kept.take("apr_1", NOW)
    await kept.give_back("apr_9")


async def test_only_what_was_approved_in_time_can_be_used() -> None:
    """D4."""
    kept = book()
    for number in (1, 2, 3):
        await kept.ask(asked(number, f'{{"n": {number}}}'), NOW)
    await kept.decide("apr_2", NO, NOW)
    await kept.decide("apr_3", YES, NOW)

    assert [await kept.take(f"apr_{number}", NOW) for number in (1, 2, 9)] == [None] * 3
    assert await kept.take("apr_3", NOW + 100) is None


async def test_the_first_word_counts() -> None:
    """D4."""
    kept = book()
    await kept.ask(asked(1), NOW)
    first, second = await asyncio.gather(kept.decide("apr_1", NO, NOW), kept.decide("apr_1", YES, NOW))

    assert first == second
    assert first is not None
    assert first.status is ApprovalStatus.REJECTED
    assert await kept.decide("apr_9", YES, NOW) is None


async def test_a_word_that_comes_too_late_does_not_count() -> None:
    kept = book()
    await kept.ask(asked(1), NOW)
    late = await kept.decide("apr_1", YES, NOW + 60)

    assert late is not None
    assert late.status is ApprovalStatus.EXPIRED
    assert [each.id for each in await kept.lapsed(NOW + 60)] == ["apr_1"]
    assert await kept.lapsed(NOW + 60) == []


async def test_a_rejection_holds_for_the_run_and_a_time_out_for_the_turn() -> None:
    kept = book()
    await kept.ask(asked(1), NOW)
    await kept.decide("apr_1", NO, NOW)
    await kept.ask(asked(2, '{"n": 2}'), NOW)

    assert (await kept.ask(asked(3, turn=2), NOW)).status is ApprovalStatus.REJECTED
    assert (await kept.ask(asked(4, '{"n": 2}'), NOW + 60)).status is ApprovalStatus.EXPIRED
    assert (await kept.ask(asked(5, '{"n": 2}', turn=2), NOW + 60)).id == "apr_5"


async def test_whoever_waits_hears_of_the_decision() -> None:
    kept = book()
    await kept.ask(asked(1), NOW)
    async with asyncio.TaskGroup() as tasks:
        waits = [tasks.create_task(kept.decided("apr_1", 60)) for _ in range(3)]
        tasks.create_task(kept.decide("apr_1", YES, NOW))

    assert all(wait.done() for wait in waits)
    await kept.decided("apr_1", 60)
    await kept.decided("apr_9", 60)


async def test_whoever_waits_is_let_go_when_time_is_up() -> None:
    kept = book()
    await kept.ask(asked(1), NOW)
    await kept.decided("apr_1", 0)
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(kept.decided("apr_1", 60))
        tasks.create_task(kept.lapsed(NOW + 60))

    assert await statuses(kept) == {"apr_1": "expired"}


async def test_no_caller_takes_all_the_room() -> None:
    """D4: bounded in all and for each; what is decided makes room."""
    kept = book(most=3, each=2)
    calls = [f'{{"n": {number}}}' for number in range(9)]
    first = [(await kept.ask(asked(number, calls[number]), NOW)).status for number in range(3)]
    other = [(await kept.ask(asked(number, calls[number], caller="bob"), NOW)).status for number in (3, 4)]
    await kept.decide("apr_0", NO, NOW)

    assert first == ["pending", "pending", "full"]
    assert other == ["pending", "full"]
    assert (await kept.ask(asked(5, calls[5]), NOW)).status is ApprovalStatus.PENDING
    assert "apr_4" not in await statuses(kept)


async def test_old_decisions_go_and_what_may_be_used_stays() -> None:
    most = 2
    kept = book(most=most)
    await kept.ask(asked(0, '{"n": 0}'), NOW)
    await kept.decide("apr_0", YES, NOW)
    for number in range(1, 50):
        known = await kept.ask(asked(number, f'{{"n": {number}}}'), NOW)
        assert known.status is ApprovalStatus.PENDING
        await kept.decide(f"apr_{number}", NO, NOW)
    left = await statuses(kept)

    assert len(left) == most * KEPT_A_WAITING_ONE
    assert left["apr_0"] == "approved"
    assert (await kept.ask(asked(60, '{"n": 0}'), NOW)).id == "apr_0"


async def test_where_everything_may_still_be_used_nobody_else_is_asked() -> None:
    kept = book(most=1)
    for number in range(KEPT_A_WAITING_ONE):
        await kept.ask(asked(number, f'{{"n": {number}}}'), NOW)
        await kept.decide(f"apr_{number}", YES, NOW)

    assert (await kept.ask(asked(99), NOW)).status is ApprovalStatus.FULL
    assert (await kept.ask(asked(99), NOW + 100)).status is ApprovalStatus.PENDING


ACTS = st.tuples(
    st.sampled_from(["ask", "yes", "no", "take", "back", "later"]), st.integers(0, 2), st.sampled_from("ab")
)


@pytest.mark.parametrize("most", [1, 5])
@given(acts=st.lists(ACTS, max_size=30))
def test_nothing_is_used_that_was_not_approved_for_it(most: int, acts: list[tuple[str, int, str]]) -> None:
    """D4: whatever happens in whatever order, each approval is used at most once, for its own call and caller."""

    async def played() -> None:
        kept = book(most=most, each=most)
        now, count = NOW, 0
        approved: set[str] = set()
        used: set[str] = set()
        last: dict[tuple[int, str], str] = {}
        for act, number, caller in acts:
            key = (number, caller)
            if act == "later":
                now += 40
            elif act == "ask":
                count += 1
                fresh = replace(asked(count, f'{{"n": {number}}}', caller=caller), expires_at=now + 60)
                known = await kept.ask(fresh, now)
                assert known.binding == fresh.binding
                assert known.identity.key == caller
                last[key] = known.id
            elif act in {"yes", "no"}:
                word = replace(YES if act == "yes" else NO, use_by=now + 60)
                known_now = await kept.decide(last.get(key, ""), word, now)
                if known_now is not None and known_now.status is ApprovalStatus.APPROVED:
                    approved.add(known_now.id)
            elif act == "take":
                taken = await kept.take(last.get(key, ""), now)
                if taken is not None:
                    assert taken.id in approved - used
                    used.add(taken.id)
            elif last.get(key) in used:
                await kept.give_back(last[key])
                used.discard(last[key])
        assert len([each for each in await kept.listed(now) if each.status is ApprovalStatus.PENDING]) <= most

    asyncio.run(played())
