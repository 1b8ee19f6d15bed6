"""Edits a request of Gemini's API by splices: what is not changed keeps its bytes and its place."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

import orjson

from proxy.core import json_text
from proxy.core.json_text import Span, Splice, quoted
from proxy.core.messages import (
    ChoiceMode,
    Exchange,
    Malformed,
    MissingResult,
    RequestEdit,
    ResultText,
    Role,
    TextExchange,
)

from .gemini_parts import (
    Json,
    is_call,
    member,
    object_member,
    refusal_part,
    response_with,
    spelled_in,
)
from .gemini_request import (
    COMPUTER,
    EXCLUDED,
    camel,
    contents_of,
    entries_of,
    hosted_tools,
    messages_of,
    parts_of,
    predefined,
)
from .values import dumped, objects, text

_MODES = {
    ChoiceMode.NONE: "NONE",
    ChoiceMode.AUTO: "AUTO",
    ChoiceMode.REQUIRED: "ANY",
    ChoiceMode.NAMED: "ANY",
}


def edit_request(body: bytes, edit: RequestEdit) -> bytes:
    """The request with the edit spliced in. Raises Malformed where the body is no request of this dialect."""
    if not edit:
        return body
    try:
        draft = _Draft(body, orjson.loads(body))
        draft.choose_tools(edit)
        draft.lower_output(edit)
        draft.converse(edit)
        return json_text.spliced(body, draft.splices())
    except Malformed:
        raise
    except (ValueError, AttributeError, TypeError, LookupError):
        raise Malformed("the body is no request that can be edited") from None


class _Draft:
    """The edits so far."""

    def __init__(self, body: bytes, request: Json) -> None:
        self._body = body
        self._request = request
        self._top = json_text.members(body)
        self._drop: set[str] = set()
        self._put: dict[str, bytes] = {}
        self._inner: list[Splice] = []
        self._contents: tuple[Span, ...] | None = None  # where they stand, once somebody asks
        self._parts: dict[int, tuple[Span, ...]] = {}

    def splices(self) -> list[Splice]:
        return self._inner + json_text.object_edit(self._top, drop=self._drop, put=self._put)

    # --- tools ---

    def choose_tools(self, edit: RequestEdit) -> None:
        """Takes out the tools that do not stay, then sees to the tool choice."""
        left = self._narrow(edit.keep_tools) if edit.keep_tools is not None else None
        spelled = spelled_in(self._request, "toolConfig")
        config = object_member(object_member(self._request, "toolConfig"), "functionCallingConfig")
        if edit.tool_choice is not None and "tools" in self._request and "tools" not in self._drop:
            wanted: Json = {"mode": _MODES[edit.tool_choice.mode]}
            if edit.tool_choice.names:
                wanted["allowedFunctionNames"] = list(edit.tool_choice.names)
            self._set_config(spelled, wanted)
        elif left is not None and config:
            names = member(config, "allowedFunctionNames")
            listed = [name for name in names if isinstance(name, str)] if isinstance(names, list) else []
            kept = [name for name in listed if name in left]
            if not left:
                self._set_config(spelled, None)
            elif len(kept) < len(listed):
                narrowed = {**config, spelled_in(config, "allowedFunctionNames"): kept}
                self._set_config(spelled, narrowed if kept else {"mode": "AUTO"})

    def _set_config(self, spelled: str, config: Json | None) -> None:
        outer = dict(object_member(self._request, "toolConfig"))
        outer.pop(spelled_in(outer, "functionCallingConfig"), None)
        if config is not None:
            outer["functionCallingConfig"] = config
        if outer:
            self._put[spelled] = dumped(outer)
        else:
            self._drop.add(spelled)

    def _narrow(self, keep: Collection[str]) -> set[str]:
        """The names of functions that are left."""
        if member(self._request, "cachedContent") and "cachedContent" not in keep:
            # Instructions and a part of the conversation are kept there as well: without it, it is another request.
            raise Malformed(
                "cachedContent may not be used here, since it may hold tools: send what it holds, or have it allowed"
            )
        entries = entries_of(self._request)
        left: set[str] = set()
        made: list[bytes | None] = []
        for entry in entries:
            narrowed = self._entry(entry, keep, left)
            made.append(dumped(narrowed) if narrowed else None)
        if entries and not any(made):
            self._drop.add("tools")
        elif isinstance(self._request.get("tools"), list):
            array = json_text.elements(self._body, self._top.values["tools"].start)
            gone = {place for place, one in enumerate(made) if one is None}
            changed = [
                json_text.replaced(array.values[place], one)
                for place, one in enumerate(made)
                if one is not None and orjson.loads(one) != entries[place]
            ]
            self._inner += changed + json_text.array_edit(array, drop=gone)
        elif made and made[0] is not None and orjson.loads(made[0]) != entries[0]:
            self._put["tools"] = made[0]
        return left

    def _entry(self, entry: Json, keep: Collection[str], left: set[str]) -> Json:
        kept: Json = {}
        for key, value in entry.items():
            if camel(key) == "functionDeclarations":
                declared = objects(value if isinstance(value, list) else [value])  # null declares nothing
                stay = [one for one in declared if one.get("name") in keep]
                left.update(one["name"] for one in stay)
                if stay:
                    kept[key] = stay
            elif value is not None and all(tool.name in keep for tool in hosted_tools(key, value)):
                narrowed = _computer(value, keep, left) if camel(key) == COMPUTER else value
                if narrowed is not None:
                    kept[key] = narrowed
        return kept

    def lower_output(self, edit: RequestEdit) -> None:
        """The cap becomes no larger."""
        if edit.max_output is None:
            return
        spelled = spelled_in(self._request, "generationConfig")
        config = object_member(self._request, "generationConfig")
        cap = spelled_in(config, "maxOutputTokens")
        now = config.get(cap)
        if isinstance(now, int | float) and now <= edit.max_output:
            return
        place = self._top.values.get(spelled)
        if place is None or not isinstance(self._request.get(spelled), dict):
            self._put[spelled] = dumped({"maxOutputTokens": edit.max_output})
            return
        members = json_text.members(self._body, place.start)
        self._inner += json_text.object_edit(members, put={cap: b"%d" % edit.max_output})

    # --- the conversation ---

    def converse(self, edit: RequestEdit) -> None:
        """Results, refused turns and the note, behind all that came."""
        self._replace_results(edit.results)
        contents = contents_of(self._request)
        inserts = self._missing(edit.missing_results)
        tail = [part for exchange in edit.exchanges for part in _exchange(exchange)]
        is_list = isinstance(self._request.get("contents"), list)
        if edit.note and tail:
            tail[-1] = tail[-1][: -len(b"]}")] + b"," + _text(edit.note) + b"]}"
        elif edit.note and not (is_list and self._noted(contents, edit.note, inserts)):
            tail.append(_user([_text(edit.note)]))
        if is_list:
            array = json_text.elements(self._body, self._top.values["contents"].start)
            for place, parts in inserts.items():
                end = array.values[place].end
                self._inner.append(Splice(end, end, b"," + _user(parts)))
            self._inner += json_text.array_edit(array, append=tail)
        elif tail or inserts:
            span = self._top.values["contents"]
            behind = [_user(parts) for parts in inserts.values()] + tail
            self._inner.append(Splice(span.start, span.start, b"["))
            self._inner.append(Splice(span.end, span.end, b"".join(b"," + one for one in behind) + b"]"))

    def _missing(self, missing: Sequence[MissingResult]) -> dict[int, list[bytes]]:
        """Puts results at the head of the user content that follows; where none does, gives new ones to insert."""
        if not missing:
            return {}
        messages = list(messages_of(self._request))
        results: dict[int, list[bytes]] = {}
        wire: dict[int, set[str]] = {}
        for one in missing:
            place = messages[one.message_index][0]
            if place not in wire:
                calls = self._calls_at(place)
                wire[place] = {text(object_member(part, "functionCall").get("id")) for part in calls}
            with_id = one.call.id in wire[place]
            results.setdefault(place, []).append(refusal_part(one.call, one.text, with_id=with_id))
        inserts: dict[int, list[bytes]] = {}
        roles = {place: message.role for place, message in messages}
        for place, parts in results.items():
            following = self._list_of_parts(place + 1) if roles.get(place + 1) is Role.USER else None
            if following is not None:
                comma = b"," if json_text.elements(self._body, following.start).values else b""
                at = following.start + 1
                self._inner.append(Splice(at, at, b",".join(parts) + comma))
            else:
                inserts[place] = parts
        return inserts

    def _content(self, place: int) -> Span:
        """Where a content stands."""
        if self._contents is None:
            given = self._top.values["contents"]
            is_list = self._body[given.start : given.start + 1] == b"["
            self._contents = json_text.elements(self._body, given.start).values if is_list else (given,)
        return self._contents[place]

    def _list_of_parts(self, place: int) -> Span | None:
        """Where the parts of a content stand; None where they are no list."""
        parts = json_text.locate(self._body, "parts", at=self._content(place).start)
        is_list = parts is not None and self._body[parts.start : parts.start + 1] == b"["
        return parts if is_list else None

    def _part(self, place: int, number: int) -> Span:
        """Where a part of a content stands."""
        if place not in self._parts:
            parts = json_text.locate(self._body, "parts", at=self._content(place).start)
            if parts is None:
                raise Malformed("a content has no parts")
            is_list = self._body[parts.start : parts.start + 1] == b"["
            self._parts[place] = json_text.elements(self._body, parts.start).values if is_list else (parts,)
        return self._parts[place][number]

    def _calls_at(self, place: int) -> list[Json]:
        return [part for part in parts_of(contents_of(self._request)[place]) if is_call(part)]

    def _noted(self, contents: Sequence[Json], note: str, inserts: Collection[int]) -> bool:
        """The note as a part of the last content, if that is the user's."""
        last = len(contents) - 1
        if last < 0 or last in inserts or text(contents[last].get("role")) == "model":
            return False
        place = self._list_of_parts(last)
        if place is None:
            return False
        self._inner += json_text.array_edit(json_text.elements(self._body, place.start), append=[_text(note)])
        return True

    def _replace_results(self, results: Sequence[ResultText]) -> None:
        messages = list(messages_of(self._request)) if results else []
        contents = contents_of(self._request) if results else []
        answering: dict[int, list[tuple[int, str]]] = {}
        for result in results:
            place = messages[result.message_index][0]
            if place not in answering:
                answering[place] = [
                    (n, spelled_in(part, "functionResponse"))
                    for n, part in enumerate(parts_of(contents[place]))
                    if member(part, "functionResponse") is not None
                ]
            number, spelled = answering[place][result.result_index]
            holder = json_text.locate(self._body, spelled, at=self._part(place, number).start)
            if holder is None:
                continue
            old = messages[result.message_index][1].results[result.result_index]
            members = json_text.members(self._body, holder.start)
            self._inner += json_text.object_edit(
                members, put={"response": response_with(result.text, is_error=old.is_error)}
            )


