"""The words of the Messages API: what a content block, a tool and a usage record mean.

A block is a call of the agent's if it is a `tool_use`, or of a kind unknown here that looks like one (it has a name
and an input): whatever may be a call is judged as a call. Tools that the provider runs itself are hosted.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from hashlib import blake2b
from typing import Any

import orjson

from proxy.core.messages import Malformed, Problem, Tool, ToolKind, ToolResult, Usage

from .options import options_of, server_tool

CALL = "tool_use"
HOSTED_CALLS = frozenset({"server_tool_use", "mcp_tool_use"})
TOOLS_FINISH = "tool_use"
ORDINARY_FINISH = "end_turn"

Json = dict[str, Any]

_CLIENT_TOOLS = ("computer_", "bash_", "text_editor_", "memory_", "browser_")
_COMPUTER = (
    "cursor_position double_click hold_key key left_click left_click_drag left_mouse_down left_mouse_up "
    "middle_click mouse_move right_click screenshot scroll triple_click type wait zoom"
)
_BROWSER = (
    "close_tab double_click file_upload find form_input get_page_text hold_key hover javascript_exec key "
    "left_click left_click_drag left_mouse_down left_mouse_up list_tabs middle_click mouse_move navigate new_tab "
    "read_console read_network read_page right_click screenshot scroll scroll_to switch_tab triple_click type wait "
    "zoom"
)
_TOOLSETS = {"computer_toolset_": ("computer", _COMPUTER), "browser_toolset_": ("browser", _BROWSER)}

_ERRORS = {
    "invalid_request_error": 400,
    "authentication_error": 401,
    "billing_error": 402,
    "permission_error": 403,
    "not_found_error": 404,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "api_error": 500,
    "timeout_error": 504,
    "overloaded_error": 529,
}
_RETRYABLE = frozenset({429, 500, 504, 529})
_DATED = re.compile(r"_20\d{6}\Z")
_FRACTIONLESS = re.compile(rb"\d\.0[,\]}]")


def text_of(value: object) -> str:
    """The value if it is text, else nothing."""
    return value if isinstance(value, str) else ""


def object_of(value: object) -> Json:
    """The value if it is an object, else an empty one."""
    return value if isinstance(value, dict) else {}


def blocks_of(content: object) -> list[Json]:
    """The blocks of a message's content; a string stands for one text block."""
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return [block for block in content if isinstance(block, dict)] if isinstance(content, list) else []


def compact(value: object) -> str:
    """The value as JSON without white space. Raises Malformed where it is nested too deeply to be written."""
    try:
        return orjson.dumps(value).decode()
    except TypeError:
        return _slowly(value, sort=False)


def canonical(value: object) -> bytes:
    """The value as JSON with sorted keys and whole numbers written without a fraction."""
    try:
        dump = orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
        if not _FRACTIONLESS.search(dump):
            return dump
        return orjson.dumps(_whole_numbers(value), option=orjson.OPT_SORT_KEYS)
    except (TypeError, RecursionError):
        return _slowly(value, sort=True).encode()


def _slowly(value: object, *, sort: bool) -> str:
    try:
        return json.dumps(value, sort_keys=sort, separators=(",", ":"))
    except RecursionError:
        raise Malformed("The JSON is nested too deeply.") from None


def _whole_numbers(value: object) -> object:
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return int(value)
    if isinstance(value, dict):
        return {key: _whole_numbers(part) for key, part in value.items()}
    if isinstance(value, list):
        return [_whole_numbers(part) for part in value]
    return value


# --- calls and results ----------------------------------------------------------------------------------------


def is_call(block: Json) -> bool:
    """The block proposes a call that the agent would run."""
    kind = text_of(block.get("type"))
    if kind == CALL:
        return True
    return kind not in HOSTED_CALLS and isinstance(block.get("name"), str) and "input" in block


def is_hosted_call(block: Json) -> bool:
    """The provider ran this call itself."""
    return text_of(block.get("type")) in HOSTED_CALLS


def call_name(block: Json) -> str:
    """The tool's name; a member of a toolset is named with its family (`computer.left_click`)."""
    name, family = text_of(block.get("name")), text_of(block.get("toolset_name"))
    return f"{family}.{name}" if family else name


