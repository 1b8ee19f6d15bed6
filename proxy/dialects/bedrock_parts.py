"""The words of Bedrock's Converse API: what a block, a call, a usage record and an error look like.

Laws: a block that holds `toolUse` is a call, whatever else it holds, unless the provider says that it ran it itself;
the text of a call's arguments is the very stretch of the wire.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import orjson

from proxy.core import json_text
from proxy.core.json_text import Span, quoted
from proxy.core.messages import Malformed, Problem, ToolCall, ToolKind, Usage

from .values import count, digest, dumped, loaded, text

Json = dict[str, Any]

ORDINARY_FINISH = "end_turn"
TOOLS_FINISH = "tool_use"
APART = "\n\n"
_HOSTED = "server_tool_use"
_TEXTUAL = ("text", "citationsContent")
_COUNTS = {
    "inputTokens": "input_tokens",
    "outputTokens": "output_tokens",
    "cacheReadInputTokens": "cache_read_tokens",
    "cacheWriteInputTokens": "cache_write_tokens",
}
_EXCEPTIONS = {
    "throttlingException": 429,
    "serviceUnavailableException": 503,
    "internalServerException": 500,
    "modelStreamErrorException": 424,
    "modelTimeoutException": 408,
    "validationException": 400,
}
_RETRYABLE = frozenset({429, 503, 500, 408, 424})
_ERRORS = {
    400: "ValidationException",
    401: "AccessDeniedException",
    403: "AccessDeniedException",
    404: "ResourceNotFoundException",
    408: "ModelTimeoutException",
    429: "ThrottlingException",
    503: "ServiceUnavailableException",
}
_SERVER_FAULT = 500


def object_of(value: object) -> Json:
    """The value if it is an object, else an empty one."""
    return value if isinstance(value, dict) else {}


# --- blocks ----------------------------------------------------------------------------------------------------------


def is_call(block: Json) -> bool:
    """The block proposes a call that the agent would run."""
    return "toolUse" in block and not is_hosted_call(block)


def is_hosted_call(block: Json) -> bool:
    """The provider ran this call itself."""
    return object_of(block.get("toolUse")).get("type") == _HOSTED


def is_text_block(block: object) -> bool:
    """Whether a block of a content is visible text."""
    return isinstance(block, dict) and any(key in block for key in _TEXTUAL)


def block_text(block: Json) -> str:
    """The visible text of a block."""
    cited = object_of(block.get("citationsContent")).get("content")
    parts = [text(object_of(part).get("text")) for part in cited] if isinstance(cited, list) else []
    return text(block.get("text")) + "".join(parts)


def text_block(said: str) -> bytes:
    """A block of text."""
    return b'{"text":' + quoted(said) + b"}"


def call_of(block: Json, slot: int, arguments: str, fresh_id: str = "") -> ToolCall:
    """The call in a block. Raises Malformed where it has no name."""
    use = object_of(block.get("toolUse"))
    name, call_id = use.get("name"), use.get("toolUseId")
    if not isinstance(name, str) or not (call_id is None or isinstance(call_id, str)):
        raise Malformed("a toolUse block has to hold a name and an id")
    kind = ToolKind.HOSTED if is_hosted_call(block) else ToolKind.FUNCTION
    return ToolCall(call_id or fresh_id, name, arguments, (0, slot), kind, made_id=not call_id)


def exact_input(body: bytes, block: Span) -> str:
    """The input of the call that stands there, to the letter. Raises Malformed where readers could differ about it."""
    try:
        use = json_text.members(body, json_text.members(body, block.start).values["toolUse"].start)
    except (ValueError, LookupError):
        raise Malformed("a toolUse block cannot be read") from None
    place = use.values.get("input")
    said = place.cut(body).decode() if place else ""
    return "" if said == "null" else said


def call_block(use: Mapping[str, Any], call_id: str, arguments: str) -> bytes:
    """A call's block for a history; arguments that are no JSON object cannot stand in one."""
    try:
        valid = isinstance(orjson.loads(arguments), dict)
    except orjson.JSONDecodeError:
        valid = False
    rest = {key: value for key, value in use.items() if key not in {"toolUseId", "input"}}
    head = dumped({**rest, "toolUseId": call_id})[:-1]
    return b'{"toolUse":' + head + b',"input":' + (arguments.encode() if valid else b"{}") + b"}}"


