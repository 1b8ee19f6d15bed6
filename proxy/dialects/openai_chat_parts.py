"""The words of Chat Completions: what a call, a content and a usage record look like.

Laws: whatever may be a call is read as a call, of a known kind or not; what is read is exactly what a client gets.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from proxy.core.json_text import quoted
from proxy.core.messages import Malformed, Role, ToolCall, ToolKind, Usage

from .values import Json, count, dumped, objects, text

CALL_FINISHES = frozenset({"tool_calls", "function_call"})
"""Finish words that promise a call."""
ORDINARY_FINISH = "stop"
ROLES = {
    "system": Role.SYSTEM,
    "developer": Role.SYSTEM,
    "user": Role.USER,
    "assistant": Role.ASSISTANT,
    "tool": Role.TOOL,
    "function": Role.TOOL,
}
KEPT_FOR_HISTORY = (
    "reasoning_content",
    "reasoning",
    "reasoning_details",
    "refusal",
    "extra_content",
    "thought_signature",
)
"""Members of an answer that its provider wants to see again."""


# --- content -----------------------------------------------------------------------------------------------


def visible_text(content: object, between: str = "") -> str:
    """The text of a content in any form: a string, a list of parts, an object that stands for structured output."""
    if isinstance(content, str):
        return content
    if isinstance(content, dict):
        return dumped(content).decode()
    if isinstance(content, list):
        return between.join(filter(None, map(_part_text, content)))
    return ""


def is_text_part(part: object) -> bool:
    """Whether a part of a content is visible text."""
    # A tuple: hostile kinds have no hash.
    return not isinstance(part, dict) or part.get("type", "text") in ("text", "input_text", "output_text")


def text_part(said: str) -> bytes:
    """A part with this text."""
    return b'{"type":"text","text":' + quoted(said) + b"}"


def with_other_text(content: object, said: str) -> object:
    """The content of a chunk with other text; parts that are none stay."""
    if not isinstance(content, list):
        return said
    rest = [part for part in content if not is_text_part(part)]
    return [{"type": "text", "text": said}, *rest] if said else rest


def _part_text(part: object) -> str:
    if isinstance(part, dict):
        return text(part.get("text")) if is_text_part(part) else ""
    return text(part)


# --- calls ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class CallPart:
    """One entry of `tool_calls`, or the legacy `function_call` (`at` None), or a piece of either in a stream."""

    at: int | None
    id: str
    name: str
    arguments: str
    kind: ToolKind = ToolKind.FUNCTION
    index: int | str | None = None

    @property
    def is_filler(self) -> bool:
        """Says nothing: some providers send empty ones beside everything else."""
        return not (self.id or self.name or self.arguments)


def call_parts(message: Mapping[str, Any]) -> list[CallPart]:
    """The calls (or pieces) in a message or delta, in wire order. Raises Malformed where one cannot be read."""
    entries = message.get("tool_calls")
    if entries is not None and not isinstance(entries, list):
        raise Malformed("tool_calls has to be a list")
    found = [_entry(at, entry) for at, entry in enumerate(entries or ())]
    legacy = message.get("function_call")
    if legacy is not None:
        if not isinstance(legacy, dict):
            raise Malformed("function_call has to be an object")
        part = CallPart(None, "", _string(legacy, "name"), _argument_text(legacy.get("arguments")))
        if not part.is_filler:
            found.append(part)
    return found


def _entry(at: int, entry: object) -> CallPart:
    if not isinstance(entry, dict):
        raise Malformed("an entry of tool_calls has to be an object")
    index = entry.get("index")
    place = index if isinstance(index, int | str) and not isinstance(index, bool) else None
    id_ = _string(entry, "id")
    kind = _string(entry, "type")
    form = call_form(entry)
    if form:
        inner = entry[form]
        if form == "custom":
            content, tool_kind = _argument_text(inner.get("input")), ToolKind.CUSTOM
        else:
            content, tool_kind = _argument_text(inner.get("arguments")), ToolKind.FUNCTION
        return CallPart(at, id_, _string(inner, "name"), content, tool_kind, place)
    if any(entry.get(key) is not None for key in ("function", "custom")):
        raise Malformed("an entry of tool_calls has to hold an object for its function")
    if kind in {"", "function", "custom"}:
        return CallPart(at, id_, "", "", ToolKind.CUSTOM if kind == "custom" else ToolKind.FUNCTION, place)
    rest = {key: value for key, value in entry.items() if key not in {"id", "type", "index"}}
    return CallPart(at, id_, kind, dumped(rest).decode(), ToolKind.CUSTOM, place)


def call_form(entry: Mapping[str, Any]) -> str:
    """Which member of the entry holds the call: `function`, `custom`, or none of them."""
    function, custom = entry.get("function"), entry.get("custom")
    if isinstance(function, dict) and isinstance(custom, dict):
        named = [form for form in ("function", "custom") if text(entry[form].get("name"))]
        return named[0] if len(named) == 1 else ("custom" if entry.get("type") == "custom" else "function")
    return "function" if isinstance(function, dict) else "custom" if isinstance(custom, dict) else ""


def _string(holder: Mapping[str, Any], key: str) -> str:
    value = holder.get(key)
    if value is None or isinstance(value, str):
        return value or ""
    raise Malformed(f"the {key} of a tool call has to be text")


def _argument_text(value: object) -> str:
    """Some servers send the arguments as JSON instead of as text."""
    if value is None or isinstance(value, str):
        return value or ""
    if isinstance(value, dict | list):
        return dumped(value).decode()
    raise Malformed("the arguments of a tool call have to be text")


def hosted_calls(message: Mapping[str, Any], choice: int) -> list[ToolCall]:
    """Calls that the provider ran itself and reports in the answer."""
    return [
        ToolCall(
            id=text(entry.get("id")),
            name=text(entry.get("name")) or text(entry.get("type")),
            arguments=text(entry.get("arguments")),
            key=(choice, count(entry.get("index")) or at),
            kind=ToolKind.HOSTED,
        )
        for at, entry in enumerate(objects(message.get("executed_tools")))
    ]


# --- usage ------------------------------------------------------------------------------------------------


def usage_of(answer: Mapping[str, Any]) -> Usage | None:
    """The usage in an answer or chunk, wherever the provider puts it; None where there is none."""
    nested = answer.get("x_groq")
    for holder in (answer, nested if isinstance(nested, dict) else {}):
        usage = holder.get("usage")
        if isinstance(usage, dict) and ("prompt_tokens" in usage or "completion_tokens" in usage):
            return _usage(usage)
    return None


def _usage(usage: Mapping[str, Any]) -> Usage:
    details = usage.get("prompt_tokens_details")
    details = details if isinstance(details, dict) else {}
    made = usage.get("completion_tokens_details")
    made = made if isinstance(made, dict) else {}
    return Usage(
        input_tokens=count(usage.get("prompt_tokens")),
        output_tokens=count(usage.get("completion_tokens")),
        cache_read_tokens=count(details.get("cached_tokens")) or count(usage.get("prompt_cache_hit_tokens")),
        cache_write_tokens=count(details.get("cache_write_tokens")),
        reasoning_tokens=count(made.get("reasoning_tokens")),
        input_audio_tokens=count(details.get("audio_tokens")),
        output_audio_tokens=count(made.get("audio_tokens")),
    )


def usage_record(usage: Usage) -> Json:
    """Usage as this dialect writes it."""
    return {
        "prompt_tokens": usage.input_tokens,
        "completion_tokens": usage.output_tokens,
        "total_tokens": usage.input_tokens + usage.output_tokens,
        "prompt_tokens_details": {"cached_tokens": usage.cache_read_tokens},
        "completion_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
    }


def usage_with(record: Mapping[str, Any], more: Usage) -> Json:
    """A provider's usage record with the tokens of other answers added; members unknown here stay."""
    summed = dict(record)
    for key, value in usage_record(more).items():
        old = record.get(key)
        if isinstance(value, int):
            summed[key] = count(old) + value
        elif isinstance(old, dict):
            summed[key] = old | {name: count(old.get(name)) + part for name, part in value.items()}
    return summed
