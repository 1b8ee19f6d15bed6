"""Reads a request of the Responses API: instructions and items as messages, every tool wherever it is offered."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from proxy.core.messages import (
    ChoiceMode,
    Malformed,
    Message,
    Request,
    Role,
    Tool,
    ToolChoice,
    ToolKind,
)

from .openai_responses_items import (
    Item,
    Json,
    call_of,
    is_call_by_type,
    is_output,
    result_of,
    said_in,
    type_of,
)
from .options import options_of, server_tool
from .typed import flag, listed, number, typed, whole_object
from .values import assistant_digest, digest, dumped, objects, text

ROLES = {
    "user": Role.USER,
    "system": Role.SYSTEM,
    "developer": Role.SYSTEM,
    "assistant": Role.ASSISTANT,
}
_MODES = {"auto": ChoiceMode.AUTO, "none": ChoiceMode.NONE, "required": ChoiceMode.REQUIRED}
_AGENT_RUN = {
    "apply_patch": "apply_patch",
    "computer": "computer",
    "computer_use": "computer",
    "computer_use_preview": "computer",
    "local_shell": "local_shell",
    "shell": "shell",
}
"""Tools of the provider's making that the agent runs, by type, with the name of their calls."""
_MARKS = frozenset({"id", "status", "phase"})
_MEDIA = ("file_data", "image_url", "data")
_INLINE = 1024


def parse_request(body: bytes, dialect: str) -> Request:
    """The request. Raises Malformed with a sentence for the developer of the agent."""
    return request_of(whole_object(body), dialect, body)


def request_of(read: Json, dialect: str, body: bytes) -> Request:
    """The request that an object shows. Raises Malformed."""
    conversation = _conversation(read.get("conversation"))
    kept = typed(read, "previous_response_id", str, "text") or ""
    items = input_items(read)
    if read.get("input") is None and not (kept or conversation or isinstance(read.get("prompt"), dict)):
        raise Malformed("input is missing")
    return Request(
        dialect=dialect,
        model=typed(read, "model", str, "text") or "",
        messages=tuple(message for _, message in messages_of(read)),
        tools=tuple(_tools(read, items)),
        tool_choice=read_choice(read.get("tool_choice")),
        stream=flag(read, "stream"),
        max_output=number(read, "max_output_tokens", least=0),
        conversation=conversation,
        size=len(body),
        text_size=max(0, len(body) - sum(map(_media_size, items))),
        previous=conversation or kept,
        background=flag(read, "background"),
        store=typed(read, "store", bool, "true or false") is not False,
    )


def _conversation(value: object) -> str:
    if value is None:
        return ""
    found = value.get("id") if isinstance(value, dict) else value
    if not isinstance(found, str):
        raise Malformed("conversation has to be an id or an object with one")
    return found


# --- the conversation ----------------------------------------------------------------------------------------------


def input_items(read: Mapping[str, Any]) -> list[Json]:
    """The items of the input; of a text none. Raises Malformed."""
    given = read.get("input")
    if given is None or isinstance(given, str):
        return []
    return listed(dict(read), "input")


def messages_of(read: Mapping[str, Any]) -> Iterator[tuple[int, Message]]:
    """The messages, each with the place of its item in the input (-1: it is no item). Raises Malformed."""
    instructions = read.get("instructions")
    if isinstance(instructions, str) and instructions:
        yield -1, Message(Role.SYSTEM, instructions, digest=digest({"instructions": instructions}))
    elif isinstance(instructions, list):
        for item in objects(instructions):
            yield -1, Message(Role.SYSTEM, said_in(item, "\n"), digest=digest({"instructions": item}))
    given = read.get("input")
    if isinstance(given, str):
        yield -1, Message(Role.USER, given, digest=digest({"role": "user", "content": given}))
    for place, item in enumerate(input_items(read)):
        try:
            message = _message(item)
        except Malformed as fault:
            raise Malformed(f"input[{place}]: {fault}") from None
        if message is not None:
            yield place, message


def _message(item: Item) -> Message | None:
    """The message that an item is; None: it says nothing by itself (reasoning, references, what the provider ran)."""
    kind = type_of(item)
    if kind == "message":
        role = ROLES.get(text(item.get("role")))
        if role is None:
            raise Malformed(f"role has to be one of {', '.join(ROLES)}")
        content = item.get("content")
        if not isinstance(content, str | list | None):
            raise Malformed("content has to be text or a list of parts")
        if role is Role.ASSISTANT:
            said = said_in(item)
            return Message(role, said, digest=assistant_digest(said, ())) if said else None
        return Message(role, said_in(item, "\n"), digest=_digest(item))
    if is_output(item):
        result = result_of(item)
        return Message(Role.TOOL, results=(result,), digest=digest([result.call_id, result.text]))
    if is_call_by_type(item):
        call = call_of(item, (0, 0))
        return Message(
            Role.ASSISTANT,
            calls=(call,),
            digest=assistant_digest("", [(call.id, call.name, call.arguments)]),
        )
    return None


