"""Requests of Ollama's chat API, read into neutral words and edited by splices.

Laws: calls and results have no ids that could be relied on; a result belongs to the open call that its id, else its
tool's name, else its place says. What is added comes behind everything that the server has in its cache.
"""

from __future__ import annotations

from collections.abc import Iterator

import orjson

from proxy.core import json_text
from proxy.core.json_text import Splice, quoted
from proxy.core.messages import (
    ChoiceMode,
    Exchange,
    Malformed,
    Message,
    Request,
    RequestEdit,
    Role,
    TextExchange,
    Tool,
    ToolCall,
    ToolResult,
)

from .ollama_parts import APART, MESSAGE, CallIds, Json, exact, history_calls
from .typed import flag, listed, typed, whole_object
from .values import assistant_digest, digest, dumped, text

_TOP = frozenset({"model", "messages", "tools", "stream", "options", "format", "think", "keep_alive"})
_ROLES = {"system": Role.SYSTEM, "user": Role.USER, "assistant": Role.ASSISTANT, "tool": Role.TOOL}
_ANSWERED = frozenset({"user", "tool"})
_MEANS_NOTHING: tuple[object, ...] = ([], {}, None, "")
_LIMIT = "num_predict"


# --- reading ---------------------------------------------------------------------------------------------------------


def parse_request(body: bytes, dialect: str) -> Request:
    """The request. Raises Malformed with a sentence for the developer of the agent."""
    request = whole_object(body)
    exact(request, _TOP)
    raw = listed(request, "messages")
    options = typed(request, "options", dict, "an object") or {}
    exact(options, frozenset({_LIMIT}))
    limit = options.get(_LIMIT)
    pictures = sum(len(picture) for message in raw for picture in _pictures(message))
    return Request(
        dialect=dialect,
        model=typed(request, "model", str, "text") or "",
        messages=tuple(_messages(raw)),
        tools=tuple(_tools(request)),
        stream=request.get("stream") is None or flag(request, "stream"),
        max_output=limit if isinstance(limit, int) and not isinstance(limit, bool) and limit >= 0 else None,
        size=len(body),
        text_size=max(0, len(body) - pictures),
        stream_type="application/x-ndjson",
    )


def _pictures(message: Json) -> list[str]:
    images = message.get("images")
    return [one for one in images if isinstance(one, str)] if isinstance(images, list) else []


def _tools(request: Json) -> Iterator[Tool]:
    for place, tool in enumerate(listed(request, "tools")):
        name, schema = _read_tool(tool, place)
        yield Tool(name, schema=schema, size=len(dumped(tool)))


def _read_tool(tool: Json, place: int) -> tuple[str, Json | None]:
    exact(tool, frozenset({"type", "function"}))
    function = typed(tool, "function", dict, "an object")
    name = function.get("name") if function else None
    if not isinstance(name, str) or not name:
        raise Malformed(f"tools[{place}]: function has to be an object with a name")
    exact(function, frozenset({"name", "parameters"}))
    schema: Json | None = typed(function, "parameters", dict, "a JSON Schema (an object)")
    return name, schema


def _messages(messages: list[Json]) -> Iterator[Message]:
    waiting: list[tuple[str, ToolCall]] = []
    for place, message in enumerate(messages):
        try:
            yield _message(message, waiting)
        except Malformed as fault:
            raise Malformed(f"messages[{place}]: {fault}") from None


def _message(message: Json, waiting: list[tuple[str, ToolCall]]) -> Message:
    """`waiting`: the calls without result so far, each with the wire's own id; changed in place."""
    exact(message, MESSAGE)
    named = message.get("role")
    role = _ROLES.get(named) if isinstance(named, str) else None
    if role is None:
        raise Malformed(f"role has to be one of {', '.join(_ROLES)}")
    said = typed(message, "content", str, "text") or ""
    calls = history_calls(message)
    if calls and role is not Role.ASSISTANT:
        raise Malformed("only an assistant message can hold tool calls")
    if role is Role.TOOL:
        return Message(role, results=(_result(message, said, waiting),), digest=_digest(message))
    if role is not Role.ASSISTANT:
        return Message(role, said, digest=_digest(message))
    ids = CallIds()
    named_calls = [(call.id, ids.call(call, (0, slot))) for slot, call in enumerate(calls)]
    waiting += named_calls
    identities = [(call.id, call.name, call.arguments) for _, call in named_calls]
    return Message(
        role, said, tuple(call for _, call in named_calls), digest=assistant_digest(said, identities)
    )


def _result(message: Json, said: str, waiting: list[tuple[str, ToolCall]]) -> ToolResult:
    wire_id = typed(message, "tool_call_id", str, "text") or ""
    name = typed(message, "tool_name", str, "text") or text(message.get("name"))
    fitting = [at for at, (id_, call) in enumerate(waiting) if wire_id and wire_id in {id_, call.id}]
    if not fitting and not (wire_id and waiting and all(id_ for id_, _ in waiting)):
        fitting = [at for at, (_, call) in enumerate(waiting) if not name or call.name == name]
    if not fitting:
        return ToolResult(wire_id or f"call_of_{name}", said)
    return ToolResult(waiting.pop(fitting[0])[1].id, said)


def _digest(message: Json) -> bytes:
    return digest({key: value for key, value in message.items() if value not in _MEANS_NOTHING})


