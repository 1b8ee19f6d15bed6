"""The words of Ollama's own chat API: what a call, a usage record and an error look like.

Laws: the text of a call's arguments is the very stretch of the wire; what two readers could take differently (a key
that occurs twice, or in other letters than these, which Go's readers take for the same) is Malformed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from proxy.core import json_text
from proxy.core.fingerprint import call_fingerprint
from proxy.core.json_text import Members, Span, quoted
from proxy.core.messages import CallKey, Malformed, Problem, ToolCall, Usage

from .values import count, dumped, loaded, text

Json = dict[str, Any]

ORDINARY_FINISH = "stop"
APART = "\n\n"
TOP = frozenset({"message", "done", "done_reason", "error", "model", "prompt_eval_count", "eval_count"})
MESSAGE = frozenset({"role", "content", "thinking", "tool_calls", "images", "tool_name", "tool_call_id"})
_ENTRY = frozenset({"id", "type", "function"})
_FUNCTION = frozenset({"name", "arguments", "index"})
_SHOWN_IN_AN_ID = 20


def exact(keys: Mapping[str, object], known: frozenset[str]) -> None:
    """Nothing, where each known key is written exactly so. Raises Malformed: Ollama and its clients in Go read `Tools` as
    `tools`, others do not."""
    for key in keys:
        if key not in known and key.casefold() in known:
            raise Malformed(f"the key {key.casefold()} has to be written in exactly these letters")


@dataclass(frozen=True, slots=True)
class WireCall:
    """An entry of `tool_calls`. `id` is the wire's own, mostly none: most clients drop it."""

    id: str
    name: str
    arguments: str


@dataclass(slots=True)
class CallIds:
    """Names the calls of one answer by what they say, since neither servers nor clients keep ids: the same when the
    answer is released and when it comes back in a history."""

    _seen: Counter[str] = field(default_factory=Counter)

    def call(self, found: WireCall, key: CallKey) -> ToolCall:
        """The call with its id: a digest of name and arguments, and a number from the second such call on."""
        digest = call_fingerprint(found.name, found.arguments)[:_SHOWN_IN_AN_ID]
        again = self._seen[digest]
        self._seen[digest] += 1
        return ToolCall(f"call_{digest}{f'_{again}' if again else ''}", found.name, found.arguments, key)


def object_at(body: bytes, place: Span, known: frozenset[str], what: str) -> Members:
    """The members of the object there. Raises Malformed where there is none that all readers read alike."""
    try:
        found = json_text.members(body, place.start)
    except ValueError:
        raise Malformed(f"{what} has to be one object in which no key occurs twice") from None
    exact(found.values, known)
    return found


def wire_calls(body: bytes, message: Members) -> list[WireCall]:
    """The calls in a message of an answer, in order. Raises Malformed where one cannot be read."""
    place = message.values.get("tool_calls")
    if place is None or place.cut(body) == b"null":
        return []
    try:
        entries = json_text.elements(body, place.start).values
    except ValueError:
        raise Malformed("tool_calls has to be a list") from None
    return [_wire_call(body, entry) for entry in entries]


def _wire_call(body: bytes, place: Span) -> WireCall:
    entry = object_at(body, place, _ENTRY, "an entry of tool_calls")
    at = entry.values.get("function")
    if at is None:
        raise Malformed("an entry of tool_calls has to hold its function")
    function = object_at(body, at, _FUNCTION, "the function of a call")
    name = _value(body, function, "name")
    if not isinstance(name, str):
        raise Malformed("the name of a tool call has to be text")
    said = function.values.get("arguments")
    arguments = said.cut(body).decode() if said else ""
    if arguments[:1] == '"':  # some servers send them as text
        arguments = text(_value(body, function, "arguments"))
    return WireCall(text(_value(body, entry, "id")), name, "" if arguments == "null" else arguments)


def _value(body: bytes, members: Members, key: str) -> object:
    place = members.values.get(key)
    return loaded(place.cut(body)) if place else None


def history_calls(message: Json) -> list[WireCall]:
    """The calls in a message of a history. Raises Malformed where one cannot be read."""
    entries = message.get("tool_calls")
    if entries is None:
        return []
    if not isinstance(entries, list):
        raise Malformed("tool_calls has to be a list")
    found = []
    for entry in entries:
        function = entry.get("function") if isinstance(entry, dict) else None
        if not isinstance(function, dict) or not isinstance(function.get("name"), str):
            raise Malformed("each entry of tool_calls has to hold a function with a name")
        exact(entry, _ENTRY)
        exact(function, _FUNCTION)
        arguments = function.get("arguments")
        said = (
            arguments
            if isinstance(arguments, str)
            else ""
            if arguments is None
            else dumped(arguments).decode()
        )
        found.append(WireCall(text(entry.get("id")), function["name"], said))
    return found


# --- what is taken out and put in -----------------------------------------------------------------------------------


def calls_edit(
    body: bytes, message: Members, gone: frozenset[int], first: int | None
) -> list[json_text.Splice]:
    """Entries of `tool_calls` taken out by place; those that stay are numbered from `first` on (None: as they are)."""
    place = message.values.get("tool_calls")
    if place is None or place.cut(body) == b"null":
        return []
    array = json_text.elements(body, place.start)
    splices = json_text.array_edit(array, drop=gone) if gone else []
    kept = [entry for at, entry in enumerate(array.values) if at not in gone]
    for number, entry in enumerate(kept if first is not None else (), first or 0):
        index = json_text.locate(entry.cut(body), "function", "index")
        if index is not None and index.cut(entry.cut(body)) != b"%d" % number:
            span = Span(entry.start + index.start, entry.start + index.end)
            splices.append(json_text.replaced(span, b"%d" % number))
    return splices


def usage_edit(body: bytes, top: Members, more: Usage | None) -> list[json_text.Splice]:
    """The token counts with those of other answers added."""
    if more is None:
        return []
    put = {
        key: b"%d" % (count(_value(body, top, key)) + tokens)
        for key, tokens in usage_record(more).items()
        if key in top.values or tokens
    }
    return json_text.object_edit(top, put=put)


# --- usage, errors ---------------------------------------------------------------------------------------------------


def usage_of(answer: Json) -> Usage | None:
    """The tokens of an answer; None where it tells none."""
    if answer.get("prompt_eval_count") is None and answer.get("eval_count") is None:
        return None
    return Usage(count(answer.get("prompt_eval_count")), count(answer.get("eval_count")))


def usage_record(usage: Usage) -> dict[str, int]:
    """Usage as this dialect writes it."""
    return {"prompt_eval_count": usage.input_tokens, "eval_count": usage.output_tokens}


def problem_of(error: object) -> Problem:
    """The error that the server reports inside an answer: a plain text."""
    said = error if isinstance(error, str) and error else "The provider reported an error in its answer."
    return Problem(502, "upstream_error", said)


def error_body(problem: Problem) -> bytes:
    """An error as the official clients read it: a text; what is for programs stands beside it."""
    return dumped(
        {
            "error": problem.message,
            "code": problem.code,
            **{key: value for key, value in problem.fields.items() if key not in {"error", "code"}},
        }
    )


def said_message(content: str) -> bytes:
    """An assistant's message with this text."""
    return b'{"role":"assistant","content":' + quoted(content) + b"}"
