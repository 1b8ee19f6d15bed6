"""A request of the Messages API in neutral words. Reading raises nothing but Malformed, whatever came in."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import orjson

from proxy.core import json_text
from proxy.core.messages import (
    ChoiceMode,
    Malformed,
    Message,
    Request,
    Role,
    Tool,
    ToolCall,
    ToolChoice,
    ToolKind,
)

from .anthropic_blocks import (
    CALL,
    Json,
    blocks_of,
    call_name,
    compact,
    inline_bytes,
    joined_text,
    message_digest,
    object_of,
    offered_inline,
    result_of,
    skill_tool,
    text_of,
    tools_of,
)
from .options import options_of, server_tool

_ROLES = {"user": Role.USER, "assistant": Role.ASSISTANT, "system": Role.SYSTEM}
_CHOICES = {"auto": ChoiceMode.AUTO, "any": ChoiceMode.REQUIRED, "none": ChoiceMode.NONE}
# A coding agent puts a line about its own billing in front of the system prompt, different in each request.
_BILLING = "x-anthropic-billing-header:"
_SESSION = re.compile(r"_session_([0-9A-Za-z-]{8,64})\Z")


def parsed(body: bytes, what: str) -> Json:
    """The JSON object that the body is. Raises Malformed; `what` names the body in the text."""
    try:
        read = orjson.loads(body)
    except orjson.JSONDecodeError as fault:
        raise Malformed(
            f"The {what} is not valid JSON (line {fault.lineno}, column {fault.colno})."
        ) from None
    if not isinstance(read, dict):
        raise Malformed(f"The {what} is not a JSON object.")
    return read


def parse_request(name: str, body: bytes) -> Request:
    """Reads a request; `name` is the dialect's. Raises Malformed with a sentence for the agent's developer."""
    read = parsed(body, "request body")
    _refuse_ambiguity(body)
    model = read.get("model")
    if not isinstance(model, str):
        raise Malformed("model: a text is required.")
    raw_messages = read.get("messages")
    if not isinstance(raw_messages, list):
        raise Malformed("messages: a list is required.")
    messages = [_message(place, entry) for place, entry in enumerate(raw_messages)]
    inline = sum(inline_bytes(entry["content"]) for entry in raw_messages)
    if has_system(read):
        messages.insert(0, _system(read["system"]))
    limit = read.get("max_tokens")
    return Request(
        dialect=name,
        model=model,
        messages=tuple(messages),
        tools=_tools(read, raw_messages),
        tool_choice=_choice(read.get("tool_choice")),
        stream=read.get("stream") is True,
        max_output=limit if type(limit) is int else None,
        conversation=_conversation(object_of(read.get("metadata")).get("user_id")),
        size=len(body),
        text_size=len(body) - inline,
    )


def has_system(read: Json) -> bool:
    """The request has a system prompt, which is then the first of the neutral messages."""
    return bool(read.get("system"))


def _refuse_ambiguity(body: bytes) -> None:
    try:
        json_text.refuse_double_keys(body)
    except ValueError as fault:
        raise Malformed(f"The request body cannot be judged: {fault}.") from None


def _message(place: int, entry: Any) -> Message:
    if not isinstance(entry, dict):
        raise Malformed(f"messages[{place}]: an object is required.")
    name, content = entry.get("role"), entry.get("content")
    role = _ROLES.get(name) if isinstance(name, str) else None
    if role is None or not isinstance(name, str):
        raise Malformed(f"messages[{place}].role: it has to be user, assistant or system.")
    if not isinstance(content, str | list):
        raise Malformed(f"messages[{place}].content: a text or a list of blocks is required.")
    blocks = blocks_of(content)
    if isinstance(content, list) and len(blocks) != len(content):
        raise Malformed(f"messages[{place}].content: every block has to be an object.")
    uses = [block for block in blocks if block.get("type") == CALL] if role is Role.ASSISTANT else []
    results = [block for block in blocks if block.get("type") == "tool_result"] if role is Role.USER else []
    return Message(
        role=role,
        text=joined_text(content, "" if role is Role.ASSISTANT else "\n"),
        calls=tuple(_call(slot, block) for slot, block in enumerate(uses)),
        results=tuple(result_of(block) for block in results),
        digest=message_digest(name, content),
    )


def _call(slot: int, block: Json) -> ToolCall:
    arguments = compact(block["input"]) if "input" in block else ""
    return ToolCall(text_of(block.get("id")), call_name(block), arguments, (0, slot))


def _system(system: object) -> Message:
    if not isinstance(system, str | list):
        raise Malformed("system: a text or a list of blocks is required.")
    kept = [block for block in blocks_of(system) if not text_of(block.get("text")).startswith(_BILLING)]
    return Message(Role.SYSTEM, joined_text(kept, "\n"), digest=message_digest("system", kept))


def _tools(read: Json, raw_messages: list[Any]) -> tuple[Tool, ...]:
    raw_tools = read.get("tools")
    if raw_tools is not None and not isinstance(raw_tools, list):
        raise Malformed("tools: a list is required.")
    tools: list[Tool] = []
    for place, entry in enumerate(raw_tools or ()):
        if not isinstance(entry, dict):
            raise Malformed(f"tools[{place}]: an object is required.")
        tools += tools_of(entry)
    for message in raw_messages:
        if message["role"] != "assistant":
            inline = (offered_inline(block) for block in blocks_of(message["content"]))
            tools += [tool for entry in inline if entry is not None for tool in tools_of(entry)]
    return _with_skills(_with_servers(tools, read), read)


def _with_servers(tools: list[Tool], read: Json) -> list[Tool]:
    """The tools, and those of MCP servers: policies read where a server is, but not the key for it."""
    raw_servers = read.get("mcp_servers")
    servers: dict[str, list[Tool]] = {}
    for entry in blocks_of(raw_servers) if isinstance(raw_servers, list) else ():
        name = server_tool(text_of(entry.get("name")))
        options = {**options_of(entry), "server_url": text_of(entry.get("url"))}
        servers.setdefault(name, []).append(
            Tool(name, ToolKind.HOSTED, size=len(compact(entry)), options=options)
        )
    found = []
    for tool in tools:
        # Two servers of one name are two: policies read both addresses.
        waiting = servers.get(tool.name) if tool.kind is ToolKind.HOSTED else None
        own = waiting.pop(0).options if waiting else None
        found.append(replace(tool, options={**(tool.options or {}), **own}) if own else tool)
    return [*found, *(tool for waiting in servers.values() for tool in waiting)]


def _with_skills(tools: list[Tool], read: Json) -> tuple[Tool, ...]:
    """The tools, and the skills that are put into the provider's container."""
    skills = object_of(read.get("container")).get("skills")
    found = blocks_of(skills) if isinstance(skills, list) else []
    return (
        *tools,
        *(
            Tool(skill_tool(entry), ToolKind.HOSTED, size=len(compact(entry)), options=options_of(entry))
            for entry in found
        ),
    )


def _choice(raw: object) -> ToolChoice:
    choice = object_of(raw)
    kind = choice.get("type")
    if kind == "tool":
        return ToolChoice(ChoiceMode.NAMED, (text_of(choice.get("name")),))
    return ToolChoice(_CHOICES.get(kind, ChoiceMode.AUTO) if isinstance(kind, str) else ChoiceMode.AUTO)


def _conversation(user: object) -> str:
    """The session id that an agent hides in `metadata.user_id`: an object, its JSON, or `…_session_<id>`."""
    if isinstance(user, str) and user.startswith("{"):
        try:
            user = orjson.loads(user)
        except orjson.JSONDecodeError:
            return ""
    if isinstance(user, dict):
        return text_of(user.get("session_id"))
    found = _SESSION.search(text_of(user))
    return found[1] if found else ""
