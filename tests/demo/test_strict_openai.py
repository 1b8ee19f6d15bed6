"""What Chat Completions refuses, and that it takes whatever the real one took."""

from typing import Any

import pytest
from openai import AsyncOpenAI, BadRequestError

from proxy.demo import Answer, ScriptedProvider
from proxy.demo.strict_openai import complaint
from tests.demo.recordings import recordings

USER = {"role": "user", "content": "Hi"}
TOOLS = [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}]


def call(key: str = "call_1", name: str = "f", arguments: object = "{}") -> dict[str, Any]:
    return {"id": key, "type": "function", "function": {"name": name, "arguments": arguments}}


def asks(*calls: dict[str, Any]) -> dict[str, Any]:
    return {"role": "assistant", "content": None, "tool_calls": list(calls)}


def result(key: str = "call_1") -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": key, "content": "done"}


def said(*messages: object, **more: Any) -> dict[str, Any]:
    return {"model": "m", "messages": [USER, *messages], **more}


def chosen(name: str) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name}}


def narrowed(name: str) -> dict[str, Any]:
    return {"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": [chosen(name)]}}


ACCEPTED = {
    "plain": said(),
    "all roles": said({"role": "system", "content": "s"}, {"role": "developer", "content": "d"}),
    "parts": said({"role": "user", "content": [{"type": "text", "text": "Hi"}]}),
    "parallel, any order": said(asks(call("a"), call("b")), result("b"), result("a"), USER),
    "ids used again later": said(asks(call()), result(), asks(call()), result()),
    "custom call": said(
        asks({"id": "c", "type": "custom", "custom": {"name": "f", "input": "x"}}), result("c")
    ),
    "refusal instead of content": said({"role": "assistant", "content": None, "refusal": "No."}),
    "legacy function": said(
        {"role": "assistant", "content": None, "function_call": {"name": "f", "arguments": "{}"}},
        {"role": "function", "name": "f", "content": None},
    ),
    "choice none": said(tools=TOOLS, tool_choice="none", parallel_tool_calls=False),
    "named choice": said(tools=TOOLS, tool_choice=chosen("f")),
    "narrowed choice": said(tools=TOOLS, tool_choice=narrowed("f")),
    "stream options": said(stream=True, stream_options={"include_usage": True}),
    "explicit nulls": said(tools=None, tool_choice=None, stream_options=None),
}
REFUSED = {
    "no object": ([], "We could not parse the JSON body"),
    "no model": ({"messages": [USER]}, "you must provide a model"),
    "no messages": ({"model": "m"}, "Missing required parameter: 'messages'."),
    "messages no list": ({"model": "m", "messages": "Hi"}, "Invalid type for 'messages': expected an array"),
    "empty messages": ({"model": "m", "messages": []}, "Invalid 'messages': empty array."),
    "message no object": (said("Hi"), "Invalid type for 'messages[1]': expected an object, but got a string"),
    "unknown role": (said({"role": "robot", "content": "Hi"}), "Invalid value: 'robot'."),
    "no role": (said({"content": "Hi"}), "Missing required parameter: 'messages[1].role'."),
    "null content": (said({"role": "user", "content": None}), "expected a string, got null"),
    "content no text": (said({"role": "user", "content": 1}), "Invalid type for 'messages[1].content'"),
    "empty parts": (said({"role": "user", "content": []}), "Invalid 'messages[1].content': empty array."),
    "part no type": (said({"role": "user", "content": [{}]}), "'messages[1].content[0].type'"),
    "call unanswered": (said(asks(call())), "did not have response messages: call_1"),
    "call answered late": (said(asks(call()), USER, result()), "did not have response messages: call_1"),
    "one of two unanswered": (
        said(asks(call("a"), call("b")), result("a")),
        "did not have response messages: b",
    ),
    "result without call": (said(result()), "must be a response to a preceeding message"),
    "result twice": (said(asks(call()), result(), result()), "must be a response to a preceeding message"),
    "result with foreign id": (said(asks(call()), result("x")), "must be a response to a preceeding message"),
    "result without id": (said(asks(call()), {"role": "tool", "content": "x"}), "'messages[2].tool_call_id'"),
    "same id twice in a turn": (said(asks(call(), call()), result()), "Duplicate value for 'id'"),
    "empty calls": (said(asks()), "Invalid 'messages[1].tool_calls': empty array."),
    "calls of a user": (
        said({**USER, "tool_calls": [call()]}),
        "Unknown parameter: 'messages[1].tool_calls'",
    ),
    "call no object": (said({**asks(), "tool_calls": ["x"]}), "Invalid type for 'messages[1].tool_calls[0]'"),
    "call without id": (said(asks(call(""))), "'messages[1].tool_calls[0].id'"),
    "call of unknown type": (said(asks({"id": "c", "type": "x"})), "Invalid value: 'x'."),
    "arguments as object": (said(asks(call(arguments={}))), "expected a string, but got an object"),
    "name with a space": (said(asks(call(name="a b"))), "string does not match pattern"),
    "name no text": (said(asks({"id": "c", "type": "function", "function": {}})), "expected a string"),
    "empty tools": (said(tools=[]), "Invalid 'tools': empty array."),
    "tool of unknown type": (said(tools=[{"type": "x"}]), "Invalid value: 'x'."),
    "tool without function": (said(tools=[{"type": "function"}]), "'tools[0].function'"),
    "choice without tools": (said(tool_choice="none"), "'tool_choice' is only allowed when 'tools'"),
    "parallel without tools": (said(parallel_tool_calls=True), "'parallel_tool_calls' is only allowed"),
    "unknown choice": (said(tools=TOOLS, tool_choice="any"), "Invalid value: 'any'."),
    "choice no text": (said(tools=TOOLS, tool_choice=1), "Invalid type for 'tool_choice'"),
    "choice names a missing tool": (said(tools=TOOLS, tool_choice=chosen("g")), "Tool choice 'g' not found"),
    "choice names nothing": (said(tools=TOOLS, tool_choice={"type": "function"}), "'tool_choice.function'"),
    "narrowed to a missing tool": (said(tools=TOOLS, tool_choice=narrowed("g")), "Tool choice 'g' not found"),
    "narrowed to nothing": (said(tools=TOOLS, tool_choice={"type": "allowed_tools"}), "Missing required"),
    "stream options unstreamed": (said(stream_options={}), "only allowed when 'stream' is enabled"),
}


