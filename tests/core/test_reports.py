"""What is said by program: facts and next steps, never an argument, a result or a name that plays tricks."""

import pytest
from hypothesis import given, strategies as st

from proxy.core.reports import (
    ENTRIES_LISTED,
    NAME_LENGTH,
    refusal_text,
    shown_name,
    stop_report,
)
from proxy.core.results import StepStatus
from proxy.core.runs import Step
from proxy.core.verdicts import Action, Verdict
from tests.checks.build import refused, run, step

SECRET = "s3cret-canary"


def verdict(reason_class: str = "budget", **fields: str | int | float | None) -> Verdict:
    message = "The limit of 3 rounds per turn is reached (3 used)."
    return Verdict(
        "budget.rounds", "budget_rounds", Action.FINISH, message, reason_class=reason_class, fields=fields
    )


def test_a_report_says_what_was_found_what_is_missing_and_what_would_change_it() -> None:
    """E10, E7, A5: from recorded facts, each kind of failure in its own words."""
    steps = [
        step("get_order"),
        step("get_order"),
        step("search", text='{"found":false,"reason":"no such page"}'),
        step("get_invoice", text='{"error":"FORBIDDEN"}'),
        step("get_stock", text='{"error":"DB_TIMEOUT"}'),
        step("send_mail", text='{"error":"boom"}'),
        step("slow", text=None),
        refused("refund"),
    ]

    assert stop_report(run(*steps), verdict()).splitlines() == [
        "[callgate] This task was stopped: The limit of 3 rounds per turn is reached (3 used).",
        "Found: get_order (2 results).",
        (
            "Missing: search (nothing found), get_invoice (access refused), get_stock (temporarily unavailable), "
            "send_mail (failed), slow (no result yet), refund (not run)."
        ),
        "To go on: A new message starts a new count; the operator of this system can raise the limit.",
    ]


def test_a_report_of_a_run_without_steps_is_whole_too() -> None:
    said = stop_report(run(), verdict()).splitlines()

    assert said[1] == "Found: nothing so far."
    assert len(said) == 3


def test_only_the_present_turn_is_reported() -> None:
    said = stop_report(run(step("earlier", turn=1), step("now", turn=2), turn=2), verdict())

    assert "now (1 result)" in said
    assert "earlier" not in said


def test_a_new_message_does_not_help_where_the_whole_run_is_spent() -> None:
    """E10: what would have to change depends on the scope of the limit."""
    in_turn = stop_report(run(), verdict(scope="turn"))
    in_run = stop_report(run(), verdict(scope="run"))

    assert "A new message starts a new count" in in_turn
    assert "A new message" not in in_run
    assert "start a new one" in in_run


@pytest.mark.parametrize(
    ("reason_class", "hint"),
    [
        ("loop", "do differently"),
        ("no_progress", "do differently"),
        ("policy_error", "fault of the system"),
        ("state_unavailable", "fault of the system"),
        ("allow_list", "allowed tools"),
        ("anything", "allowed tools"),
    ],
)
def test_the_next_step_fits_the_reason(reason_class: str, hint: str) -> None:
    """C4: what nobody but the operator can mend is told to people as such."""
    assert hint in stop_report(run(), verdict(reason_class)).splitlines()[-1]


@given(
    st.lists(
        st.builds(
            lambda name, status: Step(
                0, 1, 0, SECRET, name, f'{{"key":"{SECRET}"}}', SECRET, status, result=SECRET
            ),
            st.text(max_size=200),
            st.sampled_from(StepStatus),
        ),
        max_size=40,
    )
)
def test_no_report_quotes_an_argument_or_a_result(steps: list[Step]) -> None:
    """E10, D8: whatever the tools are called; and it stays short and printable."""
    said = stop_report(run(*steps), verdict())

    assert SECRET not in said
    assert all(line.replace("…", "").isascii() and line.isprintable() for line in said.splitlines())
    assert len(said.splitlines()) in {3, 4}
    assert len(said) < 2 * ENTRIES_LISTED * (NAME_LENGTH + 40) + 500


def test_many_invented_names_are_counted_and_not_listed() -> None:
    said = stop_report(run(*(refused(f"invented_{number}") for number in range(20))), verdict())

    assert f"invented_{ENTRIES_LISTED - 1} (not run) and {20 - ENTRIES_LISTED} more." in said


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("get_order", "get_order"),
        ("get order", "get order"),
        ("оrder", "\\u043erder"),
        ("a\nb\x1b[31m", "a\\nb\\x1b[31m"),
        ("\ud800", "\\ud800"),
        ("x" * 200, "x" * NAME_LENGTH + "…"),
        ("x" * NAME_LENGTH, "x" * NAME_LENGTH),
    ],
)
def test_a_name_is_shown_so_that_nothing_hides_in_it(name: str, shown: str) -> None:
    """C025"""
    assert shown_name(name) == shown


def test_a_refusal_is_an_explicit_error_with_what_to_do() -> None:
    """A11, C4: the model has no reason to invent a result."""
    said = refusal_text(Verdict("tools.unknown", "tool_unknown", Action.REASK, 'Use one of "a", "b".'))

    assert said == '[callgate] This call was not run (tool_unknown). Use one of "a", "b".'
