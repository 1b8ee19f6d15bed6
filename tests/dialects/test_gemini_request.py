"""Requests of Gemini's API, read: either spelling, every tool, the route's word for model and stream."""

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from proxy.core.messages import ChoiceMode, Malformed, Request, Role, ToolKind
from proxy.dialects import gemini_request

HI = {"role": "user", "parts": [{"text": "Hi"}]}
PATH = "/v1beta/models/maple-1:generateContent"


def read(path: str = PATH, **more: Any) -> Request:
    body = {"contents": [HI], **more}
    return gemini_request.parse_request(json.dumps(body).encode(), path, "gemini")


@pytest.mark.parametrize(
    ("path", "stream", "kind"),
    [
        (PATH, False, "text/event-stream"),
        ("/v1/models/maple-1:streamGenerateContent?alt=sse", True, "text/event-stream"),
        ("/v1/models/maple-1:streamGenerateContent?%24alt=sse", True, "text/event-stream"),
        ("/v1/models/maple-1:streamGenerateContent?key=k", True, "application/json"),
        ("/v1/projects/p/locations/l/publishers/google/models/maple-1:generateContent", False, None),
    ],
)
def test_the_path_names_model_and_form(path: str, stream: bool, kind: str | None) -> None:
    asked = read(path)
    assert (asked.model, asked.stream) == ("maple-1", stream)
    assert kind in {None, asked.stream_type}


def test_a_loop_reads_the_same_in_either_spelling_and_with_or_without_ids() -> None:
    """A3."""
    camel = [
        HI,
        {
            "role": "model",
            "parts": [{"functionCall": {"name": "a", "args": {"x": 1}}, "thoughtSignature": "s"}],
        },
        {"role": "user", "parts": [{"functionResponse": {"name": "a", "response": {"result": "r"}}}]},
    ]
    snake = json.loads(
        json.dumps(camel)
        .replace("functionCall", "function_call")
        .replace("functionResponse", "function_response")
    )
    first, second = read(contents=camel), read(contents=snake)
    assert first.messages == second.messages
    (call,) = first.messages[1].calls
    assert first.messages[2].results[0].call_id == call.id
    assert first.messages[2].results[0].text == "r"


def test_results_belong_to_calls_by_id_else_by_name_and_order() -> None:
    """A3, E1."""
    calls = [
        {"functionCall": {"name": "a", "args": {"x": 1}}},
        {"functionCall": {"name": "a", "args": {"x": 2}}},
        {"functionCall": {"id": "own", "name": "a"}},
    ]
    results = [
        {"functionResponse": {"id": "own", "name": "a", "response": {"result": "3"}}},
        {"functionResponse": {"name": "a", "response": {"result": "1"}}},
        {"functionResponse": {"name": "a", "response": {"result": "2"}}},
    ]
    asked = read(contents=[HI, {"role": "model", "parts": calls}, {"role": "user", "parts": results}])
    ids = [call.id for call in asked.messages[1].calls]
    by_id = {result.call_id: result.text for result in asked.messages[2].results}
    assert by_id == dict(zip(ids, "123", strict=True))


def test_a_result_without_id_belongs_to_the_step_before_it() -> None:
    """E1, C7: an older call of the same name stays without one."""
    first, second = ({"functionCall": {"name": "a", "args": {"x": x}}} for x in (1, 2))
    done = {"functionResponse": {"name": "a", "response": {"result": "r"}}}
    asked = read(
        contents=[
            HI,
            {"role": "model", "parts": [first]},
            HI,
            {"role": "model", "parts": [second]},
            {"role": "user", "parts": [done]},
        ]
    )
    assert asked.messages[4].results[0].call_id == asked.messages[3].calls[0].id


