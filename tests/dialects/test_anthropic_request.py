"""A request of the Messages API in neutral words."""

import json
from typing import Any

import orjson
import pytest
from hypothesis import given, strategies as st

from proxy.core.messages import ChoiceMode, Malformed, Request, Role, ToolChoice, ToolKind
from proxy.dialects.anthropic import ANTHROPIC
from tests.dialects.messages_agent import recordings, sdk_reads

Json = dict[str, Any]


def read(**members: Any) -> Request:
    body = {"model": "m", "max_tokens": 10, "messages": [{"role": "user", "content": "Hi"}]} | members
    return ANTHROPIC.parse_request(json.dumps(body).encode())


def test_a_request_is_read() -> None:
    """C1: tool results are blocks of a user message."""
    asked = [
        {"role": "user", "content": "Show R1."},
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "x", "signature": "s"},
                {"type": "text", "text": "Looking"},
                {"type": "server_tool_use", "id": "srv", "name": "web_search", "input": {}},
                {"type": "web_search_tool_result", "tool_use_id": "srv", "content": []},
                {"type": "tool_use", "id": "t1", "name": "read", "input": {"id": "R1", "n": 1.0}},
                {"type": "tool_use", "id": "t2", "name": "list", "input": {}},
                {"type": "text", "text": " up."},
            ],
        },
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "t1", "content": "blue"},
                {
                    "type": "tool_result",
                    "tool_use_id": "t2",
                    "is_error": True,
                    "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}],
                },
                {"type": "x_future_block"},
            ],
        },
        {"role": "system", "content": [{"type": "text", "text": "Be brief."}]},
    ]
    request = read(system="You are X.", messages=asked, stream=True)
    assert [one.role for one in request.messages] == [
        Role.SYSTEM,
        Role.USER,
        Role.ASSISTANT,
        Role.USER,
        Role.SYSTEM,
    ]
    assert request.messages[0].text == "You are X."
    assistant, results = request.messages[2], request.messages[3]
    assert assistant.text == "Looking up."
    assert [(one.id, one.name, one.arguments, one.key) for one in assistant.calls] == [
        ("t1", "read", '{"id":"R1","n":1.0}', (0, 0)),
        ("t2", "list", "{}", (0, 1)),
    ]
    assert [(one.call_id, one.text, one.is_error) for one in results.results] == [
        ("t1", "blue", False),
        ("t2", "a\nb", True),
    ]
    assert not results.is_user_turn
    assert (request.dialect, request.model, request.max_output, request.stream) == (
        "anthropic-messages",
        "m",
        10,
        True,
    )
    assert request.asks_usage


def test_tools_are_read_whoever_runs_them_and_wherever_they_are_offered() -> None:
    """C14, D1: a definition in mid-conversation and an MCP server are offers too."""
    inline = {
        "type": "tool_addition",
        "tool": {"type": "tool_definition", "definition": {"name": "late", "input_schema": {}}},
    }
    named = {"type": "tool_addition", "tool": {"type": "tool_reference", "name": "read"}}
    request = read(
        tools=[
            {"name": "read", "input_schema": {"type": "object"}},
            {"type": "web_search_20250305", "name": "web_search"},
            {"type": "mcp_toolset", "mcp_server_name": "wiki"},
        ],
        mcp_servers=[
            {"type": "url", "name": "wiki", "url": "u"},
            {"type": "url", "name": "docs", "url": "u"},
        ],
        messages=[{"role": "user", "content": "Hi"}, {"role": "system", "content": [inline, named]}],
    )
    assert request.tool_names == ("read", "web_search", "mcp.wiki", "late", "mcp.docs")
    assert [tool.kind for tool in request.tools] == [
        ToolKind.FUNCTION,
        ToolKind.HOSTED,
        ToolKind.HOSTED,
        ToolKind.FUNCTION,
        ToolKind.HOSTED,
    ]


