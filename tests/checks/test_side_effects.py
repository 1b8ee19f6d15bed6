"""Acts with side effects are not repeated blindly (D4)."""

import json
from typing import Any

import pytest
from hypothesis import given, strategies as st

from proxy.checks.side_effects import repeated_acts
from proxy.core.limits import Amounts
from proxy.core.messages import Tool
from proxy.core.results import StepStatus, ToolTraits
from proxy.core.runs import Step
from tests.checks.build import call, codes, facts, refused, request, run, step

WRITES = ToolTraits(effect="write")
KEYED = ToolTraits(effect="write", idempotency_argument="key")
READS = ToolTraits(effect="read")
TRAITS = {"refund": WRITES, "pay": KEYED, "get_order": READS}
ORDER = {"order_id": "A1"}
DOWN = '{"error": "TIMEOUT"}'


def said(*calls: Any, steps: tuple[Step, ...] = (), traits: dict[str, ToolTraits] | None = None) -> list[str]:
    """The codes about these calls after these steps."""
    offered = request(tools=[Tool(name) for name in ("refund", "pay", "get_order", "other")])
    return codes(
        tuple(repeated_acts(facts(*calls, request=offered, run=run(*steps), traits=traits or TRAITS)))
    )


def test_a_first_act_passes() -> None:
    """D4."""
    assert said(call("refund", ORDER)) == []


def test_what_was_done_is_not_done_again() -> None:
    """D4: however the same arguments are written, and however long ago it was in the run."""
    done = step("refund", ORDER, '{"ok": true}', turn=1)
    later = step("get_order", ORDER, "{}", turn=3)

    assert said(call("refund", '{"order_id" :  "A1"}'), steps=(done, later)) == ["side_effect_done"]
    assert said(call("refund", {"order_id": "A2"}), steps=(done,)) == []


def test_reading_twice_and_tools_that_nobody_described_are_not_looked_at() -> None:
    assert said(call("get_order", ORDER), steps=(step("get_order", ORDER, "{}"),)) == []
    assert said(call("other", ORDER), steps=(step("other", ORDER, "{}"),)) == []


@pytest.mark.parametrize("more", [{"repeatable": True}, {"polling": True}])
def test_a_tool_that_may_be_repeated_is(more: dict[str, bool]) -> None:
    traits = {"refund": ToolTraits(effect="write", **more)}  # type: ignore[arg-type]  # real fields

    assert said(call("refund"), call("refund"), steps=(step("refund", {}, "ok"),), traits=traits) == []


def test_volatile_arguments_make_no_other_act() -> None:
    traits = {"refund": ToolTraits(effect="write", volatile_arguments=("request_id",))}
    done = step("refund", ORDER, "ok")

    assert said(call("refund", ORDER | {"request_id": "r2"}), steps=(done,), traits=traits) == [
        "side_effect_done"
    ]


def test_the_same_act_twice_in_one_answer_is_one_too_many() -> None:
    """D4: also where the first call of the answer has left already."""
    released = step("refund", ORDER, None, round=1)
    whole = facts(call("refund", ORDER), run=run(released, spent=Amounts(rounds=1)), traits=TRAITS)

    assert said(call("refund", ORDER), call("refund", ORDER)) == ["side_effect_twice"]
    assert codes(tuple(repeated_acts(whole))) == ["side_effect_twice"]


@pytest.mark.parametrize("text", [DOWN, '{"error": "it broke"}', None])
def test_what_may_have_taken_effect_is_looked_at_first(text: str | None) -> None:
    """D4: after a failure, a time-out, or no result at all."""
    tried = step("refund", ORDER, text)
    looked = step("get_order", ORDER, '{"refunded": false}')

    assert said(call("refund", ORDER), steps=(tried,)) == ["side_effect_unknown"]
    assert said(call("refund", ORDER), steps=(looked, tried)) == ["side_effect_unknown"]
    assert said(call("refund", ORDER), steps=(tried, looked)) == []


@pytest.mark.parametrize("text", ['{"found": false, "reason": "no such order"}', '{"error": "FORBIDDEN"}'])
def test_what_surely_took_no_effect_may_be_tried_again(text: str) -> None:
    assert said(call("refund", ORDER), steps=(step("refund", ORDER, text),)) == []


@pytest.mark.parametrize(
    "look",
    [
        step("get_order", ORDER, DOWN),
        step("get_order", ORDER, None),
        refused("get_order"),
        step("other", ORDER, "fine"),
        step("pay", {"key": "k"}, "fine"),
    ],
    ids=lambda look: f"{look.tool}-{look.status}",
)
def test_a_look_is_a_reading_call_that_brought_something(look: Step) -> None:
    tried = step("refund", ORDER, DOWN)

    assert said(call("refund", ORDER), steps=(tried, look)) == ["side_effect_unknown"]


