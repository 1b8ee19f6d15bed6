"""For each dialect: a written sample of its wire, and the official SDK as the judge of what an agent makes of it."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import anthropic
import openai

from tests.dialects import chat_agent, messages_agent

Call = tuple[str, str, Any]
"""Id, name, and the arguments as a value (the very text where they are no JSON)."""


@dataclass(frozen=True)
class Read:
    """What an SDK makes of an answer."""

    id: str
    text: str
    calls: tuple[Call, ...]


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


SDK_FAULTS = (
    openai.OpenAIError,
    anthropic.AnthropicError,
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


AGENTS = {"openai-chat": _chat(), "anthropic-messages": _messages()}
