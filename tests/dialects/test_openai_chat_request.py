"""What is read of a Chat Completions request, and with which words it is refused."""

import json
from typing import Any

import pytest

from proxy.core.messages import (
    ChoiceMode,
    Malformed,
    Request,
    Role,
    ToolCall,
    ToolChoice,
    ToolKind,
    ToolResult,
)
from proxy.dialects.openai_chat_request import parse_request

USER = {"role": "user", "content": "Hi"}


def parse(**more: Any) -> Request:
    return parse_request(json.dumps({"model": "m", "messages": [USER]} | more).encode(), "openai-chat")


def function(name: str, **more: Any) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name} | more}


def test_messages_are_read_by_role() -> None:
    """A3, C1."""
    call = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": '{"a": 1}'}}
    request = parse(
        messages=[
            {"role": "developer", "content": "Be brief."},
            {"role": "system", "content": [{"type": "text", "text": "And kind."}]},
            {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]},
            {"role": "assistant", "content": "Let me see.", "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "c1", "content": [{"type": "text", "text": "found"}]},
        ]
    )
    assert [message.role for message in request.messages] == [
        Role.SYSTEM,
        Role.SYSTEM,
        Role.USER,
        Role.ASSISTANT,
        Role.TOOL,
    ]
    assert [message.text for message in request.messages] == [
        "Be brief.",
        "And kind.",
        "a\nb",
        "Let me see.",
        "",
    ]
    assert request.messages[3].calls == (ToolCall("c1", "f", '{"a": 1}'),)
    assert request.messages[4].results == (ToolResult("c1", "found"),)


def test_legacy_calls_and_results_find_each_other_by_name() -> None:
    def called(name: str) -> dict[str, Any]:
        return {"role": "assistant", "content": None, "function_call": {"name": name, "arguments": "{}"}}

    request = parse(
        messages=[
            USER,
            called("f"),
            {"role": "function", "name": "f", "content": "1"},
            called("f"),
            {"role": "function", "name": "f", "content": "2"},
            {"role": "function", "name": "g", "content": "3"},
        ]
    )
    calls = [call.id for message in request.messages for call in message.calls]
    results = [result.call_id for message in request.messages for result in message.results]
    assert len(set(calls)) == 2
    assert results[:2] == calls
    assert results[2] not in calls


def test_tools_of_every_kind_are_tools() -> None:
    """D1: also those that the provider runs, and those of the legacy form."""
    schema = {"type": "object"}
    request = parse(
        tools=[
            function("f", parameters=schema),
            {"function": {"name": "typeless"}},
            {"type": "function", "name": "flat", "parameters": schema},
            {"type": "custom", "custom": {"name": "g", "format": {"type": "text"}}},
            {"type": "openrouter:web_search", "parameters": {"max_results": 3}, "headers": {"k": "s3cret"}},
            {
                "type": "mcp",
                "server_label": "wiki",
                "server_url": "https://w.example.test",
                "authorization": "s3cret",
            },
            {"type": "mcp", "mcp": {"server_label": "docs"}},
            {"type": "builtin_function", "function": {"name": "$web_search"}},
        ],
        functions=[{"name": "old", "parameters": schema}],
    )
    assert [(tool.name, tool.kind, tool.schema) for tool in request.tools] == [
        ("f", ToolKind.FUNCTION, schema),
        ("typeless", ToolKind.FUNCTION, None),
        ("flat", ToolKind.FUNCTION, schema),
        ("g", ToolKind.CUSTOM, None),
        ("openrouter:web_search", ToolKind.HOSTED, None),
        ("mcp.wiki", ToolKind.HOSTED, None),
        ("mcp.docs", ToolKind.HOSTED, None),
        ("$web_search", ToolKind.FUNCTION, None),
        ("old", ToolKind.FUNCTION, schema),
    ]
    assert [tool.options for tool in request.tools if tool.kind is not ToolKind.HOSTED] == [None] * 6
    search, wiki = request.tool("openrouter:web_search"), request.tool("mcp.wiki")
    assert search is not None
    assert wiki is not None
    assert search.options == {"type": "openrouter:web_search", "parameters": {"max_results": 3}}
    assert wiki.options == {"type": "mcp", "server_label": "wiki", "server_url": "https://w.example.test"}
    assert request.tools[0].size == len(json.dumps(function("f", parameters=schema), separators=(",", ":")))


