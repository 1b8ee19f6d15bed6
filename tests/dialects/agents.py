"""For each dialect: a written sample of its wire, and the official SDK as the judge of what an agent makes of it."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import anthropic
import botocore.exceptions
import botocore.parsers
import google.genai.errors
import ollama
import openai
import pydantic

from tests.dialects import (
    bedrock_agent,
    chat_agent,
    gemini_agent,
    messages_agent,
    ollama_agent,
    responses_agent,
)

Call = tuple[str, str, Any]
"""Id, name, and the arguments as a value (the very text where they are no JSON)."""


@dataclass(frozen=True)
class Read:
    """What an SDK makes of an answer."""

    id: str
    text: str
    calls: tuple[Call, ...]


def _value_in(raw: bytes) -> Any:
    return json.loads(raw.partition(b"data: ")[2]) if b"data: {" in raw else None


def _frame_with(raw: bytes, value: Any) -> bytes:
    return raw.partition(b"data: ")[0] + b"data: " + json.dumps(value).encode() + b"\n\n"


@dataclass(frozen=True)
class Agent:
    """One agent that speaks a dialect through its official SDK."""

    request: bytes
    """A loop in its second round: user, call, result; tools read_note and delete_note; streamed."""
    stream: bytes
    whole: bytes
    """The same answer: some text, then `read_note` and `delete_note`."""
    text: str
    ids: tuple[str, str]
    reads_stream: Callable[[bytes], Read]
    reads_whole: Callable[[bytes], Read]
    has_answer_ids: bool = True
    """Answers have ids on the wire."""
    has_call_ids: bool = True
    """Calls have ids on the wire, and they are what names them."""
    forbids_calls: str = "choice"
    """How the model is told not to call: by tool `choice`, by sending it `no tools`, or by `words` alone."""
    reads_problem: Callable[[bytes], Any] = lambda body: json.loads(body)["error"]
    """The error record in an error's body."""
    is_lines: bool = True
    """The stream is text in lines."""
    value_in: Callable[[bytes], Any] = _value_in
    """The JSON value in a frame; None: it holds none."""
    frame_with: Callable[[bytes, Any], bytes] = _frame_with
    """The frame with another value."""
    is_strict: bool = False
    """The SDK refuses answers that hold more than it knows."""
    path: str = ""
    """Of its requests, where that says something of them."""
    recorded_loops: int = 51
    """At least so many recorded answers are followed by their results."""


SDK_FAULTS = (
    openai.OpenAIError,
    anthropic.AnthropicError,
    botocore.exceptions.BotoCoreError,
    google.genai.errors.APIError,
    google.genai.errors.UnknownApiResponseError,
    pydantic.ValidationError,
    botocore.exceptions.ClientError,
    botocore.parsers.ResponseParserError,
    ollama.ResponseError,
    AssertionError,
    AttributeError,
    LookupError,
    RuntimeError,
    TypeError,
    ValueError,
)
"""How the SDKs fail on answers of providers that they were not made for."""


def value_of(arguments: object) -> Any:
    """Arguments as a value, so that spelling does not matter; none at all is an empty object (C004)."""
    if not isinstance(arguments, str):
        return {} if arguments is None else arguments
    try:
        return json.loads(arguments) if arguments.strip() else {}
    except ValueError:
        return arguments


def _chat_read(completion: Any) -> Read:
    choices = completion.choices
    calls = [
        (call.id, inner.name, value_of(inner.arguments if hasattr(inner, "arguments") else inner.input))
        for choice in choices
        for call in choice.message.tool_calls or ()
        for inner in [getattr(call, "function", None) or call.custom]
    ]
    calls += [
        ("", choice.message.function_call.name, value_of(choice.message.function_call.arguments))
        for choice in choices
        if choice.message.function_call is not None and choice.message.function_call.name
    ]
    return Read(completion.id, (choices[0].message.content or "") if choices else "", tuple(calls))


def _messages_read(message: Any) -> Read:
    calls = tuple(
        (block.id, block.name, block.input) for block in message.content if block.type == "tool_use"
    )
    return Read(message.id, "".join(block.text for block in message.content if block.type == "text"), calls)


IDS = ("call_a1", "call_b2")
SAID = "Zürich 🏔 first. "
READ, DELETE = {"id": 4}, {"id": 9, "why": 'old "snow" 🏔'}


