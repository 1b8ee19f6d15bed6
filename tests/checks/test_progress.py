"""Calls that learn nothing new are braked, in degrees; work that goes on is left alone (A4, D9, D11, E9, E11)."""

import json
from dataclasses import replace

import pytest
from hypothesis import given, strategies as st

from proxy.checks import judge_calls, judge_request
from proxy.core.limits import Amounts, Brakes
from proxy.core.results import StepStatus, ToolTraits
from proxy.core.runs import Run, Step
from proxy.core.verdicts import Action, CheckSettings, Mode, Verdict
from tests.checks.build import call, codes, enforced, facts, refused, request, run, step

EMPTY = '{"hits":[]}'
SEARCHES = [
    '{"q":"reset token","limit":5}',
    '{ "limit": 5, "q": "reset token" }',
    '{"q":"reset \\u0074oken","limit":5}',
]
WRITE = {"edit": ToolTraits(effect="write")}


def asked(
    *steps: Step, arguments: object = None, tool: str = "lookup", **more: object
) -> tuple[Verdict, ...]:
    """The verdicts on a further call after these steps."""
    offered = dict.fromkeys([tool, *(each.tool for each in steps)])
    whole = request(tools=tuple(offered))
    return judge_calls(facts(call(tool, arguments), request=whole, run=run(*steps), **more))  # type: ignore[arg-type]  # the test names real parts


def noted(*steps: Step, **more: object) -> list[str]:
    """The notes to the model after these steps."""
    verdicts = judge_request(facts(run=run(*steps), **more))  # type: ignore[arg-type]  # the test names real parts
    assert {each.action for each in verdicts} <= {Action.NUDGE}
    return [each.message for each in verdicts]


# --- the same call --------------------------------------------------------------------------------------------


def test_the_same_call_in_four_spellings_with_the_same_empty_answer_is_one_loop() -> None:
    """C008, A4, D9, E11."""
    steps = [step("search_docs", written, EMPTY) for written in SEARCHES]
    for known in range(3):
        assert asked(*steps[:known], tool="search_docs", arguments=SEARCHES[0]) == ()

    (verdict,) = asked(*steps, tool="search_docs", arguments='{"limit":5,"q":"reset token"}\n')

    assert (verdict.check, verdict.action, verdict.reason_class) == (
        "progress.same_call",
        Action.FINISH,
        "loop",
    )
    assert '"search_docs"' in verdict.message
    assert "3 times" in verdict.message
    assert verdict.fields == {"tool": "search_docs", "count": 3, "limit": 3}


def test_the_second_time_the_model_is_told() -> None:
    """A4: the cheap brake. E11: the same search twice with the same empty result ends the search."""
    steps = [step("search_docs", written, EMPTY) for written in SEARCHES]

    assert noted(steps[0]) == []
    (note,) = noted(*steps[:2])
    assert "this search has ended" in note
    (note,) = noted(step(), step())
    assert "gave the same result 2 times" in note


def test_polling_with_changing_answers_is_progress() -> None:
    """C009, E9: two equal answers in the middle are below the limit."""
    answers = ["queued", "running 10%", "running 40%", "running 40%", "running 75%", "done"]
    for known in range(len(answers) + 1):
        steps = [step("job_status", {"job": "J-7"}, text) for text in answers[:known]]
        assert asked(*steps, tool="job_status", arguments={"job": "J-7"}) == ()
        assert noted(*steps) == []


def test_a_poll_that_stalls_is_stopped() -> None:
    steps = [step("job_status", text=text) for text in ("queued", "running", "running", "running")]

    assert codes(asked(*steps, tool="job_status")) == ["same_call"]


def test_a_tool_declared_as_polling_is_left_to_its_limits() -> None:
    traits = {"job_status": ToolTraits(polling=True)}
    steps = [step("job_status", text="queued") for _ in range(20)]

    assert asked(*steps, tool="job_status", traits=traits) == ()
    assert noted(*steps, traits=traits) == []


def test_something_learnt_elsewhere_makes_another_try_fair() -> None:
    """D9: no progress is that nothing new is learnt."""
    steps = [step(), step(), step(), step("other", {"n": 1}, "a new fact")]

    assert asked(*steps) == ()
    assert codes(asked(*steps, step(), step(), step())) == ["same_call"]
    assert codes(asked(*steps[:3], step("other", {"n": 1}, EMPTY))) == ["same_call"]


