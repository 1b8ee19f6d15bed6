"""What a person's word does to a call (D4, C4)."""

from dataclasses import replace

import pytest
from hypothesis import given, strategies as st

from proxy.checks.approval import ApprovalCheck
from proxy.core.approvals import Approval, ApprovalStatus, asked_for
from proxy.core.results import ToolTraits
from proxy.core.runs import Identity, Run
from proxy.core.verdicts import Action, Decision, Demand, Verdict
from tests.checks.build import NOW, call, codes, facts

DEMAND = Demand("large", "Large refunds need a person.", 0, "team.shop", "large")
REFUND = call("refund", {"sum": 500})


def approval(status: ApprovalStatus, **more: str) -> Approval:
    made = asked_for("apr_1", Identity(), Run("run_1", "someone", NOW), REFUND, (), now=NOW, expires_at=NOW)
    return replace(made, status=status, **more)  # type: ignore[arg-type]  # texts only


def said(*demands: Demand, **approvals: Approval) -> tuple[Verdict, ...]:
    """Verdicts about two calls; approvals by place, as `at0=…`."""
    given_ = {int(place.removeprefix("at")): each for place, each in approvals.items()}
    whole = facts(REFUND, call("other"), decision=Decision(demands=demands), approvals=given_)
    return tuple(ApprovalCheck().on_calls(whole))


def test_what_nobody_demands_needs_nobody() -> None:
    assert said() == ()


def test_what_was_approved_passes_and_is_recorded() -> None:
    """D4."""
    (verdict,) = said(DEMAND, at0=approval(ApprovalStatus.USED, decided_by="boss", reason="fine"))

    assert (verdict.code, verdict.action, verdict.call) == ("approval_given", Action.PASS, 0)
    assert verdict.fields == {
        "demand": "large",
        "approval": "apr_1",
        "status": "used",
        "by": "boss",
        "reason": "fine",
    }


@pytest.mark.parametrize(
    ("status", "code", "words"),
    [
        (ApprovalStatus.PENDING, "approval_pending", "waits for a person as apr_1. Do not make it again now"),
        (ApprovalStatus.REJECTED, "approval_rejected", "and said: too much. Do not make it again"),
        (ApprovalStatus.EXPIRED, "approval_expired", "Nobody approved"),
        (ApprovalStatus.FULL, "approval_full", "cannot be put before anybody"),
        # Approved, but taken by another request: this one did not get it.
        (ApprovalStatus.APPROVED, "approval_pending", "waits for a person"),
    ],
)
def test_anything_else_is_refused_with_what_the_model_can_do(
    status: ApprovalStatus, code: str, words: str
) -> None:
    """C4, D4: layer and rule are kept."""
    (verdict,) = said(DEMAND, at0=approval(status, reason="too much."))

    assert (verdict.code, verdict.action, verdict.call) == (code, Action.REASK, 0)
    assert (verdict.layer, verdict.rule, verdict.reason_class) == ("team.shop", "large", "approval")
    assert verdict.message.startswith("Large refunds need a person. ")
    assert words in verdict.message


def test_a_call_about_which_nobody_was_asked_does_not_pass() -> None:
    """D4: fail closed."""
    (verdict,) = said(DEMAND)

    assert (verdict.code, verdict.action) == ("approval_pending", Action.REASK)


@pytest.mark.parametrize("place", [None, 2, 99])
def test_a_demand_that_names_no_call_is_about_all(place: int | None) -> None:
    demand = replace(DEMAND, call=place)

    assert [verdict.call for verdict in said(demand)] == [0, 1]


def test_one_word_answers_the_demands_of_all_layers() -> None:
    other = Demand("org", "All writes.", 0, "org", "approvals.effects")

    assert codes(said(DEMAND, other, at0=approval(ApprovalStatus.USED))) == ["approval_given"] * 2


def test_side_effects_are_judged_too() -> None:
    whole = facts(REFUND, REFUND, traits={"refund": ToolTraits(effect="write")})

    assert codes(tuple(ApprovalCheck().on_calls(whole))) == ["side_effect_twice"]


@given(
    st.lists(st.sampled_from([0, 1, None]), max_size=3),
    st.dictionaries(st.sampled_from([0, 1]), st.sampled_from(list(ApprovalStatus))),
)
def test_a_demanded_call_passes_only_with_an_approval_of_its_own(
    places: list[int | None], statuses: dict[int, ApprovalStatus]
) -> None:
    """D4."""
    demands = [replace(DEMAND, call=place) for place in places]
    verdicts = said(*demands, **{f"at{place}": approval(status) for place, status in statuses.items()})
    held = {verdict.call for verdict in verdicts if verdict.action is Action.REASK}

    for place in (0, 1):
        wanted = place in places or None in places
        assert (place in held) == (wanted and statuses.get(place) is not ApprovalStatus.USED)
