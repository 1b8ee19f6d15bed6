"""Edits of a request of Gemini's API: splices, and nothing else moves."""

import json
from typing import Any

import pytest

from proxy.core.messages import (
    ChoiceMode,
    Exchange,
    Malformed,
    MissingResult,
    RequestEdit,
    ResultText,
    TextExchange,
    ToolCall,
    ToolChoice,
)
from proxy.dialects.gemini_edit import edit_request
from proxy.dialects.gemini_request import parse_request
from tests.dialects import gemini_agent as agent

HI = {"role": "user", "parts": [{"text": "Hi"}]}
CALLS = {"role": "model", "parts": [agent.call("a", {"x": 1}), {"functionCall": {"id": "own", "name": "b"}}]}
DONE = {"functionResponse": {"name": "a", "response": {"result": "r"}}}


def edited(body: dict[str, Any], **edit: Any) -> dict[str, Any]:
    made: dict[str, Any] = json.loads(edit_request(json.dumps(body, indent=1).encode(), RequestEdit(**edit)))
    return made


def calls_of(body: dict[str, Any]) -> tuple[ToolCall, ...]:
    return (
        parse_request(json.dumps(body).encode(), "/v1/models/m:generateContent", "gemini").messages[1].calls
    )


def test_no_edit_is_no_change() -> None:
    body = b'{ "contents" : 1 }'
    assert edit_request(body, RequestEdit()) is body


def test_tools_that_do_not_stay_go_and_the_others_keep_their_bytes() -> None:
    tools = b'[ {"googleSearch": {}}, {"functionDeclarations": [ {"name":"a"} ]}, {"function_declarations": [{"name":"b"}]} ]'
    body = b'{"contents": [], "tools": ' + tools + b"}"
    made = edit_request(body, RequestEdit(keep_tools=frozenset({"a"})))
    assert b'{"functionDeclarations": [ {"name":"a"} ]}' in made
    assert json.loads(made)["tools"] == [{"functionDeclarations": [{"name": "a"}]}]


def test_of_one_entry_some_may_stay() -> None:
    body = {
        "contents": [HI],
        "tools": {"functionDeclarations": [{"name": "a"}, {"name": "b"}], "codeExecution": {}},
    }
    assert edited(body, keep_tools=frozenset({"b"}))["tools"] == {"functionDeclarations": [{"name": "b"}]}


def test_where_no_tool_is_left_nothing_of_them_is() -> None:
    body = {
        "contents": [HI],
        "tools": [{"functionDeclarations": [{"name": "a"}]}],
        "tool_config": {"function_calling_config": {"mode": "ANY", "allowed_function_names": ["a"]}},
    }
    assert edited(body, keep_tools=frozenset()) == {"contents": [HI]}


@pytest.mark.parametrize("key", ["cachedContent", "cached_content"])
def test_what_is_kept_under_a_name_stays_or_the_request_is_refused(key: str) -> None:
    """C021: tools, instructions and a part of the conversation may stand there."""
    body = {"contents": [HI], key: "cachedContents/1"}
    assert edited(body, keep_tools=frozenset({"cachedContent"})) == body
    with pytest.raises(Malformed, match="may hold tools"):
        edited(body, keep_tools=frozenset({"a"}))


@pytest.mark.parametrize("key", ["excludedPredefinedFunctions", "excluded_predefined_functions"])
def test_a_computer_is_narrowed_to_the_functions_that_stay(key: str) -> None:
    """D1."""
    body = {"contents": [HI], "tools": [{"computerUse": {"environment": "E", key: ["search"]}}]}
    read = parse_request(json.dumps(body).encode(), "/v1/models/m:generateContent", "gemini")
    assert edited(body, keep_tools=frozenset(read.tool_names)) == body
    made = edited(body, keep_tools=frozenset({"computerUse", "click_at"}))
    again = parse_request(json.dumps(made).encode(), "/v1/models/m:generateContent", "gemini")
    assert again.tool_names == ("computerUse", "click_at")
    assert made["tools"][0]["computerUse"]["environment"] == "E"
    for keep in ({"click_at"}, {"computerUse"}):
        assert "tools" not in edited(body, keep_tools=frozenset(keep))


def test_names_that_may_be_called_are_narrowed_too() -> None:
    config = {"functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": ["a", "b"]}}
    tools = [{"functionDeclarations": [{"name": "a"}, {"name": "b"}]}]
    made = edited({"contents": [HI], "tools": tools, "toolConfig": config}, keep_tools=frozenset({"b"}))
    assert made["toolConfig"]["functionCallingConfig"] == {"mode": "ANY", "allowedFunctionNames": ["b"]}


@pytest.mark.parametrize("key", ["toolConfig", "tool_config"])
def test_a_choice_is_set_in_the_agents_spelling_beside_all_else(key: str) -> None:
    """B3."""
    body = {
        "contents": [HI],
        "tools": [{"functionDeclarations": [{"name": "a"}]}],
        key: {"retrievalConfig": {}},
    }
    made = edited(body, tool_choice=ToolChoice(ChoiceMode.NONE))
    assert made[key] == {"retrievalConfig": {}, "functionCallingConfig": {"mode": "NONE"}}
    assert len({"toolConfig", "tool_config"} & made.keys()) == 1


