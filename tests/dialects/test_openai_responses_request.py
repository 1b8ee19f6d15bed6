"""A request of the Responses API in neutral words: items as messages, tools wherever they are offered."""

import json
from typing import Any

import pytest

from proxy.core.messages import ChoiceMode, Malformed, Request, Role, ToolKind
from proxy.dialects.openai_responses_request import parse_request, read_choice

CALL = {"type": "function_call", "call_id": "c1", "name": "f", "arguments": '{"a":1}'}
PICTURE = "data:image/png;base64," + "A" * 5000


def parsed(*items: object, **more: Any) -> Request:
    given: Any = items[0] if len(items) == 1 and isinstance(items[0], str) else list(items)
    return parse_request(json.dumps({"model": "m", "input": given} | more).encode(), "openai-responses")


def names(*tools: object, **more: Any) -> list[tuple[str, ToolKind]]:
    return [(tool.name, tool.kind) for tool in parsed("x", tools=list(tools), **more).tools]


def test_a_text_and_instructions_are_two_messages() -> None:
    request = parsed("Hi", instructions="Be kind.")
    said = [(message.role, message.text) for message in request.messages]
    assert said == [(Role.SYSTEM, "Be kind."), (Role.USER, "Hi")]
    assert request.messages[1].digest == parsed({"role": "user", "content": "Hi"}).messages[0].digest


def test_items_are_messages_in_their_order() -> None:
    """A3, C1: calls are the assistant's, results are the tools'."""
    request = parsed(
        {"role": "developer", "content": "d"},
        {"role": "user", "content": [{"type": "input_text", "text": "Hi"}, {"type": "input_image"}]},
        {"type": "reasoning", "id": "rs_1", "summary": []},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Yes."}]},
        CALL,
        {"type": "function_call_output", "call_id": "c1", "output": [{"type": "input_text", "text": "done"}]},
    )
    assert [message.role for message in request.messages] == [
        Role.SYSTEM,
        Role.USER,
        Role.ASSISTANT,
        Role.ASSISTANT,
        Role.TOOL,
    ]
    assert [message.text for message in request.messages] == ["d", "Hi", "Yes.", "", ""]
    (call,), (result,) = request.messages[3].calls, request.messages[4].results
    assert (call.id, call.name, call.arguments) == ("c1", "f", '{"a":1}')
    assert (result.call_id, result.text) == ("c1", "done")


def test_the_id_and_the_status_of_an_item_change_nothing_of_what_it_is() -> None:
    """A2: frameworks send them back, or do not."""
    bare, full = parsed(CALL), parsed(CALL | {"id": "fc_1", "status": "completed"})
    assert bare.messages[0].digest == full.messages[0].digest
    other = parsed(CALL | {"arguments": '{"a":2}'})
    assert bare.messages[0].digest != other.messages[0].digest


FORMS: dict[str, tuple[dict[str, Any], str, str, ToolKind]] = {
    "function": (CALL, "f", '{"a":1}', ToolKind.FUNCTION),
    "in a namespace": (CALL | {"namespace": "n"}, "n.f", '{"a":1}', ToolKind.FUNCTION),
    "in the namespace of its own": (CALL | {"namespace": "f"}, "f", '{"a":1}', ToolKind.FUNCTION),
    "free text": (
        {"type": "custom_tool_call", "call_id": "c1", "name": "sql", "input": "SELECT"},
        "sql",
        "SELECT",
        ToolKind.CUSTOM,
    ),
    "local shell": (
        {"type": "local_shell_call", "call_id": "c1", "action": {"command": ["ls"]}},
        "local_shell",
        '{"command":["ls"]}',
        ToolKind.FUNCTION,
    ),
    "shell": (
        {"type": "shell_call", "call_id": "c1", "action": {"commands": ["ls"]}},
        "shell",
        '{"commands":["ls"]}',
        ToolKind.FUNCTION,
    ),
    "patch": (
        {"type": "apply_patch_call", "call_id": "c1", "operation": {"path": "a"}},
        "apply_patch",
        '{"path":"a"}',
        ToolKind.FUNCTION,
    ),
    "computer": (
        {"type": "computer_call", "call_id": "c1", "action": {"type": "wait"}},
        "computer",
        '{"type":"wait"}',
        ToolKind.FUNCTION,
    ),
    "search by the agent": (
        {"type": "tool_search_call", "call_id": "c1", "execution": "client", "arguments": {"q": 1}},
        "tool_search",
        '{"q":1}',
        ToolKind.FUNCTION,
    ),
    "approval": (
        {"type": "mcp_approval_request", "id": "c1", "server_label": "box", "name": "put", "arguments": "{}"},
        "mcp.box.put",
        "{}",
        ToolKind.FUNCTION,
    ),
}