# --- editing ---------------------------------------------------------------------------------------------------------


def edit_request(body: bytes, edit: RequestEdit) -> bytes:
    """The request with the edit spliced in. Raises Malformed where the body is no request of this dialect."""
    if not edit:
        return body
    try:
        draft = _Draft(body)
        draft.choose_tools(edit)
        if edit.max_output is not None:
            draft.lower_output(edit.max_output)
        draft.write_messages(edit)
        return json_text.spliced(body, draft.splices())
    except (ValueError, AttributeError, TypeError, LookupError):
        raise Malformed("the body is no request that can be edited") from None


class _Draft:
    """The edits so far: members of the body to drop and to set, and splices inside those that stay."""

    def __init__(self, body: bytes) -> None:
        self._body = body
        self._request: Json = orjson.loads(body)
        self._top = json_text.members(body)
        self._drop: set[str] = set()
        self._put: dict[str, bytes] = {}
        self._inner: list[Splice] = []

    def splices(self) -> list[Splice]:
        return self._inner + json_text.object_edit(self._top, drop=self._drop, put=self._put)

    def choose_tools(self, edit: RequestEdit) -> None:
        """Takes out the tools that do not stay. The dialect has no tool choice: a model that may not call gets none."""
        names = [_read_tool(tool, place)[0] for place, tool in enumerate(listed(self._request, "tools"))]
        left = names if edit.keep_tools is None else [name for name in names if name in edit.keep_tools]
        none = edit.tool_choice is not None and edit.tool_choice.mode is ChoiceMode.NONE
        if none or (edit.keep_tools is not None and not left):
            self._drop.add("tools")
        elif len(left) < len(names):
            array = json_text.elements(self._body, self._top.values["tools"].start)
            gone = {place for place, name in enumerate(names) if name not in left}
            self._inner += json_text.array_edit(array, drop=gone)

    def lower_output(self, most: int) -> None:
        """The cap becomes no larger than `most`; a negative one stands for no cap at all."""
        options = self._request.get("options")
        if not isinstance(options, dict):
            self._put["options"] = b'{"%b":%d}' % (_LIMIT.encode(), most)
            return
        given = options.get(_LIMIT)
        if not isinstance(given, int | float) or given < 0 or given > most:
            members = json_text.members(self._body, self._top.values["options"].start)
            self._inner += json_text.object_edit(members, put={_LIMIT: b"%d" % most})

    def write_messages(self, edit: RequestEdit) -> None:
        """Other texts for results, missing results behind their calls, exchanges at the end, the note in the newest."""
        messages = listed(self._request, "messages")
        last = len(messages) - 1
        texts = {result.message_index: result.text for result in edit.results}
        tail: list[bytes] = []
        places = self._top.values.get("messages") if self._request.get("messages") is not None else None
        array = json_text.elements(self._body, places.start) if places else json_text.Elements(self._top.span)
        for missing in edit.missing_results:
            written = _result_message(missing.call, missing.text, messages[missing.message_index])
            if missing.message_index == last:
                tail.append(written)
            else:
                end = array.values[missing.message_index].end
                self._inner.append(Splice(end, end, b"," + written))
        for exchange in edit.exchanges:
            tail += _exchange_messages(exchange)
        if edit.note and tail and orjson.loads(tail[-1]).get("role") in _ANSWERED:
            at = json_text.members(tail[-1]).values["content"]
            tail[-1] = json_text.spliced(tail[-1], [json_text.appended_text(at, APART + edit.note)])
        elif edit.note and not tail and messages and messages[-1].get("role") in _ANSWERED:
            said = texts.get(last, text(messages[-1].get("content")))
            texts[last] = f"{said}{APART if said else ''}{edit.note}"
        elif edit.note:
            tail.append(_user_message(edit.note))
        for index, said in texts.items():
            self._write_content(array.values[index].start, text(messages[index].get("content")), said)
        if tail and places:
            self._inner += json_text.array_edit(array, append=tail)
        elif tail:
            self._put["messages"] = b"[" + b",".join(tail) + b"]"

    def _write_content(self, at: int, before: str, said: str) -> None:
        members = json_text.members(self._body, at)
        place = members.values.get("content")
        if before and place is not None and said.startswith(before):
            self._inner.append(json_text.appended_text(place, said[len(before) :]))
        else:
            self._inner += json_text.object_edit(members, put={"content": quoted(said)})


def _result_message(call: ToolCall, said: str, asking: Json) -> bytes:
    """A result. It names its call by the id that the call has on the wire, where it has one."""
    ids = CallIds()
    wire = {ids.call(found, (0, 0)).id: found.id for found in history_calls(asking)}
    id_ = wire.get(call.id) or call.id
    return dumped({"role": "tool", "tool_name": call.name, "tool_call_id": id_, "content": said})


def _exchange_messages(exchange: Exchange | TextExchange) -> Iterator[bytes]:
    if isinstance(exchange, TextExchange):
        yield dumped({"role": "assistant", "content": exchange.said})
        yield _user_message(exchange.reply)
        return
    asking = orjson.loads(exchange.message)
    yield exchange.message
    for call, said in exchange.results:
        yield _result_message(call, said, asking)


def _user_message(said: str) -> bytes:
    return dumped({"role": "user", "content": said})
