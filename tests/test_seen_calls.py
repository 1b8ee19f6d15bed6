"""The calls of recorded runs, with what policies would have been asked."""

from __future__ import annotations

from typing import Any

import pytest

from proxy.conversation_files import AuditedRun, Conversation, read_request
from proxy.core.runs import Identity
from proxy.seen_calls import SeenAnswer, audited_calls, calls_of
from tests.test_conversation_files import BODIES, CHAT, STEP

BOT = Identity(agent="bot")


def answers(body: dict[str, Any]) -> list[SeenAnswer]:
    return list(calls_of(Conversation("r", read_request(body)), BOT, 1e9))


@pytest.mark.parametrize("dialect", BODIES)
def test_a_call_is_seen_with_its_arguments_and_its_question(dialect: str) -> None:
    (seen,) = answers(BODIES[dialect])

    assert (seen.run, seen.turn, seen.calls) == ("r", 1, (("get", {"id": "A1"}),))
    assert seen.document is not None
    assert seen.document["identity"]["agent"] == "bot"
    assert seen.document["task"]["user_text"] == "Order A1?"
    assert seen.document["run"]["steps"] == []


def test_each_answer_knows_what_came_before_it_and_nothing_later() -> None:
    """D12: a result counts for the calls behind it."""
    call = CHAT["messages"][1]
    again = call | {"tool_calls": [call["tool_calls"][0] | {"id": "c2"}]}
    more = [*CHAT["messages"], again, {"role": "user", "content": "Thanks. And B2?"}, again]
    first, second, third = answers({"messages": more})

    assert first.document is not None
    assert second.document is not None
    assert third.document is not None
    assert [step["tool"] for step in second.document["run"]["steps"]] == ["get"]
    assert second.document["run"]["steps"][0]["result"] == "found"
    assert (first.turn, second.turn, third.turn) == (1, 1, 2)
    assert third.document["task"]["user_text"] == "Thanks. And B2?"


def test_calls_of_one_answer_are_one_question_also_where_each_has_a_message() -> None:
    items = BODIES["openai-responses"]["input"]
    other = items[1] | {"call_id": "c2", "name": "look"}
    (seen,) = answers({"input": [items[0], items[1], other]})

    assert [name for name, _ in seen.calls] == ["get", "look"]


def test_arguments_that_are_no_object_cannot_be_told() -> None:
    call = CHAT["messages"][1]["tool_calls"][0]
    broken = call | {"function": {"name": "get", "arguments": '{"a": 1, "a": 2}'}}
    (seen,) = answers({"messages": [CHAT["messages"][0], CHAT["messages"][1] | {"tool_calls": [broken]}]})

    assert seen.calls == (("get", None),)


def test_what_no_policy_can_judge_has_no_question() -> None:
    call = CHAT["messages"][1]["tool_calls"][0]
    odd = call | {"function": {"name": "get", "arguments": '{"a": "\\u0000"}'}}
    (seen,) = answers({"messages": [CHAT["messages"][0], CHAT["messages"][1] | {"tool_calls": [odd]}]})

    assert (seen.calls, seen.document) == ((("get", None),), None)


def test_of_the_journal_only_calls_that_left_are_seen_and_cut_arguments_are_unknown() -> None:
    """A9: the journal holds summaries."""
    steps = [
        STEP,
        STEP | {"status": "refused"},
        STEP | {"arguments": '{"id":"A1...'},
        STEP | {"arguments": '{"key":"[redacted]"}'},
        STEP | {"arguments": ""},
        STEP | {"arguments": "[1]"},
    ]

    seen = [each.calls[0][1] for each in audited_calls(AuditedRun("r", tuple(steps)))]  # type: ignore[arg-type]  # as read
    assert seen == [{"id": "A1"}, None, None, {}, None]
