"""A run is a frozen value that only `applied` changes, and what stopped it first is what stopped it (C12, E8)."""

import dataclasses
from dataclasses import replace

import pytest
from hypothesis import given, strategies as st

from proxy.core.limits import Amounts
from proxy.core.results import StepStatus
from proxy.core.runs import ANSWERS_KEPT, STOPPED, Outcome, Run, RunChange, Step, applied
from tests.checks.build import NOW, step

FRESH = Run("run_1", "someone", NOW)


def changed(run: Run, **change: object) -> Run:
    return applied(run, RunChange(at=NOW, **change))  # type: ignore[arg-type]  # the test names real fields


def test_steps_are_numbered_when_they_are_applied() -> None:
    """A9: one record a step, in order."""
    run = changed(FRESH, add_steps=(step("a"), step("b")))
    run = changed(run, add_steps=(step("c"),))

    assert [(each.number, each.tool) for each in run.steps] == [(1, "a"), (2, "b"), (3, "c")]


def test_a_step_belongs_to_the_turn_in_which_it_was_made() -> None:
    run = changed(FRESH, add_steps=(step(turn=0),))
    run = changed(run, new_turn=True, add_steps=(step("later", turn=0), step("known", turn=1)))

    assert [(each.tool, each.turn) for each in run.steps] == [("lookup", 1), ("later", 2), ("known", 1)]
    assert [each.tool for each in run.turn_steps] == ["later"]


def test_a_result_replaces_the_open_step() -> None:
    run = changed(FRESH, add_steps=(step(text=None), step("other", text=None)))
    first = run.steps[0]

    run = changed(run, set_steps=(replace(first, status=StepStatus.FOUND, result="fine"),))

    assert [each.status for each in run.steps] == [StepStatus.FOUND, StepStatus.PENDING]
    assert [each.tool for each in run.open_steps] == ["other"]


def test_the_first_reason_why_a_run_stopped_is_the_reason() -> None:
    """C12: a finished run is immutable."""
    run = changed(
        FRESH, outcome=Outcome.NO_PROGRESS, outcome_detail="same_call", stop_report="It went in circles."
    )
    run = changed(run, outcome=Outcome.COMPLETED, outcome_detail="", stop_report="")

    assert (run.outcome, run.outcome_detail) == (Outcome.NO_PROGRESS, "same_call")
    assert run.stop_report == "It went in circles."


def test_a_new_message_of_the_user_opens_a_stopped_run_again() -> None:
    """Recoverable: the turn's counts start afresh, the run's go on."""
    spent = Amounts(rounds=3, calls=2)
    run = changed(
        FRESH, spend=spent, outcome=Outcome.LIMIT_REACHED, outcome_detail="rounds", stop_report="Stopped."
    )

    run = applied(run, RunChange(at=NOW + 60, new_turn=True))

    assert (run.outcome, run.outcome_detail, run.stop_report) == (Outcome.RUNNING, "", "")
    assert (run.turn, run.turn_started_at, run.turn_spent, run.spent) == (2, NOW + 60, Amounts(), spent)


def test_what_is_spent_late_belongs_to_the_turn_that_it_was_spent_for() -> None:
    run = changed(FRESH, new_turn=True)

    run = changed(run, spend=Amounts(rounds=1), spend_turn=1)
    assert (run.spent.rounds, run.turn_spent.rounds) == (1, 0)

    run = changed(run, spend=Amounts(rounds=1), spend_turn=2)
    assert (run.spent.rounds, run.turn_spent.rounds) == (2, 1)


def test_only_what_this_proxy_imposes_is_repeated() -> None:
    """E8: ended is not right; a completed answer is no wall."""
    assert {Outcome.LIMIT_REACHED, Outcome.NO_PROGRESS, Outcome.DENIED} == STOPPED


def test_a_few_answers_are_remembered_the_newest_last() -> None:
    run = FRESH
    for place in range(ANSWERS_KEPT + 3):
        run = changed(run, answer=bytes([place]))

    assert run.answers == tuple(bytes([place]) for place in range(3, ANSWERS_KEPT + 3))


def test_the_trace_of_the_first_request_stays() -> None:
    run = changed(FRESH, trace={"traceparent": "one"})

    assert changed(run, trace={"traceparent": "two"}).trace == {"traceparent": "one"}


def test_a_change_of_nothing_changes_only_when_the_run_was_last_seen() -> None:
    assert applied(FRESH, RunChange(at=NOW)) == replace(FRESH, last_seen_at=NOW)
    assert applied(replace(FRESH, last_seen_at=NOW + 9), RunChange(at=NOW)).last_seen_at == NOW + 9


@pytest.mark.parametrize("value", [FRESH, step(), RunChange(at=NOW)])
def test_what_happened_cannot_be_written_over(value: Run | Step | RunChange) -> None:
    """C12."""
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(value, dataclasses.fields(value)[0].name, "other")


CHANGES = st.builds(
    RunChange,
    at=st.floats(NOW, NOW + 9),
    new_turn=st.booleans(),
    add_steps=st.lists(st.builds(step, turn=st.just(0)), max_size=2).map(tuple),
    outcome=st.none() | st.sampled_from(Outcome),
    spend=st.builds(Amounts, rounds=st.integers(0, 3), calls=st.integers(0, 3)),
)


@given(st.lists(CHANGES, max_size=8))
def test_numbers_ascend_and_spending_never_shrinks(changes: list[RunChange]) -> None:
    run = FRESH
    for change in changes:
        before, run = run, applied(run, change)
        assert run.spent.rounds == before.spent.rounds + change.spend.rounds
        assert run.turn_spent.calls <= run.spent.calls
        if not change.new_turn and before.is_stopped:
            assert run.outcome is before.outcome
    assert [each.number for each in run.steps] == list(range(1, len(run.steps) + 1))
    assert all(1 <= each.turn <= run.turn for each in run.steps)