@pytest.mark.parametrize(
    ("config", "made"),
    [
        ({}, {"maxOutputTokens": 5}),
        (
            {"generationConfig": {"temperature": 1, "maxOutputTokens": 9}},
            {"temperature": 1, "maxOutputTokens": 5},
        ),
        ({"generation_config": {"max_output_tokens": 9}}, {"max_output_tokens": 5}),
        ({"generationConfig": {"maxOutputTokens": 3}}, {"maxOutputTokens": 3}),
    ],
)
def test_the_cap_is_lowered_and_never_raised(config: dict[str, Any], made: dict[str, Any]) -> None:
    body = edited({"contents": [HI], **config}, max_output=5)
    assert body.get("generationConfig", body.get("generation_config")) == made


def test_a_note_joins_the_newest_content_of_the_user() -> None:
    assert edited({"contents": [HI]}, note="N")["contents"] == [
        {"role": "user", "parts": [{"text": "Hi"}, {"text": "N"}]}
    ]
    ended = {"contents": [HI, {"role": "model", "parts": [{"text": "x"}]}]}
    assert edited(ended, note="N")["contents"][-1] == {"role": "user", "parts": [{"text": "N"}]}
    one = edited({"contents": HI}, note="N")["contents"]
    assert one == [HI, {"role": "user", "parts": [{"text": "N"}]}]


def test_results_that_are_missing_stand_before_those_that_came() -> None:
    """E1: with an id where the call has one."""
    body = {"contents": [HI, CALLS, {"role": "user", "parts": [DONE]}]}
    _, own = calls_of(body)
    made = edited(body, missing_results=(MissingResult(1, own, "no"),))
    lost = {"functionResponse": {"id": "own", "name": "b", "response": {"error": "no"}}}
    assert made["contents"][2]["parts"] == [lost, DONE]


def test_results_that_are_missing_get_a_content_where_none_follows() -> None:
    body = {"contents": [HI, CALLS]}
    first, own = calls_of(body)
    made = edited(body, missing_results=(MissingResult(1, first, "x"), MissingResult(1, own, "y")))
    (behind,) = made["contents"][2:]
    assert [list(part["functionResponse"]) for part in behind["parts"]] == [
        ["name", "response"],
        ["id", "name", "response"],
    ]


def test_refused_turns_go_behind_all_that_came_and_the_note_behind_them() -> None:
    """C2."""
    message = json.dumps({"role": "model", "parts": [agent.call("a", {})]}).encode()
    exchange = Exchange(message, ((ToolCall("call_1", "a", "{}", (0, 0)), "no"),))
    made = edited({"contents": [HI]}, exchanges=(exchange, TextExchange("I call a.", "no")), note="N")[
        "contents"
    ]
    assert made[0] == HI
    assert made[1] == json.loads(message)
    assert made[2]["parts"] == [{"functionResponse": {"name": "a", "response": {"error": "no"}}}]
    assert made[3] == {"role": "model", "parts": [{"text": "I call a."}]}
    assert made[4] == {"role": "user", "parts": [{"text": "no"}, {"text": "N"}]}


def test_a_result_is_replaced_in_its_place() -> None:
    body = {"contents": [HI, CALLS, {"role": "user", "parts": [{"text": "So:"}, DONE]}]}
    made = edited(body, results=(ResultText(2, 0, "cut"),))
    assert made["contents"][2]["parts"] == [
        {"text": "So:"},
        {"functionResponse": {"name": "a", "response": {"result": "cut"}}},
    ]


@pytest.mark.parametrize("body", [b"[]", b"{", b'{"contents":1}', b'{"contents":[1]}'])
def test_what_is_no_request_is_refused(body: bytes) -> None:
    with pytest.raises(Malformed):
        edit_request(body, RequestEdit(note="N"))


def test_declarations_that_are_null_declare_nothing() -> None:
    """Found by property test: what can be read can be edited."""
    body = b'{"contents":[{"parts":[{"text":"x"}]}],"tools":[{"functionDeclarations":null}]}'
    edited = edit_request(body, RequestEdit(keep_tools=frozenset({"read_note"})))
    assert "tools" not in json.loads(edited)


def test_thousands_of_results_are_replaced_and_as_many_added() -> None:
    """Time grows with the history, not with its square."""
    count = 1000
    calls = {"role": "model", "parts": [agent.call("a", {"n": n}) for n in range(count)]}
    orphans = {"role": "model", "parts": [agent.call("b", {"n": n}) for n in range(count)]}
    body = {"contents": [HI, calls, {"role": "user", "parts": [DONE] * count}, orphans]}
    missing = parse_request(json.dumps(body).encode(), "/v1/models/m:generateContent", "gemini").messages[3]
    made = edited(
        body,
        results=tuple(ResultText(2, n, f"r{n}") for n in range(count)),
        missing_results=tuple(MissingResult(3, call, "Gone.") for call in missing.calls),
    )["contents"]
    assert made[2]["parts"][-1]["functionResponse"]["response"] == {"result": f"r{count - 1}"}
    assert len(made[4]["parts"]) == count
