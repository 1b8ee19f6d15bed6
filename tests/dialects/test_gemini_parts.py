"""The words of Gemini's API, one by one."""

import json
from typing import Any

import pytest

from proxy.core.messages import Malformed, Problem, ToolCall, Usage
from proxy.dialects import gemini_parts as parts


@pytest.mark.parametrize(
    "part",
    [
        {"FunctionCall": {"name": "a"}},
        {"function_Call": {"name": "a"}},
        {"functioncalls": [{"name": "a"}]},
        {"functionCall": {"name": "a"}, "FunctionCall": {"name": "b"}},
        {"functionCall": {"name": "a"}, "function_call": {"name": "b"}},
        {"functionCall": {"name": "a", "Args": {}}},
        {"functionCall": {"Name": "a"}},
        {"functionCall": {"name": "a"}, "text": "b"},
        {"functionCall": {"name": "a"}, "functionResponse": {"name": "b"}},
    ],
)
def test_a_part_that_clients_may_read_differently_is_refused(part: dict[str, Any]) -> None:
    """C11: fail closed."""
    with pytest.raises(Malformed):
        parts.is_call(part)


@pytest.mark.parametrize(
    ("part", "calls"),
    [
        ({"functionCall": {"name": "a"}}, True),
        ({"function_call": {"name": "a", "args": {"Args": 1}}}, True),
        ({"functionCall": {}}, True),
        ({"functionCall": "a"}, True),
        ({"functionCall": None}, False),
        ({"functionCall": {"name": "a"}, "text": ""}, True),
        ({"text": "functionCall"}, False),
        ({"functionCalls": {}}, False),
    ],
)
def test_calls_are_known_in_either_spelling(part: dict[str, Any], calls: bool) -> None:
    assert parts.is_call(part) is calls


def test_calls_are_named_by_what_they_say_and_numbered_where_they_say_the_same() -> None:
    """A3: the same names come of a history."""
    names = parts.CallNames()
    made = [names.call("", "read", text, (0, 0)).id for text in ('{"a":1}', '{ "a": 1 }', '{"a":2}')]
    assert made[1] == made[0] + "_1"
    assert made[2] not in made[:2]
    assert names.call("own", "read", "{}", (0, 0)).id == "own"


@pytest.mark.parametrize(
    ("body", "arguments"),
    [
        (b'{"args": {"a": 1.0}}', '{"a": 1.0}'),
        (b'{"args": null}', ""),
        (b"{}", ""),
        (b'{"args": "x"}', '"x"'),
        (b'{"args": [1]}', "[1]"),
    ],
)
def test_arguments_are_the_stretch_of_the_wire(body: bytes, arguments: str) -> None:
    assert parts.arguments_at(body, "args") == arguments


@pytest.mark.parametrize(
    ("response", "text", "is_error"),
    [
        ({"result": "x"}, "x", False),
        ({"output": "x"}, "x", False),
        ({"error": "x"}, "x", True),
        ({"a": 1}, '{"a":1}', False),
        ({}, "", False),
        (None, "", False),
        ([1], "[1]", False),
    ],
)
def test_results_are_read(response: object, text: str, is_error: bool) -> None:
    found = parts.result_of(response, "c")
    assert (found.text, found.is_error) == (text, is_error)


def test_results_that_are_written_read_the_same() -> None:
    for is_error in (False, True):
        written = json.loads(parts.response_with('a "b"', is_error=is_error))
        found = parts.result_of(written, "c")
        assert (found.text, found.is_error) == ('a "b"', is_error)


def test_a_refusal_has_the_calls_id_only_where_the_wire_has_one() -> None:
    call = ToolCall("c1", "read", "{}", (0, 0))
    with_id = json.loads(parts.refusal_part(call, "no", with_id=True))["functionResponse"]
    assert with_id == {"id": "c1", "name": "read", "response": {"error": "no"}}
    assert "id" not in json.loads(parts.refusal_part(call, "no", with_id=False))["functionResponse"]


@pytest.mark.parametrize(
    ("word", "finish"),
    [
        ("STOP", "STOP"),
        (1, "1"),
        (0, ""),
        ("FINISH_REASON_UNSPECIFIED", ""),
        (None, ""),
        (True, ""),
        ([], ""),
    ],
)
def test_the_finish_is_a_word_or_its_number(word: object, finish: str) -> None:
    assert parts.finish_of({"finishReason": word}) == finish


def test_tokens_are_read_and_added() -> None:
    record = {
        "promptTokenCount": 10,
        "candidatesTokenCount": 5,
        "thoughtsTokenCount": 2,
        "totalTokenCount": 17,
    }
    usage = parts.usage_of(record)
    assert usage == Usage(10, 7, reasoning_tokens=2)
    assert parts.usage_of({}) is None
    assert parts.usage_of({"promptTokenCount": "x"}) == Usage()
    assert usage is not None
    assert parts.usage_with(record, usage) == {key: 2 * value for key, value in record.items()}


def test_errors_keep_their_status_where_it_is_one() -> None:
    found = parts.problem_of({"code": 429, "message": "m", "status": "RESOURCE_EXHAUSTED"})
    assert found == Problem(429, "resource_exhausted", "m", retryable=True)
    assert parts.problem_of({"code": 200}).status == 502
    assert parts.problem_of("x").status == 502


def test_an_error_names_its_code_and_fields() -> None:
    record = parts.error_record(Problem(429, "limit", "m", fields={"limit": 3, "none": None}))["error"]
    assert (record["code"], record["status"]) == (429, "RESOURCE_EXHAUSTED")
    assert record["details"][0]["reason"] == "limit"
    assert record["details"][0]["metadata"] == {"limit": "3"}
