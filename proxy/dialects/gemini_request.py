"""Reads a request of Gemini's API: contents as messages, every tool wherever it is offered; model and stream from the path."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import parse_qs, unquote

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

from .gemini_parts import Json, is_call, member, object_member, result_of, said_in, snake
from .gemini_waiting import WaitingCalls
from .options import options_of, server_tool
from .typed import number, whole_object
from .values import assistant_digest, digest, dumped, objects, text

_MODEL = re.compile(r"/models/([^/:]+):(\w+)\Z")
_ROLES = {"user": Role.USER, "model": Role.ASSISTANT, "function": Role.USER, "": Role.USER}
_MODES: dict[str, ChoiceMode] = {
    **dict.fromkeys(("ANY", "2"), ChoiceMode.REQUIRED),
    **dict.fromkeys(("NONE", "3"), ChoiceMode.NONE),
}
"""Words, and the numbers that stand for them."""
_CAMEL = re.compile(r"_([a-z])")
_DECLARATIONS = "functionDeclarations"
COMPUTER = "computerUse"
EXCLUDED = "excludedPredefinedFunctions"
_PREDEFINED = (
    "open_web_browser",
    "wait_5_seconds",
    "go_back",
    "go_forward",
    "search",
    "navigate",
    "click_at",
    "hover_at",
    "type_text_at",
    "key_combination",
    "scroll_document",
    "scroll_at",
    "drag_and_drop",
)
"""What a model with a computer may call without a declaration; the agent runs it
(https://ai.google.dev/gemini-api/docs/computer-use#supported-actions)."""
_SCHEMA_DEPTH = 32
_DIGITS = 18
_TYPES = frozenset({"string", "number", "integer", "boolean", "array", "object", "null"})
_MEMBERS: dict[str, tuple[type, ...]] = {
    "enum": (list,),
    "required": (list,),
    "minimum": (int, float),
    "maximum": (int, float),
    "pattern": (str,),
    "additionalProperties": (bool,),
}
"""What both forms of a schema say alike. What has another type says nothing: no other schema is lost for it."""
_BOUNDS = frozenset({"minItems", "maxItems", "minLength", "maxLength", "minProperties", "maxProperties"})


def parse_request(body: bytes, path: str, dialect: str) -> Request:
    """The request. Raises Malformed with a sentence for the developer of the agent."""
    read = whole_object(body)
    place, _, query = path.partition("?")
    named = _MODEL.search(place)
    stream = named is not None and named[2].startswith("stream")
    config = object_member(read, "generationConfig")
    contents = contents_of(read)
    if not contents:
        raise Malformed("contents is missing")
    asked = parse_qs(query)
    is_events = "sse" in asked.get("alt", []) + asked.get("$alt", [])
    return Request(
        dialect=dialect,
        model=unquote(named[1]) if named else text(read.get("model")),
        messages=tuple(message for _, message in messages_of(read)),
        tools=tuple(tools_in(read)),
        tool_choice=_choice(read),
        stream=stream,
        choices=_number(config, "candidateCount", least=1, most=8) or 1,
        max_output=_number(config, "maxOutputTokens", least=0),
        size=len(body),
        text_size=max(0, len(body) - sum(map(_inline_size, contents))),
        stream_type="text/event-stream" if is_events or not stream else "application/json",
    )


def _number(config: Json, name: str, *, least: int, most: int | None = None) -> int | None:
    return number({name: member(config, name)}, name, least=least, most=most)


# --- the conversation ------------------------------------------------------------------------------------------------


def contents_of(read: Mapping[str, Any]) -> list[Json]:
    """The contents. Raises Malformed where they are no list of objects."""
    given = read.get("contents")
    if isinstance(given, dict):
        return [given]
    if given is None:
        return []
    if not isinstance(given, list) or not all(isinstance(one, dict) for one in given):
        raise Malformed("contents has to be a list of objects")
    return given


def messages_of(read: Mapping[str, Any]) -> Iterator[tuple[int, Message]]:
    """The messages, each with the place of its content (-1: the system's)."""
    system = member(read, "systemInstruction")
    if system is not None:
        said = system if isinstance(system, str) else said_in(parts_of(system, "systemInstruction"), "\n")
        yield -1, Message(Role.SYSTEM, said, digest=digest(["system", said]))
    waiting = WaitingCalls()
    before = None
    for place, content in enumerate(contents_of(read)):
        try:
            message = _message(content, waiting, begins=before is not Role.ASSISTANT)
        except Malformed as fault:
            raise Malformed(f"contents[{place}]: {fault}") from None
        before = message.role
        yield place, message


def parts_of(content: object, what: str = "a content") -> list[Json]:
    """The parts of a content. Raises Malformed."""
    parts = content.get("parts") if isinstance(content, dict) else content
    if isinstance(parts, dict):
        return [parts]
    if parts is None:
        return []
    if not isinstance(parts, list) or not all(isinstance(part, dict) for part in parts):
        raise Malformed(f"{what} has to hold a list of parts")
    return parts


def _message(content: Json, waiting: WaitingCalls, *, begins: bool) -> Message:
    """`waiting` is changed in place. `begins`: what came before is not the model's."""
    role = _ROLES.get(text(content.get("role")))
    if role is None:
        raise Malformed("role has to be user or model")
    parts = parts_of(content)
    if role is Role.ASSISTANT:
        if begins:
            waiting.begin_step()
        calls: list[ToolCall] = []
        identities = []
        for part in parts:
            if is_call(part):
                said = object_member(part, "functionCall")
                wire_id, name = text(said.get("id")), text(said.get("name"))
                arguments = _spelled(said.get("args"))
                calls.append(waiting.names.call(wire_id, name, arguments, (0, len(calls))))
                waiting.add(wire_id, calls[-1])
                identities.append((wire_id, name, arguments))
        spoken = said_in(parts)
        return Message(role, spoken, tuple(calls), digest=assistant_digest(spoken, identities))
    if any(is_call(part) for part in parts):
        raise Malformed("only the model's content can hold calls")
    results = tuple(
        _result(object_member(part, "functionResponse"), waiting)
        for part in parts
        if member(part, "functionResponse") is not None
    )
    return Message(role, said_in(parts, "\n"), results=results, digest=digest(["user", *map(_plain, parts)]))


def _spelled(arguments: object) -> str:
    return "" if arguments is None else dumped(arguments).decode("utf-8", "surrogatepass")


def _result(response: Json, waiting: WaitingCalls) -> ToolResult:
    """By its id where it has one, else by name and order."""
    wire_id, name = text(response.get("id")), text(response.get("name"))
    call = waiting.answered(wire_id, name)
    call_id = call.id if call is not None else wire_id or f"call_of_{name}"
    return result_of(response.get("response"), call_id)


def _plain(part: Json) -> Json:
    """A part whatever its spelling, less signatures."""
    return {snake(key): value for key, value in part.items() if snake(key) != "thought_signature"}


def _inline_size(content: Json) -> int:
    inline = (object_member(part, "inlineData") for part in parts_of(content))
    return sum(len(text(part.get("data"))) for part in inline)


# --- tools -----------------------------------------------------------------------------------------------------------


def entries_of(read: Mapping[str, Any]) -> list[Json]:
    """The entries of `tools`. Raises Malformed."""
    given = read.get("tools")
    if given is None:
        return []
    entries = [given] if isinstance(given, dict) else given
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise Malformed("tools has to be a list of objects")
    return entries


def tools_in(read: Mapping[str, Any]) -> Iterator[Tool]:
    """All tools that a request offers."""
    for place, entry in enumerate(entries_of(read)):
        if len(set(map(camel, entry))) < len(entry):
            raise Malformed(
                f"tools[{place}]: one member stands there in two spellings: one of them has to go"
            )
        for key, value in entry.items():
            if camel(key) == _DECLARATIONS:
                yield from _declared(entry, place)
            elif value is not None:
                yield from hosted_tools(key, value)
            if camel(key) == COMPUTER and value is not None:
                yield from map(Tool, predefined(value))
    if member(read, "cachedContent"):
        # What is kept under this name may hold tools: policy sees at least that it is used.
        yield Tool("cachedContent", ToolKind.HOSTED, options={"name": member(read, "cachedContent")})


def camel(key: str) -> str:
    """`function_call` as `functionCall`."""
    return _CAMEL.sub(lambda found: found[1].upper(), key)


def _declared(entry: Json, place: int) -> Iterator[Tool]:
    declarations = member(entry, _DECLARATIONS)
    if declarations is None:
        return
    for one in declarations if isinstance(declarations, list) else [declarations]:
        name = one.get("name") if isinstance(one, dict) else None
        if not isinstance(name, str) or not name:
            raise Malformed(f"tools[{place}]: a function has to have a name")
        schema = member(one, "parametersJsonSchema")
        if not isinstance(schema, dict):
            schema = json_schema(one.get("parameters"))
        yield Tool(name, schema=schema, size=len(dumped(one)))


def predefined(computer: object) -> list[str]:
    """The functions that come with a computer, less those that the agent leaves out."""
    left_out = member(computer, EXCLUDED) if isinstance(computer, dict) else None
    names = left_out if isinstance(left_out, list) else [left_out]
    return [name for name in _PREDEFINED if name not in names]


def hosted_tools(key: str, value: object) -> list[Tool]:
    """What a member of an entry switches on: one tool, or a server each."""
    name = camel(key)
    size = len(dumped(value))
    if name == "mcpServers":
        servers = value if isinstance(value, list) else [value]
        if len(objects(servers)) < len(servers):
            raise Malformed("mcpServers has to be a list of objects")
        return [_server(one, size) for one in objects(servers)]
    options = options_of(value if isinstance(value, dict) else {key: value})
    return [Tool(name, ToolKind.HOSTED, size=size, options=options)]


def _server(server: Json, size: int) -> Tool:
    transport = object_member(server, "streamableHttpTransport")
    url = text(transport.get("url"))
    options = {**options_of(server), "server_url": url}
    return Tool(server_tool(text(server.get("name"))), ToolKind.HOSTED, size=size, options=options)


def json_schema(schema: object, depth: int = 0) -> Json | None:
    """Gemini's own form of a schema as JSON Schema; None where it has no such form."""
    if not isinstance(schema, dict) or depth > _SCHEMA_DEPTH:
        return None
    made: Json = {}
    for key, value in schema.items():
        name = camel(key)
        if name == "type" and text(value).lower() in _TYPES:
            made["type"] = text(value).lower()
        elif name == "properties" and isinstance(value, dict):
            made["properties"] = {inner: json_schema(part, depth + 1) or {} for inner, part in value.items()}
        elif name in {"items", "additionalProperties"} and isinstance(value, dict):
            made[name] = json_schema(value, depth + 1) or {}
        elif name == "anyOf" and isinstance(value, list):
            made["anyOf"] = [json_schema(part, depth + 1) or {} for part in value]
        elif type(value) in _MEMBERS.get(name, ()):
            made[name] = value
        elif name in _BOUNDS and (bound := _whole(value)) is not None:
            made[name] = bound
    return _meant(made, is_nullable=schema.get("nullable") is True)


def _meant(made: Json, *, is_nullable: bool) -> Json:
    """The schema as the API means it: a type beside alternatives says nothing (the official SDK writes OBJECT there), and
    null is a value of its own; and numbers that may be chosen stand there as texts."""
    if "anyOf" in made:
        made.pop("type", None)
    if made.get("type") in {"integer", "number"} and "enum" in made:
        made["enum"] += [one for one in map(_whole, made["enum"]) if one not in {None, *made["enum"]}]
    if is_nullable and "type" in made:
        made["type"] = [made["type"], "null"]
    if is_nullable and "anyOf" in made:
        made["anyOf"] = [*made["anyOf"], {"type": "null"}]
    if is_nullable and isinstance(made.get("enum"), list):
        made["enum"] = [*made["enum"], None]
    return made


def _whole(value: object) -> int | None:
    """A whole number that may stand as text, as those of 64 bits do; None where it is none."""
    digits = str(value) if isinstance(value, int | str) and not isinstance(value, bool) else ""
    return int(digits) if digits.isascii() and digits.isdecimal() and len(digits) <= _DIGITS else None


def _choice(read: Mapping[str, Any]) -> ToolChoice:
    config = object_member(object_member(read, "toolConfig"), "functionCallingConfig")
    given = config.get("mode")
    word = str(given) if isinstance(given, int) else text(given).upper()
    mode = _MODES.get(word, ChoiceMode.AUTO)
    names = member(config, "allowedFunctionNames")
    return ToolChoice(
        mode, tuple(name for name in names if isinstance(name, str)) if isinstance(names, list) else ()
    )
