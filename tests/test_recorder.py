"""The witness of one request: what is told to spans and to the journal, said once by the gate."""

from dataclasses import replace

import pytest

from proxy.core.actions import Answer, Forward
from proxy.core.messages import RequestEdit, ToolCall, Turn, Usage
from proxy.core.results import StepStatus
from proxy.core.runs import Outcome
from proxy.core.verdicts import Action, Facts, Mode, Verdict
from proxy.recorder import Recorder
from tests.checks import build
from tests.staged import Stage

CALLS = (build.call("read", {"id": 1}, id="c1"), build.call("write", {"id": 2}, id="c2"))


def verdict(action: Action, place: int | None = None, mode: Mode = Mode.ENFORCE) -> Verdict:
    return Verdict("policy.org.rule", f"code_{action.name.lower()}", action, "Because.", place, mode=mode)


async def opened() -> tuple[Stage, Recorder, Facts]:
    stage = await Stage().opens()
    facts = replace(stage.state.facts, calls=CALLS)
    return stage, stage.state.recorder, facts


async def test_results_are_told_to_both() -> None:
    """A9, B4: one record a step."""
    stage, recorder, _ = await opened()
    steps = [build.step("read"), build.step("write")]
    recorder.results(stage.state.run, steps)

    assert stage.trace.names() == ["tool_result"] * 2
    assert stage.audit.names() == ["step"] * 2
    assert stage.audit.last("step") == ((stage.state.run, steps[1]), {"request_id": "req_1"})


@pytest.mark.parametrize(
    ("said", "action"),
    [
        ((), Action.PASS),
        ((Action.PASS,), Action.PASS),
        ((Action.NUDGE, Action.FINISH), Action.FINISH),
    ],
)
async def test_the_judgement_of_a_request_is_recorded_whatever_it_was(
    said: tuple[Action, ...], action: Action
) -> None:
    stage, recorder, facts = await opened()
    verdicts = [verdict(each) for each in said]
    edit = RequestEdit(note="Be brief.")
    recorder.request_judged(facts, verdicts, Forward(edit))

    assert stage.trace.names() == ["identified", "request_decision"]
    assert stage.audit.names() == ["decision", "request_edited"]
    _, named = stage.audit.last("decision")
    assert (named["phase"], named["action"], named["verdicts"]) == ("request", action, verdicts)
    assert stage.audit.last("request_edited")[0] == (facts.run, edit)


async def test_a_request_that_does_not_leave_has_no_edit() -> None:
    """C15: what was sent is what is recorded."""
    stage, recorder, facts = await opened()
    recorder.request_judged(facts, [verdict(Action.DENY)], Answer("No.", Outcome.DENIED, "code_deny"))

    assert stage.audit.names() == ["decision"]


async def test_a_verdict_in_shadow_is_recorded_and_is_not_what_followed() -> None:
    stage, recorder, facts = await opened()
    recorder.request_judged(facts, [verdict(Action.DENY, mode=Mode.SHADOW)], Forward(RequestEdit()))

    _, named = stage.audit.last("decision")
    assert named["action"] is Action.PASS
    assert len(named["verdicts"]) == 1


async def test_every_judged_call_is_told_of_with_its_own_verdicts_and_step() -> None:
    """A9, D5, D12: refused ones become records at once, released ones when their result comes."""
    stage, recorder, facts = await opened()
    earlier = await stage.ledger.record_calls(facts.run, [build.call(id="c0")], {})
    run = await stage.ledger.record_calls(earlier, CALLS, {1: "code_reask"})
    verdicts = [verdict(Action.PASS, 0), verdict(Action.REASK, 1), verdict(Action.NUDGE)]
    recorder.calls_judged(facts, run, verdicts, {1: "code_reask"}, 5)

    told = [(args, named) for name, args, named in stage.trace.told if name == "decision"]
    assert [(args[0].id, len(args[1]), args[2]) for args, _ in told] == [
        ("c1", 2, Action.NUDGE),
        ("c2", 2, Action.REASK),
    ]
    assert [(named["enforced"], named["step_number"], named["started_ns"]) for _, named in told] == [
        (False, 2, 5),
        (True, 3, 5),
    ]
    assert stage.audit.names() == ["step", "decision"]
    (_, step), _ = stage.audit.last("step")
    assert (step.call_id, step.status, step.refused_as) == ("c2", StepStatus.REFUSED, "code_reask")
    _, named = stage.audit.last("decision")
    assert (named["phase"], named["calls"], set(named["refused"])) == ("calls", CALLS, {1})


async def test_a_final_answer_is_recorded_only_where_there_is_something_to_say() -> None:
    stage, recorder, facts = await opened()
    recorder.answer_judged(replace(facts, answer=Turn(text="Fine.")), ())
    assert stage.audit.names() == []

    recorder.answer_judged(replace(facts, answer=Turn()), [verdict(Action.PASS)])
    hosted = (ToolCall("h1", "web_search", "{}"),)
    recorder.answer_judged(replace(facts, answer=Turn(hosted_calls=hosted)), ())

    assert stage.audit.names() == ["decision"] * 2
    assert stage.audit.last("decision")[1]["calls"] == hosted


async def test_only_a_run_that_has_an_outcome_has_ended() -> None:
    """C12, E8"""
    stage, recorder, facts = await opened()
    recorder.concluded(facts.run)
    assert stage.audit.names() == stage.trace.names() == []

    for _ in range(2):
        recorder.concluded(replace(facts.run, outcome=Outcome.COMPLETED))
    assert stage.audit.names() == stage.trace.names() == ["run_ended"]


async def test_limits_that_were_in_force_are_told_with_the_end() -> None:
    """D13"""
    stage, recorder, facts = await opened()
    recorder.request_judged(facts, (), Forward(RequestEdit()))
    recorder.concluded(replace(facts.run, outcome=Outcome.COMPLETED))

    assert stage.trace.last("run_ended")[0][1] is facts.limits


async def test_tokens_of_a_round_go_to_the_journal_and_the_end_to_the_span() -> None:
    """A7"""
    stage, recorder, facts = await opened()
    recorder.answered(facts.run, Usage(80, 20))
    recorder.finish(502, "upstream_error")

    assert stage.audit.last("answered")[0] == (facts.run, facts.run.spent.rounds, 80)
    assert stage.trace.last("finish")[0] == (502, "upstream_error")
