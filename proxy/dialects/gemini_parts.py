"""The words of Gemini's API: parts of a content, and what of them is a call, a result, or what the provider ran itself.

Laws: members are read in camelCase and in snake_case, as the API does, and never both; calls mostly have no ids, so they
are named by what they say; arguments are the very stretch of the wire.
Source: https://ai.google.dev/api/generate-content and https://ai.google.dev/api/caching#Part
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from proxy.core import json_text
from proxy.core.fingerprint import call_fingerprint
from proxy.core.messages import CallKey, Malformed, Problem, ToolCall, ToolKind, ToolResult, Usage

from .values import count, dumped, objects, text

Json = dict[str, Any]
Holder = Mapping[str, Any]

ORDINARY_FINISH = "STOP"
APART = "\n\n"
_UNFINISHED = frozenset({"", "0", "FINISH_REASON_UNSPECIFIED"})
_CALL_FINISH = frozenset({"UNEXPECTED_TOOL_CALL", "MALFORMED_FUNCTION_CALL", "TOO_MANY_TOOL_CALLS"})
_NO_LETTER = re.compile(r"[^a-z]")
_CALLS = frozenset({"functioncall", "functioncalls"})
_OF_A_CALL = frozenset({"id", "name", "args"})
_DATA = frozenset({"text", "function_response", "executable_code", "tool_call", "inline_data"})
OPAQUE = frozenset({"function_call", "function_response", "tool_call", "tool_response"})
"""Members of a part in which anything may stand: arguments and results."""
MAY_CALL = re.compile(rb"function|\\u00[2-7]", re.IGNORECASE)
"""Only a text with one of these can hold a call; keys may be spelled with escapes of plain letters."""
_HOSTED = {"toolCall": "toolCall", "executableCode": "codeExecution"}
"""What the provider ran, and the tool that it was switched on with."""
_SHOWN_IN_AN_ID = 20
_UPPER = re.compile(r"(?<!^)(?=[A-Z])")
_STATUS = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    408: "DEADLINE_EXCEEDED",
    429: "RESOURCE_EXHAUSTED",
    500: "INTERNAL",
    503: "UNAVAILABLE",
    504: "DEADLINE_EXCEEDED",
}


def snake(name: str) -> str:
    """`functionCall` as `function_call`."""
    return _UPPER.sub("_", name).lower()


def spelled_in(holder: Holder, name: str) -> str:
    """How the member is spelled here; as given where it is absent. Raises Malformed where it is there twice."""
    other = snake(name)
    if other != name and other in holder:
        if name in holder:
            raise Malformed(f"{name} and {other} are the same member: one of them has to go")
        return other
    return name


def member(holder: Holder, name: str) -> Any:
    """The member in either spelling, or None."""
    return holder.get(spelled_in(holder, name))


def object_member(holder: Holder, name: str) -> Json:
    """The member that is an object; empty where it is none."""
    value = member(holder, name)
    return value if isinstance(value, dict) else {}


@dataclass(slots=True)
class CallNames:
    """Names calls by what they say, since mostly neither the API nor clients keep ids: the same when an answer is released
    and when it comes back in a history."""

    _seen: Counter[str] = field(default_factory=Counter)

    def call(self, wire_id: str, name: str, arguments: str, key: CallKey) -> ToolCall:
        """The call; its id is the wire's own, else a digest, with a number from the second such call of an answer on."""
        if wire_id:
            return ToolCall(wire_id, name, arguments, key)
        digest = call_fingerprint(name, arguments)[:_SHOWN_IN_AN_ID]
        again = self._seen[digest]
        self._seen[digest] += 1
        return ToolCall(f"call_{digest}{f'_{again}' if again else ''}", name, arguments, key)


def holds_call(holder: Holder) -> bool:
    """A member is a call, or may be one for some client."""
    return any(_NO_LETTER.sub("", key.lower()) in _CALLS and holder[key] not in (None, {}) for key in holder)


def is_call(part: Holder) -> bool:
    """The part is a call that the agent runs. Raises Malformed where clients may differ about what it is."""
    spelled = spelled_in(part, "functionCall")
    if holds_call({key: value for key, value in part.items() if key != spelled}):
        raise Malformed("a part holds a call where not every client looks for it")
    said = part.get(spelled)
    if said is None:
        return False
    if isinstance(said, dict) and any(key.lower() in _OF_A_CALL and key not in _OF_A_CALL for key in said):
        raise Malformed("a member of a call is not one that every client reads")
    if any(snake(key) in _DATA and value not in (None, "") for key, value in part.items()):
        raise Malformed("a part is a call and something else as well")
    return True


def is_visible(part: Holder) -> bool:
    """The part is text that the user reads: no thought."""
    return isinstance(part.get("text"), str) and part.get("thought") is not True


def said_in(parts: object, between: str = "") -> str:
    """The visible text of parts."""
    return between.join(text(part.get("text")) for part in objects(parts) if is_visible(part))


def arguments_at(body: bytes, *path: str | int, at: int = 0) -> str:
    """The arguments of the call at this path, as they stand on the wire; absent ones are none. The path begins at `at`."""
    place = json_text.locate(body, *path, at=at)
    if place is None:
        return ""
    if body[place.start : place.start + 1] != b"{":
        return place.cut(body).decode("utf-8", "surrogatepass") if place.cut(body) != b"null" else ""
    return place.cut(body).decode("utf-8", "surrogatepass")


