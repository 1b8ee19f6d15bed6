"""Reads a Chat Completions request into neutral words, and refuses in plain sentences what it cannot read.

Laws: any JSON is either read or Malformed, nothing else is raised; unknown members and parts are none of its
business, unknown kinds of tools are tools.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

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
    ToolResult,
)

from .openai_chat_hosted import switched_on
from .openai_chat_parts import ROLES, call_parts, visible_text
from .options import options_of, server_tool
from .typed import flag, listed, number, typed, whole_object
from .values import Json, assistant_digest, digest, dumped, text

MAX_CHOICES = 128
_MODES = {
    "auto": ChoiceMode.AUTO,
    "none": ChoiceMode.NONE,
    "required": ChoiceMode.REQUIRED,
    "any": ChoiceMode.REQUIRED,
}
_MEANS_NOTHING: tuple[object, ...] = ([], None)
_MEDIA_KEYS = frozenset({"data", "file_data", "b64_json"})
_READ_DEPTH = 8


def parse_request(body: bytes, dialect: str) -> Request:
    """The request. Raises Malformed with a sentence for the developer of the agent."""
    request = whole_object(body)
    stream = flag(request, "stream")
    options = typed(request, "stream_options", dict, "an object") or {}
    messages = listed(request, "messages", needed=True)
    return Request(
        dialect=dialect,
        model=typed(request, "model", str, "text") or "",
        messages=tuple(_messages(messages)),
        tools=(
            *_tools(request, "tools"),
            *_tools(request, "functions"),
            *switched_on(request),
        ),
        tool_choice=_tool_choice(request),
        stream=stream,
        choices=number(request, "n", least=1, most=MAX_CHOICES) or 1,
        max_output=_max_output(request),
        asks_usage=not stream or flag(options, "include_usage"),
        size=len(body),
        text_size=max(0, len(body) - sum(map(_media_size, messages))),
    )


def _max_output(request: Json) -> int | None:
    given = [number(request, key, least=0) for key in ("max_completion_tokens", "max_tokens")]
    return min((number for number in given if number is not None), default=None)


# --- messages ----------------------------------------------------------------------------------------------


def _messages(messages: list[Json]) -> Iterator[Message]:
    """The history. Legacy calls have no id: they get one by place, and results find theirs by name."""
    open_legacy: list[ToolCall] = []
    for place, message in enumerate(messages):
        try:
            yield _message(place, message, open_legacy)
        except Malformed as fault:
            raise Malformed(f"messages[{place}]: {fault}") from None


def _message(place: int, message: Json, open_legacy: list[ToolCall]) -> Message:
    named = message.get("role")
    role = ROLES.get(named) if isinstance(named, str) else None
    if role is None:
        raise Malformed(f"role has to be one of {', '.join(ROLES)}")
    content = message.get("content")
    if not (content is None or isinstance(content, str | list)):
        raise Malformed("content has to be text or a list of parts")
    parts = content if isinstance(content, list) else []
    if not all(isinstance(part, dict | str) for part in parts):
        raise Malformed("each part of content has to be an object")
    if role is Role.ASSISTANT:
        return _assistant(place, message, open_legacy)
    if call_parts(message):
        raise Malformed("only an assistant message can hold tool calls")
    said = visible_text(content, "\n")
    if role is Role.TOOL:
        call_id = _legacy_id(message, open_legacy) if named == "function" else message.get("tool_call_id")
        if not isinstance(call_id, str):
            raise Malformed("tool_call_id has to be text")
        return Message(role, results=(ToolResult(call_id, said),), digest=_digest(message))
    return Message(role, said, digest=_digest(message))


def _assistant(place: int, message: Json, open_legacy: list[ToolCall]) -> Message:
    said = visible_text(message.get("content"))
    calls: list[ToolCall] = []
    identities = []
    for part in call_parts(message):
        if part.is_filler:
            continue
        identities.append((part.id, part.name, part.arguments))
        made = f"function_call_{place}" if part.at is None else part.id
        call = ToolCall(made, part.name, part.arguments, (0, len(calls)), part.kind)
        calls.append(call)
        if part.at is None:
            open_legacy.append(call)
    return Message(Role.ASSISTANT, said, tuple(calls), digest=assistant_digest(said, identities))


def _legacy_id(message: Json, open_legacy: list[ToolCall]) -> str:
    name = message.get("name")
    if not isinstance(name, str):
        raise Malformed("name has to be text")
    for place, call in enumerate(open_legacy):
        if call.name == name:
            return open_legacy.pop(place).id
    return f"function_call_of_{name}"


def _digest(message: Json) -> bytes:
    """Less what may come and go without a change of meaning: cache marks, absent against empty members."""
    plain = {
        key: value
        for key, value in message.items()
        if key != "cache_control" and value not in (*_MEANS_NOTHING, {})
    }
    content = plain.get("content")
    if isinstance(content, list):
        parts = [_without_mark(part) for part in content]
        single = parts[0] if len(parts) == 1 else None
        is_text = isinstance(single, dict) and single.keys() == {"type", "text"} and single["type"] == "text"
        plain["content"] = single["text"] if isinstance(single, dict) and is_text else parts
    return digest(plain)


def _without_mark(part: object) -> object:
    if isinstance(part, dict) and "cache_control" in part:
        return {key: value for key, value in part.items() if key != "cache_control"}
    return part


def _media_size(message: Json) -> int:
    """Bytes of inline pictures, audio and files in a message."""
    content = message.get("content")
    waiting: list[tuple[object, int]] = (
        [(part, 0) for part in content if isinstance(part, dict) and part.get("type") != "text"]
        if isinstance(content, list)
        else []
    )
    size = 0
    while waiting:
        value, depth = waiting.pop()
        if isinstance(value, list):
            waiting += [(inner, depth + 1) for inner in value if depth < _READ_DEPTH]
        elif isinstance(value, dict):
            for key, inner in value.items():
                if isinstance(inner, str):
                    size += len(inner) if key in _MEDIA_KEYS or inner.startswith("data:") else 0
                elif depth < _READ_DEPTH:
                    waiting.append((inner, depth + 1))
    return size


# --- tools -------------------------------------------------------------------------------------------------


def _tools(request: Json, key: str) -> Iterator[Tool]:
    for place, tool in enumerate(listed(request, key)):
        try:
            name, kind, schema = read_tool(tool, legacy=key == "functions")
            options = _hosted_options(tool) if kind is ToolKind.HOSTED else None
        except Malformed as fault:
            raise Malformed(f"{key}[{place}]: {fault}") from None
        yield Tool(name, kind, schema, len(dumped(tool)), options)


def read_tool(tool: Json, *, legacy: bool = False) -> tuple[str, ToolKind, Mapping[str, object] | None]:
    """Name, kind and schema of an entry of `tools` (or `functions`). Raises Malformed where it has none.

    Moonshot's `builtin_function` is called like one of the agent's, which sends the arguments back as the result.
    """
    type_ = typed(tool, "type", str, "text") or ""
    function, custom = tool.get("function"), tool.get("custom")
    if legacy or type_ in {"function", "builtin_function"} or (not type_ and custom is None):
        inner, kind = function if isinstance(function, dict) and not legacy else tool, ToolKind.FUNCTION
    elif type_ in {"custom", ""}:
        inner, kind = custom if isinstance(custom, dict) else tool, ToolKind.CUSTOM
    else:
        return _server(tool) or type_, ToolKind.HOSTED, None
    name = inner.get("name")
    if not isinstance(name, str) or not name:
        raise Malformed("its name has to be text")
    schema = (
        typed(inner, "parameters", dict, "a JSON Schema (an object)") if kind is ToolKind.FUNCTION else None
    )
    return name, kind, schema


def _hosted_options(tool: Json) -> Json:
    """What policies read of it. Raises Malformed where it sends the provider to two servers."""
    inner = tool.get("mcp")
    urls = {text(one.get("server_url")) for one in (tool, inner) if isinstance(one, dict)} - {""}
    if len(urls) > 1:
        raise Malformed("it names two servers")
    return options_of(tool) | ({"server_url": urls.pop()} if urls else {})


def _server(tool: Json) -> str:
    """The name of an MCP server's tools, if the entry is one (its label may stand one level deeper)."""
    if tool.get("type") != "mcp":
        return ""
    inner = tool.get("mcp")
    labels = [text(one.get("server_label")) for one in (tool, inner) if isinstance(one, dict)]
    return server_tool(next(filter(None, labels), ""))