def _computer(computer: object, keep: Collection[str], left: set[str]) -> object:
    """A computer less the functions that do not stay; None: none of them does. `left` is changed in place."""
    stay = [name for name in predefined(computer) if name in keep]
    left.update(stay)
    hidden = [name for name in predefined(computer) if name not in keep]
    if not stay or not hidden or not isinstance(computer, dict):
        return computer if stay else None
    spelled = spelled_in(computer, EXCLUDED)
    already = computer.get(spelled)
    return {**computer, spelled: [*(already if isinstance(already, list) else []), *hidden]}


def _text(said: str) -> bytes:
    return b'{"text":' + quoted(said) + b"}"


def _user(parts: Sequence[bytes]) -> bytes:
    return b'{"role":"user","parts":[' + b",".join(parts) + b"]}"


def _exchange(exchange: Exchange | TextExchange) -> Iterator[bytes]:
    if isinstance(exchange, TextExchange):
        yield b'{"role":"model","parts":[' + _text(exchange.said) + b"]}"
        yield _user([_text(exchange.reply)])
        return
    parts = [part for part in objects(orjson.loads(exchange.message).get("parts")) if is_call(part)]
    wire = {text(object_member(part, "functionCall").get("id")) for part in parts}
    first = min((call.key[0] for call, _ in exchange.results), default=0)
    yield exchange.message
    yield _user(
        [
            refusal_part(call, said, with_id=call.id in wire)
            for call, said in exchange.results
            if call.key[0] == first
        ]
    )