def _chat() -> Agent:
    tools = [
        {"type": "function", "function": {"name": name, "parameters": {"type": "object", "properties": {}}}}
        for name in ("read_note", "delete_note")
    ]
    call = {"id": "call_0", "type": "function", "function": {"name": "read_note", "arguments": '{"id": 1}'}}
    request = {
        "model": "maple-1",
        "stream": True,
        "messages": [
            {"role": "user", "content": "Read note 4 and delete note 9."},
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "call_0", "content": "not it"},
        ],
        "tools": tools,
        "tool_choice": "auto",
    }
    texts = (json.dumps(READ), json.dumps(DELETE, ensure_ascii=False))
    stream = (
        b": opening\n\n"
        + chat_agent.opening()
        + chat_agent.said(SAID[:8])
        + chat_agent.said(SAID[8:])
        + chat_agent.pieces(chat_agent.piece(0, "", IDS[0], "read_note"))
        + chat_agent.pieces(chat_agent.piece(0, texts[0]))
        + chat_agent.pieces(chat_agent.piece(1, texts[1][:5], IDS[1], "delete_note"))
        + chat_agent.pieces(chat_agent.piece(1, texts[1][5:]))
        + chat_agent.ending()
        + chat_agent.usage(200, 30)
        + chat_agent.DONE
    )
    calls = [
        {"id": id_, "type": "function", "function": {"name": name, "arguments": arguments}}
        for id_, name, arguments in zip(IDS, ("read_note", "delete_note"), texts, strict=True)
    ]
    message = {"role": "assistant", "content": SAID, "tool_calls": calls, "refusal": None}
    whole = {
        "id": "chatcmpl-k1",
        "object": "chat.completion",
        "created": 1790000000,
        "model": "maple-1",
        "choices": [{"index": 0, "message": message, "finish_reason": "tool_calls"}],
        "usage": {"prompt_tokens": 200, "completion_tokens": 30, "total_tokens": 230},
    }
    return Agent(
        request=json.dumps(request, indent=1).encode(),
        stream=stream,
        whole=json.dumps(whole, indent=2, ensure_ascii=False).encode(),
        text=SAID,
        ids=IDS,
        reads_stream=lambda body: _chat_read(chat_agent.sdk_streams(body)),
        reads_whole=lambda body: _chat_read(chat_agent.sdk_reads(body)),
    )


def _messages() -> Agent:
    tools = [
        {"name": name, "input_schema": {"type": "object", "properties": {}}}
        for name in ("read_note", "delete_note")
    ]
    called = {"type": "tool_use", "id": "call_0", "name": "read_note", "input": {"id": 1}}
    request = {
        "model": "maple-large",
        "max_tokens": 200,
        "stream": True,
        "messages": [
            {"role": "user", "content": "Read note 4 and delete note 9."},
            {"role": "assistant", "content": [called]},
            {
                "role": "user",
                "content": [{"type": "tool_result", "tool_use_id": "call_0", "content": "not it"}],
            },
        ],
        "tools": tools,
        "tool_choice": {"type": "auto"},
    }
    text = json.dumps(DELETE, ensure_ascii=False)
    stream = (
        messages_agent.opening()
        + messages_agent.PING
        + messages_agent.text(0, SAID[:8], SAID[8:])
        + messages_agent.call(1, IDS[0], "read_note", "", json.dumps(READ))
        + messages_agent.call(2, IDS[1], "delete_note", "", text[:5], text[5:])
        + messages_agent.ending("tool_use", output=30)
    )
    whole = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "model-x",
        "content": [
            {"type": "text", "text": SAID},
            {"type": "tool_use", "id": IDS[0], "name": "read_note", "input": READ},
            {"type": "tool_use", "id": IDS[1], "name": "delete_note", "input": DELETE},
        ],
        "stop_reason": "tool_use",
        "stop_sequence": None,
        "usage": messages_agent.USAGE | {"output_tokens": 30},
    }
    return Agent(
        request=json.dumps(request, indent=1).encode(),
        stream=stream,
        whole=json.dumps(whole, indent=2, ensure_ascii=False).encode(),
        text=SAID,
        ids=IDS,
        reads_stream=lambda body: _messages_read(messages_agent.sdk_streams(body)),
        reads_whole=lambda body: _messages_read(messages_agent.sdk_reads(body)),
    )


