"""What an approval is bound to, and how it comes to its end (D4)."""

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, strategies as st

from proxy.core.approvals import (
    Approval,
    ApprovalStatus,
    Word,
    agrees,
    as_of,
    asked_for,
    binding_of,
    decided,
    still_answers,
    waits_for_person,
)
from proxy.core.messages import ToolCall, ToolKind
from proxy.core.runs import Identity, Run
from tests.checks.build import NOW, refused, run, step

ANN, BOB = Identity("key:ann"), Identity("key:bob")
CALL = ToolCall("c1", "refund", '{"order_id": "A1", "sum": 5}')


def approval(call: ToolCall = CALL, identity: Identity = ANN, run_id: str = "run_1", **more: Any) -> Approval:
    made = asked_for(
        "apr_1", identity, Run(run_id, identity.key, NOW), call, (), now=NOW, expires_at=NOW + 60
    )
    return replace(made, **more)


def bound(call: ToolCall = CALL, identity: str = "key:ann", run_id: str = "run_1") -> str:
    return binding_of(identity, run_id, call)


def test_spelling_makes_no_other_call() -> None:
    """D4: nor does the id, which the model makes up."""
    assert bound(ToolCall("c2", "refund", '{"sum":5,"order_id":"\\u0041\\u0031"}')) == bound()


@pytest.mark.parametrize(
    "other",
    [
        bound(identity="key:bob"),
        bound(run_id="run_2"),
        bound(replace(CALL, name="Refund")),
        bound(replace(CALL, kind=ToolKind.CUSTOM)),
        bound(replace(CALL, arguments='{"order_id": "A1", "sum": 6}')),
        bound(replace(CALL, arguments='{"order_id": "A1", "sum": "5"}')),
        bound(replace(CALL, arguments='{"order_id": "A1 ", "sum": 5}')),
        bound(replace(CALL, arguments='{"order_id": "A1", "sum": 5, "x": null}')),
        bound(replace(CALL, arguments='{"order_id": "A1", "sum": 5')),
    ],
)
def test_anything_else_is_another_call(other: str) -> None:
    """D4: another caller, run, tool, or argument; white space inside a text may be another command."""
    assert other != bound()


def test_free_text_counts_as_it_is() -> None:
    text = ToolCall("c1", "shell", "{}", kind=ToolKind.CUSTOM)

    assert bound(text) != bound(replace(text, arguments="{ }"))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)


@given(st.dictionaries(st.text(), JSON, max_size=3), st.dictionaries(st.text(), JSON, max_size=3))
def test_only_equal_arguments_share_a_binding(one: dict[str, Any], other: dict[str, Any]) -> None:
    """D4: an approval never lets another call pass."""
    first, second = (replace(CALL, arguments=json.dumps(each)) for each in (one, other))

    assert (bound(first) == bound(second)) == (
        json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)
    )


def test_what_nobody_decides_in_time_expires() -> None:
    """D4: and so does an approval that is not used in time."""
    assert as_of(approval(), NOW + 59).status is ApprovalStatus.PENDING
    assert as_of(approval(), NOW + 60).status is ApprovalStatus.EXPIRED
    yes = decided(approval(), Word(True, "boss", use_by=NOW + 90), NOW + 1)
    assert as_of(yes, NOW + 89).status is ApprovalStatus.APPROVED
    assert as_of(yes, NOW + 90).status is ApprovalStatus.EXPIRED
    used = replace(yes, status=ApprovalStatus.USED)
    assert as_of(used, NOW + 900) is used


def test_it_is_decided_once() -> None:
    """D4."""
    no = decided(approval(), Word(False, "boss", "too much"), NOW + 1)

    assert (no.status, no.decided_by, no.reason, no.decided_at) == (
        ApprovalStatus.REJECTED,
        "boss",
        "too much",
        NOW + 1,
    )
    assert decided(no, Word(True, "other", use_by=NOW + 90), NOW + 2) is no
    assert decided(approval(), Word(True, "late", use_by=NOW + 90), NOW + 60) == approval()


def test_the_same_word_again_agrees() -> None:
    yes, no = Word(True, "a"), Word(False, "b")
    by_status = {status: approval(status=status) for status in ApprovalStatus}

    assert [status for status, each in by_status.items() if agrees(each, yes)] == ["approved", "used"]
    assert [status for status, each in by_status.items() if agrees(each, no)] == ["rejected"]


def test_which_earlier_approvals_answer_a_later_call() -> None:
    """D4: used ones never; a rejection to the end of the run; a time-out until the user speaks again."""
    now, later = approval(turn=1), approval(turn=2)

    assert not still_answers(approval(status=ApprovalStatus.USED), now)
    assert still_answers(approval(status=ApprovalStatus.REJECTED), later)
    assert still_answers(approval(status=ApprovalStatus.EXPIRED), now)
    assert not still_answers(approval(status=ApprovalStatus.EXPIRED), later)
    assert not still_answers(approval(status=ApprovalStatus.EXPIRED, decided_at=NOW), now)
    assert still_answers(approval(), later)
    assert still_answers(approval(status=ApprovalStatus.APPROVED), later)


def test_a_turn_waits_for_a_person_until_the_call_has_left() -> None:
    """E8."""
    pending = refused("refund", "approval_pending")

    assert waits_for_person(run(pending))
    assert waits_for_person(run(pending, step("get_order")))
    assert not waits_for_person(run(pending, step("refund")))
    assert not waits_for_person(run(refused("refund", "approval_rejected")))
    assert not waits_for_person(run(pending, refused("refund", "approval_rejected")))
    assert not waits_for_person(run(pending, turn=2))