@pytest.mark.parametrize(("item", "name", "arguments", "kind"), FORMS.values(), ids=FORMS)
def test_each_form_of_call_has_a_name_for_policy(
    item: dict[str, Any], name: str, arguments: str, kind: ToolKind
) -> None:
    """C022: calls that are no functions are calls."""
    (call,) = parsed(item).messages[0].calls
    assert (call.id, call.name, call.arguments, call.kind) == ("c1", name, arguments, kind)


@pytest.mark.parametrize(
    "item",
    [
        {"type": "web_search_call", "id": "ws_1", "action": {"query": "x"}},
        {"type": "code_interpreter_call", "id": "ci_1", "code": "1"},
        {"type": "mcp_call", "id": "mcp_1", "name": "x", "arguments": "{}"},
        {"type": "shell_call", "call_id": "c", "action": {}, "environment": {"type": "container_auto"}},
        {"type": "tool_search_call", "call_id": None, "execution": "server", "arguments": {}},
        {"type": "item_reference", "id": "x"},
        {"type": "note_of_tomorrow", "name": "x"},
    ],
    ids=lambda item: item["type"],
)
def test_what_the_provider_ran_waits_for_no_result(item: dict[str, Any]) -> None:
    """C7."""
    assert not any(message.calls for message in parsed(item).messages)


def test_results_of_each_form_are_found() -> None:
    """A3."""
    request = parsed(
        {"type": "shell_call_output", "call_id": "a", "output": [{"stdout": "x"}]},
        {"type": "local_shell_call_output", "id": "b", "output": "y"},
        {"type": "mcp_approval_response", "approval_request_id": "d", "approve": True},
        {"type": "mcp_approval_response", "approval_request_id": "e", "approve": False, "reason": "no"},
        {"type": "computer_call_output", "call_id": "f", "output": {"type": "computer_screenshot"}},
        {"type": "apply_patch_call_output", "call_id": "g", "status": "failed", "output": "z"},
        {"type": "tool_search_output", "call_id": None, "execution": "server", "tools": []},
    )
    results = [result for message in request.messages for result in message.results]
    assert [result.call_id for result in results] == ["a", "b", "d", "e", "f", "g"]
    assert [result.text for result in results][1:4] == ["y", "approved", "denied no"]
    assert results[-1].is_error


# --- tools ---


def test_tools_of_each_kind_have_a_name_for_policy() -> None:
    """D1, C022."""
    offered = names(
        {"type": "function", "name": "f"},
        {"type": "custom", "name": "sql"},
        {"type": "web_search"},
        {"type": "mcp", "server_label": "box", "server_url": "https://x"},
        {"type": "shell"},
        {"type": "shell", "environment": {"type": "container_auto"}},
        {"type": "computer_use_preview"},
        {"type": "tool_search", "execution": "client"},
        {"type": "namespace", "name": "n", "tools": [{"type": "function", "name": "f"}]},
    )
    hosted, function = ToolKind.HOSTED, ToolKind.FUNCTION
    assert offered == [
        ("f", function),
        ("sql", ToolKind.CUSTOM),
        ("web_search", hosted),
        ("mcp.box", hosted),
        ("shell", function),
        ("shell", hosted),
        ("computer", function),
        ("tool_search", function),
        ("n.f", function),
    ]


def test_policy_sees_what_a_tool_of_the_provider_is_set_to_and_none_of_its_secrets() -> None:
    """D1, D15: the server's address too."""
    tool = {"type": "mcp", "server_label": "box", "server_url": "https://x", "require_approval": "never"}
    secret = {"authorization": "s3cret", "headers": {"x": "s3cret"}}
    (found,) = parsed("x", tools=[tool | secret]).tools
    assert found.options == tool