@pytest.mark.parametrize(
    "more",
    [
        {"contents": None},
        {"contents": []},
        {"contents": "Hi"},
        {"contents": [1]},
        {"contents": [{"role": "assistant", "parts": []}]},
        {"contents": [{"role": "user", "parts": "x"}]},
        {"contents": [{"role": "user", "parts": [1]}]},
        {"contents": [{"role": "user", "parts": [{"functionCall": {"name": "a"}}]}]},
        {"contents": [HI, {"role": "model", "parts": [{"FunctionCall": {"name": "a"}}]}]},
        {"systemInstruction": {"parts": []}, "system_instruction": {"parts": []}},
        {"tools": "x"},
        {"tools": [1]},
        {"tools": [{"functionDeclarations": [{}]}]},
        {"tools": [{"functionDeclarations": [1]}]},
        {"tools": [{"functionDeclarations": [], "function_declarations": []}]},
        {"tools": [{"googleSearch": {}, "google_search": {}}]},
        {"tools": [{"mcpServers": ["https://x.test"]}]},
        {"generationConfig": {"candidateCount": 100}},
        {"generationConfig": {"maxOutputTokens": "x"}},
        {"generationConfig": {"candidateCount": 1, "candidate_count": 2}},
    ],
)
def test_a_request_that_cannot_be_judged_is_refused_with_words(more: dict[str, Any]) -> None:
    with pytest.raises(Malformed):
        read(**more)


def test_a_number_that_is_none_is_named() -> None:
    with pytest.raises(Malformed, match="maxOutputTokens has to be"):
        read(generationConfig={"maxOutputTokens": "x"})


def test_a_key_that_occurs_twice_is_refused() -> None:
    with pytest.raises(Malformed):
        gemini_request.parse_request(b'{"contents":[],"contents":[]}', PATH, "gemini")


def test_contents_and_tools_may_be_one_object() -> None:
    asked = read(contents=HI, tools={"functionDeclarations": {"name": "a"}})
    assert [tool.name for tool in asked.tools] == ["a"]
    assert asked.messages[0].text == "Hi"


def test_instructions_are_the_systems() -> None:
    for given_ in ({"parts": [{"text": "a"}, {"text": "b"}]}, "a\nb"):
        first = read(system_instruction=given_).messages[0]
        assert (first.role, first.text) == (Role.SYSTEM, "a\nb")


def test_hosted_tools_are_seen_each_with_its_options_and_without_secrets() -> None:
    servers = [
        {
            "name": "s",
            "streamableHttpTransport": {"url": "https://x.test/mcp", "headers": {"authorization": "k"}},
        }
    ]
    tools = [
        {"google_search": {"apiKey": "k", "excludeDomains": ["x.test"]}, "urlContext": {}},
        {"mcpServers": servers},
        {"codeExecution": None},
        {"functionDeclarations": None},
    ]
    asked = read(tools=tools, cached_content="cachedContents/1")
    assert [tool.name for tool in asked.tools] == ["googleSearch", "urlContext", "mcp.s", "cachedContent"]
    assert all(tool.kind is ToolKind.HOSTED for tool in asked.tools)
    assert asked.tools[0].options == {"excludeDomains": ["x.test"]}
    assert asked.tools[2].options is not None
    assert asked.tools[2].options["server_url"] == "https://x.test/mcp"
    assert "authorization" not in str(asked.tools[2].options)
    assert asked.tools[3].options == {"name": "cachedContents/1"}


@pytest.mark.parametrize("key", ["computerUse", "computer_use"])
def test_a_computer_brings_functions_that_nobody_declares(key: str) -> None:
    """C2: the agent runs them, so their calls are judged like any other."""
    computer = {"environment": "ENVIRONMENT_BROWSER", "excludedPredefinedFunctions": ["drag_and_drop"]}
    asked = read(tools=[{key: computer}])
    hosted, *functions = asked.tools
    assert (hosted.name, hosted.kind, hosted.options) == ("computerUse", ToolKind.HOSTED, computer)
    assert {tool.kind for tool in functions} == {ToolKind.FUNCTION}
    assert "click_at" in asked.tool_names
    assert "drag_and_drop" not in asked.tool_names


