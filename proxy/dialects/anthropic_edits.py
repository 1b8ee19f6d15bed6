"""Edits of the Messages API's JSON by splices: in requests, whole answers, and the events of a stream.

Laws: what is not meant keeps its bytes and its place; calls and results stay paired, results at the head of the user
message that follows their call.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import orjson

from proxy.core import json_text
from proxy.core.json_text import Elements, Span, Splice
from proxy.core.messages import (
    ChoiceMode,
    Exchange,
    Malformed,
    MissingResult,
    RequestEdit,
    ResultText,
    TextExchange,
    ToolChoice,
)

from .anthropic_blocks import (
    Json,
    compact,
    is_text_block,
    object_of,
    offered_inline,
    skill_tool,
    text_of,
    tools_of,
)
from .anthropic_programs import in_container, noted_in_results, without_container
from .anthropic_request import has_system, parsed
from .options import server_tool
from .texts import content_with

SEPARATOR = "\n\n"
_MINIMAL_THINKING = 1024
"""The smallest thinking budget that the provider accepts; it has to be below `max_tokens`."""
_CHOICES = {
    ChoiceMode.AUTO: b'{"type":"auto"}',
    ChoiceMode.NONE: b'{"type":"none"}',
    ChoiceMode.REQUIRED: b'{"type":"any"}',
}


def text_block(text: str) -> bytes:
    """A content block of text."""
    return b'{"type":"text","text":' + json_text.quoted(text) + b"}"


def result_block(call_id: str, text: str) -> bytes:
    """A failed call's result."""
    identified = b'{"type":"tool_result","tool_use_id":' + json_text.quoted(call_id)
    return identified + b',"is_error":true,"content":' + json_text.quoted(text) + b"}"


def user_message(blocks: Sequence[bytes]) -> bytes:
    """A user message of these blocks."""
    return b'{"role":"user","content":[' + b",".join(blocks) + b"]}"


# --- any object ---------------------------------------------------------------------------------------------------


def rewritten(
    data: bytes, body: Mapping[str, Any], changes: Sequence[tuple[tuple[str, ...], object]]
) -> bytes:
    """The JSON text `data` (which reads as `body`) with values set at paths.

    Where a key occurs twice, it is written anew as it was read: the last one counts.
    """
    try:
        return json_text.spliced(
            data, [splice for path, value in changes for splice in _put(data, path, value)]
        )
    except ValueError:
        return compact(_set_all(body, changes)).encode()


def _put(data: bytes, path: tuple[str, ...], value: object) -> list[Splice]:
    parent = json_text.locate(data, *path[:-1])
    if parent is None:
        raise ValueError("nothing to put into")
    return json_text.object_edit(
        json_text.members(data, parent.start), put={path[-1]: compact(value).encode()}
    )


def _set_all(body: Mapping[str, Any], changes: Sequence[tuple[tuple[str, ...], object]]) -> Json:
    changed = dict(body)
    for path, value in changes:
        place = changed
        for key in path[:-1]:
            place[key] = dict(object_of(place.get(key)))
            place = place[key]
        place[path[-1]] = value
    return changed


def content_edit(
    data: bytes,
    path: tuple[str, ...],
    drop: Collection[int],
    ids: Mapping[int, str],
    inserted: Mapping[int, Sequence[bytes]],
) -> bytes:
    """The content list of the message at `path` with blocks dropped, given ids, and others put before a place (or,
    before the place behind the last one, at the end)."""
    span = json_text.locate(data, *path, "content")
    if span is None:
        raise Malformed("The answer has no content.")
    parts: list[bytes] = []
    blocks = json_text.elements(data, span.start)
    for place, block in enumerate(blocks.values):
        parts += inserted.get(place, ())
        if place not in drop:
            text = block.cut(data)
            parts.append(with_id(text, ids[place]) if place in ids else text)
    parts += inserted.get(len(blocks.values), ())
    return json_text.spliced(data, [json_text.replaced(blocks.span, b"[" + b",".join(parts) + b"]")])


def with_id(block: bytes, call_id: str) -> bytes:
    """The block, which has an id of the proxy's own making."""
    return rewritten(block, object_of(orjson.loads(block)), [(("id",), call_id)])


# --- a request ----------------------------------------------------------------------------------------------------


def edit_request(body: bytes, edit: RequestEdit) -> bytes:
    """See `Dialect.edit_request`. Raises Malformed for a body that is no request."""
    if not edit:
        return body
    read = parsed(body, "request body")
    try:
        return _RequestEditor(body, read).edited(edit)
    except ValueError as fault:
        raise Malformed(f"The request cannot be edited: {fault}.") from None