def _digest(item: Item) -> bytes:
    """Less what may come and go without a change of meaning."""
    content = item.get("content")
    if isinstance(content, list) and len(content) == 1 and isinstance(content[0], dict):
        only = content[0]
        if only.keys() == {"type", "text"}:
            content = only["text"]
    plain = {key: value for key, value in item.items() if key not in _MARKS | {"type"}}
    return digest({**plain, "content": content})


def _media_size(item: Item) -> int:
    parts = [
        *objects(item.get("content")),
        *objects(item.get("output")),
        *([item["output"]] if isinstance(item.get("output"), dict) else []),
    ]
    sizes = (len(text(part.get(key))) for part in parts for key in _MEDIA)
    return sum(size for size in sizes if size > _INLINE)


# --- tools ---------------------------------------------------------------------------------------------------------


def _tools(read: Json, items: list[Json]) -> Iterator[Tool]:
    for place, tool in enumerate(listed(read, "tools")):
        try:
            yield from tools_of(tool)
        except Malformed as fault:
            raise Malformed(f"tools[{place}]: {fault}") from None
    for place, item in enumerate(items):
        for tool in hidden_tools(item):
            try:
                yield from tools_of(tool)
            except Malformed as fault:
                raise Malformed(f"input[{place}].tools: {fault}") from None
    prompt = read.get("prompt")
    if isinstance(prompt, dict):
        # A prompt at the provider may bring tools of its own: policy sees at least that it is used.
        yield Tool(f"prompt.{text(prompt.get('id'))}", ToolKind.HOSTED, options=prompt)


def hidden_tools(item: Item) -> list[Json]:
    """Tools that an item of the input offers."""
    return objects(item.get("tools")) if type_of(item) in {"additional_tools", "tool_search_output"} else []


def tools_of(tool: Json) -> list[Tool]:
    """The tools that an entry offers, several where it is a namespace. Raises Malformed."""
    kind = typed(tool, "type", str, "text") or ""
    size = len(dumped(tool))
    name = text(tool.get("name"))
    if kind == "namespace":
        inner = [made for one in objects(tool.get("tools")) for made in tools_of(one)]
        return [Tool(f"{name}.{one.name}", one.kind, one.schema, one.size, one.options) for one in inner]
    if kind in {"function", ""}:
        if not name:
            raise Malformed("its name has to be text")
        return [Tool(name, schema=typed(tool, "parameters", dict, "a JSON Schema (an object)"), size=size)]
    if kind == "custom":
        if not name:
            raise Malformed("its name has to be text")
        return [Tool(name, ToolKind.CUSTOM, size=size)]
    if kind in _AGENT_RUN and not _is_remote(tool):
        return [Tool(_AGENT_RUN[kind], size=size)]
    if kind == "tool_search" and tool.get("execution") == "client":
        return [Tool("tool_search", size=size)]
    shown = server_tool(text(tool.get("server_label"))) if kind == "mcp" else kind
    return [Tool(shown, ToolKind.HOSTED, size=size, options=options_of(tool))]


def _is_remote(tool: Json) -> bool:
    environment = tool.get("environment")
    return isinstance(environment, dict) and text(environment.get("type")) not in {"", "local"}


def read_choice(choice: object) -> ToolChoice:
    """A tool choice in any of its forms. Raises Malformed."""
    if choice is None:
        return ToolChoice()
    if isinstance(choice, str):
        mode = _MODES.get(choice)
        return ToolChoice(mode) if mode else ToolChoice(ChoiceMode.NAMED, (choice,))
    if not isinstance(choice, dict):
        raise Malformed("tool_choice has to be text or an object")
    if isinstance(choice.get("tools"), list):
        names = tuple(filter(None, map(chosen_name, objects(choice["tools"]))))
        return ToolChoice(_MODES.get(text(choice.get("mode")), ChoiceMode.AUTO), names)
    name = chosen_name(choice)
    if not name:
        raise Malformed("tool_choice names no tool")
    return ToolChoice(ChoiceMode.NAMED, (name,))


def chosen_name(choice: Json) -> str:
    """Which tool an object of a tool choice names; a tool without a name of its own is named by its type."""
    kind = text(choice.get("type"))
    if kind == "mcp":
        return server_tool(text(choice.get("server_label")))
    return text(choice.get("name")) or _AGENT_RUN.get(kind, "" if kind in {"function", "custom"} else kind)