@pytest.mark.parametrize(
    ("config", "mode"),
    [
        ({}, ChoiceMode.AUTO),
        ({"mode": "AUTO"}, ChoiceMode.AUTO),
        ({"mode": "VALIDATED"}, ChoiceMode.AUTO),
        ({"mode": "any"}, ChoiceMode.REQUIRED),
        ({"mode": "NONE"}, ChoiceMode.NONE),
        ({"mode": 3}, ChoiceMode.NONE),
        ({"mode": None}, ChoiceMode.AUTO),
    ],
)
def test_the_calling_mode_is_read(config: dict[str, Any], mode: ChoiceMode) -> None:
    assert read(tool_config={"function_calling_config": config}).tool_choice.mode is mode


def test_names_that_may_be_called_are_read() -> None:
    config = {"mode": "ANY", "allowed_function_names": ["a", 1]}
    assert read(toolConfig={"functionCallingConfig": config}).tool_choice.names == ("a",)


@pytest.mark.parametrize(
    ("given_", "made"),
    [
        (None, None),
        ({"type": "STRING"}, {"type": "string"}),
        ({"type": "TYPE_UNSPECIFIED"}, {}),
        (
            {"type": "STRING", "nullable": True, "enum": ["a"]},
            {"type": ["string", "null"], "enum": ["a", None]},
        ),
        (
            {"type": "OBJECT", "anyOf": [{"type": "INTEGER"}, {"type": "STRING"}]},
            {"anyOf": [{"type": "integer"}, {"type": "string"}]},
        ),
        (
            {"any_of": [{"type": "INTEGER"}], "nullable": True},
            {"anyOf": [{"type": "integer"}, {"type": "null"}]},
        ),
        ({"enum": 1, "nullable": True}, {}),
        (
            {"type": "OBJECT", "properties": {"type": {"type": "INTEGER"}}, "required": ["type"]},
            {"type": "object", "properties": {"type": {"type": "integer"}}, "required": ["type"]},
        ),
        (
            {"type": "ARRAY", "items": {"type": "NUMBER"}, "min_items": "2", "maxItems": 3},
            {"type": "array", "items": {"type": "number"}, "minItems": 2, "maxItems": 3},
        ),
        ({"anyOf": [{"type": "STRING"}, 7]}, {"anyOf": [{"type": "string"}, {}]}),
        ({"maxLength": "9" * 5000, "minLength": -1}, {}),
        ({"type": "STRANGE", "enum": 1, "required": "a", "minimum": "1", "pattern": None}, {}),
        ({"type": "INTEGER", "enum": ["101", "x", 7]}, {"type": "integer", "enum": ["101", "x", 7, 101]}),
        ({"format": "int32", "description": "x", "propertyOrdering": ["a"]}, {}),
    ],
)
def test_a_schema_of_its_own_form_becomes_json_schema(given_: object, made: object) -> None:
    assert gemini_request.json_schema(given_) == made


def test_a_json_schema_stays_as_it_is() -> None:
    schema = {"type": "object", "additionalProperties": False}
    for key in ("parametersJsonSchema", "parameters_json_schema"):
        assert read(tools=[{"functionDeclarations": [{"name": "a", key: schema}]}]).tools[0].schema == schema


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
KEYS = st.sampled_from(["contents", "tools", "toolConfig", "systemInstruction", "generationConfig"])


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(
    st.dictionaries(
        KEYS, JSON | st.lists(st.fixed_dictionaries({"parts": JSON, "functionDeclarations": JSON}))
    )
)
def test_any_json_is_read_or_refused(body: dict[str, Any]) -> None:
    """Never a crash."""
    try:
        gemini_request.parse_request(json.dumps(body).encode(), PATH, "gemini")
    except Malformed:
        return