class _RequestEditor:
    """One request and the splices that are to be done in it."""

    def __init__(self, body: bytes, read: Json) -> None:
        self._body = body
        self._read = read
        self._top = json_text.members(body)
        self._drop: set[str] = set()
        self._put: dict[str, bytes] = {}
        self._splices: list[Splice] = []
        self._container: object = read.get("container")

    def edited(self, edit: RequestEdit) -> bytes:
        messages = self._read.get("messages")
        if isinstance(messages, list) and messages:
            edit = noted_in_results(messages, has_system(self._read), edit)
        if edit.keep_tools is not None:
            self._keep_tools(edit.keep_tools)
        if edit.tool_choice is not None and self._read.get("tools") and "tools" not in self._drop:
            self._put["tool_choice"] = choice_json(edit.tool_choice)
        if edit.max_output is not None:
            self._lower_output(edit.max_output)
        self._converse(edit)
        self._place_container()
        self._splices += json_text.object_edit(self._top, drop=self._drop, put=self._put)
        return json_text.spliced(self._body, self._splices)

    def _keep_tools(self, keep: Collection[str]) -> None:
        tools = self._entries("tools")
        kept = [place for place, tool in enumerate(tools) if _is_kept(tool, keep)]
        self._narrow("tools", len(tools), kept)
        servers = self._entries("mcp_servers")
        named = [
            place for place, entry in enumerate(servers) if server_tool(text_of(entry.get("name"))) in keep
        ]
        self._narrow("mcp_servers", len(servers), named)
        self._keep_skills(keep)
        choice = object_of(self._read.get("tool_choice"))
        if "tools" in self._drop:
            self._drop.add("tool_choice")
        elif choice.get("type") == "tool" and choice.get("name") not in keep:
            self._put["tool_choice"] = _CHOICES[ChoiceMode.AUTO]

    def _keep_skills(self, keep: Collection[str]) -> None:
        container = object_of(self._container)
        skills = container.get("skills")
        if isinstance(skills, list):
            left = [entry for entry in skills if skill_tool(object_of(entry)) in keep]
            rest = {key: value for key, value in container.items() if key != "skills"}
            self._container = rest | ({"skills": left} if left else {})

    def _place_container(self) -> None:
        if self._container == self._read.get("container"):
            return
        if self._container:
            self._put["container"] = compact(self._container).encode()
        else:
            self._drop.add("container")

    def _entries(self, key: str) -> list[Json]:
        entries = self._read.get(key)
        return [object_of(entry) for entry in entries] if isinstance(entries, list) else []

    def _narrow(self, key: str, count: int, kept: Sequence[int]) -> None:
        if count and not kept:
            self._drop.add(key)
        elif len(kept) < count:
            array = json_text.elements(self._body, self._top.values[key].start)
            self._splices += json_text.array_edit(array, drop=set(range(count)) - set(kept))

    def _lower_output(self, most: int) -> None:
        now = self._read.get("max_tokens")
        if type(now) is not int or now <= most:
            return
        self._put["max_tokens"] = b"%d" % most
        thinking = object_of(self._read.get("thinking"))
        budget = thinking.get("budget_tokens")
        if type(budget) is int and budget >= most:
            lower = max(_MINIMAL_THINKING, most // 2)
            fits = lower < most
            self._put["thinking"] = (
                compact(thinking | {"budget_tokens": lower}).encode() if fits else b'{"type":"disabled"}'
            )

    # --- the conversation ---------------------------------------------------------------------------------------

    def _converse(self, edit: RequestEdit) -> None:
        span = self._top.values.get("messages")
        messages = json_text.elements(self._body, span.start) if span else Elements(Span(0, 0))
        gone = self._without_inline_tools(messages, edit.keep_tools)
        inserts = self._missing(messages, edit.missing_results)
        added = [
            part
            for exchange in edit.exchanges
            for part in (_said(exchange) if isinstance(exchange, TextExchange) else self._exchange(exchange))
        ]
        self._replace_results(messages, edit.results)
        if edit.note and added:
            added[-1] = added[-1][: -len(b"]}")] + b"," + text_block(edit.note) + b"]}"
        elif edit.note and not self._noted(messages, edit.note, inserts):
            added.append(user_message([text_block(edit.note)]))
        for place, message in enumerate(messages.values):
            following = b"".join(b"," + part for part in inserts.get(place, ()))
            if following:
                self._splices.append(Splice(message.end, message.end, following))
        if added or gone:
            self._splices += json_text.array_edit(messages, drop=gone, append=added)

    def _exchange(self, exchange: Exchange) -> list[bytes]:
        message, container = without_container(exchange.message)
        if container:
            self._container = in_container(self._container, container)
        return [message, user_message([result_block(call.id, text) for call, text in exchange.results])]

    def _replace_results(self, messages: Elements, results: Sequence[ResultText]) -> None:
        """Other text in results; what else they bring (pictures), their flags and cache marks stay."""
        for result in results:
            place = result.message_index - has_system(self._read)
            blocks = object_of(self._read["messages"][place]).get("content")
            at = [n for n, block in enumerate(blocks or ()) if object_of(block).get("type") == "tool_result"]
            message = json_text.members(self._body, messages.values[place].start)
            array = json_text.elements(self._body, message.values["content"].start)
            block = json_text.members(self._body, array.values[at[result.result_index]].start)
            content = block.values.get("content")
            written = json_text.quoted(result.text)
            if content is not None:
                written = content_with(self._body, content, result.text, is_text_block, text_block)
            self._splices += json_text.object_edit(block, put={"content": written})

    def _missing(self, messages: Elements, missing: Sequence[MissingResult]) -> dict[int, list[bytes]]:
        """Puts results at the head of the user messages that follow; where none does, gives new ones to insert."""
        results: dict[int, list[bytes]] = {}
        for entry in missing:
            place = entry.message_index - has_system(self._read)
            results.setdefault(place, []).append(result_block(entry.call.id, entry.text))
        inserts: dict[int, list[bytes]] = {}
        for place, blocks in results.items():
            follows = self._read["messages"][place + 1] if 0 <= place + 1 < len(messages.values) else {}
            if object_of(follows).get("role") == "user":
                self._put_at_head(messages.values[place + 1], object_of(follows), blocks)
            else:
                inserts[min(max(place, 0), len(messages.values) - 1)] = [user_message(blocks)]
        return inserts

    def _put_at_head(self, message: Span, read: Json, blocks: Sequence[bytes]) -> None:
        content = json_text.members(self._body, message.start).values["content"]
        joined = b",".join(blocks)
        if isinstance(read["content"], str):
            opening = b"[" + joined + b',{"type":"text","text":' if read["content"] else b"[" + joined
            self._splices.append(
                Splice(content.start, content.start if read["content"] else content.end, opening)
            )
            closing = b"}]" if read["content"] else b"]"
            self._splices.append(Splice(content.end, content.end, closing))
        else:
            comma = b"," if read["content"] else b""
            self._splices.append(Splice(content.start + 1, content.start + 1, joined + comma))

    def _noted(self, messages: Elements, note: str, inserts: Mapping[int, list[bytes]]) -> bool:
        """The note at the end of the last message, if that is the user's."""
        last = len(messages.values) - 1
        read = object_of(self._read["messages"][last]) if last >= 0 else {}
        if read.get("role") != "user" or last in inserts:
            return False
        content = json_text.members(self._body, messages.values[last].start).values["content"]
        if isinstance(read["content"], str):
            between = SEPARATOR if read["content"] else ""
            self._splices.append(json_text.appended_text(content, between + note))
        else:
            array = json_text.elements(self._body, content.start)
            self._splices += json_text.array_edit(array, append=[text_block(note)])
        return True

    def _without_inline_tools(self, messages: Elements, keep: Collection[str] | None) -> set[int]:
        """Takes out tools that a message in mid-conversation adds; gives the messages that would be left empty."""
        gone: set[int] = set()
        for place, message in enumerate(self._read["messages"] if keep is not None else ()):
            content = object_of(message).get("content")
            drop = {
                at
                for at, block in enumerate(content if isinstance(content, list) else ())
                if keep is not None and not _addition_is_kept(object_of(block), keep)
            }
            if drop and isinstance(content, list) and len(drop) == len(content):
                gone.add(place)
            elif drop:
                array = json_text.members(self._body, messages.values[place].start).values["content"]
                elements = json_text.elements(self._body, array.start)
                self._splices += json_text.array_edit(elements, drop=drop)
        return gone


def _is_kept(tool: Json, keep: Collection[str]) -> bool:
    return any(offered.name in keep for offered in tools_of(tool))


def _addition_is_kept(block: Json, keep: Collection[str]) -> bool:
    """A block that adds a tool stays only with its tool; every other block stays."""
    if block.get("type") != "tool_addition":
        return True
    definition = offered_inline(block)
    if definition is not None:
        return _is_kept(definition, keep)
    named = object_of(block.get("tool"))
    server = text_of(named.get("mcp_server_name") or named.get("server_name"))
    return server_tool(server) in keep if server else named.get("name") in keep


def choice_json(choice: ToolChoice) -> bytes:
    """The tool choice in the provider's words."""
    if choice.mode is ChoiceMode.NAMED and choice.names:
        return b'{"type":"tool","name":' + json_text.quoted(choice.names[0]) + b"}"
    return _CHOICES.get(choice.mode, _CHOICES[ChoiceMode.AUTO])


def _said(exchange: TextExchange) -> list[bytes]:
    assistant = b'{"role":"assistant","content":[' + text_block(exchange.said) + b"]}"
    return [assistant, user_message([text_block(exchange.reply)])]
