"""One conversation, spoken in every dialect: what an agent asks, with the calls and results so far."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tests.dialects.agents import Call
from tests.playbook import CHAT, MESSAGES, RESPONSES

Json = dict[str, Any]
TASK = "Look up order A1."
MODEL = "maple-1"
SCHEMA: Json = {"type": "object", "properties": {"id": {"type": "string"}}}


@dataclass(frozen=True)
class Said:
    """One turn of the history: what the model called, and what came back, in order."""

    calls: tuple[Call, ...]
    results: tuple[str, ...]


@dataclass(frozen=True)
class Asked:
    """What is to be said."""

    tools: tuple[str, ...]
    turns: tuple[Said, ...] = ()
    may_call: bool = True
    stream: bool = False


@dataclass(frozen=True)
class Speaker:
    """How a dialect says it."""

    says: Callable[[Asked], tuple[str, Json]]
    """Path and body."""
    text_streamed: bool = True
    """Arguments of a streamed call are text on the wire, which may be anything; else they are JSON values."""
    text_whole: bool = True
    """The same of a whole answer."""
    can_forbid: bool = True
    """The agent can ask for an answer without calls."""


def _chat(asked: Asked) -> tuple[str, Json]:
    messages: list[Json] = [{"role": "user", "content": TASK}]
    for turn in asked.turns:
        calls = [
            {"id": id_, "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}
            for id_, name, arguments in turn.calls
        ]
        messages.append({"role": "assistant", "content": None, "tool_calls": calls})
        messages += [
            {"role": "tool", "tool_call_id": call[0], "content": result}
            for call, result in zip(turn.calls, turn.results, strict=True)
        ]
    tools = [{"type": "function", "function": {"name": name, "parameters": SCHEMA}} for name in asked.tools]
    body: Json = {"model": MODEL, "messages": messages, "tools": tools, "stream": asked.stream}
    return CHAT, body | ({} if asked.may_call else {"tool_choice": "none"})


def _responses(asked: Asked) -> tuple[str, Json]:
    items: list[Json] = [{"role": "user", "content": TASK}]
    for turn in asked.turns:
        items += [
            {"type": "function_call", "call_id": id_, "name": name, "arguments": json.dumps(arguments)}
            for id_, name, arguments in turn.calls
        ]
        items += [
            {"type": "function_call_output", "call_id": call[0], "output": result}
            for call, result in zip(turn.calls, turn.results, strict=True)
        ]
    tools = [
        {"type": "function", "name": name, "parameters": SCHEMA, "strict": False} for name in asked.tools
    ]
    body: Json = {"model": MODEL, "input": items, "tools": tools, "stream": asked.stream, "store": False}
    return RESPONSES, body | ({} if asked.may_call else {"tool_choice": "none"})


def _messages(asked: Asked) -> tuple[str, Json]:
    messages: list[Json] = [{"role": "user", "content": TASK}]
    for turn in asked.turns:
        uses = [
            {"type": "tool_use", "id": id_, "name": name, "input": arguments}
            for id_, name, arguments in turn.calls
        ]
        results = [
            {"type": "tool_result", "tool_use_id": call[0], "content": result}
            for call, result in zip(turn.calls, turn.results, strict=True)
        ]
        messages += [{"role": "assistant", "content": uses}, {"role": "user", "content": results}]
    tools = [{"name": name, "input_schema": SCHEMA} for name in asked.tools]
    body: Json = {"model": MODEL, "max_tokens": 400, "messages": messages, "tools": tools}
    body["stream"] = asked.stream
    return MESSAGES, body | ({} if asked.may_call else {"tool_choice": {"type": "none"}})


def _ollama(asked: Asked) -> tuple[str, Json]:
    messages: list[Json] = [{"role": "user", "content": TASK}]
    for turn in asked.turns:
        calls = [{"function": {"name": name, "arguments": arguments}} for _, name, arguments in turn.calls]
        messages.append({"role": "assistant", "content": "", "tool_calls": calls})
        messages += [
            {"role": "tool", "tool_name": call[1], "content": result}
            for call, result in zip(turn.calls, turn.results, strict=True)
        ]
    tools = [{"type": "function", "function": {"name": name, "parameters": SCHEMA}} for name in asked.tools]
    return "/api/chat", {"model": MODEL, "messages": messages, "tools": tools, "stream": asked.stream}


def _converse(asked: Asked) -> tuple[str, Json]:
    messages: list[Json] = [{"role": "user", "content": [{"text": TASK}]}]
    for turn in asked.turns:
        uses = [
            {"toolUse": {"toolUseId": id_, "name": name, "input": arguments}}
            for id_, name, arguments in turn.calls
        ]
        results = [
            {"toolResult": {"toolUseId": call[0], "content": [{"text": result}]}}
            for call, result in zip(turn.calls, turn.results, strict=True)
        ]
        messages += [{"role": "assistant", "content": uses}, {"role": "user", "content": results}]
    tools = [{"toolSpec": {"name": name, "inputSchema": {"json": SCHEMA}}} for name in asked.tools]
    path = f"/model/{MODEL}/converse" + ("-stream" if asked.stream else "")
    return path, {"messages": messages, "toolConfig": {"tools": tools}}


def _gemini(asked: Asked) -> tuple[str, Json]:
    contents: list[Json] = [{"role": "user", "parts": [{"text": TASK}]}]
    for turn in asked.turns:
        calls = [{"functionCall": {"name": name, "args": arguments}} for _, name, arguments in turn.calls]
        results = [
            {"functionResponse": {"name": call[1], "response": {"result": result}}}
            for call, result in zip(turn.calls, turn.results, strict=True)
        ]
        contents += [{"role": "model", "parts": calls}, {"role": "user", "parts": results}]
    declared = [{"name": name, "parametersJsonSchema": SCHEMA} for name in asked.tools]
    body: Json = {"contents": contents, "tools": [{"functionDeclarations": declared}]}
    if not asked.may_call:
        body["toolConfig"] = {"functionCallingConfig": {"mode": "NONE"}}
    method = "streamGenerateContent?alt=sse" if asked.stream else "generateContent"
    return f"/v1beta/models/{MODEL}:{method}", body


SPEAKERS = {
    "openai-chat": Speaker(_chat),
    "openai-responses": Speaker(_responses),
    "anthropic-messages": Speaker(_messages, text_whole=False),
    "gemini": Speaker(_gemini, text_streamed=False, text_whole=False),
    "ollama": Speaker(_ollama, text_streamed=False, text_whole=False, can_forbid=False),
    "bedrock-converse": Speaker(_converse, text_whole=False, can_forbid=False),
}
"""By the name of the dialect."""
