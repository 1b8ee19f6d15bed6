"""What Rego denies becomes a verdict as it was said; what could not be decided is refused (F2, F3, C4)."""

from proxy.checks import judge_answer, judge_calls, judge_request
from proxy.core.verdicts import Action, CheckSettings, Decision, Denial, Mode, refused_calls
from tests.checks.build import call, enforced, facts

OWNER = Denial("wrong_owner", "This reservation is not yours.", 1, Action.REASK, "org", "owner")


def test_a_denial_is_said_as_policy_said_it() -> None:
    """D2, D3."""
    (verdict,) = judge_calls(facts(call(), call(id="c2"), decision=Decision(denials=(OWNER,))))

    assert (verdict.check, verdict.code, verdict.call) == ("policy.org.owner", "wrong_owner", 1)
    assert (verdict.layer, verdict.rule, verdict.action) == ("org", "owner", Action.REASK)
    assert (verdict.message, verdict.reason_class) == ("This reservation is not yours.", "argument_rule")


def test_every_denial_is_recorded_and_the_strongest_acts() -> None:
    """F2: deny wins, whatever the layer."""
    stronger = Denial("blocked", "No.", 1, Action.DENY, "team.air")
    verdicts = judge_calls(facts(call(), call(id="c2"), decision=Decision(denials=(OWNER, stronger))))

    assert [each.check for each in verdicts] == ["policy.org.owner", "policy.team.air.blocked"]
    assert refused_calls(verdicts, 2)[1].code == "blocked"
    assert 0 not in refused_calls(verdicts, 2)


def test_what_is_said_in_shadow_never_acts() -> None:
    shadowed = Denial("new_rule", "Perhaps not.", 0, Action.DENY, "org", shadow=True)
    (verdict,) = judge_calls(facts(call(), decision=Decision(denials=(shadowed,))))

    assert verdict.mode is Mode.SHADOW
    assert not enforced((verdict,))


def test_a_layer_can_be_switched_by_its_name() -> None:
    settings = CheckSettings(modes={"policy.org": Mode.SHADOW})
    stronger = Denial("blocked", "No.", 0, Action.DENY, "team.air")
    verdicts = judge_calls(facts(call(), decision=Decision(denials=(OWNER, stronger)), settings=settings))

    assert [each.mode for each in verdicts] == [Mode.SHADOW, Mode.ENFORCE]


def test_a_denial_about_no_call_or_a_strange_one_is_about_all() -> None:
    for place in (None, 7, -1):
        verdicts = judge_calls(
            facts(call(), call(id="c2"), decision=Decision(denials=(Denial("x", "No.", place),)))
        )
        assert set(refused_calls(verdicts, 2)) == {0, 1}


def test_a_request_can_be_denied() -> None:
    """D16."""
    denial = Denial("model_not_allowed", "This model is not for your team.", None, Action.DENY, "team.air")
    (verdict,) = judge_request(facts(decision=Decision(denials=(denial,))))

    assert (verdict.action, verdict.call, verdict.reason_class) == (Action.DENY, None, "policy_rule")
    assert enforced(judge_answer(facts(decision=Decision(denials=(denial,))))) == [
        ("model_not_allowed", Action.DENY)
    ]


def test_a_denial_about_the_tool_is_of_the_allow_list() -> None:
    """D5."""
    denial = Denial("tool_not_allowed", "Not this one.", 0)

    assert judge_calls(facts(call(), decision=Decision(denials=(denial,))))[0].reason_class == "allow_list"


def test_a_policy_that_could_not_be_asked_refuses_everything_and_tells_people() -> None:
    """C4, F3: what the model cannot mend is not put to the model."""
    broken = Decision(fault="time-out after 1 s")
    for verdicts in (judge_request(facts(decision=broken)), judge_calls(facts(call(), decision=broken))):
        (verdict,) = verdicts
        assert (verdict.check, verdict.code, verdict.action) == ("policy.fault", "policy_error", Action.DENY)
        assert verdict.reason_class == "policy_error"
        assert "operator" in verdict.message
        assert "time-out" not in verdict.message
    assert set(refused_calls(judge_calls(facts(call(), call(id="c2"), decision=broken)), 2)) == {0, 1}


def test_what_cannot_be_judged_is_refused_whatever_is_said_about_faults() -> None:
    """C4: a model that could bring about a fault that is let pass would have switched policy off."""
    unjudged = Decision(fault="the arguments of a call hold a character that cannot be judged", unjudged=True)
    open_ = CheckSettings(modes={"policy.fault": Mode.SHADOW})
    (verdict,) = judge_calls(facts(call(), decision=unjudged, settings=open_))
    assert (verdict.check, verdict.action) == ("policy.input", Action.REASK)
    assert verdict.mode is Mode.ENFORCE
    assert "hold a character that cannot be judged. Make the calls again" in verdict.message
    (verdict,) = judge_request(facts(decision=unjudged, settings=open_))
    assert (verdict.code, verdict.action, verdict.mode) == ("not_judgeable", Action.DENY, Mode.ENFORCE)