def test_a_change_of_the_world_makes_another_try_fair() -> None:
    """D9: a look at the state after an act is no loop, though the act always says the same."""
    rounds = [step("run_tests", text="3 failed")]
    for place in range(5):
        rounds += [step("edit", {"line": place}, "ok"), step("run_tests", text="3 failed")]

    assert asked(*rounds, tool="run_tests", traits=WRITE) == ()
    assert codes(asked(*rounds, tool="run_tests")) == ["same_call"]


def test_a_new_message_of_the_user_starts_all_counts_anew() -> None:
    before = run(step(), step(), step())
    after = replace(before, turn=2)

    assert judge_calls(facts(call(), run=after)) == ()
    assert judge_request(facts(run=after)) == ()


def test_volatile_arguments_do_not_hide_a_loop() -> None:
    """D10."""
    traits = {"lookup": ToolTraits(volatile_arguments=("nonce",))}
    same = call(arguments={"q": "x"})
    steps = [step(arguments={"q": "x"}) for _ in range(3)]

    assert codes(judge_calls(facts(same, run=run(*steps), traits=traits))) == ["same_call"]
    assert codes(asked(*steps, arguments={"q": "x", "nonce": 4}, traits=traits)) == ["same_call"]


def test_equal_calls_in_one_answer_pass_up_to_the_number() -> None:
    """A pair of equal parallel calls is nothing unusual; more than the number is."""
    same = [call(id=f"c{place}") for place in range(5)]

    verdicts = judge_calls(facts(*same))

    assert [(each.code, each.action, each.call) for each in verdicts] == [
        ("same_call", Action.REASK, 3),
        ("same_call", Action.REASK, 4),
    ]
    assert judge_calls(facts(*same[:3])) == ()


def test_equal_calls_of_one_answer_count_though_they_are_judged_one_by_one() -> None:
    released = [step(text=None, call_id=f"c{place}", round=7) for place in range(3)]
    now = run(*released, spent=Amounts(rounds=7))

    assert codes(judge_calls(facts(call(id="c9"), run=now))) == ["same_call"]
    assert judge_calls(facts(call(id="c9"), run=replace(now, spent=Amounts(rounds=8)))) == ()


def test_a_pair_of_equal_parallel_calls_is_no_reason_for_a_note() -> None:
    assert noted(step(round=1), step(round=1)) == []
    assert len(noted(step(round=1), step(round=1), step(round=2))) == 1


def test_only_the_newest_results_are_noted() -> None:
    assert noted(step(), step(), step("other", text="news")) == []


# --- ever new words -------------------------------------------------------------------------------------------


def test_ever_new_wordings_with_the_same_empty_answer_stop_at_the_sixth() -> None:
    """C010, script B."""
    steps = [step("search_docs", {"q": f"wording {place}"}, EMPTY) for place in range(5)]
    for known in range(5):
        assert asked(*steps[:known], tool="search_docs", arguments={"q": "yet another"}) == ()

    (verdict,) = asked(*steps, tool="search_docs", arguments={"q": "yet another"})

    assert (verdict.code, verdict.action, verdict.reason_class) == (
        "same_result",
        Action.FINISH,
        "no_progress",
    )
    assert "not found" in verdict.message


def test_nothing_found_is_the_same_in_whatever_words() -> None:
    steps = [step("search", {"q": place}, json.dumps({"query": place, "results": []})) for place in range(5)]

    assert codes(asked(*steps, tool="search", arguments={"q": 9})) == ["same_result"]


def test_the_next_page_is_progress() -> None:
    """C010, script A; E9."""
    steps = [step("list_orders", {"page": n}, f'[{{"id":{n}}},{{"id":{n + 100}}}]') for n in range(12)]

    assert asked(*steps, tool="list_orders", arguments={"page": 12}) == ()
    assert noted(*steps) == []


def test_acts_that_all_say_done_are_no_loop() -> None:
    """A6: an empty value is no failure."""
    for text in ("ok", "", "null"):
        steps = [step("edit", {"line": place}, text) for place in range(9)]
        assert asked(*steps, tool="edit", arguments={"line": 99}) == ()
        assert asked(*steps, tool="edit", arguments={"line": 99}, traits=WRITE) == ()


