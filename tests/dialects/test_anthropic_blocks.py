"""What blocks, tools and usage records of the Messages API mean."""

import json

import pytest
from hypothesis import given, strategies as st

from proxy.core.messages import Problem, ToolKind, Usage
from proxy.dialects.anthropic_blocks import (
    canonical,
    compact,
    counts_from,
    counts_of,
    error_type,
    is_call,
    message_digest,
    problem_of,
    result_of,
    tools_of,
    usage_of,
)


def test_a_text_is_the_same_message_as_its_one_block_wherever_its_cache_mark_is() -> None:
    """A7: agents move cache marks from request to request."""
    marked = [{"type": "text", "text": "Hi", "cache_control": {"type": "ephemeral"}}]
    assert message_digest("user", "Hi") == message_digest("user", marked) != message_digest("user", "Ho")
    assert message_digest("user", "Hi") != message_digest("assistant", "Hi")


def test_a_result_is_the_same_as_text_or_as_its_one_block() -> None:
    plain = {"type": "tool_result", "tool_use_id": "t", "content": "R1"}
    block = {"type": "text", "text": "R1", "cache_control": {"type": "ephemeral"}}
    blocks = plain | {"content": [block], "is_error": False, "cache_control": {"type": "ephemeral"}}
    assert message_digest("user", [plain]) == message_digest("user", [blocks])
    assert message_digest("user", [plain]) != message_digest("user", [plain | {"is_error": True}])


def test_an_assistants_message_is_its_text_and_its_calls() -> None:
    """A2: what SDKs leave out, reorder or trim makes no difference; another argument does."""
    call = {"type": "tool_use", "id": "t", "name": "n", "input": {"a": 1.0, "b": [2]}}
    said = [{"type": "thinking", "thinking": "x", "signature": "s"}, {"type": "text", "text": "So "}, call]
    other = call | {"input": {"b": [2], "a": 1}, "caller": {"type": "direct"}}
    again = [{"type": "text", "text": "So", "citations": None}, other]
    assert message_digest("assistant", said) == message_digest("assistant", again)
    assert message_digest("assistant", said) != message_digest(
        "assistant", [said[1], call | {"input": {"a": 2}}]
    )
    assert message_digest("assistant", said) != message_digest("assistant", [said[1], call | {"id": "u"}])


def test_another_picture_is_another_result() -> None:
    """D9: equal texts are not enough to call a result unchanged."""

    def shot(pixels: str) -> str:
        source = {"type": "base64", "media_type": "image/png", "data": pixels}
        content = [{"type": "text", "text": "shot"}, {"type": "image", "source": source}]
        return result_of({"type": "tool_result", "tool_use_id": "t", "content": content}).text

    assert shot("aaaa") == shot("aaaa") != shot("bbbb")
    assert shot("aaaa").startswith("shot\n[image ")


@pytest.mark.parametrize(
    ("kind", "wanted"),
    [
        ("computer_20250124", ToolKind.FUNCTION),
        ("bash_20250124", ToolKind.FUNCTION),
        ("text_editor_20250728", ToolKind.FUNCTION),
        ("memory_20250818", ToolKind.FUNCTION),
        ("web_search_20250305", ToolKind.HOSTED),
        ("code_execution_20250825", ToolKind.HOSTED),
        ("tool_search_tool_bm25_20251119", ToolKind.HOSTED),
        ("something_new_20300101", ToolKind.HOSTED),
    ],
)
def test_a_typed_tool_is_run_by_the_agent_or_by_the_provider(kind: str, wanted: ToolKind) -> None:
    (tool,) = tools_of({"type": kind, "name": "x"})
    assert (tool.name, tool.kind, tool.schema) == ("x", wanted, None)


def test_a_tool_of_ones_own_has_a_schema_with_or_without_a_type() -> None:
    schema = {"type": "object"}
    for kind in ({}, {"type": "custom"}):
        (tool,) = tools_of({"name": "x", "input_schema": schema, **kind})
        assert (tool.kind, tool.schema) == (ToolKind.FUNCTION, schema)
        assert tool.size > 0


def test_a_schema_does_not_make_a_tool_of_the_provider_ones_own() -> None:
    """D1: what the provider runs by its type is not judged by a name and a schema that hide it."""
    (tool,) = tools_of({"type": "code_execution_20250825", "name": "read_note", "input_schema": {}})
    assert tool.kind is ToolKind.HOSTED


def test_a_toolset_offers_its_members_under_its_name() -> None:
    names = [
        tool.name for tool in tools_of({"type": "computer_toolset_20260801", "configs": {"novel": None}})
    ]
    assert {"computer.left_click", "computer.screenshot", "computer.novel"} <= set(names)
    assert len(set(names)) == len(names)


def test_the_tools_of_an_mcp_server_are_hosted_under_the_servers_name() -> None:
    (tool,) = tools_of({"type": "mcp_toolset", "mcp_server_name": "wiki"})
    assert (tool.name, tool.kind) == ("mcp.wiki", ToolKind.HOSTED)


def test_whatever_may_be_a_call_is_one() -> None:
    assert is_call({"type": "tool_use"})
    assert is_call({"type": "new_use", "name": "n", "input": 5})
    assert not is_call({"type": "server_tool_use", "name": "n", "input": {}})
    assert not is_call({"type": "web_search_tool_result", "tool_use_id": "x", "content": []})


def test_usage_counts_the_cache_as_input_and_back() -> None:
    """E4."""
    raw = {
        "input_tokens": 5,
        "cache_read_input_tokens": 7,
        "cache_creation_input_tokens": 11,
        "output_tokens": 13,
        "output_tokens_details": {"thinking_tokens": 2},
        "service_tier": "standard",
    }
    usage = usage_of(counts_of(raw))
    assert usage == Usage(23, 13, 7, 11, 2)
    assert counts_from(usage) == {key: raw[key] for key in counts_from(usage)}
    assert counts_of({"input_tokens": None, "output_tokens": True}) == {}
    assert counts_of([1]) == {}


def test_an_error_keeps_the_providers_type_and_others_get_one_by_status() -> None:
    assert error_type(problem_of({"type": "overloaded_error", "message": "m"})) == "overloaded_error"
    statuses = {400: "invalid_request_error", 401: "authentication_error", 403: "permission_error"}
    more = {
        404: "not_found_error",
        413: "request_too_large",
        429: "rate_limit_error",
        529: "overloaded_error",
    }
    others = {
        409: "invalid_request_error",
        500: "api_error",
        502: "api_error",
        503: "api_error",
        504: "timeout_error",
    }
    for status, kind in {**statuses, **more, **others}.items():
        assert error_type(Problem(status, "callgate_code", "m")) == kind
    assert problem_of("x").status == 500


def test_deep_values_are_written_all_the_same() -> None:
    deep: object = {}
    for _ in range(400):
        deep = [deep]
    assert compact(deep) == "[" * 400 + "{}" + "]" * 400
    assert canonical(deep).count(b"[") == 400


@given(
    st.dictionaries(
        st.text(max_size=3), st.floats(allow_nan=False, allow_infinity=False) | st.integers(-9, 9)
    )
)
def test_canonical_text_forgets_order_and_the_form_of_whole_numbers(value: dict[str, float]) -> None:
    """D10."""
    turned = {key: float(value[key]) for key in reversed(value)}
    assert canonical(value) == canonical(turned)
    assert json.loads(canonical(value)) == value