def test_a_look_in_the_same_answer_may_have_come_too_early() -> None:
    tried, looked = step("refund", ORDER, DOWN, round=1), step("get_order", ORDER, "{}", round=1)

    assert said(call("refund", ORDER), steps=(tried, looked)) == ["side_effect_unknown"]


def test_where_nothing_is_declared_to_read_any_tool_that_does_not_write_may_look() -> None:
    tried, looked = step("refund", ORDER, DOWN), step("other", ORDER, "fine")
    traits = {"refund": WRITES, "pay": KEYED}

    assert said(call("refund", ORDER), steps=(tried, looked), traits=traits) == []
    paid = step("pay", {"key": "k"}, "ok")
    assert said(call("refund", ORDER), steps=(tried, paid), traits=traits) == ["side_effect_unknown"]


def test_refused_calls_had_no_effect() -> None:
    assert said(call("refund", ORDER), steps=(refused("refund", arguments=ORDER),)) == []


# ---- idempotency keys ----


@pytest.mark.parametrize("key", [None, "", "  ", True, [], {}])
def test_a_key_is_needed(key: object) -> None:
    """D4."""
    assert said(call("pay", {"sum": 5, "key": key})) == ["idempotency_key_missing"]
    assert said(call("pay", {"sum": 5})) == ["idempotency_key_missing"]


@pytest.mark.parametrize("key", ["k1", 7, 0])
def test_a_text_or_a_number_is_a_key(key: object) -> None:
    assert said(call("pay", {"sum": 5, "key": key})) == []


def test_a_key_may_stand_deeper() -> None:
    traits = {"pay": ToolTraits(effect="write", idempotency_argument="about.key")}

    assert said(call("pay", {"about": {"key": "k"}}), traits=traits) == []
    assert said(call("pay", {"about": "key"}), traits=traits) == ["idempotency_key_missing"]
    assert said(call("pay", {"key": "k"}), traits=traits) == ["idempotency_key_missing"]


def test_a_key_stands_for_one_set_of_arguments() -> None:
    """D4: in earlier steps and in the same answer."""
    paid = step("pay", {"sum": 5, "key": "k1"}, "ok")

    assert said(call("pay", {"sum": 6, "key": "k1"}), steps=(paid,)) == ["idempotency_key_reused"]
    assert said(call("pay", {"sum": 6, "key": "k2"}), steps=(paid,)) == []
    assert said(call("pay", {"sum": 5, "key": "k1"}), call("pay", {"sum": 6, "key": "k1"})) == [
        "idempotency_key_reused"
    ]


def test_the_same_key_makes_a_retry_safe_and_another_one_does_not() -> None:
    """D4: no look is needed where the tool itself can tell."""
    tried = step("pay", {"sum": 5, "key": "k1"}, DOWN)

    assert said(call("pay", {"sum": 5, "key": "k1"}), steps=(tried,)) == []
    assert said(call("pay", {"sum": 5, "key": "k2"}), steps=(tried,)) == ["side_effect_unknown"]


def test_another_key_makes_no_other_act_of_what_was_done() -> None:
    paid = step("pay", {"sum": 5, "key": "k1"}, "ok")

    assert said(call("pay", {"sum": 5, "key": "k1"}), steps=(paid,)) == ["side_effect_done"]
    assert said(call("pay", {"sum": 5, "key": "k2"}), steps=(paid,)) == ["side_effect_done"]


def test_a_past_call_whose_arguments_were_cut_is_known_by_its_fingerprint() -> None:
    long = {"sum": 5, "key": "k1", "note": "x" * 20_000}
    paid = step("pay", long, "ok")
    cut = Step(**{name: getattr(paid, name) for name in paid.__slots__} | {"arguments": paid.arguments[:100]})

    assert said(call("pay", long), steps=(paid,)) == ["side_effect_done"]
    assert said(call("pay", {"sum": 5, "key": "k1"}), steps=(cut,)) == []


# ---- laws ----

ARGUMENTS = st.fixed_dictionaries({"order_id": st.sampled_from("AB")}, optional={"sum": st.integers(0, 2)})
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["refund", "get_order", "other"]),
        ARGUMENTS,
        st.sampled_from(["fine", DOWN, '{"error": "it broke"}', '{"found": false}', None]),
    ),
    max_size=6,
)


@given(STEPS, ARGUMENTS)
def test_no_act_that_succeeded_ever_passes_again(
    past: list[tuple[str, Any, str | None]], arguments: Any
) -> None:
    """D4, and the look makes no difference to what is done."""
    steps = tuple(step(tool, given, text) for tool, given, text in past)
    same = [
        each.status
        for each in run(*steps).steps
        if each.tool == "refund" and json.loads(each.arguments) == arguments
    ]
    found = said(call("refund", arguments), steps=steps)

    assert (found == ["side_effect_done"]) == (StepStatus.FOUND in same)
    if not same:
        assert found == []