def test_errors_that_teach_something_each_are_no_loop() -> None:
    steps = [step("book", {"amount": place}, f"Error: the price is {place + 1}") for place in range(9)]

    assert asked(*steps, tool="book", arguments={"amount": 99}) == ()


def test_many_misses_in_one_answer_are_one_try() -> None:
    steps = [step("search", {"day": day}, "[]", round=1) for day in range(8)]

    assert asked(*steps, tool="search", arguments={"day": 9}) == ()


def test_other_finds_in_between_are_progress() -> None:
    steps: list[Step] = []
    for place in range(8):
        steps += [step("search", {"q": place}, EMPTY), step("read", {"n": place}, f"page {place}")]

    assert asked(*steps, tool="search", arguments={"q": 9}) == ()


# --- cycles ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("period", range(2, 9))
def test_a_cycle_of_any_length_to_eight_is_seen_in_its_fourth_round(period: int) -> None:
    """D9, design 8."""
    block = [step("tool", {"n": place}, f"answer {place}") for place in range(period)]
    only_cycles = Brakes(same_call_stop=None, same_call_nudge=None)

    assert codes(asked(*block * 3, tool="tool", arguments={"n": 0}, brakes=only_cycles)) == ["cycle"]
    assert asked(*block * 2, tool="tool", arguments={"n": 0}, brakes=only_cycles) == ()
    assert asked(*block * 3, tool="tool", arguments={"n": 99}, brakes=only_cycles) == ()
    assert codes(asked(*block * 3, tool="tool", arguments={"n": 0})) != []


def test_switching_to_and_fro_is_a_cycle_though_every_act_changes_the_world() -> None:
    traits = {"lamp": ToolTraits(effect="write", repeatable=True)}
    block = [step("lamp", {"on": True}, "on"), step("lamp", {"on": False}, "off")]

    assert codes(asked(*block * 3, tool="lamp", arguments={"on": True}, traits=traits)) == ["cycle"]


def test_a_round_with_another_result_breaks_the_cycle() -> None:
    same = [step("a", text="x"), step("b", text="y")]
    fresh = [step("a", text="x"), step("b", text="news")]

    assert asked(*same * 2, *fresh, *same, tool="a", brakes=Brakes(same_call_stop=None)) == ()


# --- retries -----------------------------------------------------------------------------------------------------


def test_a_retry_after_a_passing_fault_is_fair_within_its_count() -> None:
    """D11, A10: the tool times out."""
    timeout = step("policy_search", {"q": "refund"}, '{"error":"DB_TIMEOUT"}')
    for known in range(4):
        assert asked(*[timeout] * known, tool="policy_search", arguments={"q": "refund"}) == ()
        assert noted(*[timeout] * known) == []

    (verdict,) = asked(*[timeout] * 4, tool="policy_search", arguments={"q": "refund"})

    assert (verdict.code, verdict.action) == ("retries", Action.FINISH)
    assert verdict.fields == {"tool": "policy_search", "count": 4, "limit": 4}


def test_a_retry_that_succeeded_ends_the_count() -> None:
    """D11: a time-out and then success is a fair retry."""
    timeout, fine = step(text='{"error":"TIMEOUT"}'), step(text="fine")

    assert asked(timeout, timeout, fine, timeout, timeout) == ()


def test_an_error_that_stays_is_not_tried_for_ever() -> None:
    """A10: the tool returns an error, and the user says `keep trying until it works`."""
    assert codes(asked(*[step(text="Error: no such column")] * 3)) == ["same_call"]


# --- refusals insisted on --------------------------------------------------------------------------------------------


def shells(count: int, code: str = "tool_not_allowed", round: int = 0) -> list[Step]:  # noqa: A002 - the field's own name
    return [refused("run_shell", code, {"cmd": f"variant {place}"}, round=round) for place in range(count)]


def blocked(
    known: Run, *, brakes: Brakes | None = None, settings: CheckSettings | None = None
) -> tuple[Verdict, ...]:
    """The verdicts on a call of a tool that is not on offer, after these refusals."""
    shell = call("run_shell", {"cmd": "init 6"})
    return judge_calls(
        facts(shell, request=request(tools=("read_log",)), run=known, brakes=brakes, settings=settings)
    )