def _tool_choice(request: Json) -> ToolChoice:
    choice = request.get("tool_choice")
    if choice is None:
        choice = request.get("function_call")
    return read_choice(choice)


def read_choice(choice: object) -> ToolChoice:
    """A tool choice in any of its forms. A word that is no mode is taken for a tool's name."""
    if choice is None:
        return ToolChoice()
    if isinstance(choice, str):
        mode = _MODES.get(choice)
        return ToolChoice(mode) if mode else ToolChoice(ChoiceMode.NAMED, (choice,))
    if not isinstance(choice, dict):
        raise Malformed("tool_choice has to be text or an object")
    type_ = typed(choice, "type", str, "text") or ""
    if type_ == "allowed_tools":
        return _allowed_tools(choice)
    name = chosen_name(choice)
    if not name and type_ in _MODES:
        return ToolChoice(_MODES[type_])
    if not name:
        raise Malformed("tool_choice names no tool")
    return ToolChoice(ChoiceMode.NAMED, (name,))


def _allowed_tools(choice: Json) -> ToolChoice:
    allowed = choice.get("allowed_tools")
    if not isinstance(allowed, dict):
        raise Malformed("tool_choice.allowed_tools has to be an object")
    mode = _MODES.get(typed(allowed, "mode", str, "text") or "auto", ChoiceMode.AUTO)
    return ToolChoice(mode, tuple(chosen_name(tool) for tool in listed(allowed, "tools")))


def chosen_name(choice: Json) -> str:
    """Which tool an object of a tool choice names; a tool that the provider runs is named by its type."""
    for key in ("function", "custom"):
        inner = choice.get(key)
        if isinstance(inner, dict):
            return text(inner.get("name"))
    type_ = text(choice.get("type"))
    if type_ == "mcp":
        return _server(choice)
    return text(choice.get("name")) or ("" if type_ in {"function", "custom", *_MODES} else type_)