@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        (None, ToolChoice()),
        ("auto", ToolChoice()),
        ("none", ToolChoice(ChoiceMode.NONE)),
        ("required", ToolChoice(ChoiceMode.REQUIRED)),
        ("any", ToolChoice(ChoiceMode.REQUIRED)),
        ("f", ToolChoice(ChoiceMode.NAMED, ("f",))),
        ({"type": "auto"}, ToolChoice()),
        ({"type": "none"}, ToolChoice(ChoiceMode.NONE)),
        ({"type": "function", "function": {"name": "f"}}, ToolChoice(ChoiceMode.NAMED, ("f",))),
        ({"type": "function", "name": "f"}, ToolChoice(ChoiceMode.NAMED, ("f",))),
        ({"function": {"name": "f"}}, ToolChoice(ChoiceMode.NAMED, ("f",))),
        ({"type": "custom", "custom": {"name": "g"}}, ToolChoice(ChoiceMode.NAMED, ("g",))),
        ({"type": "web_search"}, ToolChoice(ChoiceMode.NAMED, ("web_search",))),
        ({"type": "mcp", "server_label": "wiki"}, ToolChoice(ChoiceMode.NAMED, ("mcp.wiki",))),
        (
            {
                "type": "allowed_tools",
                "allowed_tools": {
                    "mode": "required",
                    "tools": [function("f"), {"type": "custom", "custom": {"name": "g"}}],
                },
            },
            ToolChoice(ChoiceMode.REQUIRED, ("f", "g")),
        ),
    ],
)
def test_every_form_of_tool_choice_is_read(choice: Any, expected: ToolChoice) -> None:
    """D15."""
    assert parse(tool_choice=choice).tool_choice == expected


def test_the_legacy_tool_choice_counts_where_there_is_no_other() -> None:
    assert parse(function_call={"name": "f"}).tool_choice == ToolChoice(ChoiceMode.NAMED, ("f",))
    assert parse(function_call="none", tool_choice="auto").tool_choice == ToolChoice()


def test_numbers_and_flags_are_read() -> None:
    assert parse().choices == 1
    assert parse(n=3, max_tokens=7.0).choices == 3
    assert parse(max_tokens=70).max_output == 70
    assert parse(max_completion_tokens=50, max_tokens=70).max_output == 50
    assert parse(max_tokens=None).max_output is None
    assert parse(model=None).model == ""


@pytest.mark.parametrize(
    ("more", "asks"),
    [
        ({}, True),
        ({"stream": True}, False),
        ({"stream": True, "stream_options": None}, False),
        ({"stream": True, "stream_options": {"include_usage": False}}, False),
        ({"stream": True, "stream_options": {"include_usage": True}}, True),
    ],
)
def test_whether_the_agent_will_see_usage_is_known(more: dict[str, Any], asks: bool) -> None:
    assert parse(**more).asks_usage is asks