@pytest.mark.parametrize("name", ACCEPTED)
def test_a_sound_request_is_taken(name: str) -> None:
    assert complaint(ACCEPTED[name], {}) is None


@pytest.mark.parametrize("name", REFUSED)
def test_a_broken_request_is_refused(name: str) -> None:
    request, message = REFUSED[name]
    found = complaint(request, {})

    assert found is not None
    assert message in found.message
    assert found.status == 400


async def test_a_refusal_reaches_the_client_and_leaves_the_script_alone(
    provider: ScriptedProvider, openai: AsyncOpenAI
) -> None:
    provider.script(Answer("Hi"))
    broken: Any = said(asks(call()), USER)
    with pytest.raises(BadRequestError, match="did not have response messages: call_1") as caught:
        await openai.chat.completions.create(**broken)

    assert (caught.value.type, caught.value.param) == ("invalid_request_error", "messages.[1].role")
    assert provider.left == 1
    assert "call_1" in (provider.seen[0].refused or "")
    assert provider.seen[0].status == 400


def test_what_the_real_provider_took_is_taken() -> None:
    refused = {
        recording.id: found.message
        for recording in recordings("openai-chat", ("openai",))
        if recording.status == 200 and recording.request is not None
        if (found := complaint(recording.request, {}))
    }

    assert refused == {}
