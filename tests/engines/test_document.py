"""The input document: everything a rule may read, bounded, and the same for every engine."""

import json
from dataclasses import replace
from typing import Any

import orjson
import pytest
from hypothesis import given, strategies as st

from proxy.core.limits import Amounts
from proxy.core.messages import Message, Request, Role, Tool, ToolCall, ToolKind, Turn
from proxy.core.results import StepStatus
from proxy.core.runs import Identity, Run, Step
from proxy.engines.document import MAX_BYTES, MAX_RESULT, MAX_USER_TEXTS, build_input, exact
from proxy.errors import EngineFault
from tests.asked import RULE, shipped, with_rules

NOW = 1_790_000_000.25
IDENTITY = Identity("k", "acme", "blue", "bot", "ann", ("clerk",), {"sub": "ann", "exp": 2**60})
REQUEST = Request(
    "test",
    "m",
    (
        Message(Role.SYSTEM, "s"),
        Message(Role.USER, "Order Ａ１２３"),
        Message(Role.TOOL, "r"),
        Message(Role.USER, "Please"),
    ),
    (Tool("Read"), Tool("web", ToolKind.HOSTED)),
    stream=True,
)
RUN = Run("r1", "k", NOW - 10, turn=2, turn_started_at=NOW - 4, spent=Amounts(3, 2, 100, 20, {"read": 2}, 5))
STEP = Step(1, 1, 1, "c1", "read", '{"id": "A1"}', "f", StepStatus.FOUND, NOW - 3, NOW - 2, '{"total": 5}')


def built(*, run: Run = RUN, request: Request = REQUEST, phase: str = "calls", **more: Any) -> dict[str, Any]:
    return build_input(phase, IDENTITY, request, run, now=NOW, **more)


def test_who_asks_what_and_when() -> None:
    document = built()

    assert document["phase"] == "calls"
    assert document["now_ns"] == 1_790_000_000_250_000_000
    assert document["identity"] == {
        "organisation": "acme",
        "team": "blue",
        "agent": "bot",
        "user": "ann",
        "roles": ["clerk"],
        "claims": {"sub": "ann", "exp": str(2**60)},
    }
    assert document["request"] == {
        "dialect": "test",
        "model": "m",
        "stream": True,
        "declared_tools": ["Read", "web"],
    }
    assert document["tools"] == [
        {"name": "Read", "folded": "read", "hosted": False, "declared": True},
        {"name": "web", "folded": "web", "hosted": True, "declared": True},
    ]
    assert document["task"] == {
        "user_text": "Please",
        "user_texts": ["Order Ａ１２３", "Please"],
        "folded": "order a123\nplease",
        "truncated": False,
    }
    assert document["run"] | {"steps": []} == {
        "id": "r1",
        "turn": 2,
        "state_lost": False,
        "outcome": "running",
        "seconds": 10.0,
        "turn_seconds": 4.0,
        "counts": {"rounds": 3, "calls": 2, "per_tool": {"read": 2}},
        "turn_counts": {"rounds": 0, "calls": 0, "per_tool": {}},
        "tokens": {"input": 100, "output": 20, "total": 120, "unverified": 5},
        "money": {"nano_usd": 0, "unverified_nano_usd": 0},
        "steps": [],
        "steps_truncated": False,
    }


def test_calls_come_with_their_arguments_as_they_were_read() -> None:
    calls = [ToolCall("c0", "Read", "{}"), ToolCall("c1", "patch", "*** text", kind=ToolKind.CUSTOM)]
    document = built(calls=calls, parsed_arguments=[{"a": [1.0, 2**53 + 1, -0.0, None]}, None])

    assert document["calls"] == [
        {
            "index": 0,
            "id": "c0",
            "name": "Read",
            "folded": "read",
            "hosted": False,
            "kind": "function",
            "arguments": {"a": [1.0, str(2**53 + 1), 0, None]},
        },
        {
            "index": 1,
            "id": "c1",
            "name": "patch",
            "folded": "patch",
            "hosted": False,
            "kind": "custom",
            "arguments": None,
            "text": "*** text",
        },
    ]
    assert str(document["calls"][0]["arguments"]["a"][2]) == "0"


def test_calls_without_read_arguments_have_none() -> None:
    assert built(calls=[ToolCall("c", "x", "{")])["calls"][0]["arguments"] is None


def test_an_answer_is_there_in_its_phase() -> None:
    answer = built(answer=Turn(text="**Done**\u200b, ５."))["answer"]
    assert answer == {"text": "**Done**\u200b, ５.", "plain": "Done, 5.", "truncated": False}
    assert built(answer=Turn(text="x" * 70_000))["answer"]["truncated"] is True
    assert "answer" not in built()


def test_steps_tell_what_this_run_did() -> None:
    text = replace(STEP, number=2, result="plain", arguments="", status=StepStatus.FAILED)
    pending = replace(STEP, number=3, result="", result_at=None, arguments="[1]", status=StepStatus.PENDING)
    first, second, third = built(run=replace(RUN, steps=(STEP, text, pending)))["run"]["steps"]

    assert first == {
        "number": 1,
        "turn": 1,
        "round": 1,
        "tool": "read",
        "arguments": {"id": "A1"},
        "status": "found",
        "refused_as": "",
        "released_at_ns": 1_789_999_997_250_000_000,
        "result_at_ns": 1_789_999_998_250_000_000,
        "truncated": False,
        "result_json": {"total": 5},
    }
    assert (second["result"], second["arguments"], second["status"]) == ("plain", {}, "failed")
    assert (third["arguments"], third["result_at_ns"]) == (None, None)
    assert "result" not in third


def test_results_are_left_out_where_nobody_reads_them() -> None:
    (step,) = built(run=replace(RUN, steps=(STEP,)), with_results=False)["run"]["steps"]

    assert "result_json" not in step