def test_a_refused_tool_asked_for_again_and_again_ends_the_run_whatever_the_arguments() -> None:
    """C011, D5."""
    code = "tool_unknown"
    assert codes(blocked(run(*shells(1, code=code)))) == ["tool_unknown"]

    verdicts = blocked(run(*shells(2, code=code)))

    assert codes(verdicts) == ["tool_unknown", "insisted"]
    assert enforced(verdicts) == [("tool_unknown", Action.REASK), ("insisted", Action.FINISH)]
    assert verdicts[1].reason_class == "no_progress"
    assert verdicts[1].fields["refused_as"] == "tool_unknown"


def test_a_mended_call_is_not_held_against_the_model() -> None:
    """C4: what the model can mend it may mend."""
    before = run(*[refused(code="arguments_invalid")] * 2)

    assert judge_calls(facts(call(), run=before)) == ()
    assert enforced(judge_calls(facts(call(arguments="{broken"), run=before)))[-1] == (
        "insisted",
        Action.FINISH,
    )


def test_refusals_for_other_reasons_or_tools_are_not_insisting() -> None:
    assert codes(blocked(run(*shells(2, code="wrong_owner")))) == ["tool_unknown"]
    assert codes(blocked(run(refused("a"), refused("b"), refused("c")))) == ["tool_unknown"]


def test_several_refusals_in_one_answer_are_one_try() -> None:
    assert codes(blocked(run(*shells(4, code="tool_unknown", round=1)))) == ["tool_unknown"]


def test_too_many_refusals_of_any_kind_end_the_run() -> None:
    many = [refused(f"tool{place}", f"code{place}") for place in range(6)]

    assert codes(blocked(run(*many[:5]))) == ["tool_unknown"]
    assert codes(blocked(run(*many))) == ["tool_unknown", "refusals"]


def test_refusals_of_an_earlier_turn_do_not_count() -> None:
    assert codes(blocked(replace(run(*shells(9, code="tool_unknown")), turn=2))) == ["tool_unknown"]


def test_what_a_shadowed_check_refuses_is_not_counted() -> None:
    settings = CheckSettings(modes={"tools": Mode.SHADOW})

    assert enforced(blocked(run(*shells(9, code="tool_unknown")), settings=settings)) == []


# --- the numbers -----------------------------------------------------------------------------------------------------


OFF = Brakes(
    same_call_nudge=None,
    same_call_stop=None,
    same_result_stop=None,
    cycle_rounds=None,
    transient_retries=None,
    insisted_refusals=None,
    refusals=None,
)
STEPS = st.lists(
    st.builds(
        step,
        tool=st.sampled_from("ab"),
        arguments=st.sampled_from([{}, {"n": 1}]),
        text=st.sampled_from([None, "fine", EMPTY, "Error: boom", '{"error":"TIMEOUT"}', "other"]),
    ),
    max_size=20,
)


@given(STEPS)
def test_every_brake_can_be_switched_off(steps: list[Step]) -> None:
    assert asked(*steps, tool="a", brakes=OFF) == ()
    assert noted(*steps, brakes=OFF) == []
    assert codes(blocked(run(*shells(9, code="tool_unknown")), brakes=OFF)) == ["tool_unknown"]


@given(STEPS, st.integers(1, 4))
def test_a_call_that_was_never_made_before_is_only_stopped_for_a_fruitless_tool(
    steps: list[Step], stop: int
) -> None:
    brakes = Brakes(same_call_stop=stop, same_result_stop=stop, cycle_rounds=stop, transient_retries=stop)

    assert set(codes(asked(*steps, tool="a", arguments={"n": "new"}, brakes=brakes))) <= {"same_result"}


@given(st.integers(1, 6), st.integers(0, 8))
def test_the_numbers_are_the_configured_ones(stop: int, times: int) -> None:
    """A4: thresholds are configurable."""
    brakes = Brakes(same_call_stop=stop, same_call_nudge=stop)
    steps = [step() for _ in range(times)]

    assert codes(asked(*steps, brakes=brakes)) == (["same_call"] if times >= stop else [])
    assert len(noted(*steps, brakes=brakes)) == (1 if times >= stop else 0)


def test_open_calls_are_no_repetition() -> None:
    assert asked(*[step(text=None)] * 5) == ()
    assert step(text=None).status is StepStatus.PENDING