def hosted_call(part: Holder, place: int) -> ToolCall | None:
    """What the provider says that it has run."""
    for kind, tool in _HOSTED.items():
        said = member(part, kind)
        if isinstance(said, dict):
            name = text(said.get("toolType")) or text(said.get("name")) or tool
            return ToolCall(text(said.get("id")), name, dumped(said).decode(), (0, place), ToolKind.HOSTED)
    return None


# --- results ---------------------------------------------------------------------------------------------------------

_RESULT_KEYS = ("output", "result")


def result_of(response: object, call_id: str) -> ToolResult:
    """The result in a `functionResponse`: its one text, or all that it says as JSON."""
    if not isinstance(response, dict):
        return ToolResult(call_id, "" if response is None else dumped(response).decode())
    is_error = bool(response.get("error")) and not any(key in response for key in _RESULT_KEYS)
    if len(response) == 1:
        ((key, value),) = response.items()
        if isinstance(value, str) and key in {*_RESULT_KEYS, "error"}:
            return ToolResult(call_id, value, is_error)
    return ToolResult(
        call_id, dumped(response).decode("utf-8", "surrogatepass") if response else "", is_error
    )


def response_with(said: str, *, is_error: bool) -> bytes:
    """A response that reads as this text."""
    return (b'{"error":' if is_error else b'{"result":') + json_text.quoted(said) + b"}"


def refusal_part(call: ToolCall, said: str, *, with_id: bool) -> bytes:
    """The result of a refused call: an explicit error."""
    identified = b'"id":' + json_text.quoted(call.id) + b"," if with_id else b""
    name = json_text.quoted(call.name)
    return (
        b'{"functionResponse":{'
        + identified
        + b'"name":'
        + name
        + b',"response":{"error":'
        + json_text.quoted(said)
        + b"}}}"
    )


# --- the rest of an answer ---------------------------------------------------------------------------------------------


def finish_of(candidate: Holder) -> str:
    """How it ended; empty: it has not yet. Some servers send the number of the word."""
    word = candidate.get("finishReason")
    said = str(word) if isinstance(word, int | str) and not isinstance(word, bool) else ""
    return "" if said in _UNFINISHED else said


def promises_calls(finish: str) -> bool:
    """A finish word that makes no sense once no call is left."""
    return finish in _CALL_FINISH


def usage_of(record: object) -> Usage | None:
    """The tokens of an answer; None where it does not tell."""
    if not isinstance(record, dict) or not (
        record.keys() & {"promptTokenCount", "candidatesTokenCount", "totalTokenCount"}
    ):
        return None
    thoughts = count(record.get("thoughtsTokenCount"))
    return Usage(
        input_tokens=count(record.get("promptTokenCount")) + count(record.get("toolUsePromptTokenCount")),
        output_tokens=count(record.get("candidatesTokenCount")) + thoughts,
        cache_read_tokens=count(record.get("cachedContentTokenCount")),
        reasoning_tokens=thoughts,
        input_audio_tokens=_audio(record.get("promptTokensDetails")),
        output_audio_tokens=_audio(record.get("candidatesTokensDetails")),
    )


def _audio(details: object) -> int:
    """The audio tokens in a list of tokens by modality."""
    return sum(count(each.get("tokenCount")) for each in objects(details) if each.get("modality") == "AUDIO")


def usage_with(record: object, more: Usage) -> Json:
    """The record with the tokens of other answers added."""
    old: Json = dict(record) if isinstance(record, dict) else {}
    added = {
        "promptTokenCount": more.input_tokens,
        "candidatesTokenCount": more.output_tokens - more.reasoning_tokens,
        "thoughtsTokenCount": more.reasoning_tokens,
        "cachedContentTokenCount": more.cache_read_tokens,
        "totalTokenCount": more.input_tokens + more.output_tokens,
    }
    return old | {key: count(old.get(key)) + value for key, value in added.items() if value or key in old}


def problem_of(error: object) -> Problem:
    """The error that the provider reports."""
    record = error if isinstance(error, dict) else {}
    code = count(record.get("code"))
    status = code if 400 <= code <= 599 else 502  # noqa: PLR2004 - the range of errors
    word = text(record.get("status")).lower() or "upstream_error"
    said = text(record.get("message")) or "The provider reported an error in its answer."
    return Problem(status, word, said, retryable=status in {429, 503})


def error_record(problem: Problem) -> Json:
    """An error as the official SDK expects it; the code and the fields for programs are its details."""
    status = _STATUS.get(problem.status, "INTERNAL" if problem.status >= 500 else "FAILED_PRECONDITION")  # noqa: PLR2004 - server errors
    metadata = {key: str(value) for key, value in problem.fields.items() if value is not None}
    detail = {
        "@type": "type.googleapis.com/google.rpc.ErrorInfo",
        "reason": problem.code,
        "domain": "callgate",
        "metadata": metadata,
    }
    return {
        "error": {"code": problem.status, "message": problem.message, "status": status, "details": [detail]}
    }