def _responses_read(response: Any) -> Read:
    calls = [
        (item.call_id, item.name, value_of(getattr(item, "arguments", None) or getattr(item, "input", None)))
        for item in response.output
        if item.type in {"function_call", "custom_tool_call"}
    ]
    return Read(response.id, response.output_text, tuple(calls))


def _responses() -> Agent:
    tools = [
        {"type": "function", "name": name, "parameters": {"type": "object", "properties": {}}}
        for name in ("read_note", "delete_note")
    ]
    request = {
        "model": "maple-1",
        "stream": True,
        "input": [
            {"role": "user", "content": "Read note 4 and delete note 9."},
            {"type": "function_call", "call_id": "call_0", "name": "read_note", "arguments": '{"id": 1}'},
            {"type": "function_call_output", "call_id": "call_0", "output": "not it"},
        ],
        "tools": tools,
        "tool_choice": "auto",
    }
    texts = (json.dumps(READ), json.dumps(DELETE, ensure_ascii=False))
    items = (
        responses_agent.message(SAID),
        responses_agent.call(IDS[0], "read_note", texts[0]),
        responses_agent.call(IDS[1], "delete_note", texts[1]),
    )
    return Agent(
        request=json.dumps(request, indent=1).encode(),
        stream=responses_agent.stream(*items),
        whole=json.dumps(responses_agent.response(*items), indent=2, ensure_ascii=False).encode(),
        text=SAID,
        ids=IDS,
        reads_stream=lambda body: _responses_read(responses_agent.sdk_streams(body)),
        reads_whole=lambda body: _responses_read(responses_agent.sdk_reads(body)),
    )


def _ollama_read(answer: tuple[str, list[tuple[str, Any]]]) -> Read:
    text, calls = answer
    ids = ollama_agent.named(*calls)
    return Read("", text, tuple((id_, *call) for id_, call in zip(ids, calls, strict=True)))


def _ollama() -> Agent:
    tools = [
        {"type": "function", "function": {"name": name, "parameters": {"type": "object", "properties": {}}}}
        for name in ("read_note", "delete_note")
    ]
    request = {
        "model": "maple-1",
        "messages": [
            {"role": "user", "content": "Read note 4 and delete note 9."},
            {"role": "assistant", "content": "", "tool_calls": [ollama_agent.call("read_note", {"id": 1})]},
            {"role": "tool", "tool_name": "read_note", "content": "not it"},
        ],
        "tools": tools,
    }
    calls = (ollama_agent.call("read_note", READ), ollama_agent.call("delete_note", DELETE, 1))
    first, second = ollama_agent.named(("read_note", READ), ("delete_note", DELETE))
    return Agent(
        request=json.dumps(request, indent=1).encode(),
        stream=ollama_agent.said(SAID[:8])
        + ollama_agent.said(SAID[8:])
        + ollama_agent.calling(calls[0])
        + ollama_agent.calling(calls[1])
        + ollama_agent.ending(),
        whole=json.dumps(ollama_agent.whole(SAID, *calls), indent=2, ensure_ascii=False).encode(),
        text=SAID,
        ids=(first, second),
        reads_stream=lambda body: _ollama_read(ollama_agent.sdk_streams(body)),
        reads_whole=lambda body: _ollama_read(ollama_agent.sdk_reads(body)),
        has_answer_ids=False,
        has_call_ids=False,
        forbids_calls="no tools",
        reads_problem=lambda body: {**json.loads(body), "message": json.loads(body)["error"]},
        value_in=lambda raw: json.loads(raw) if raw.strip() else None,
        frame_with=lambda raw, value: json.dumps(value).encode() + raw[len(raw.rstrip()) :],
        recorded_loops=0,
    )


def _converse_read(message: Any) -> Read:
    uses = [block["toolUse"] for block in message["content"] if "toolUse" in block]
    calls = tuple((use["toolUseId"], use["name"], use["input"]) for use in uses if not use.get("type"))
    return Read("", "".join(block.get("text", "") for block in message["content"]), calls)


