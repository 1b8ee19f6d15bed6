"""The words of Chat Completions, in all the spellings that providers and frameworks use."""

from typing import Any

import pytest

from proxy.core.messages import Malformed, ToolKind, Usage
from proxy.dialects.openai_chat_parts import (
    CallPart,
    call_parts,
    hosted_calls,
    usage_of,
    usage_record,
    usage_with,
    visible_text,
)


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ("Hello", "Hello"),
        (None, ""),
        (
            [
                {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]},
                {"type": "text", "text": "So"},
            ],
            "So",
        ),
        (["a", {"text": "b"}, {"type": "refusal", "refusal": "no"}, {"type": "image_url"}], "ab"),
        ({"title": "Apples"}, '{"title":"Apples"}'),
        ([{"type": [], "text": "x"}, {"type": {}, "text": "y"}], ""),
        (7, ""),
    ],
)
def test_visible_text_is_found_in_every_form_of_content(content: Any, text: str) -> None:
    assert visible_text(content) == text


def entry(**more: Any) -> dict[str, Any]:
    return {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}} | more


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ({"tool_calls": [entry()]}, CallPart(0, "c1", "f", "{}")),
        (
            {"tool_calls": [{"function": {"name": "f", "arguments": {"a": 1}}}]},
            CallPart(0, "", "f", '{"a":1}'),
        ),
        ({"tool_calls": [entry(function={"name": "f"}, index=3)]}, CallPart(0, "c1", "f", "", index=3)),
        ({"tool_calls": [entry(function={"name": "f", "arguments": None})]}, CallPart(0, "c1", "f", "")),
        ({"tool_calls": [entry(custom={"name": "", "input": ""})]}, CallPart(0, "c1", "f", "{}")),
        (
            {"tool_calls": [{"id": "c1", "type": "custom", "custom": {"name": "g", "input": "4 + 4"}}]},
            CallPart(0, "c1", "g", "4 + 4", ToolKind.CUSTOM),
        ),
        (
            {"tool_calls": [entry(type="custom", function={"name": ""}, custom={"name": "g", "input": "x"})]},
            CallPart(0, "c1", "g", "x", ToolKind.CUSTOM),
        ),
        (
            {"tool_calls": [{"id": "c1", "type": "shell", "action": {"command": "ls"}}]},
            CallPart(0, "c1", "shell", '{"action":{"command":"ls"}}', ToolKind.CUSTOM),
        ),
        ({"function_call": {"name": "f", "arguments": "{}"}}, CallPart(None, "", "f", "{}")),
    ],
)
def test_every_spelling_of_a_call_is_read(message: dict[str, Any], expected: CallPart) -> None:
    """C1: also free-form tools, legacy functions, and kinds that nobody knows yet."""
    assert call_parts(message) == [expected]


@pytest.mark.parametrize(
    "message",
    [{}, {"tool_calls": None}, {"tool_calls": []}, {"function_call": None}, {"function_call": {"name": ""}}],
)
def test_filler_is_no_call(message: dict[str, Any]) -> None:
    assert call_parts(message) == []


@pytest.mark.parametrize(
    "message",
    [
        {"tool_calls": {"0": entry()}},
        {"tool_calls": ["f"]},
        {"tool_calls": [entry(id=7)]},
        {"tool_calls": [entry(function="f")]},
        {"tool_calls": [entry(function={"name": ["f"]})]},
        {"tool_calls": [entry(function={"name": "f", "arguments": 7})]},
        {"tool_calls": [entry(type=["function"])]},
        {"function_call": "f"},
        {"function_call": {"name": 1}},
    ],
)
def test_what_may_be_a_call_and_cannot_be_read_is_malformed(message: dict[str, Any]) -> None:
    """Fail closed: never passed over."""
    with pytest.raises(Malformed):
        call_parts(message)


def test_tools_that_the_provider_ran_are_reported() -> None:
    executed = [{"type": "search", "arguments": '{"q":"x"}', "index": 2}, {"name": "run"}, "?"]
    found = hosted_calls({"executed_tools": executed}, 1)
    assert [(call.name, call.arguments, call.key, call.kind) for call in found] == [
        ("search", '{"q":"x"}', (1, 2), ToolKind.HOSTED),
        ("run", "", (1, 1), ToolKind.HOSTED),
    ]


@pytest.mark.parametrize(
    "answer",
    [
        {
            "usage": {
                "prompt_tokens": 8,
                "completion_tokens": 2,
                "prompt_tokens_details": {"cached_tokens": 5},
            }
        },
        {"x_groq": {"usage": {"prompt_tokens": 8, "completion_tokens": 2, "prompt_cache_hit_tokens": 5}}},
        {"usage": {"prompt_tokens": 8, "completion_tokens": 2, "prompt_cache_hit_tokens": 5, "x": None}},
    ],
)
def test_usage_is_found_wherever_it_stands(answer: dict[str, Any]) -> None:
    assert usage_of(answer) == Usage(8, 2, 5)


@pytest.mark.parametrize(
    "answer", [{}, {"usage": None}, {"usage": {}}, {"x_groq": {"id": "r"}}, {"x_groq": 1}]
)
def test_no_usage_is_none_and_never_zero(answer: dict[str, Any]) -> None:
    """E4: unknown is not free."""
    assert usage_of(answer) is None


def test_hostile_usage_counts_nothing() -> None:
    record = {"prompt_tokens": -5, "completion_tokens": "many", "completion_tokens_details": [], "x": True}
    assert usage_of({"usage": record}) == Usage()


def test_usage_of_two_answers_is_added_where_the_provider_counts_it() -> None:
    usage = Usage(10, 4, 3, 0, 2)
    assert usage_of({"usage": usage_record(usage)}) == usage
    record = {
        "prompt_tokens": 1,
        "completion_tokens": 1,
        "total_tokens": 2,
        "cost": 0.5,
        "prompt_tokens_details": None,
    }
    assert usage_with(record, usage) == record | {
        "prompt_tokens": 11,
        "completion_tokens": 5,
        "total_tokens": 16,
    }