def is_text_block(block: object) -> bool:
    """Whether a block of a content is visible text."""
    return isinstance(block, dict) and block.get("type") == "text"


def visible(block: Any) -> str:
    """The text of a block of text, else nothing."""
    return text_of(block.get("text")) if isinstance(block, dict) and block.get("type") == "text" else ""


def place_of_text(body: Mapping[str, Any]) -> tuple[tuple[str, ...] | None, object]:
    """Where an event holds visible text, and the text or the list of blocks there; None: it holds none."""
    block, delta = object_of(body.get("content_block")), object_of(body.get("delta"))
    content = object_of(body.get("message")).get("content")
    if visible(block):
        return ("content_block", "text"), block["text"]
    if delta.get("type") == "text_delta":
        return ("delta", "text"), delta.get("text")
    if isinstance(content, list) and any(map(visible, content)):
        return ("message", "content"), content
    return None, None


def blocks_with_text(blocks: list[Any], text: str) -> list[Any]:
    """The blocks with the text in the first one of text, and none in further ones; their number stays."""
    waiting = [text]
    return [
        {**block, "text": waiting.pop() if waiting else ""} if visible(block) else block for block in blocks
    ]


def joined_text(content: object, between: str) -> str:
    """The visible text of a content."""
    texts = (text_of(block.get("text")) for block in blocks_of(content) if block.get("type") == "text")
    return between.join(text for text in texts if text)


def result_of(block: Json) -> ToolResult:
    """A tool's result. What is no text is named with a digest, so that another picture is another result."""
    parts = [
        text_of(part.get("text")) if part.get("type") == "text" else _stand_in(part)
        for part in blocks_of(block.get("content"))
    ]
    return ToolResult(text_of(block.get("tool_use_id")), "\n".join(parts), block.get("is_error") is True)


def _stand_in(part: Json) -> str:
    digest = blake2b(canonical(unmarked(part)), digest_size=6).hexdigest()
    return f"[{text_of(part.get('type')) or 'part'} {digest}]"


def inline_bytes(content: object) -> int:
    """How many bytes of a content are pictures, audio and files in base64, results included."""
    blocks = blocks_of(content)
    results = [
        part
        for block in blocks
        if block.get("type") == "tool_result"
        for part in blocks_of(block.get("content"))
    ]
    sources = (object_of(block.get("source")) for block in (*blocks, *results))
    return sum(len(text_of(source.get("data"))) for source in sources if source.get("type") == "base64")


# --- what identifies a message ----------------------------------------------------------------------------------


def unmarked(block: Json) -> Json:
    """The block without its cache mark: agents move those from request to request."""
    return {key: value for key, value in block.items() if key != "cache_control"}


def message_digest(role: str, content: object) -> bytes:
    """Identifies a message: 16 bytes, the same for every way in which an SDK may write it.

    Of an assistant's message only the visible text and the calls count: thinking may be dropped by the agent.
    """
    if role == "assistant":
        calls = [
            [text_of(block.get("id")), call_name(block), block.get("input") or {}]
            for block in blocks_of(content)
            if block.get("type") == CALL
        ]
        kept: object = [joined_text(content, "").strip(), calls]
    else:
        kept = [_plain(block) for block in blocks_of(content)]
    return blake2b(role.encode() + canonical(kept), digest_size=16).digest()


def _plain(block: Json) -> Json:
    plain = _plain_part(block)
    if block.get("type") == "tool_result":
        if not plain.get("is_error"):
            plain.pop("is_error", None)
        plain["content"] = [_plain_part(part) for part in blocks_of(plain.get("content"))]
    return plain


def _plain_part(part: Json) -> Json:
    return {"type": "text", "text": part.get("text")} if part.get("type") == "text" else unmarked(part)


# --- tools ------------------------------------------------------------------------------------------------------