def _converse() -> Agent:
    called = {"toolUse": {"toolUseId": "call_0", "name": "read_note", "input": {"id": 1}}}
    tools = [
        {"toolSpec": {"name": name, "inputSchema": {"json": {"type": "object", "properties": {}}}}}
        for name in ("read_note", "delete_note")
    ]
    result = {"toolResult": {"toolUseId": "call_0", "content": [{"text": "not it"}]}}
    request = {
        "messages": [
            {"role": "user", "content": [{"text": "Read note 4 and delete note 9."}]},
            {"role": "assistant", "content": [called]},
            {"role": "user", "content": [result]},
        ],
        "toolConfig": {"tools": tools, "toolChoice": {"auto": {}}},
    }
    text = json.dumps(DELETE, ensure_ascii=False)
    uses = [
        {"toolUse": {"toolUseId": id_, "name": name, "input": arguments}}
        for id_, name, arguments in zip(IDS, ("read_note", "delete_note"), (READ, DELETE), strict=True)
    ]
    return Agent(
        request=json.dumps(request, indent=1).encode(),
        stream=bedrock_agent.opening()
        + bedrock_agent.text(0, SAID[:8], SAID[8:])
        + bedrock_agent.call(1, IDS[0], "read_note", "", json.dumps(READ))
        + bedrock_agent.call(2, IDS[1], "delete_note", "", text[:5], text[5:])
        + bedrock_agent.ending(),
        whole=json.dumps(bedrock_agent.whole({"text": SAID}, *uses), indent=2, ensure_ascii=False).encode(),
        text=SAID,
        ids=IDS,
        reads_stream=lambda body: _converse_read(bedrock_agent.sdk_streams(body)),
        reads_whole=lambda body: _converse_read(bedrock_agent.sdk_reads(body)),
        has_answer_ids=False,
        forbids_calls="words",
        reads_problem=json.loads,
        is_lines=False,
        value_in=bedrock_agent.value_in,
        frame_with=bedrock_agent.frame_with,
        recorded_loops=10,
        is_strict=True,
        path=f"/model/{bedrock_agent.MODEL}/converse-stream",
    )


def _gemini_read(answer: tuple[str, str, list[tuple[str, str, Any]]]) -> Read:
    made_id, text, calls = answer
    ids = gemini_agent.named(*((name, args) for _, name, args in calls))
    return Read(
        made_id,
        text,
        tuple((id_ or made, name, args) for (id_, name, args), made in zip(calls, ids, strict=True)),
    )


def _gemini_problem(body: bytes) -> Any:
    error = json.loads(body)["error"]
    fields = {
        key: int(value) if value.isdecimal() else value
        for key, value in error["details"][0]["metadata"].items()
    }
    return error | fields


def _gemini() -> Agent:
    schema = {"type": "OBJECT", "properties": {}}
    declared = [{"name": name, "parameters": schema} for name in ("read_note", "delete_note")]
    result = {"functionResponse": {"name": "read_note", "response": {"result": "not it"}}}
    request = {
        "contents": [
            {"role": "user", "parts": [{"text": "Read note 4 and delete note 9."}]},
            {"role": "model", "parts": [gemini_agent.call("read_note", {"id": 1}, thoughtSignature="c2ln")]},
            {"role": "user", "parts": [result]},
        ],
        "tools": [{"functionDeclarations": declared}],
        "toolConfig": {"functionCallingConfig": {"mode": "AUTO"}},
    }
    calls = (
        gemini_agent.call("read_note", READ, thoughtSignature="c2ln"),
        gemini_agent.call("delete_note", DELETE),
    )
    first, second = gemini_agent.named(("read_note", READ), ("delete_note", DELETE))
    return Agent(
        request=json.dumps(request, indent=1).encode(),
        stream=gemini_agent.events(
            gemini_agent.piece({"text": SAID[:8]}),
            gemini_agent.piece({"text": SAID[8:]}),
            gemini_agent.piece(calls[0]),
            gemini_agent.piece(calls[1]),
            gemini_agent.piece({"text": ""}, finish="STOP"),
        ),
        whole=json.dumps(
            gemini_agent.piece({"text": SAID}, *calls, finish="STOP"), indent=2, ensure_ascii=False
        ).encode(),
        text=SAID,
        ids=(first, second),
        reads_stream=lambda body: _gemini_read(gemini_agent.sdk_streams(body)),
        reads_whole=lambda body: _gemini_read(gemini_agent.sdk_reads(body)),
        has_call_ids=False,
        is_strict=True,
        reads_problem=_gemini_problem,
        path="/v1beta/models/maple-1:streamGenerateContent?alt=sse",
    )


AGENTS = {
    "openai-chat": _chat(),
    "openai-responses": _responses(),
    "anthropic-messages": _messages(),
    "gemini": _gemini(),
    "ollama": _ollama(),
    "bedrock-converse": _converse(),
}
