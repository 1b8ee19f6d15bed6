"""Edits a Chat Completions request by splices: what is not changed keeps its bytes and its place.

Laws: new messages come behind all others and new members at the very end, so that a provider's prefix cache holds;
what leaves takes along whatever would make no sense without it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import orjson

from proxy.core import json_text
from proxy.core.json_text import Splice
from proxy.core.messages import (
    ChoiceMode,
    Exchange,
    Malformed,
    RequestEdit,
    ResultText,
    TextExchange,
    ToolCall,
    ToolChoice,
    ToolKind,
)

from .openai_chat_hosted import without
from .openai_chat_parts import call_parts, is_text_part, text_part
from .openai_chat_request import chosen_name, read_choice, read_tool
from .options import server_tool
from .texts import content_with
from .values import Json, dumped, objects

_APART = "\n\n"
_TOOL_MEMBERS = {
    "tools": ("tools", "tool_choice", "parallel_tool_calls"),
    "functions": ("functions", "function_call"),
}
_CHOICE_MEMBER = {"tools": "tool_choice", "functions": "function_call"}
_ANSWERED_ROLES = frozenset({"user", "tool", "function"})


def edit_request(body: bytes, edit: RequestEdit) -> bytes:
    """The request with the edit spliced in. Raises Malformed where the body is no request of this dialect."""
    if not edit:
        return body
    try:
        request = orjson.loads(body)
        draft = _Draft(body, request)
        draft.choose_tools(edit)
        if edit.ask_usage and request.get("stream") is True:
            draft.ask_usage()
        if edit.max_output is not None:
            draft.lower_output(edit.max_output)
        draft.replace_results(edit.results)
        if edit.missing_results or edit.exchanges or edit.note:
            draft.add_messages(edit)
        return json_text.spliced(body, draft.splices())
    except Malformed:
        raise
    except (ValueError, AttributeError, TypeError, LookupError):
        raise Malformed("the body is no request that can be edited") from None


class _Draft:
    """The edits so far: members of the body to drop and to set, and splices inside those that stay."""

    def __init__(self, body: bytes, request: Json) -> None:
        self._body = body
        self._request = request
        self._top = json_text.members(body)
        self._drop: set[str] = set()
        self._put: dict[str, bytes] = {}
        self._inner: list[Splice] = []
        self._results: dict[int, bytes] = {}
        """By message: the content that it gets."""

    def splices(self) -> list[Splice]:
        results = list(self._result_splices())
        return results + self._inner + json_text.object_edit(self._top, drop=self._drop, put=self._put)

    def choose_tools(self, edit: RequestEdit) -> None:
        """Takes out the tools that do not stay, then sees to the tool choice."""
        if edit.keep_tools is not None:
            drop, splices = without(self._body, self._top, self._request, edit.keep_tools)
            self._drop |= drop
            self._inner += splices
        for key, member in _CHOICE_MEMBER.items():
            tools = objects(self._request.get(key))
            names = [read_tool(tool, legacy=key == "functions")[0] for tool in tools]
            left = names if edit.keep_tools is None else [name for name in names if name in edit.keep_tools]
            if not left:
                if edit.keep_tools is not None:
                    self._drop.update(_TOOL_MEMBERS[key])
                continue
            if len(left) < len(names):
                array = json_text.elements(self._body, self._top.values[key].start)
                gone = {place for place, name in enumerate(names) if name not in left}
                self._inner += json_text.array_edit(array, drop=gone)
            if edit.tool_choice is not None:
                self._put[member] = dumped(self._choice(edit.tool_choice, legacy=key == "functions"))
            elif len(left) < len(names):
                self._correct_choice(member, set(left))

    def _correct_choice(self, member: str, left: set[str]) -> None:
        """A tool choice cannot name a tool that is gone."""
        value = self._request.get(member)
        names = set(read_choice(value).names)
        if names <= left:
            return
        place = json_text.locate(self._body, member, "allowed_tools", "tools")
        if place is None or not names & left:
            self._put[member] = b'"auto"'
            return
        listed = value["allowed_tools"]["tools"] if isinstance(value, dict) else []
        gone = {at for at, tool in enumerate(listed) if chosen_name(tool) not in left}
        self._inner += json_text.array_edit(json_text.elements(self._body, place.start), drop=gone)

    def _choice(self, choice: ToolChoice, *, legacy: bool) -> object:
        if choice.mode is not ChoiceMode.NAMED and (legacy or not choice.names):
            return "auto" if legacy and choice.mode is ChoiceMode.REQUIRED else choice.mode.value
        if legacy:
            return {"name": choice.names[0]}
        named = [self._named(name) for name in choice.names]
        if choice.mode is ChoiceMode.NAMED:
            return named[0]
        return {"type": "allowed_tools", "allowed_tools": {"mode": choice.mode.value, "tools": named}}

    def _named(self, name: str) -> Json:
        kinds = dict(read_tool(tool)[:2] for tool in objects(self._request.get("tools")))
        kind = kinds.get(name, ToolKind.FUNCTION)
        if kind is not ToolKind.HOSTED:
            return {"type": kind.value, kind.value: {"name": name}}
        server = name.removeprefix(server_tool(""))
        return {"type": name} if server == name else {"type": "mcp", "server_label": server}

    def ask_usage(self) -> None:
        """Usage in the stream, asked for inside the member where the agent has one, else at the very end."""
        options = self._request.get("stream_options")
        if isinstance(options, dict):
            if options.get("include_usage") is not True:
                members = json_text.members(self._body, self._top.values["stream_options"].start)
                self._inner += json_text.object_edit(members, put={"include_usage": b"true"})
        else:
            self._put["stream_options"] = b'{"include_usage":true}'

    def lower_output(self, most: int) -> None:
        """The caps that are there become no larger than `most`; where there is none, one is set."""
        given = [key for key in ("max_completion_tokens", "max_tokens") if self._request.get(key) is not None]
        for key in given or ["max_completion_tokens"]:
            if not given or self._request[key] > most:
                self._put[key] = b"%d" % most

    def replace_results(self, results: Sequence[ResultText]) -> None:
        """Other text in results; what else they bring (pictures) stays. A message of this dialect has one result."""
        for result in results:
            content = json_text.locate(self._body, "messages", result.message_index, "content")
            if content is not None:
                written = content_with(
                    self._body, content, result.text, is_text_part, text_part, keep_empty=True
                )
                self._results[result.message_index] = written

    def _result_splices(self) -> Iterator[Splice]:
        for place, content in self._results.items():
            span = json_text.locate(self._body, "messages", place, "content")
            if span is not None:
                yield json_text.replaced(span, content)

    def add_messages(self, edit: RequestEdit) -> None:
        """Missing results behind their calls, exchanges at the end, the note in the newest message."""
        messages = self._request["messages"]
        array = json_text.elements(self._body, self._top.values["messages"].start)
        last = len(messages) - 1
        tail: list[bytes] = []
        # Each message is read once: one answer may hold any number of calls.
        asking = {missing.message_index for missing in edit.missing_results}
        ids = {place: _ids_in(messages[place]) for place in asking}
        for missing in edit.missing_results:
            legacy = missing.call.id not in ids[missing.message_index]
            written = _result(missing.call, missing.text, legacy=legacy)
            if missing.message_index == last:
                tail.append(written)
            else:
                end = array.values[missing.message_index].end
                self._inner.append(Splice(end, end, b"," + written))
        for exchange in edit.exchanges:
            tail += (
                _text_messages(exchange)
                if isinstance(exchange, TextExchange)
                else _exchange_messages(exchange)
            )
        if edit.note and tail:
            splices = _note_splices(tail[-1], 0, edit.note)
            tail[-1:] = (
                [json_text.spliced(tail[-1], splices)] if splices else [tail[-1], _user_message(edit.note)]
            )
        elif edit.note and last in self._results:
            message = b'{"role":"tool","content":' + self._results[last] + b"}"
            noted = json_text.spliced(message, _note_splices(message, 0, edit.note))
            self._results[last] = json_text.members(noted).values["content"].cut(noted)
        elif edit.note:
            splices = _note_splices(self._body, array.values[last].start, edit.note) if messages else []
            self._inner += splices
            tail += [] if splices else [_user_message(edit.note)]
        self._inner += json_text.array_edit(array, append=tail)


# --- messages ------------------------------------------------------------------------------------------------


def _ids_in(asking: Json) -> frozenset[str]:
    """The ids of the calls in a message; a legacy call has none."""
    return frozenset(part.id for part in call_parts(asking) if part.at is not None)


def _exchange_messages(exchange: Exchange) -> Iterator[bytes]:
    """The refused turn and the refusal of each of its calls. A history holds one choice: the first."""
    parts = call_parts(orjson.loads(exchange.message))
    ids = {part.id for part in parts if part.at is not None}
    first = min((call.key[0] for call, _ in exchange.results), default=0)
    yield exchange.message
    for call, said in exchange.results:
        if call.key[0] == first and call.id in ids:
            yield _result(call, said, legacy=False)
        elif call.key[0] == first and any(part.at is None and part.name == call.name for part in parts):
            yield _result(call, said, legacy=True)


def _text_messages(exchange: TextExchange) -> Iterator[bytes]:
    yield dumped({"role": "assistant", "content": exchange.said})
    yield _user_message(exchange.reply)


def _result(call: ToolCall, text: str, *, legacy: bool) -> bytes:
    if legacy:
        return dumped({"role": "function", "name": call.name, "content": text})
    return dumped({"role": "tool", "tool_call_id": call.id, "content": text})


def _user_message(text: str) -> bytes:
    return dumped({"role": "user", "content": text})


def _note_splices(body: bytes, at: int, note: str) -> list[Splice]:
    """The note joined to the message that stands at `at`; none where it is not one that a note can join."""
    message = json_text.members(body, at)
    fields: dict[str, Any] = orjson.loads(message.span.cut(body))
    content = fields.get("content")
    if fields.get("role") not in _ANSWERED_ROLES:
        return []
    if isinstance(content, str):
        return [json_text.appended_text(message.values["content"], (_APART if content else "") + note)]
    if isinstance(content, list):
        array = json_text.elements(body, message.values["content"].start)
        return json_text.array_edit(array, append=[text_part(note)])
    return []
