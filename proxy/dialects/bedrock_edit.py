"""Edits a request of the Converse API by splices: what is not changed keeps its bytes and its place.

Laws: results stand at the head of the user message that follows their call; new messages come behind all others. The
API has no tool choice `none`, and wants a tool where the history has calls: a model that may not call is told so in
words, and one whose tools are all taken away is offered one that is nobody's.
"""

from __future__ import annotations

from collections.abc import Sequence

import orjson

from proxy.core import json_text
from proxy.core.json_text import Elements, Splice, quoted
from proxy.core.messages import (
    ChoiceMode,
    Exchange,
    Malformed,
    MissingResult,
    RequestEdit,
    ResultText,
    TextExchange,
)

from .bedrock_parts import Json, is_text_block, object_of, text_block
from .bedrock_request import PLACEHOLDER, has_system, read_tool
from .texts import content_with
from .typed import listed
from .values import dumped, text

_NOBODYS = {
    "toolSpec": {
        "name": PLACEHOLDER,
        "description": "No tool is available. Do not call this.",
        "inputSchema": {"json": {"type": "object", "properties": {}}},
    }
}
_THOUGHT_ALONE = 1024
"""The smallest thinking budget that the provider accepts; it has to be below the cap of the output."""


def edit_request(body: bytes, edit: RequestEdit) -> bytes:
    """The request with the edit spliced in. Raises Malformed where the body is no request of this dialect."""
    if not edit:
        return body
    try:
        draft = _Draft(body)
        draft.choose_tools(edit)
        if edit.max_output is not None:
            draft.lower_output(edit.max_output)
        draft.converse(edit)
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
        place = self._top.values.get("messages")
        self._messages: list[Json] = listed(self._request, "messages")
        self._places = json_text.elements(body, place.start) if place else Elements(self._top.span)

    def splices(self) -> list[Splice]:
        return self._inner + json_text.object_edit(self._top, drop=self._drop, put=self._put)

    # --- tools ---

    def choose_tools(self, edit: RequestEdit) -> None:
        """Takes out the tools that do not stay (cache marks do), and a choice that cannot hold any more."""
        config = self._request.get("toolConfig")
        if not isinstance(config, dict):
            return
        tools = [read_tool(entry) for entry in listed(config, "tools")]
        keep = edit.keep_tools
        gone = {at for at, tool in enumerate(tools) if tool and keep is not None and tool.name not in keep}
        left = {tool.name for at, tool in enumerate(tools) if tool and at not in gone}
        if gone and not left:
            self._put_nobodys_tool()
            return
        members = json_text.members(self._body, self._top.values["toolConfig"].start)
        if gone:
            array = json_text.elements(self._body, members.values["tools"].start)
            self._inner += json_text.array_edit(array, drop=gone)
        choice = object_of(config.get("toolChoice"))
        wanted = edit.tool_choice
        if wanted is not None and wanted.mode is not ChoiceMode.NONE:
            named = {"tool": {"name": wanted.names[0]}} if wanted.names else {"any": {}}
            written = {"auto": {}} if wanted.mode is ChoiceMode.AUTO else named
            self._inner += json_text.object_edit(members, put={"toolChoice": dumped(written)})
        elif "toolChoice" in config and (
            (wanted is not None and "auto" not in choice)
            or ("tool" in choice and text(object_of(choice["tool"]).get("name")) not in left)
        ):
            self._inner += json_text.object_edit(members, drop={"toolChoice"})

    def _put_nobodys_tool(self) -> None:
        blocks = [block for message in self._messages for block in listed(message, "content")]
        if any("toolUse" in block or "toolResult" in block for block in blocks):
            self._put["toolConfig"] = dumped({"tools": [_NOBODYS]})
        else:
            self._drop.add("toolConfig")

    def lower_output(self, most: int) -> None:
        """The cap becomes no larger than `most`, and a budget of thinking fits below it."""
        config = self._request.get("inferenceConfig")
        if not isinstance(config, dict):
            self._put["inferenceConfig"] = b'{"maxTokens":%d}' % most
        elif config.get("maxTokens") is None or config["maxTokens"] > most:
            members = json_text.members(self._body, self._top.values["inferenceConfig"].start)
            self._inner += json_text.object_edit(members, put={"maxTokens": b"%d" % most})
        more = object_of(self._request.get("additionalModelRequestFields"))
        budget = object_of(more.get("thinking")).get("budget_tokens")
        if isinstance(budget, int) and budget >= most:
            members = json_text.members(self._body, self._top.values["additionalModelRequestFields"].start)
            lower = max(_THOUGHT_ALONE, most // 2)
            thinking = {**more["thinking"], "budget_tokens": lower} if lower < most else {"type": "disabled"}
            self._inner += json_text.object_edit(members, put={"thinking": dumped(thinking)})

    # --- the conversation ---

    def converse(self, edit: RequestEdit) -> None:
        """Other texts for results, missing results behind their calls, exchanges at the end, the note last of all."""
        self._replace_results(edit.results)
        tail = self._add_missing(edit.missing_results)
        for exchange in edit.exchanges:
            tail += _exchange_messages(exchange)
        if edit.note and tail:
            tail[-1] = tail[-1][: -len(b"]}")] + b"," + text_block(edit.note) + b"]}"
        elif edit.note and self._messages and self._messages[-1].get("role") == "user":
            place = json_text.members(self._body, self._places.values[-1].start).values["content"]
            array = json_text.elements(self._body, place.start)
            self._inner += json_text.array_edit(array, append=[text_block(edit.note)])
        elif edit.note:
            tail.append(_user_message([text_block(edit.note)]))
        if tail and "messages" in self._top.values:
            self._inner += json_text.array_edit(self._places, append=tail)
        elif tail:
            self._put["messages"] = b"[" + b",".join(tail) + b"]"

    def _replace_results(self, results: Sequence[ResultText]) -> None:
        for result in results:
            place = result.message_index - has_system(self._request)
            blocks = listed(self._messages[place], "content")
            at = [number for number, block in enumerate(blocks) if "toolResult" in block]
            block = json_text.locate(
                self._body, "messages", place, "content", at[result.result_index], "toolResult"
            )
            if block is None:
                continue
            members = json_text.members(self._body, block.start)
            content = members.values.get("content")
            written = b"[" + text_block(result.text) + b"]"
            if content is not None:
                written = content_with(
                    self._body, content, result.text, _is_readable, text_block, keep_empty=True
                )
            self._inner += json_text.object_edit(members, put={"content": written})

    def _add_missing(self, missing: Sequence[MissingResult]) -> list[bytes]:
        """Puts results at the head of the user messages that follow; gives messages to add at the end."""
        results: dict[int, list[bytes]] = {}
        for entry in missing:
            place = entry.message_index - has_system(self._request)
            results.setdefault(place, []).append(_result_block(entry.call.id, entry.text))
        tail = []
        for place, blocks in results.items():
            follows = self._messages[place + 1] if place + 1 < len(self._messages) else {}
            if follows.get("role") == "user":
                span = json_text.members(self._body, self._places.values[place + 1].start).values["content"]
                comma = b"," if follows["content"] else b""
                self._inner.append(Splice(span.start + 1, span.start + 1, b",".join(blocks) + comma))
            elif follows:
                end = self._places.values[place].end
                self._inner.append(Splice(end, end, b"," + _user_message(blocks)))
            else:
                tail.append(_user_message(blocks))
        return tail


def _is_readable(part: object) -> bool:
    """A part of a result that a model reads as text."""
    return is_text_block(part) or (isinstance(part, dict) and "json" in part)


def _result_block(call_id: str, said: str) -> bytes:
    """A result. Not marked as an error: some models do not take that."""
    return b'{"toolResult":{"toolUseId":' + quoted(call_id) + b',"content":[' + text_block(said) + b"]}}"


def _user_message(blocks: Sequence[bytes]) -> bytes:
    return b'{"role":"user","content":[' + b",".join(blocks) + b"]}"


def _exchange_messages(exchange: Exchange | TextExchange) -> list[bytes]:
    if isinstance(exchange, TextExchange):
        said = b'{"role":"assistant","content":[' + text_block(exchange.said) + b"]}"
        return [said, _user_message([text_block(exchange.reply)])]
    results = [_result_block(call.id, said) for call, said in exchange.results]
    return [exchange.message, _user_message(results)]
