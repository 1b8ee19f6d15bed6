"""Requests of Ollama's chat API: results find their calls without ids, and edits move nothing."""

import json
from typing import Any

import pytest

from proxy.core.messages import (
    ChoiceMode,
    Malformed,
    MissingResult,
    Request,
    RequestEdit,
    ToolChoice,
)
from proxy.core.pairing import paired
from proxy.dialects.ollama_request import edit_request, parse_request

Json = dict[str, Any]


def parsed(*messages: Json, **more: Any) -> Request:
    return parse_request(body_of(*messages, **more), "ollama")


def body_of(*messages: Json, **more: Any) -> bytes:
    return json.dumps({"model": "m", "messages": list(messages), **more}).encode()


def asking(*calls: Json) -> Json:
    return {
        "role": "assistant",
        "content": "",
        "tool_calls": [{"function": call, **more} for call, more in map(_cut, calls)],
    }


def _cut(call: Json) -> tuple[Json, Json]:
    return {key: call[key] for key in ("name", "arguments")}, {
        key: call[key] for key in ("id",) if key in call
    }


READ: Json = {"name": "read", "arguments": {"id": 1}}
WRITE: Json = {"name": "write", "arguments": {"id": 2}}


@pytest.mark.parametrize(
    "results",
    [
        [{"content": "r"}, {"content": "w"}],
        [{"content": "w", "tool_name": "write"}, {"content": "r", "tool_name": "read"}],
        [{"content": "w", "tool_call_id": "b"}, {"content": "r", "tool_call_id": "a"}],
        [{"content": "w", "name": "write"}, {"content": "r"}],
    ],
)
def test_a_result_belongs_to_the_call_of_its_id_or_its_name_or_its_place(results: list[Json]) -> None:
    """A3: agents of this API name results in many ways, or not at all."""
    calls = asking(READ | {"id": "a"}, WRITE | {"id": "b"})
    request = parsed(calls, *({"role": "tool", **result} for result in results))
    pairs = paired(request.messages).pairs
    assert {pair.call.name: pair.result.text for pair in pairs if pair.result} == {"read": "r", "write": "w"}


def test_a_result_that_no_call_waits_for_is_foreign() -> None:
    """A3, E1."""
    request = parsed(asking(READ), {"role": "tool", "tool_name": "delete", "content": "x"})
    assert paired(request.messages).foreign


def test_it_streams_unless_it_says_that_it_does_not() -> None:
    assert parsed().stream
    assert not parsed(stream=False).stream
    assert parsed().stream_type == "application/x-ndjson"


@pytest.mark.parametrize(
    "more", [{"Tools": []}, {"MESSAGES": []}, {"options": {"Num_Predict": 1}}, {"stream": "yes"}]
)
def test_what_readers_could_take_differently_is_malformed(more: Json) -> None:
    with pytest.raises(Malformed):
        parsed(**more)


def test_a_model_that_may_not_call_gets_no_tools() -> None:
    """B3: the API has no tool choice."""
    tools = [{"type": "function", "function": {"name": "read"}}]
    edit = RequestEdit(tool_choice=ToolChoice(ChoiceMode.NONE), note="Answer now.")
    edited = edit_request(body_of({"role": "user", "content": "Hi"}, tools=tools), edit)
    assert json.loads(edited) == {
        "model": "m",
        "messages": [{"role": "user", "content": "Hi\n\nAnswer now."}],
    }


@pytest.mark.parametrize(
    ("options", "left"), [({"num_predict": -1}, 7), ({"num_predict": 3}, 3), ({"seed": 1}, 7), (None, 7)]
)
def test_a_negative_cap_is_none(options: Json | None, left: int) -> None:
    """E4."""
    edited = edit_request(body_of(options=options), RequestEdit(max_output=7))
    assert json.loads(edited)["options"]["num_predict"] == left


def test_a_missing_result_names_its_call_as_the_wire_does() -> None:
    """C7."""
    body = body_of(asking(READ | {"id": "wire-1"}), {"role": "user", "content": "Well?"})
    (pair,) = paired(parse_request(body, "ollama").messages).missing
    edit = RequestEdit(missing_results=(MissingResult(pair.message_index, pair.call, "Gone."),))
    edited = edit_request(body, edit)
    assert json.loads(edited)["messages"][1] == {
        "role": "tool",
        "tool_name": "read",
        "tool_call_id": "wire-1",
        "content": "Gone.",
    }
    assert not paired(parse_request(edited, "ollama").messages).missing


def test_a_conversation_that_is_null_is_one_that_has_not_begun() -> None:
    edited = edit_request(b'{"model":"maple-1","messages":null}', RequestEdit(note="Answer now."))
    assert json.loads(edited)["messages"] == [{"role": "user", "content": "Answer now."}]