def test_inline_media_is_not_counted_as_text() -> None:
    """E4: a picture sent inline is not half a million tokens."""
    blob = "A" * 10_000
    parts = [
        {"type": "text", "text": "What is this?"},
        {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{blob}"}},
        {"type": "input_audio", "input_audio": {"data": blob, "format": "mp3"}},
        {"type": "file", "file": {"filename": "x.pdf", "file_data": f"data:application/pdf;base64,{blob}"}},
        {"type": "image_url", "image_url": {"url": "https://example.org/x.png"}},
    ]
    request = parse(messages=[{"role": "user", "content": parts}])
    assert request.size > 30_000
    assert 100 < request.text_size < 700
    assert request.messages[0].is_user_turn
    longer = parse(messages=[{"role": "user", "content": blob}])
    assert longer.text_size == longer.size


def digest(message: dict[str, Any]) -> bytes:
    return parse(messages=[message]).messages[0].digest


def test_what_may_come_and_go_does_not_change_a_message() -> None:
    """A2: frameworks add and drop empty members and move cache marks."""
    plain = digest(USER)
    for same in (
        USER | {"name": None},
        {"content": "Hi", "role": "user", "annotations": []},
        {"role": "user", "content": [{"type": "text", "text": "Hi"}]},
        {"role": "user", "content": [{"type": "text", "text": "Hi", "cache_control": {"type": "ephemeral"}}]},
        USER | {"cache_control": {"type": "ephemeral"}},
    ):
        assert digest(same) == plain
    for other in (
        USER | {"name": "Bo"},
        {"role": "user", "content": "Hi!"},
        {"role": "system", "content": "Hi"},
        {"role": "user", "content": [{"type": "text", "text": "Hi"}, {"type": "text", "text": "Hi"}]},
    ):
        assert digest(other) != plain


def test_an_assistant_message_is_the_same_with_and_without_what_sdks_add() -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    plain = digest({"role": "assistant", "tool_calls": [call]})
    added: dict[str, Any] = {
        "refusal": None,
        "annotations": [],
        "audio": None,
        "function_call": None,
        "content": None,
    }
    assert digest({"role": "assistant", "tool_calls": [call | {"index": 0}]} | added) == plain
    assert digest({"role": "assistant", "tool_calls": [call], "content": "", "reasoning": "hm"}) == plain
    legacy = {"role": "assistant", "function_call": {"name": "f", "arguments": "{}"}}
    assert parse(messages=[legacy]).messages[0].digest == parse(messages=[USER, legacy]).messages[1].digest


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ({"messages": None}, "messages is missing"),
        ({"messages": "Hi"}, "messages has to be a list"),
        ({"messages": ["Hi"]}, r"messages\[0\] has to be an object"),
        ({"messages": [{"content": "Hi"}]}, r"messages\[0\]: role has to be one of system"),
        ({"messages": [{"role": ["user"]}]}, "role has to be one of"),
        ({"messages": [{"role": "root", "content": "Hi"}]}, "role has to be one of"),
        ({"messages": [{"role": "user", "content": 7}]}, "content has to be text or a list"),
        ({"messages": [{"role": "user", "content": [7]}]}, "each part of content"),
        ({"messages": [{"role": "tool", "content": "x"}]}, "tool_call_id has to be text"),
        ({"messages": [{"role": "function", "content": "x"}]}, "name has to be text"),
        ({"messages": [{"role": "assistant", "tool_calls": [7]}]}, r"messages\[0\]: an entry of tool_calls"),
        ({"messages": [USER | {"tool_calls": [function("f")]}]}, "only an assistant message can hold"),
        ({"tools": {"f": {}}}, "tools has to be a list"),
        ({"tools": [7]}, r"tools\[0\] has to be an object"),
        ({"tools": [{"type": "function"}]}, r"tools\[0\]: its name has to be text"),
        ({"tools": [{"type": 7}]}, "type has to be text"),
        ({"tools": [function("f", parameters="x")]}, "parameters has to be a JSON Schema"),
        ({"tool_choice": 7}, "tool_choice has to be text or an object"),
        ({"tool_choice": {}}, "tool_choice names no tool"),
        ({"tool_choice": {"type": "allowed_tools"}}, "tool_choice.allowed_tools has to be an object"),
        ({"stream": "true"}, "stream has to be true or false"),
        ({"stream": True, "stream_options": []}, "stream_options has to be an object"),
        ({"stream": True, "stream_options": {"include_usage": 1}}, "include_usage has to be true or false"),
        ({"n": 0}, "n has to be a whole number from 1 up to 128"),
        ({"n": 10**9}, "n has to be"),
        ({"n": True}, "n has to be"),
        ({"max_tokens": "7"}, "max_tokens has to be a whole number from 0"),
        ({"model": 7}, "model has to be text"),
    ],
)
def test_what_cannot_be_read_is_refused_with_the_place(more: dict[str, Any], says: str) -> None:
    """C4, F1: a sentence for the developer of the agent."""
    with pytest.raises(Malformed, match=says):
        parse(**more)


@pytest.mark.parametrize(
    "body",
    [
        b'{"model":"m","messages":[],"tools":[],"tools":[{"type":"function","function":{"name":"f"}}]}',
        b'{"messages":[],"tools":[{"type":"function","function":{"name":"f","n\\u0061me":"g"}}]}',
        b'{"messages":[],"tools":[{"type":"function","type":"custom","function":{"name":"f"}}]}',
    ],
)
def test_a_request_that_two_readers_could_take_differently_is_refused(body: bytes) -> None:
    with pytest.raises(Malformed, match="a key occurs twice"):
        parse_request(body, "openai-chat")


def test_a_very_deep_request_is_refused() -> None:
    for depth in (500, 100_000):
        body = b'{"messages":[{"role":"user","x":' + b"[" * depth + b"]" * depth + b"}]}"
        with pytest.raises(Malformed):
            parse_request(body, "openai-chat")