def assistant_message(blocks: Sequence[bytes]) -> bytes:
    """An assistant message of these blocks."""
    return b'{"role":"assistant","content":[' + b",".join(blocks) + b"]}"


def stand_in(part: Json) -> str:
    """Names what is no text with a digest, so that another picture is another result."""
    return f"[{next(iter(part), 'part')} {digest(part).hex()[:12]}]"


def inline_bytes(content: object) -> int:
    """How many bytes of a content are pictures, documents and videos in base64, results included."""
    size = 0
    for block in content if isinstance(content, list) else ():
        for inner in object_of(block).values():
            size += len(text(object_of(object_of(inner).get("source")).get("bytes")))
        size += inline_bytes(object_of(object_of(block).get("toolResult")).get("content"))
    return size


# --- usage, errors ---------------------------------------------------------------------------------------------------


def usage_of(record: object) -> Usage | None:
    """The tokens of an answer; None where it tells none. What came from or went to a cache is counted apart here."""
    counts = {name: count(object_of(record).get(key)) for key, name in _COUNTS.items()}
    if not any(key in object_of(record) for key in _COUNTS):
        return None
    counts["input_tokens"] += counts["cache_read_tokens"] + counts["cache_write_tokens"]
    return Usage(**counts)


def usage_record(usage: Usage) -> dict[str, int]:
    """Usage as this dialect writes it."""
    cached = {
        "cacheReadInputTokens": usage.cache_read_tokens,
        "cacheWriteInputTokens": usage.cache_write_tokens,
    }
    return {
        "inputTokens": usage.input_tokens - sum(cached.values()),
        "outputTokens": usage.output_tokens,
        "totalTokens": usage.input_tokens + usage.output_tokens,
        **{key: tokens for key, tokens in cached.items() if tokens},
    }


def usage_edit(body: bytes, more: Usage | None) -> list[json_text.Splice]:
    """The usage record of the body with the tokens of other answers added."""
    place = json_text.locate(body, "usage") if more is not None else None
    if place is None or more is None or body[place.start : place.start + 1] != b"{":
        return []
    old = object_of(loaded(place.cut(body)))
    put = {key: b"%d" % (count(old.get(key)) + tokens) for key, tokens in usage_record(more).items()}
    return json_text.object_edit(json_text.members(body, place.start), put=put)


def problem_of(kind: str, said: object) -> Problem:
    """The exception that the provider reports in a stream."""
    status = _EXCEPTIONS.get(kind[:1].lower() + kind[1:], 502)
    words = text(said) or "The provider reported an error in its answer."
    return Problem(status, kind or "upstream_error", words, retryable=status in _RETRYABLE)


def exception_type(problem: Problem) -> str:
    """The type of exception that says this in a stream, of those that the official SDKs know there."""
    fitting = {status: kind for kind, status in _EXCEPTIONS.items()}
    by_kind = "internalServerException" if problem.status >= _SERVER_FAULT else "validationException"
    return problem.code if problem.code in _EXCEPTIONS else fitting.get(problem.status, by_kind)


def error_body(problem: Problem) -> bytes:
    """An error as the official SDKs read it; what is for programs stands beside it."""
    by_kind = "InternalServerException" if problem.status >= _SERVER_FAULT else "ValidationException"
    own = {"message", "Message", "__type", "code", "Code", "reason"}
    return dumped(
        {
            "__type": _ERRORS.get(problem.status, by_kind),
            "message": problem.message,
            "reason": problem.code,
            **{key: value for key, value in problem.fields.items() if key not in own},
        }
    )