def test_tools_that_hide_in_the_input_are_offered_too() -> None:
    """C10, D1."""
    hidden = {"type": "function", "name": "h"}
    request = parsed(
        {"type": "additional_tools", "role": "developer", "tools": [hidden]},
        {"type": "tool_search_output", "call_id": "c", "execution": "client", "tools": [hidden]},
        tools=[{"type": "function", "name": "f"}],
    )
    assert request.tool_names == ("f", "h", "h")


def test_a_prompt_that_is_kept_by_the_provider_is_offered_as_a_tool_of_it() -> None:
    """D1: what tools it brings cannot be seen."""
    assert names(prompt={"id": "p1"}) == [("prompt.p1", ToolKind.HOSTED)]


CHOICES: dict[str, tuple[object, ChoiceMode, tuple[str, ...]]] = {
    "none": (None, ChoiceMode.AUTO, ()),
    "word": ("required", ChoiceMode.REQUIRED, ()),
    "function": ({"type": "function", "name": "f"}, ChoiceMode.NAMED, ("f",)),
    "hosted": ({"type": "web_search"}, ChoiceMode.NAMED, ("web_search",)),
    "server": ({"type": "mcp", "server_label": "box"}, ChoiceMode.NAMED, ("mcp.box",)),
    "shell": ({"type": "shell"}, ChoiceMode.NAMED, ("shell",)),
    "some": (
        {"type": "allowed_tools", "mode": "required", "tools": [{"type": "function", "name": "f"}]},
        ChoiceMode.REQUIRED,
        ("f",),
    ),
}


@pytest.mark.parametrize(("choice", "mode", "chosen"), CHOICES.values(), ids=CHOICES)
def test_a_tool_choice_in_each_of_its_forms(
    choice: object, mode: ChoiceMode, chosen: tuple[str, ...]
) -> None:
    """D15."""
    found = read_choice(choice)
    assert (found.mode, found.names) == (mode, chosen)


# --- what is kept ---


def test_what_a_request_goes_on_from_and_leaves_behind() -> None:
    """F1: stored unless the agent says otherwise."""
    plain, after = parsed("x"), parsed("x", previous_response_id="resp_1", store=False, background=True)
    named = parsed("x", conversation={"id": "conv_1"})
    assert (plain.previous, plain.store, plain.background) == ("", True, False)
    assert (after.previous, after.store, after.background) == ("resp_1", False, True)
    assert (named.previous, named.conversation) == ("conv_1", "conv_1")


def test_pictures_are_no_text() -> None:
    """C016."""
    request = parsed({"role": "user", "content": [{"type": "input_image", "image_url": PICTURE}]})
    assert request.text_size < 500 < request.size


MALFORMED: dict[str, tuple[dict[str, Any], str]] = {
    "input": ({"input": 3}, "input has to be"),
    "item": ({"input": [3]}, r"input\[0\] has to be an object"),
    "role": ({"input": [{"role": "tool", "content": "x"}]}, r"input\[0\]: role has to be one of"),
    "content": ({"input": [{"role": "user", "content": 3}]}, r"input\[0\]: content"),
    "tools": ({"tools": {}}, "tools has to be a list"),
    "tool without name": ({"tools": [{"type": "function"}]}, r"tools\[0\]: its name"),
    "choice": ({"tool_choice": 3}, "tool_choice"),
    "choice of nothing": ({"tool_choice": {"type": "function"}}, "names no tool"),
    "conversation": ({"conversation": 3}, "conversation has to be"),
    "previous": ({"previous_response_id": 3}, "previous_response_id has to be"),
    "look-alike": ({"input": [CALL | {"Arguments": "{}"}]}, "not every client reads alike"),
}


@pytest.mark.parametrize(("changed", "words"), MALFORMED.values(), ids=MALFORMED)
def test_what_cannot_be_read_is_said_to_the_developer(changed: dict[str, Any], words: str) -> None:
    body = {"model": "m", "input": "x"} | changed
    with pytest.raises(Malformed, match=words):
        parse_request(json.dumps(body).encode(), "openai-responses")


def test_a_key_that_occurs_twice_is_refused() -> None:
    """C10: of two readers, one may take the first."""
    with pytest.raises(Malformed, match="cannot be judged"):
        parse_request(b'{"model":"m","input":"a","input":"b"}', "openai-responses")
