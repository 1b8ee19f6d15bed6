"""What finds no room is refused before it happens, in the order of the answer (A1, B1, B3, D12, E5, E6, C014)."""

import pytest

from proxy.checks import judge_answer, judge_calls, judge_request
from proxy.core.verdicts import Action, refused_calls
from tests.checks.build import call, enforced, facts, request, short


@pytest.mark.parametrize(
    ("unit", "check"),
    [
        ("rounds", "budget.rounds"),
        ("seconds", "budget.seconds"),
        ("input_tokens", "budget.tokens"),
        ("total_tokens", "budget.tokens"),
    ],
)
def test_a_request_without_room_is_the_last_one(unit: str, check: str) -> None:
    """A1, B1, B3: the run is not cut dead."""
    (verdict,) = judge_request(facts(shortage=short(unit, "turn", 8, 8)))

    assert (verdict.check, verdict.action, verdict.reason_class) == (check, Action.FINISH, "budget")
    assert verdict.fields == {"budget": unit, "scope": "turn", "limit": 8, "used": 8}
    assert "the limit of 8" in verdict.message.lower()


def test_with_room_there_is_nothing_to_say() -> None:
    assert judge_request(facts()) == ()
    assert judge_calls(facts(call(), call_shortages=(None,))) == ()


def test_the_first_calls_that_fit_pass_and_the_rest_is_withheld() -> None:
    """C014, E2: five calls in one answer, room for two."""
    calls = [call("send_card", {"to": name}, id=name) for name in ("ann", "bo", "cy", "di", "ed")]
    shortage = short("per_tool.send_card", "run", 4, 4)
    verdicts = judge_calls(facts(*calls, call_shortages=(None, None, shortage, shortage, shortage)))

    assert set(refused_calls(verdicts, 5)) == {2, 3, 4}
    assert {(each.code, each.action, each.reason_class) for each in verdicts} == {
        ("budget_per_tool", Action.REASK, "budget")
    }
    assert "'send_card'" in verdicts[0].message
    assert verdicts[0].fields["tool"] == "send_card"


def test_where_no_call_fits_the_turn_is_brought_to_its_end() -> None:
    """B3, D12."""
    verdicts = judge_calls(facts(call(), call(id="c2"), call_shortages=(short(), short())))

    assert enforced(verdicts) == [("budget_calls", Action.FINISH)] * 2


def test_a_tool_that_is_used_up_leaves_the_other_tools() -> None:
    """D12: order at most once, the policy search may go on."""
    (verdict,) = judge_calls(facts(call("order"), call_shortages=(short("per_tool.order", "run", 1, 1),)))

    assert verdict.action is Action.REASK
    assert "other tools" in verdict.message


def test_an_answer_at_the_limit_is_delivered() -> None:
    """E6: limits stop new calls, they do not void results."""
    assert judge_answer(facts(shortage=short("calls"))) == ()


def test_a_call_refused_for_something_else_and_short_of_budget_has_both_recorded() -> None:
    verdicts = judge_calls(facts(call("strange"), request=request(), call_shortages=(short(),)))

    assert [each.code for each in verdicts] == ["tool_unknown", "budget_calls"]
