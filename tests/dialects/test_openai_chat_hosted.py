"""Tools that a Chat Completions provider runs itself, switched on outside `tools`."""

import json
from typing import Any

import pytest

from proxy.core.messages import Malformed, Request, RequestEdit, ToolKind
from proxy.dialects.openai_chat import OPENAI_CHAT

USER = {"role": "user", "content": "x"}
OWN = {"type": "function", "function": {"name": "own"}}


def body_of(**more: Any) -> bytes:
    return json.dumps({"model": "maple-1", "messages": [USER], **more}).encode()


def parse(body: bytes) -> Request:
    return OPENAI_CHAT.parse_request(body)


def keeping(body: bytes, *names: str) -> bytes:
    return OPENAI_CHAT.edit_request(body, RequestEdit(keep_tools=frozenset(names)))


@pytest.mark.parametrize(
    ("more", "tool"),
    [
        ({"web_search_options": {}}, "web_search_options"),
        ({"web_search_options": {"search_context_size": "low"}}, "web_search_options"),
        ({"plugins": [{"id": "web", "max_results": 3}]}, "plugins.web"),
        ({"plugins": ["plugin_web_search"]}, "plugins.plugin_web_search"),
        ({"plugins": [7]}, "plugins."),
        ({"plugins": {"id": "web"}}, "plugins"),
        ({"connectors": [{"id": "web-search"}]}, "connectors.web-search"),
        ({"search_parameters": {"mode": "on"}}, "search_parameters"),
        ({"search_parameters": {}}, "search_parameters"),
        ({"compound_custom": {"tools": {"enabled_tools": ["visit_website"]}}}, "compound_custom"),
        ({"enable_search": True}, "enable_search"),
        ({"enable_search": "yes"}, "enable_search"),
        ({"enable_code_interpreter": True}, "enable_code_interpreter"),
        ({"mcp_servers": [{"name": "wiki", "url": "https://w.example.test"}]}, "mcp.wiki"),
        ({"data_sources": [{"type": "azure_search"}]}, "data_sources"),
        ({"extra_body": {"google": {"cached_content": "cachedContents/1"}}}, "extra_body"),
        ({"extra_body": {"tools": [OWN]}}, "extra_body"),
        ({"extra_body": {"a": {"b": {"c": {"d": {"e": 1}}}}}}, "extra_body"),
    ],
)
def test_what_a_member_of_its_own_switches_on_is_a_tool_and_goes_with_it(
    more: dict[str, Any], tool: str
) -> None:
    """D1: policy sees it by name, and all else of the request keeps its bytes."""
    body = body_of(**more)
    assert [(one.name, one.kind) for one in parse(body).tools] == [(tool, ToolKind.HOSTED)]
    assert parse(body).tools[0].options is not None
    assert parse(body).tools[0].size > 0
    assert keeping(body, tool) == body
    assert keeping(body) == body_of()


@pytest.mark.parametrize(
    "more",
    [
        {"web_search_options": None},
        {"plugins": []},
        {"plugins": [{"id": "web", "enabled": False}]},
        {"enable_search": False},
        {"search_parameters": {"mode": "off"}},
        {"web_search": {"enable": False}},
        {"extra_body": {"google": {"thinking_config": {"include_thoughts": True}}}},
        {"extra_body": None},
        {"models": ["maple-2", 5]},
        {"models": "maple:online"},
    ],
)
def test_what_is_switched_off_offers_nothing_and_stays(more: dict[str, Any]) -> None:
    body = body_of(**more)
    assert parse(body).tools == ()
    assert keeping(body) == body


def test_each_plugin_is_judged_for_itself() -> None:
    """D1, A7: those that may be used keep their bytes and their order."""
    plugins = [{"id": "web"}, {"id": "file-parser", "pdf": {"engine": "native"}}, {"id": "moderation"}]
    body = body_of(tools=[OWN], plugins=plugins)
    assert parse(body).tool_names == ("own", "plugins.web", "plugins.file-parser", "plugins.moderation")
    assert keeping(body, "own", "plugins.file-parser") == body_of(tools=[OWN], plugins=[plugins[1]])
    assert keeping(body, "own") == body_of(tools=[OWN])


def test_policies_read_the_options_and_no_keys() -> None:
    source = {
        "type": "azure_search",
        "parameters": {
            "index_name": "orders",
            "endpoint": "https://s.example.test",
            "authentication": {"key": "s3cret"},
        },
    }
    (tool,) = parse(body_of(data_sources=[source])).tools
    assert "s3cret" not in str(tool.options)
    assert tool.options == {
        "value": [
            {
                "type": "azure_search",
                "parameters": {"index_name": "orders", "endpoint": "https://s.example.test"},
            }
        ]
    }
    (plugin,) = parse(body_of(plugins=[{"id": "web", "max_results": 3}])).tools
    assert plugin.options == {"id": "web", "max_results": 3}


@pytest.mark.parametrize(
    "model",
    [
        "maple/maple-1:online",
        "maple/maple-1:ONLINE",
        "maple-1:online:nitro",
        "groq/compound",
        "compound-beta-mini",
        "sonar",
        "perplexity/sonar-pro",
        "maple-4o-mini-search-preview",
        "maple-5-search-api-2026-01-01",
        "o9-deep-research",
    ],
)
def test_a_model_with_tools_of_its_own_is_asked_only_where_they_may_be_used(model: str) -> None:
    """D1: the name of a model is not rewritten, so what it does is refused instead."""
    body = body_of(model=model, tools=[OWN])
    tool = parse(body).tool("model.tools")
    assert tool is not None
    assert tool.kind is ToolKind.HOSTED
    assert tool.options == {"model": model}
    assert keeping(body, "own", "model.tools") == body
    with pytest.raises(Malformed, match="searches the web or runs code by itself"):
        keeping(body, "own")


@pytest.mark.parametrize("model", ["maple-1", "maple/compounds", "sonarqube-coder", "online-maple", ""])
def test_other_models_have_none(model: str) -> None:
    assert parse(body_of(model=model)).tools == ()


def test_a_model_to_fall_back_on_counts_too() -> None:
    body = body_of(models=["maple-2", "maple-1:online"])
    assert parse(body).tool_names == ("model.tools",)
    with pytest.raises(Malformed):
        keeping(body)


def test_a_server_is_judged_by_its_address_wherever_it_is_named() -> None:
    """D1: as `servers` of the rule data wants it."""
    (tool,) = parse(
        body_of(mcp_servers=[{"name": "wiki", "url": "https://w.example.test", "token": "s3cret"}])
    ).tools
    assert tool.options == {
        "name": "wiki",
        "url": "https://w.example.test",
        "server_url": "https://w.example.test",
    }
    nested = {"type": "mcp", "mcp": {"server_label": "wiki", "server_url": "https://w.example.test"}}
    (tool,) = parse(body_of(tools=[nested])).tools
    assert tool.options is not None
    assert tool.options["server_url"] == "https://w.example.test"
    two = nested | {"server_url": "https://other.example.test"}
    with pytest.raises(Malformed, match=r"tools\[0\]: it names two servers"):
        parse(body_of(tools=[two]))
