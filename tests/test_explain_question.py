"""An input document from what a person typed."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from proxy.conversation_files import BadRecording
from proxy.core.runs import Identity
from proxy.errors import EngineFault
from proxy.explain_question import BadQuestion, Typed, claims_of, document_of
from tests.asked import asked
from tests.test_conversation_files import BODIES, CHAT

if TYPE_CHECKING:
    from pathlib import Path

NOW = 1e9


def saved(folder: Path, value: object) -> Path:
    file = folder / "file.json"
    file.write_text(json.dumps(value))
    return file


def test_a_tool_and_arguments_are_a_call() -> None:
    who = Identity(agent="bot", roles=("clerk",))
    document = document_of(Typed("read", '{"id": "A1"}', who, said="Order A1?"), NOW)

    assert document["phase"] == "calls"
    assert [(call["name"], call["arguments"]) for call in document["calls"]] == [("read", {"id": "A1"})]
    assert document["identity"]["roles"] == ["clerk"]
    assert document["task"]["user_text"] == "Order A1?"
    assert document["request"]["declared_tools"] == ["read"]


@pytest.mark.parametrize("dialect", BODIES)
def test_a_history_in_any_dialect_gives_steps_and_results(tmp_path: Path, dialect: str) -> None:
    """B1, D12: the rules over a run see what was there."""
    document = document_of(Typed("look", history=saved(tmp_path, BODIES[dialect])), NOW)

    (step,) = document["run"]["steps"]
    assert (step["tool"], step["arguments"], step["status"]) == ("get", {"id": "A1"}, "found")
    assert document["calls"][0]["arguments"] == {}


def test_of_a_history_alone_its_newest_calls_are_explained(tmp_path: Path) -> None:
    document = document_of(Typed(history=saved(tmp_path, CHAT)), NOW)

    assert [call["name"] for call in document["calls"]] == ["get"]
    assert document["run"]["steps"] == []


def test_other_phases_have_no_calls(tmp_path: Path) -> None:
    for typed in (Typed(), Typed(history=saved(tmp_path, CHAT), phase="request")):
        document = document_of(typed, NOW)
        assert (document["phase"], document["calls"]) == ("request", [])


def test_an_answer_is_judged_with_the_run_before_it(tmp_path: Path) -> None:
    """The newest text of the assistant is the answer."""
    answer = {"role": "assistant", "content": "It has arrived."}
    history = saved(tmp_path, {"messages": [*CHAT["messages"], answer]})
    document = document_of(Typed(history=history, phase="answer"), NOW)

    assert document["answer"]["text"] == "It has arrived."
    assert len(document["run"]["steps"]) == 1
    with pytest.raises(BadQuestion, match="no answer in it"):
        document_of(Typed(phase="answer"), NOW)


def test_arguments_may_be_in_a_file_and_a_document_may_be_given(tmp_path: Path) -> None:
    arguments = saved(tmp_path, {"id": "B2"})
    assert document_of(Typed("read", f"@{arguments}"), NOW)["calls"][0]["arguments"] == {"id": "B2"}

    given = saved(tmp_path, asked("read"))
    assert document_of(Typed(input=given), NOW) == asked("read")


@pytest.mark.parametrize(
    ("typed", "complaint"),
    [
        ({"tool": "read", "arguments": "[1]"}, "--arguments: It has to be one JSON object"),
        ({"tool": "read", "arguments": '{"a": 1, "a": 2}'}, "--arguments"),
    ],
)
def test_what_is_no_question_is_said(typed: dict[str, Any], complaint: str) -> None:
    with pytest.raises(BadQuestion, match=complaint):
        document_of(Typed(**typed), NOW)


def test_files_that_hold_no_question_are_named(tmp_path: Path) -> None:
    with pytest.raises(BadQuestion, match="phase"):
        document_of(Typed(input=saved(tmp_path, {"x": 1})), NOW)
    with pytest.raises(BadQuestion, match=r"file\.json"):
        document_of(Typed(input=saved(tmp_path, [1])), NOW)
    with pytest.raises(BadRecording):
        document_of(Typed(history=saved(tmp_path, {"x": 1})), NOW)
    with pytest.raises(BadQuestion, match="no call in it"):
        document_of(Typed(history=saved(tmp_path, {"messages": [{"role": "user", "content": "hi"}]})), NOW)
    (tmp_path / "empty.jsonl").write_text("")
    with pytest.raises(BadQuestion, match="no conversation"):
        document_of(Typed(history=tmp_path / "empty.jsonl"), NOW)
    with pytest.raises(EngineFault):
        document_of(Typed("read", '{"a": "\\u0000"}'), NOW)


def test_claims_are_json_or_text() -> None:
    assert claims_of(["a=1", "b=x=y", 'c=["d"]', "e="]) == {"a": 1, "b": "x=y", "c": ["d"], "e": ""}
    for wrong in ("a", "=1"):
        with pytest.raises(BadQuestion, match="name=value"):
            claims_of([wrong])
