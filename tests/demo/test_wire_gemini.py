"""The scripted provider on Gemini's API, read by the official client."""

import json
from typing import Any

import pytest

from proxy.demo import Answer, Call
from proxy.demo.answers import Complaint, Ids
from proxy.demo.wire_gemini import GeminiWire, wire_at
from tests.dialects import gemini_agent as agent

ANSWER = Answer(
    "Hi there.",
    calls=(Call("read", {"id": 1}), Call("read", {"id": 2}, id="c2")),
    thinking="Hm.",
    text_after="Bye.",
)
SAID = ("Hi there.Bye.", [("", "read", {"id": 1}), ("c2", "read", {"id": 2})])
PATH = "/v1beta/models/maple-1:"


def wire(method: str) -> GeminiWire:
    found = wire_at(PATH + method)
    assert found is not None
    return found


def test_the_client_reads_the_same_streamed_and_whole() -> None:
    stream = b"".join(wire("streamGenerateContent?alt=sse").frames(ANSWER, {}, Ids()))
    whole = wire("generateContent").body(ANSWER, {}, Ids())
    assert agent.sdk_streams(stream) == agent.sdk_reads(whole)
    assert agent.sdk_reads(whole)[1:] == SAID


def test_without_alt_a_stream_is_an_array_of_the_same_elements() -> None:
    array = json.loads(b"".join(wire("streamGenerateContent?key=k").frames(ANSWER, {}, Ids())))
    events = b"".join(wire("streamGenerateContent?alt=sse").frames(ANSWER, {}, Ids()))
    assert array == [json.loads(line[6:]) for line in events.splitlines() if line]


@pytest.mark.parametrize(
    ("path", "model"),
    [
        (PATH + "generateContent", "maple-1"),
        ("/v1/projects/p/locations/l/publishers/google/models/m:generateContent", "m"),
        ("/v1beta/models/m:countTokens", None),
        ("/v1/chat/completions", None),
    ],
)
def test_the_path_names_the_model(path: str, model: str | None) -> None:
    found = wire_at(path)
    assert (found and found.model) == model


def user(*parts: Any) -> dict[str, Any]:
    return {"role": "user", "parts": list(parts)}


def model(*parts: Any) -> dict[str, Any]:
    return {"role": "model", "parts": list(parts)}


HI = user({"text": "Hi"})
CALL = {"functionCall": {"name": "read", "args": {}}}
RESULT = {"functionResponse": {"name": "read", "response": {"result": "x"}}}
READ = {"functionDeclarations": [{"name": "read"}]}


@pytest.mark.parametrize(
    ("request_", "words"),
    [
        (1, "Invalid JSON"),
        ({}, "contents is not specified"),
        ({"contents": [HI], "messages": []}, "Unknown name"),
        ({"contents": [1]}, "Invalid value"),
        ({"contents": [{"role": "assistant", "parts": [{"text": "x"}]}]}, "valid role"),
        ({"contents": [{"role": "user", "parts": []}]}, "must not be empty"),
        ({"contents": [user({})]}, "required oneof"),
        ({"contents": [user({"text": 1})]}, "TYPE_STRING"),
        ({"contents": [HI, model({"functionCall": {"name": "read", "args": "x"}})]}, "args"),
        ({"contents": [HI, model({"functionCall": {"args": {}}})]}, "Name cannot be empty"),
        (
            {"contents": [HI, model(CALL), user({"functionResponse": {"name": "read", "response": "x"}})]},
            "response",
        ),
        ({"contents": [HI, model(CALL), HI]}, "number of function response parts"),
        ({"contents": [HI, model(CALL, CALL), user(RESULT)]}, "number of function response parts"),
        ({"contents": [HI, user(RESULT)]}, "number of function response parts"),
        ({"contents": [model(CALL), user(RESULT)]}, "immediately after a user turn"),
        ({"contents": [HI, model({"text": "x"})]}, "end with a user role"),
        ({"contents": [HI], "tools": [{}]}, "tool_type"),
        ({"contents": [HI], "tools": 7}, "cannot be bound"),
        ({"contents": [user({"functionResponse": 7})]}, "cannot be bound"),
        ({"contents": [HI], "tools": [READ, READ]}, "Duplicate"),
        (
            {"contents": [HI], "tools": [{"function_declarations": [{"name": "a b"}]}]},
            "Invalid function name",
        ),
        ({"contents": [HI], "toolConfig": {"functionCallingConfig": {"mode": "ANY"}}}, "without"),
        (
            {
                "contents": [HI],
                "tools": [READ],
                "toolConfig": {"functionCallingConfig": {"mode": "AUTO", "allowedFunctionNames": ["read"]}},
            },
            "mode is ANY",
        ),
        (
            {
                "contents": [HI],
                "tools": [READ],
                "toolConfig": {"functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": ["x"]}},
            },
            "subset",
        ),
    ],
)
def test_what_the_api_would_not_take_is_refused(request_: object, words: str) -> None:
    found = wire("generateContent").complaint(request_, {})
    assert found is not None
    assert words in found.message


@pytest.mark.parametrize(
    "request_",
    [
        {"contents": HI},
        {"contents": [HI, model({**CALL, "thoughtSignature": "c2ln"}, CALL), user(RESULT, RESULT)]},
        {"contents": [HI], "tools": [READ], "system_instruction": {"parts": [{"text": "Be kind."}]}},
    ],
)
def test_what_the_api_takes_is_taken(request_: object) -> None:
    assert GeminiWire("gemini-3-pro").complaint(request_, {}) is None


def test_newer_models_want_the_first_call_of_a_step_signed() -> None:
    request = {"contents": [HI, model(CALL), user(RESULT)]}
    found = GeminiWire("gemini-3-pro").complaint(request, {})
    assert found is not None
    assert "thought_signature" in found.message
    assert GeminiWire("gemini-2.5-flash").complaint(request, {}) is None
    before = {"contents": [*request["contents"], model({"text": "Done."}), HI]}
    assert GeminiWire("gemini-3-pro").complaint(before, {}) is None


def test_errors_are_the_apis_own() -> None:
    error = json.loads(wire("generateContent").error(Complaint("no", status=404), Ids()))
    assert error == {"error": {"code": 404, "message": "no", "status": "NOT_FOUND"}}
    assert json.loads(wire("generateContent").models(("m",)))["models"][0]["name"] == "models/m"
    assert wire("generateContent").headers(Ids()) == {}
