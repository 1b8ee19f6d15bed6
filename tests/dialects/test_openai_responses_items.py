"""Items of the Responses API: how a refused call gets its result, and which items may be calls."""

import json

import pytest

from proxy.core.messages import ToolCall, ToolKind
from proxy.demo.strict_responses import Remembered, complaint
from proxy.dialects.openai_responses_items import (
    call_of,
    hosted_call_of,
    is_call,
    is_hosted,
    message_item,
    output_item,
    output_text,
    result_of,
    said_in,
)

CALLS = {
    "function": {"type": "function_call", "call_id": "c1", "name": "f", "arguments": "{}"},
    "free text": {"type": "custom_tool_call", "call_id": "c1", "name": "f", "input": "x"},
    "local shell": {"type": "local_shell_call", "call_id": "c1", "action": {"type": "exec"}},
    "shell": {"type": "shell_call", "call_id": "c1", "action": {"commands": []}},
    "patch": {"type": "apply_patch_call", "call_id": "c1", "operation": {"type": "delete_file"}},
    "computer": {"type": "computer_call", "call_id": "c1", "action": {"type": "wait"}},
    "search": {"type": "tool_search_call", "call_id": "c1", "execution": "client", "arguments": {}},
    "approval": {"type": "mcp_approval_request", "id": "c1", "server_label": "b", "name": "f"},
}


@pytest.mark.parametrize("item", CALLS.values(), ids=CALLS)
def test_each_form_of_call_gets_a_result_of_its_own_form(item: dict[str, object]) -> None:
    """C7, C022: one that the provider takes, and that reads back as a result of this call."""
    call = call_of(item, (0, 0))
    written = json.loads(output_item(call, "Not run."))
    request = {"model": "m", "input": [item, written, {"role": "user", "content": "So?"}]}
    assert complaint(request, Remembered()) is None
    assert result_of(written).call_id == "c1"


def test_a_call_of_another_time_is_answered_by_its_kind() -> None:
    """A call that is remembered without its form is a function, or a free text."""
    function = json.loads(output_item(ToolCall("c1", "f", "{}"), "no"))
    free = json.loads(output_item(ToolCall("c1", "f", "x", kind=ToolKind.CUSTOM), "no"))
    assert (function["type"], free["type"]) == ("function_call_output", "custom_tool_call_output")


def test_what_the_provider_ran_is_told_by_name_and_arguments() -> None:
    """C10."""
    search = hosted_call_of({"type": "web_search_call", "id": "ws", "action": {"query": "x"}}, 2)
    server = hosted_call_of(
        {"type": "mcp_call", "id": "m", "server_label": "box", "name": "get", "arguments": "{}"}, 3
    )
    assert (search.id, search.name, search.arguments, search.key) == (
        "ws",
        "web_search",
        '{"query":"x"}',
        (0, 2),
    )
    assert (server.name, server.kind) == ("mcp.box.get", ToolKind.HOSTED)


@pytest.mark.parametrize("kind", ["reasoning", "message", "compaction", "function_call_output"])
def test_items_that_say_something_are_no_calls(kind: str) -> None:
    assert not is_call({"type": kind, "id": "x", "call_id": "c", "output": "y"})


@pytest.mark.parametrize("environment", [None, {"type": "local"}, {"type": "elsewhere"}, "container"])
def test_a_shell_is_the_provider_s_only_in_a_container_of_it(environment: object) -> None:
    """C022, fail closed."""
    item = {"type": "shell_call", "call_id": "c", "action": {}, "environment": environment}
    assert is_call(item)
    assert not is_hosted(item)
    assert is_hosted(item | {"environment": {"type": "container_reference"}})


def test_results_are_told_apart_by_what_is_no_text() -> None:
    """D9: another picture is another result."""
    first, second = ([{"type": "input_image", "image_url": url}] for url in ("a", "b"))
    assert output_text(first) != output_text(second)
    assert output_text([{"type": "input_text", "text": "x"}]) == "x"
    assert output_text({"type": "computer_screenshot"}) == '{"type":"computer_screenshot"}'
    assert output_text(None) == ""


def test_a_status_of_another_kind_is_no_error() -> None:
    assert not result_of(
        {"type": "function_call_output", "call_id": "c", "output": "x", "status": [{}]}
    ).is_error


def test_a_message_of_the_proxy_s_own_says_what_it_was_given() -> None:
    assert said_in(message_item("Hi", "msg_1")) == "Hi"
    assert said_in({"content": "Hi"}) == "Hi"
