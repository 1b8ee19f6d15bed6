"""Edits a request of the Responses API by splices: what is not changed keeps its bytes and its place.

Laws: what is new comes behind all else, so that a provider's prefix cache holds; where the provider keeps the history,
refusals go to the answer that holds the refused calls, so that none is left without a result.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Any

import orjson

from proxy.core import json_text
from proxy.core.json_text import Elements, Splice, quoted
from proxy.core.messages import (
    ChoiceMode,
    Exchange,
    Malformed,
    RequestEdit,
    TextExchange,
    ToolChoice,
)

from .openai_responses_items import (
    Item,
    Json,
    is_text_part,
    output_item,
    type_of,
)
from .openai_responses_request import (
    chosen_name,
    hidden_tools,
    input_items,
    messages_of,
    read_choice,
    tools_of,
)
from .texts import content_with
from .values import dumped, objects, text

_APART = "\n\n"
_TOOL_MEMBERS = ("tools", "tool_choice", "parallel_tool_calls")


def edit_request(body: bytes, edit: RequestEdit) -> bytes:
    """The request with the edit spliced in. Raises Malformed where the body is no request of this dialect."""
    if not edit:
        return body
    try:
        draft = _Draft(body, orjson.loads(body))
        draft.choose_tools(edit)
        draft.converse(edit)
        if edit.max_output is not None:
            draft.lower_output(edit.max_output)
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

    def splices(self) -> list[Splice]:
        return self._inner + json_text.object_edit(self._top, drop=self._drop, put=self._put)

    # --- tools ---

    def choose_tools(self, edit: RequestEdit) -> None:
        """Takes out the tools that do not stay, then sees to the tool choice."""
        left = self._narrow(edit.keep_tools) if edit.keep_tools is not None else None
        if self._request.get("prompt") is not None and left is not None:
            name = f"prompt.{text(self._request['prompt'].get('id'))}"
            if name not in (edit.keep_tools or ()):
                raise Malformed(
                    "a prompt of the provider may not be used here, and a request cannot go without it"
                )
        hidden = any(map(hidden_tools, input_items(self._request)))
        if "tool_choice" in self._drop or not (objects(self._request.get("tools")) or hidden):
            return
        if edit.tool_choice is not None:
            self._put["tool_choice"] = dumped(_choice(edit.tool_choice))
        elif left is not None:
            self._correct_choice(left)

    def _narrow(self, keep: Collection[str]) -> set[str]:
        """The names that are left in `tools`."""
        tools = objects(self._request.get("tools"))
        gone, left = _gone(tools, keep)
        hidden = [tool for item in input_items(self._request) for tool in hidden_tools(item)]
        left |= _gone(hidden, keep)[1]
        if not left:
            self._drop.update(_TOOL_MEMBERS)
        elif tools and len(gone) == len(tools):
            self._drop.add("tools")
        elif tools:
            self._inner += _narrowed(
                self._body, json_text.elements(self._body, self._top.values["tools"].start), tools, keep
            )
        for place, item in enumerate(input_items(self._request)):
            offered = hidden_tools(item)
            span = json_text.locate(self._body, "input", place, "tools") if offered else None
            if span is not None:
                self._inner += _narrowed(
                    self._body, json_text.elements(self._body, span.start), offered, keep
                )
        return left

    def _correct_choice(self, left: set[str]) -> None:
        """A tool choice cannot name a tool that is gone."""
        value = self._request.get("tool_choice")
        names = set(read_choice(value).names)
        if names <= left:
            return
        place = json_text.locate(self._body, "tool_choice", "tools")
        if place is None or not names & left:
            self._put["tool_choice"] = b'"auto"'
            return
        listed = objects(value["tools"]) if isinstance(value, dict) else []
        gone = {at for at, tool in enumerate(listed) if chosen_name(tool) not in left}
        self._inner += json_text.array_edit(json_text.elements(self._body, place.start), drop=gone)

    def lower_output(self, most: int) -> None:
        """The cap becomes no larger than `most`."""
        now = self._request.get("max_output_tokens")
        if not isinstance(now, int) or now > most:
            self._put["max_output_tokens"] = b"%d" % most

    # --- the conversation ---

    def converse(self, edit: RequestEdit) -> None:
        """Results, refused turns and the note, each where the provider looks for it."""
        conversation = self._request.get("conversation") is not None
        if edit.previous == "":
            self._drop.update(("previous_response_id", "conversation"))
        elif edit.previous and not conversation:
            self._put["previous_response_id"] = quoted(edit.previous)
        for at in reversed(range(len(edit.exchanges))):
            exchange = edit.exchanges[at]
            if isinstance(exchange, Exchange) and self._is_kept(exchange, edit):
                self._go_on(exchange, edit, edit.exchanges[at + 1 :], in_conversation=conversation)
                return
        tail: list[bytes] = []
        for missing in edit.missing_results:
            tail += self._missing(missing.message_index, output_item(missing.call, missing.text))
        tail += [part for exchange in edit.exchanges for part in self._refused(exchange)]
        if edit.note:
            tail.append(_user_item(edit.note))
        owed = [output_item(call, said) for call, said in edit.owed]
        self._replace_results(edit)
        if (
            tail
            and not owed
            and tail == [_user_item(edit.note)]
            and isinstance(self._request.get("input"), str)
        ):
            text_ = self._top.values["input"]
            self._inner.append(json_text.appended_text(text_, _APART + edit.note))
            return
        self._add(owed, tail)

    def _is_kept(self, exchange: Exchange, edit: RequestEdit) -> bool:
        """Whether the provider keeps the answer that was refused, and all that led to it."""
        if edit.previous == "":
            return False
        if self._request.get("conversation") is not None:
            return True
        goes_on = bool(edit.previous or self._request.get("previous_response_id"))
        return goes_on and bool(exchange.answer) and self._request.get("store") is not False

    def _go_on(
        self,
        exchange: Exchange,
        edit: RequestEdit,
        later: Sequence[Exchange | TextExchange],
        *,
        in_conversation: bool,
    ) -> None:
        """The refusals alone, behind the kept answer that holds the calls; all before it is at the provider."""
        if not in_conversation:
            self._put["previous_response_id"] = quoted(exchange.answer)
        items = [output_item(call, said) for call, said in exchange.results]
        items += [part for one in later for part in self._refused(one)]
        items += [_user_item(edit.note)] if edit.note else []
        self._put["input"] = b"[" + b",".join(items) + b"]"
        self._inner = (
            [splice for splice in self._inner if not _within(splice, self._top.values["input"])]
            if "input" in self._top.values
            else self._inner
        )

    def _refused(self, exchange: Exchange | TextExchange) -> Iterator[bytes]:
        if isinstance(exchange, TextExchange):
            said = [{"type": "output_text", "text": exchange.said}]
            yield dumped({"role": "assistant", "content": said})
            yield _user_item(exchange.reply)
            return
        for item in json_text.elements(exchange.message).values:
            cut = item.cut(exchange.message)
            if self._can_return(orjson.loads(cut)):
                yield cut
        for call, said_instead in exchange.results:
            yield output_item(call, said_instead)

    def _can_return(self, item: Item) -> bool:
        """What the provider did not keep and cannot read back must not be sent."""
        if type_of(item) != "reasoning" or self._request.get("store") is not False:
            return True
        return bool(item.get("encrypted_content"))

    def _missing(self, message_index: int, written: bytes) -> list[bytes]:
        """Puts a result behind the item of a message; what belongs behind the last item is given back."""
        places = [place for place, _ in messages_of(self._request)]
        place = places[message_index]
        items = self._array()
        if items is None or place < 0 or place == len(items.values) - 1:
            return [written]
        end = items.values[place].end
        self._inner.append(Splice(end, end, b"," + written))
        return []

    def _replace_results(self, edit: RequestEdit) -> None:
        places = [place for place, _ in messages_of(self._request)] if edit.results else []
        for result in edit.results:
            place = json_text.locate(self._body, "input", places[result.message_index])
            if place is None:
                continue
            item = json_text.members(self._body, place.start)
            output = item.values.get("output")
            # What a computer shows is a picture and stays one.
            if output is not None and self._type_at(places[result.message_index]) != "computer_call_output":
                self._inner.append(json_text.replaced(output, self._output(output, result.text)))

    def _type_at(self, place: int) -> str:
        return type_of(input_items(self._request)[place])

    def _output(self, output: json_text.Span, said: str) -> bytes:
        written = orjson.loads(output.cut(self._body))
        is_parts = isinstance(written, list) and all(
            isinstance(part, dict) and "type" in part for part in written
        )
        if is_parts or not isinstance(written, list):
            return content_with(self._body, output, said, is_text_part, _input_text)
        return dumped([{"stdout": said, "stderr": "", "outcome": {"type": "exit", "exit_code": 0}}])

    def _array(self) -> Elements | None:
        span = self._top.values.get("input")
        if span is None or self._body[span.start : span.start + 1] != b"[":
            return None
        return json_text.elements(self._body, span.start)

    def _add(self, first: Sequence[bytes], last: Sequence[bytes]) -> None:
        """Items in front of the input and behind it; an input that is a text becomes an item between them."""
        if not (first or last):
            return
        array = self._array()
        span = self._top.values.get("input")
        if array is not None:
            if first:
                comma = b"," if array.values or last else b""
                start = array.span.start + 1
                self._inner.append(Splice(start, start, b",".join(first) + comma))
            self._inner += json_text.array_edit(array, append=last)
        elif span is not None and isinstance(self._request.get("input"), str):
            opening = b"[" + b"".join(item + b"," for item in first) + b'{"role":"user","content":'
            self._inner.append(Splice(span.start, span.start, opening))
            closing = b"}" + b"".join(b"," + item for item in last) + b"]"
            self._inner.append(Splice(span.end, span.end, closing))
        else:
            self._put["input"] = b"[" + b",".join([*first, *last]) + b"]"


def _within(splice: Splice, span: json_text.Span) -> bool:
    return span.start <= splice.start and splice.end <= span.end


def _user_item(said: str) -> bytes:
    return dumped({"role": "user", "content": said})


def _input_text(said: str) -> bytes:
    return b'{"type":"input_text","text":' + quoted(said) + b"}"


def _gone(tools: Sequence[Json], keep: Collection[str]) -> tuple[set[int], set[str]]:
    """The places of entries of which nothing stays, and the names that do."""
    gone: set[int] = set()
    left: set[str] = set()
    for place, tool in enumerate(tools):
        kept = {one.name for one in tools_of(tool)} & set(keep)
        left |= kept
        if not kept:
            gone.add(place)
    return gone, left


def _narrowed(body: bytes, array: Elements, tools: Sequence[Json], keep: Collection[str]) -> list[Splice]:
    """Takes out entries, and single tools of a namespace."""
    gone, _ = _gone(tools, keep)
    splices = json_text.array_edit(array, drop=gone)
    for place, tool in enumerate(tools):
        if place in gone or tool.get("type") != "namespace":
            continue
        inner = objects(tool.get("tools"))
        prefix = f"{text(tool.get('name'))}."
        drop = {
            at
            for at, one in enumerate(inner)
            if not any(f"{prefix}{made.name}" in keep for made in tools_of(one))
        }
        span = json_text.members(body, array.values[place].start).values["tools"]
        splices += json_text.array_edit(json_text.elements(body, span.start), drop=drop)
    return splices


def _choice(choice: ToolChoice) -> Any:
    if choice.mode is not ChoiceMode.NAMED and not choice.names:
        return choice.mode.value
    named = [{"type": "function", "name": name} for name in choice.names]
    if choice.mode is ChoiceMode.NAMED:
        return named[0]
    return {"type": "allowed_tools", "mode": choice.mode.value, "tools": named}
