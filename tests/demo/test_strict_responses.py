"""What the Responses API refuses, and that it takes whatever the real one took."""

from typing import Any

import pytest

from proxy.demo.strict_responses import Remembered, complaint, items_of
from tests.demo.recordings import recordings

CALL = {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"}
RESULT = {"type": "function_call_output", "call_id": "c", "output": "done"}
FREE = {"type": "custom_tool_call", "call_id": "c", "name": "f", "input": "x"}
USER = {"role": "user", "content": "Hi"}
TOOLS = [{"type": "function", "name": "f"}]
REMEMBERED = Remembered(answers={"resp_1": [USER, CALL]}, conversations={"conv_1": [USER, FREE]})


def said(*items: object, **more: Any) -> dict[str, Any]:
    return {"model": "m", "input": list(items), **more}


ACCEPTED = {
    "text": {"model": "m", "input": "Hi"},
    "roles": said(*({"role": role, "content": "x"} for role in ("system", "developer", "assistant", "user"))),
    "parallel, any order": said(USER, CALL, CALL | {"call_id": "d"}, RESULT | {"call_id": "d"}, RESULT),
    "free text": said(FREE, {"type": "custom_tool_call_output", "call_id": "c", "output": "x"}),
    "shell of the provider": said(
        {"type": "shell_call", "call_id": "c", "action": {}, "environment": {"type": "container_reference"}}
    ),
    "search by the agent": said(
        {"type": "tool_search_call", "call_id": "c", "execution": "client", "arguments": {}},
        {"type": "tool_search_output", "call_id": "c", "execution": "client", "tools": []},
        {"type": "tool_search_call", "call_id": None, "execution": "server", "arguments": {}},
        {"type": "tool_search_output", "call_id": None, "execution": "server", "tools": []},
    ),
    "approval left open": said({"type": "mcp_approval_request", "id": "mcpr_1"}, USER),
    "approval": said(
        {"type": "mcp_approval_request", "id": "mcpr_1"},
        {"type": "mcp_approval_response", "approval_request_id": "mcpr_1", "approve": False},
    ),
    "goes on": said(RESULT, previous_response_id="resp_1"),
    "in a conversation": said(
        {"type": "custom_tool_call_output", "call_id": "c", "output": "x"}, conversation={"id": "conv_1"}
    ),
    "new conversation": said(USER, conversation="conv_2"),
    "named choice": said(USER, tools=TOOLS, tool_choice={"type": "function", "name": "f"}),
    "unknown item": said({"type": "quantum", "x": 1}, USER),
}
REFUSED: dict[str, tuple[object, str]] = {
    "no object": ([], "could not parse"),
    "no model": ({"input": "Hi"}, "'model'"),
    "no input": ({"model": "m"}, "must be provided"),
    "input of no kind": ({"model": "m", "input": 3}, "Invalid type for 'input'"),
    "item of no kind": (said(3), r"Invalid type for 'input\[0\]'"),
    "no such role": (said({"role": "tool", "content": "x"}), "Invalid value: 'tool'"),
    "no content": (said({"role": "user"}), "content"),
    "call without arguments": (said({"type": "function_call", "call_id": "c", "name": "f"}), "arguments"),
    "result without output": (said(CALL, {"type": "function_call_output", "call_id": "c"}), "output"),
    "approval without answer": (
        said({"type": "mcp_approval_response", "approval_request_id": "x"}),
        "approve",
    ),
    "no result": (said(CALL, USER), "No tool output found for function call c"),
    "no result of free text": (said(FREE), "No tool output found for custom tool call c"),
    "no call": (said(RESULT), "No tool call found for function call output with call_id c"),
    "result before its call": (said(RESULT, CALL), "No tool call found"),
    "result of another kind": (said(FREE, RESULT), "No tool call found"),
    "two results": (said(CALL, RESULT, RESULT), "No tool call found"),
    "what is kept has an open call": (said(USER, previous_response_id="resp_1"), "No tool output found"),
    "so has a conversation": (said(USER, conversation="conv_1"), "No tool output found"),
    "unknown answer": (said(USER, previous_response_id="resp_9"), "'resp_9' not found"),
    "both memories": (said(RESULT, previous_response_id="resp_1", conversation="conv_2"), "exclusive"),
    "tools of no kind": (said(USER, tools="f"), "'tools'"),
    "tool without type": (said(USER, tools=[{"name": "f"}]), r"tools\[0\].type"),
    "tool without name": (said(USER, tools=[{"type": "function"}]), r"tools\[0\].name"),
    "server without label": (said(USER, tools=[{"type": "mcp"}]), "server_label"),
    "no such choice": (said(USER, tool_choice="any"), "Invalid value: 'any'"),
    "choice of nothing": (said(USER, tool_choice={"type": "function", "name": "g"}), "'g' not found"),
}


@pytest.mark.parametrize("request_", ACCEPTED.values(), ids=ACCEPTED)
def test_what_is_well_is_taken(request_: dict[str, Any]) -> None:
    assert complaint(request_, REMEMBERED) is None


@pytest.mark.parametrize(("request_", "words"), REFUSED.values(), ids=REFUSED)
def test_what_is_not_is_refused_in_the_words_of_the_provider(request_: object, words: str) -> None:
    """E1, C7: also where the calls are in what the provider keeps."""
    found = complaint(request_, REMEMBERED)
    assert found is not None
    assert found.status == 400
    with pytest.raises(AssertionError, match=words):
        raise AssertionError(found.message)


def test_every_request_that_the_provider_took_is_taken() -> None:
    checked = 0
    for recording in recordings("openai-responses", ("openai",)):
        request = recording.request
        if recording.status != 200 or not isinstance(request, dict) or request.get("previous_response_id"):
            continue
        checked += 1
        assert complaint(request, Remembered()) is None, recording.id
    assert checked > 100


def test_a_text_is_one_item_of_the_user() -> None:
    (item,) = items_of({"input": "Hi"})
    assert (item["role"], item["content"][0]["text"]) == ("user", "Hi")
    assert items_of({}) == []
