"""A request of the Converse API in neutral words. Reading raises nothing but Malformed, whatever came in."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import unquote

from proxy.core.messages import (
    ChoiceMode,
    Malformed,
    Message,
    Request,
    Role,
    Tool,
    ToolChoice,
    ToolKind,
    ToolResult,
)

from .bedrock_parts import (
    Json,
    block_text,
    call_of,
    inline_bytes,
    is_call,
    is_text_block,
    object_of,
    stand_in,
)
from .typed import listed, number, typed, whole_object
from .values import assistant_digest, digest, dumped, text

PLACEHOLDER = "callgate_no_tool"
"""Stands in for tools that were taken out where the history has calls: the provider wants some tool then. It is nobody's
and never counts as offered."""
_ROLES = {"user": Role.USER, "assistant": Role.ASSISTANT}
_STREAMED = "/converse-stream"
_STREAM_TYPE = "application/vnd.amazon.eventstream"
_MEANS_NOTHING: tuple[object, ...] = ([], {}, None)


def parse_request(body: bytes, path: str, dialect: str) -> Request:
    """The request; its model, and whether it is streamed, stand in the path. Raises Malformed."""
    request = whole_object(body)
    route = path.partition("?")[0]
    model = unquote(route.removeprefix("/model/").rpartition("/")[0]) if route else ""
    # A prompt that the provider keeps has messages of its own.
    raw = listed(request, "messages", needed="promptVariables" not in request)
    messages = list(_messages(raw))
    system = listed(request, "system")
    if system:
        said = "\n".join(filter(None, map(block_text, system)))
        messages.insert(0, Message(Role.SYSTEM, said, digest=digest(["system", *_uncached(system)])))
    settings = typed(request, "inferenceConfig", dict, "an object") or {}
    tools = typed(request, "toolConfig", dict, "an object") or {}
    return Request(
        dialect=dialect,
        model=model,
        messages=tuple(messages),
        tools=tuple(tool for tool in _tools(tools) if tool is not None),
        tool_choice=_choice(tools.get("toolChoice")),
        stream=route.endswith(_STREAMED),
        max_output=number(settings, "maxTokens", least=0),
        size=len(body),
        text_size=max(0, len(body) - sum(inline_bytes(message.get("content")) for message in raw)),
        stream_type=_STREAM_TYPE,
    )


def has_system(request: Json) -> bool:
    """The request has a system prompt, which is then the first of the neutral messages."""
    return bool(request.get("system"))


def _uncached(blocks: list[Json]) -> list[Json]:
    """The blocks without cache marks: agents move those from request to request."""
    return [block for block in blocks if "cachePoint" not in block]


# --- messages --------------------------------------------------------------------------------------------------------


def _messages(messages: list[Json]) -> Iterator[Message]:
    for place, message in enumerate(messages):
        try:
            yield _message(message)
        except Malformed as fault:
            raise Malformed(f"messages[{place}]: {fault}") from None


def _message(message: Json) -> Message:
    named = message.get("role")
    role = _ROLES.get(named) if isinstance(named, str) else None
    if role is None:
        raise Malformed("role has to be user or assistant")
    blocks = listed(message, "content", needed=True)
    if role is Role.ASSISTANT:
        return _assistant(blocks)
    if any(is_call(block) for block in blocks):
        raise Malformed("only an assistant message can hold tool calls")
    return Message(
        role,
        "\n".join(filter(None, map(block_text, blocks))),
        results=tuple(_result(block["toolResult"]) for block in blocks if "toolResult" in block),
        digest=digest(["user", *map(_plain, _uncached(blocks))]),
    )


def _assistant(blocks: list[Json]) -> Message:
    said = "".join(map(block_text, blocks))
    calls = tuple(
        call_of(block, slot, _written_input(block))
        for slot, block in enumerate(block for block in blocks if is_call(block))
    )
    identities = [(call.id, call.name, call.arguments) for call in calls]
    return Message(Role.ASSISTANT, said, calls, digest=assistant_digest(said, identities))


def _written_input(block: Json) -> str:
    given = object_of(block["toolUse"]).get("input")
    return "" if given is None else dumped(given).decode()


def _result(result: object) -> ToolResult:
    if not isinstance(result, dict) or not isinstance(result.get("toolUseId"), str):
        raise Malformed("a toolResult has to be an object with a toolUseId")
    parts = listed(result, "content")
    said = "\n".join(_part_text(part) for part in parts)
    return ToolResult(result["toolUseId"], said, result.get("status") == "error")


def _part_text(part: Json) -> str:
    if is_text_block(part):
        return block_text(part)
    return dumped(part["json"]).decode() if "json" in part else stand_in(part)


def _plain(block: Json) -> Json:
    result = block.get("toolResult")
    if not isinstance(result, dict):
        return block
    return {
        "toolResult": {
            key: value
            for key, value in result.items()
            if value not in _MEANS_NOTHING and (key, value) != ("status", "success")
        }
    }


# --- tools -----------------------------------------------------------------------------------------------------------


def _tools(config: Json) -> Iterator[Tool | None]:
    for place, entry in enumerate(listed(config, "tools")):
        try:
            yield read_tool(entry)
        except Malformed as fault:
            raise Malformed(f"toolConfig.tools[{place}]: {fault}") from None


def read_tool(entry: Json) -> Tool | None:
    """The tool that an entry of `tools` offers; None for a cache mark, or the proxy's own. Raises Malformed."""
    for key, kind in (("toolSpec", ToolKind.FUNCTION), ("systemTool", ToolKind.HOSTED)):
        spec = typed(entry, key, dict, "an object")
        if spec is None:
            continue
        name = spec.get("name")
        if not isinstance(name, str) or not name:
            raise Malformed("its name has to be text")
        if name == PLACEHOLDER:
            return None
        schema = object_of(spec.get("inputSchema")).get("json")
        return Tool(name, kind, schema if isinstance(schema, dict) else None, len(dumped(entry)))
    if "cachePoint" in entry:
        return None
    unknown = next(iter(entry), "")
    if not unknown:
        raise Malformed("it has to be a toolSpec")
    return Tool(
        text(object_of(entry[unknown]).get("name")) or unknown, ToolKind.HOSTED, size=len(dumped(entry))
    )


def _choice(choice: object) -> ToolChoice:
    if choice is None:
        return ToolChoice()
    if not isinstance(choice, dict):
        raise Malformed("toolConfig.toolChoice has to be an object")
    if "tool" in choice:
        return ToolChoice(ChoiceMode.NAMED, (text(object_of(choice["tool"]).get("name")),))
    return ToolChoice(ChoiceMode.REQUIRED if "any" in choice else ChoiceMode.AUTO)