def test_policies_read_what_was_set_for_hosted_tools_but_no_keys() -> None:
    """D1: a server by its address, a search by its domains, a skill by its id."""
    server = {
        "type": "url",
        "name": "wiki",
        "url": "https://wiki.example.test/mcp",
        "authorization_token": "s3cret",
        "tool_configuration": {"allowed_tools": ["look"]},
    }
    request = read(
        tools=[
            {"type": "web_search_20250305", "name": "web_search", "allowed_domains": ["example.test"]},
            {"type": "mcp_toolset", "mcp_server_name": "wiki", "default_config": {"enabled": False}},
            {"type": "bash_20250124", "name": "bash"},
        ],
        mcp_servers=[server],
        container={"id": "c1", "skills": [{"type": "anthropic", "skill_id": "pdf", "version": "latest"}]},
    )
    shown = {tool.name: tool.options for tool in request.tools}
    assert shown == {
        "web_search": {
            "type": "web_search_20250305",
            "name": "web_search",
            "allowed_domains": ["example.test"],
        },
        "mcp.wiki": {
            "type": "url",
            "mcp_server_name": "wiki",
            "default_config": {"enabled": False},
            "name": "wiki",
            "url": "https://wiki.example.test/mcp",
            "server_url": "https://wiki.example.test/mcp",
            "tool_configuration": {"allowed_tools": ["look"]},
        },
        "bash": None,
        "skills.pdf": {"type": "anthropic", "skill_id": "pdf", "version": "latest"},
    }
    assert [tool.kind for tool in request.tools if tool.name.startswith("skills.")] == [ToolKind.HOSTED]


def test_two_servers_of_one_name_are_two() -> None:
    """D1: the second address does not hide the first."""
    servers = [{"type": "url", "name": "wiki", "url": url} for url in ("https://a.test", "https://b.test")]
    toolset = {"type": "mcp_toolset", "mcp_server_name": "wiki"}
    for tools in ([], [toolset], [toolset, toolset]):
        offered = read(tools=tools, mcp_servers=servers).tools
        assert {tool.name for tool in offered} == {"mcp.wiki"}
        urls = [(tool.options or {}).get("server_url") for tool in offered]
        assert {"https://a.test", "https://b.test"} <= set(urls)


def test_a_container_that_holds_no_skills_offers_nothing() -> None:
    for container in (None, "c1", {"id": "c1"}, {"skills": None}, {"skills": "pdf"}, {"skills": ["pdf"]}):
        assert read(container=container).tools == ()


@pytest.mark.parametrize(
    ("raw", "wanted"),
    [
        (None, ToolChoice()),
        ({"type": "auto", "disable_parallel_tool_use": True}, ToolChoice()),
        ({"type": "any"}, ToolChoice(ChoiceMode.REQUIRED)),
        ({"type": "none"}, ToolChoice(ChoiceMode.NONE)),
        ({"type": "tool", "name": "read"}, ToolChoice(ChoiceMode.NAMED, ("read",))),
        ({"type": ["?"]}, ToolChoice()),
        ("auto", ToolChoice()),
    ],
)
def test_the_tool_choice_is_read(raw: object, wanted: ToolChoice) -> None:
    """D15."""
    assert read(tool_choice=raw).tool_choice == wanted


@pytest.mark.parametrize(
    ("user", "session"),
    [
        ("user_ab12_account_cd_session_0f0f0f0f-1234", "0f0f0f0f-1234"),
        ('{"device_id":"d","session_id":"s-1"}', "s-1"),
        ({"session_id": "s-2"}, "s-2"),
        ("someone", ""),
        ("{", ""),
        (None, ""),
        (7, ""),
    ],
)
def test_a_session_that_the_agent_names_is_its_conversation(user: object, session: str) -> None:
    assert read(metadata={"user_id": user}).conversation == session


def test_pictures_are_no_text() -> None:
    """C016: a picture sent inline is not half a budget."""
    picture = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "A" * 5000}}
    result = {"type": "tool_result", "tool_use_id": "t", "content": [picture]}
    request = read(messages=[{"role": "user", "content": [picture, result, {"type": "text", "text": "x"}]}])
    assert request.text_size == request.size - 10_000


def test_a_billing_line_that_changes_with_each_request_does_not_change_the_conversation() -> None:
    def digest(line: str) -> bytes:
        return (
            read(system=[{"type": "text", "text": line}, {"type": "text", "text": "Be X."}])
            .messages[0]
            .digest
        )

    assert digest("x-anthropic-billing-header: cch=1") == digest("x-anthropic-billing-header: cch=2")
    assert digest("x") != digest("y")