def test_a_long_result_is_cut_and_says_so() -> None:
    (step,) = built(run=replace(RUN, steps=(replace(STEP, result='{"a": "' + "x" * 20_000 + '"}'),)))["run"][
        "steps"
    ]

    assert len(step["result"]) == MAX_RESULT
    assert step["truncated"] is True


def test_where_room_runs_out_the_oldest_results_go_first_and_no_step_does() -> None:
    steps = tuple(replace(STEP, number=n, result="x" * 16_000) for n in range(1, 41))
    document = built(run=replace(RUN, steps=steps))
    run = document["run"]

    assert len(orjson.dumps(document)) <= MAX_BYTES
    assert [step["number"] for step in run["steps"]] == list(range(1, 41))
    assert [step["truncated"] for step in run["steps"]] == sorted(
        (step["truncated"] for step in run["steps"]), reverse=True
    )
    assert "result" in run["steps"][-1]
    assert run["steps_truncated"] is False


def test_steps_that_do_not_fit_are_missed_but_those_that_close_an_object_stay() -> None:
    """D6: a long run must not open what was closed."""
    steps = tuple(
        replace(
            STEP,
            number=n,
            arguments='{"a": "' + "x" * 4000 + '"}',
            status=StepStatus.FORBIDDEN if n == 1 else StepStatus.FOUND,
        )
        for n in range(1, 101)
    )
    document = built(run=replace(RUN, steps=steps))
    run = document["run"]

    assert len(orjson.dumps(document)) <= MAX_BYTES
    assert run["steps_truncated"] is True
    assert run["steps"][0]["number"] == 1
    assert run["steps"][-1]["number"] == 100


def test_what_the_user_said_is_bounded_the_newest_first() -> None:
    said = tuple(Message(Role.USER, f"{n} " + "x" * 10_000) for n in range(5))
    task = built(request=replace(REQUEST, messages=said))["task"]

    assert [text[0] for text in task["user_texts"]] == ["2", "3", "4"]
    assert task["truncated"] is True
    one = built(request=replace(REQUEST, messages=(Message(Role.USER, "x" * 50_000),)))["task"]
    assert len(one["user_texts"][0]) <= MAX_USER_TEXTS
    assert one["truncated"] is True


def test_more_than_fits_is_a_fault() -> None:
    call = ToolCall("c", "x", "{}")
    with pytest.raises(EngineFault, match="256 KiB"):
        built(calls=[call] * 2, parsed_arguments=[{"a": "x" * 200_000}] * 2)


DEEP: Any = {}
for _ in range(95):
    DEEP = {"x": DEEP}


@pytest.mark.parametrize(
    "value",
    [float("nan"), float("inf"), "a\0b", "\ud800", {"\udfff": 1}, DEEP, object(), b"x", [1, {"a": {2}}]],
)
def test_arguments_that_cannot_be_represented_are_a_fault(value: Any) -> None:
    with pytest.raises(EngineFault, match="the arguments of a call"):
        built(calls=[ToolCall("c", "x", "{}")], parsed_arguments=[{"v": value}])


def test_texts_of_people_and_tools_are_cleaned_instead() -> None:
    run = replace(RUN, steps=(replace(STEP, result="a\0b", arguments='{"a": "\\u0000"}', tool="t\ud800"),))
    request = replace(REQUEST, messages=(Message(Role.USER, "a\0\ud800b"),), tools=(Tool("r\0ead"),))
    document = built(run=run, request=request, calls=[ToolCall("c\0", "r\0ead", "")], parsed_arguments=[{}])

    assert document["task"]["user_text"] == "a\ufffd\ufffdb"
    assert document["calls"][0]["name"] == "r\ufffdead"
    assert document["calls"][0]["folded"] == "read"
    (step,) = document["run"]["steps"]
    assert (step["result"], step["arguments"], step["tool"]) == ("a\ufffdb", None, "t\ufffd")


JSON: Any = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters()),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(st.characters()), inner, max_size=3),
    max_leaves=10,
)


@given(
    st.dictionaries(st.text(st.characters()), JSON, max_size=3),
    st.text(st.characters()),
    st.text(st.characters()),
)
def test_whatever_comes_is_a_decision_or_a_fault(arguments: dict[str, Any], name: str, said: str) -> None:
    """Hostile input: quotes, backslashes, new lines, odd characters, wrong types."""
    request = replace(REQUEST, messages=(Message(Role.USER, said),), tools=(Tool(name),))
    try:
        document = built(calls=[ToolCall(name, name, said)], parsed_arguments=[arguments], request=request)
    except EngineFault:
        return

    decision = json.loads(EVALUATOR.evaluate(RULE, orjson.dumps(document).decode()))
    assert decision["deny"] == []


EVALUATOR = with_rules(
    {
        "org": {
            "denied_tools": ["forbidden tool"],
            "tools": {"some tool": {"object_arguments": ["a"], "arguments": {"a.*": {"in_user_text": True}}}},
        }
    }
)


@given(JSON)
def test_what_is_exact_is_read_back_as_it_was(value: Any) -> None:
    try:
        kept = exact(value, "it")
    except EngineFault:
        return

    assert orjson.loads(orjson.dumps(kept)) == kept


def test_the_sample_of_the_shipped_policies_fits() -> None:
    from proxy.engines.samples import sample_inputs

    documents = list(sample_inputs(shipped()))

    assert {document["phase"] for document in documents} == {"request", "calls", "answer"}
    assert {document["identity"]["team"] for document in documents} >= {"payments", "sample"}
    assert {document["identity"]["agent"] for document in documents} >= {"refund_bot", "sample"}
    assert all(len(orjson.dumps(document)) < 10_000 for document in documents)
