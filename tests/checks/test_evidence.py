"""Check `evidence`: unsupported citations as verdicts (E15)."""

from __future__ import annotations

from proxy.checks.evidence import EvidenceCheck
from proxy.core.limits import Limits
from proxy.core.messages import Request
from proxy.core.runs import Identity, Run
from proxy.core.verdicts import Action, Cited, Decision, Facts, Mode, Verdict


def said(*cited: Cited) -> list[Verdict]:
    facts = Facts(Identity(), Request("t", "m", ()), Run("r", "k", 1.0), Decision(cited=cited), Limits(), 2.0)
    check = EvidenceCheck()
    assert [*check.on_request(facts), *check.on_calls(facts)] == []
    return list(check.on_answer(facts))


def test_what_is_named_without_a_source_is_told_to_the_model() -> None:
    """E15. C4: it can mend it."""
    (verdict,) = said(Cited(("A1", "B2"), layer="team.blue", rule="answers.orders"))

    assert (verdict.check, verdict.code, verdict.action) == (
        "evidence.team.blue.orders",
        "evidence_missing",
        Action.REASK,
    )
    assert (verdict.layer, verdict.rule) == ("team.blue", "answers.orders")
    assert "A1, B2" in verdict.message
    assert verdict.fields == {"missing": "A1, B2"}


def test_of_many_a_few_are_named() -> None:
    (verdict,) = said(Cited(tuple(f"A{number}" for number in range(9))))

    assert "A4 and 4 more" in verdict.message
    assert "A5" not in verdict.message


def test_its_own_words_and_shadow_are_kept() -> None:
    (verdict,) = said(Cited(("A1",), message="Read it first.", shadow=True))

    assert (verdict.message, verdict.mode) == ("Read it first.", Mode.SHADOW)


def test_nothing_cited_nothing_said() -> None:
    assert said() == []
    assert said(Cited(())) == []