@pytest.mark.parametrize(
    ("body", "about"),
    [
        (b"", "not valid JSON"),
        (b"[]", "not a JSON object"),
        (b'{"messages":[]}', "model"),
        (b'{"model":"m"}', "messages"),
        (b'{"model":"m","messages":["x"]}', r"messages\[0\]"),
        (b'{"model":"m","messages":[{"role":"tool","content":"x"}]}', r"messages\[0\].role"),
        (b'{"model":"m","messages":[{"role":["user"],"content":"x"}]}', r"messages\[0\].role"),
        (b'{"model":"m","messages":[{"role":"user"}]}', r"messages\[0\].content"),
        (b'{"model":"m","messages":[{"role":"user","content":["x"]}]}', r"messages\[0\].content"),
        (b'{"model":"m","messages":[],"tools":{}}', "tools"),
        (b'{"model":"m","messages":[],"tools":["x"]}', r"tools\[0\]"),
        (b'{"model":"m","messages":[],"system":5}', "system"),
        (b'{"model":"m","messages":[],"tools":[],"tools":[]}', "twice"),
        (b'{"model":"m","messages":[],"t\\u006fols":[],"tools":[]}', "twice"),
        (b'{"model":"m","model":"n","messages":[]}', "twice"),
        (b'{"model":"m","messages":[],"tools":[{"name":"f","name":"g"}]}', "twice"),
        (b"[" * 100_000, "not valid JSON"),
    ],
)
def test_what_is_no_request_is_told_to_the_developer(body: bytes, about: str) -> None:
    with pytest.raises(Malformed, match=about):
        ANTHROPIC.parse_request(body)


def test_what_the_sdk_sends_back_has_the_digest_of_what_it_got() -> None:
    """A2."""
    content = [
        {"type": "thinking", "thinking": "x", "signature": "s"},
        {"type": "text", "text": "So.", "citations": None},
        {"type": "tool_use", "id": "t", "name": "n", "input": {"b": 1.0, "a": {"c": []}}},
    ]
    body: Json = {"id": "msg", "type": "message", "role": "assistant", "model": "m", "content": content}
    body |= {
        "stop_reason": "tool_use",
        "stop_sequence": None,
        "usage": {"input_tokens": 1, "output_tokens": 1},
    }
    turn = ANTHROPIC.parse_response(json.dumps(body).encode(), lambda: "made")
    param = sdk_reads(json.dumps(body).encode()).to_param()
    parts = [part if isinstance(part, dict) else part.model_dump(mode="json") for part in param["content"]]  # type: ignore[union-attr]  # blocks, as the SDK types them
    back = read(messages=[{"role": "assistant", "content": parts}])
    kept = read(messages=[json.loads(turn.message)])
    assert back.messages[0].digest == kept.messages[0].digest
    assert back.messages[0].calls[0].id == "t"


def test_every_recorded_request_is_read_as_an_independent_reader_read_it() -> None:
    for entry in recordings():
        body = entry["request"]["body"]
        if not isinstance(body, dict) or entry["id"] == "am-0e6a402d":
            continue  # that one is refused by the provider too
        request = ANTHROPIC.parse_request(json.dumps(body).encode())
        seen = entry["observed"]
        results = [one.call_id for message in request.messages for one in message.results]
        calls = [one.id for message in request.messages for one in message.calls]
        assert results == seen["request_tool_result_ids"], entry["id"]
        assert calls == seen["history_call_ids"], entry["id"]
        assert request.stream == bool(body.get("stream")), entry["id"]
        assert len(request.tools) >= seen["tools_offered"], entry["id"]


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
BLOCK = JSON | st.fixed_dictionaries(
    {"type": st.sampled_from(["text", "tool_use", "tool_result", "image", "tool_addition"])},
    optional=dict.fromkeys(
        ("text", "id", "name", "input", "tool_use_id", "content", "source", "tool", "is_error"), JSON
    ),
)
MESSAGE = JSON | st.fixed_dictionaries(
    {
        "role": st.sampled_from(["user", "assistant", "system"]),
        "content": st.text(max_size=3) | st.lists(BLOCK, max_size=3),
    }
)
TOOL = JSON | st.fixed_dictionaries(
    {"type": st.sampled_from(["custom", "mcp_toolset", "computer_toolset_1", "x"])},
    optional=dict.fromkeys(("name", "input_schema", "configs", "mcp_server_name"), JSON),
)
BODY = st.fixed_dictionaries(
    {"model": st.just("m"), "messages": st.lists(MESSAGE, max_size=4)},
    optional={"tools": st.lists(TOOL, max_size=3), "mcp_servers": JSON | st.lists(TOOL, max_size=2)}
    | dict.fromkeys(("system", "tool_choice", "max_tokens", "stream", "metadata", "thinking"), JSON),
)


@given(BODY | JSON)
def test_any_json_is_read_or_refused(body: object) -> None:
    try:
        text = orjson.dumps(body)
    except TypeError:  # whole numbers beyond 64 bits
        text = json.dumps(body).encode()
    try:
        request = ANTHROPIC.parse_request(text)
    except Malformed:
        return
    assert all(len(message.digest) == 16 for message in request.messages)