def tools_of(entry: Json) -> list[Tool]:
    """The tools that one entry of `tools` offers: one, or all members of a toolset that the agent runs."""
    kind, name = text_of(entry.get("type")), text_of(entry.get("name"))
    size = len(compact(entry))
    for prefix, (family, known) in _TOOLSETS.items():
        if kind.startswith(prefix):
            names = [
                *known.split(),
                *(name for name in object_of(entry.get("configs")) if name not in known.split()),
            ]
            return [Tool(f"{family}.{name}", size=0 if place else size) for place, name in enumerate(names)]
    if kind == "mcp_toolset":
        name = server_tool(text_of(entry.get("mcp_server_name")))
        return [Tool(name, ToolKind.HOSTED, size=size, options=options_of(entry))]
    # A kind with a date is the provider's, whatever schema somebody has written into it.
    has_schema = isinstance(entry.get("input_schema"), dict) and not _DATED.search(kind)
    if kind in {"", "custom"} or has_schema:
        schema = entry.get("input_schema")
        return [Tool(name, ToolKind.FUNCTION, schema if isinstance(schema, dict) else None, size)]
    if kind.startswith(_CLIENT_TOOLS):
        return [Tool(name, size=size)]
    return [Tool(name or kind, ToolKind.HOSTED, size=size, options=options_of(entry))]


def skill_tool(entry: Json) -> str:
    """The name of a skill, which the provider runs in its container; no function's name can hold a dot."""
    return f"skills.{text_of(entry.get('skill_id'))}"


def offered_inline(block: Json) -> Json | None:
    """The tool that a block in mid-conversation defines, if it does: as good as an entry of `tools`."""
    if block.get("type") != "tool_addition":
        return None
    definition = object_of(block.get("tool")).get("definition")
    return definition if isinstance(definition, dict) else None


# --- usage and errors -------------------------------------------------------------------------------------------

COUNTS = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens", "output_tokens")
_THINKING = "thinking_tokens"
_FOR_AN_HOUR = "ephemeral_1h_input_tokens"


def counts_of(raw: object) -> dict[str, int]:
    """The token counts that a usage record holds, under the provider's names; others are left out.

    Where it lists what the answer took one by one (an adviser, a compaction, a model that was fallen back from), the sums
    of the list are paid, which are more than the record's own counts.
    """
    record = object_of(raw)
    found = {key: record[key] for key in COUNTS if type(record.get(key)) is int}
    listed = record.get("iterations")
    steps = listed if isinstance(listed, list) else []
    for key, own in found.items():
        counts = [object_of(step).get(key) for step in steps]
        found[key] = max(own, sum(count for count in counts if type(count) is int))
    thought = object_of(record.get("output_tokens_details")).get(_THINKING)
    written = object_of(record.get("cache_creation")).get(_FOR_AN_HOUR)
    more = {_THINKING: thought, _FOR_AN_HOUR: written}
    return found | {key: count for key, count in more.items() if type(count) is int}


def usage_of(counts: Mapping[str, int]) -> Usage:
    """Neutral usage: here the input includes what came from or went to a cache."""
    plain, written, read, output = (counts.get(key, 0) for key in COUNTS)
    return Usage(
        plain + written + read,
        output,
        read,
        written,
        counts.get(_THINKING, 0),
        cache_write_1h_tokens=counts.get(_FOR_AN_HOUR, 0),
    )


def counts_from(usage: Usage) -> dict[str, int]:
    """The provider's counts of a neutral usage."""
    plain = usage.input_tokens - usage.cache_read_tokens - usage.cache_write_tokens
    return dict(
        zip(
            COUNTS,
            (plain, usage.cache_write_tokens, usage.cache_read_tokens, usage.output_tokens),
            strict=True,
        )
    )


def problem_of(error: object) -> Problem:
    """The provider's own error record, its type kept as the code."""
    record = object_of(error)
    kind = text_of(record.get("type")) or "api_error"
    status = _ERRORS.get(kind, 500)
    message = text_of(record.get("message")) or "The provider reported an error."
    return Problem(status, kind, message, retryable=status in _RETRYABLE)


def error_type(problem: Problem) -> str:
    """The provider's type for a problem: its own if it has one already, else what fits the status."""
    if problem.code in _ERRORS:
        return problem.code
    by_status = {status: kind for kind, status in _ERRORS.items()}
    if problem.status in by_status:
        return by_status[problem.status]
    return "invalid_request_error" if problem.status < _ERRORS["api_error"] else "api_error"
