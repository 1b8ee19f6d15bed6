"""What policy makes of one call."""

from __future__ import annotations

from proxy.core.verdicts import Decision, Demand, Denial
from proxy.policy_results import Result, reasons_of, result_of


def test_the_strictest_thing_said_of_a_call_counts() -> None:
    decision = Decision(
        denials=(Denial("a", "m", 0, layer="org", rule="r"), Denial("b", "m", 2, shadow=True)),
        demands=(Demand("p", "m", 0), Demand("p", "m", 1, "team.x", "s")),
    )

    assert [result_of(decision, place) for place in range(3)] == [
        Result.REFUSED,
        Result.APPROVAL,
        Result.ALLOWED,
    ]
    assert [reasons_of(decision, place) for place in range(3)] == [
        ("org: r (a)", ":  (p)"),
        ("team.x: s (p)",),
        (),
    ]


def test_what_names_no_call_is_about_all_and_no_decision_refuses() -> None:
    """C033."""
    assert result_of(Decision(denials=(Denial("a", "m"),)), 3) is Result.REFUSED
    assert result_of(Decision(fault="too slow"), 0) is Result.REFUSED
    assert reasons_of(Decision(fault="too slow"), 0) == ("no decision: too slow",)


def test_each_has_a_word() -> None:
    assert [each.word for each in Result] == ["allowed", "needs approval", "refused"]
