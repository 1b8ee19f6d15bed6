"""What OpenAI's Chat Completions would refuse of a request.

Worded as the provider words it, so that an SDK and a person see what they would see in production. Fields
that the provider may add tomorrow are not judged; the shape of a conversation is. The judges yield what they
object to and go on as if it were well: only the first complaint is ever taken.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from proxy.demo.answers import Complaint

_ROLES = ("system", "assistant", "user", "function", "tool", "developer")
_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_CHOICES = ("none", "auto", "required")


def complaint(request: object, headers: Mapping[str, str]) -> Complaint | None:
    """The first thing that the provider would object to."""
    del headers  # nothing that this dialect demands
    if not isinstance(request, dict):
        text = "We could not parse the JSON body of your request. The OpenAI API expects a JSON payload."
        return Complaint(text)
    return next(_complaints(request), None)


def _complaints(request: dict[str, Any]) -> Iterator[Complaint]:
    if not isinstance(request.get("model"), str) or not request["model"]:
        yield Complaint("you must provide a model parameter")
    if request.get("stream_options") is not None and not request.get("stream"):
        text = "The 'stream_options' parameter is only allowed when 'stream' is enabled."
        yield Complaint(text, "stream_options")
    yield from _list("messages", request.get("messages", _ABSENT))
    yield from _tools(request)
    messages: list[Any] = request["messages"]
    for place, message in enumerate(messages):
        yield from _message(f"messages[{place}]", message)
    yield from _pairing(messages)


_ABSENT = object()


def _list(path: str, value: object) -> Iterator[Complaint]:
    if value is _ABSENT:
        yield Complaint(f"Missing required parameter: '{path}'.", path, "missing_required_parameter")
    elif not isinstance(value, list):
        yield _mistyped(path, "an array", value)
    elif not value:
        text = f"Invalid '{path}': empty array. Expected an array with minimum length 1, but got an empty array instead."
        yield Complaint(text, path, "empty_array")


def _mistyped(path: str, wanted: str, value: object) -> Complaint:
    names = {dict: "an object", list: "an array", str: "a string", bool: "a boolean", type(None): "null"}
    got = names.get(type(value), "a number")
    text = f"Invalid type for '{path}': expected {wanted}, but got {got} instead."
    return Complaint(text, path, "invalid_type")


def _named(path: str, value: object) -> Iterator[Complaint]:
    if not isinstance(value, str):
        yield _mistyped(path, "a string", value)
    elif not _NAME.fullmatch(value):
        text = f"Invalid '{path}': string does not match pattern. Expected a string that matches the pattern '^[a-zA-Z0-9_-]+$'."
        yield Complaint(text, path, "invalid_value")


def _tools(request: dict[str, Any]) -> Iterator[Complaint]:
    offered: set[tuple[object, object]] = set()
    tools = request.get("tools")
    if tools is not None:
        yield from _list("tools", tools)
        for place, tool in enumerate(tools):
            path = f"tools[{place}]"
            kind = tool.get("type") if isinstance(tool, dict) else None
            if kind not in {"function", "custom"}:
                text = f"Invalid value: '{kind}'. Supported values are: 'function' and 'custom'."
                yield Complaint(text, f"{path}.type", "invalid_value")
            inner = tool.get(kind)
            if not isinstance(inner, dict):
                text = f"Missing required parameter: '{path}.{kind}'."
                yield Complaint(text, f"{path}.{kind}", "missing_required_parameter")
            yield from _named(f"{path}.{kind}.name", inner.get("name"))
            offered.add((kind, inner["name"]))
    for key in ("tool_choice", "parallel_tool_calls"):
        if request.get(key) is not None and not tools:
            text = f"Invalid value for '{key}': '{key}' is only allowed when 'tools' are specified."
            yield Complaint(text, key)
    if request.get("tool_choice") is not None:
        yield from _choice(request["tool_choice"], offered)


def _choice(choice: object, offered: set[tuple[object, object]]) -> Iterator[Complaint]:
    if isinstance(choice, str):
        if choice not in _CHOICES:
            text = f"Invalid value: '{choice}'. Supported values are: 'none', 'auto', and 'required'."
            yield Complaint(text, "tool_choice", "invalid_value")
    elif not isinstance(choice, dict):
        yield _mistyped("tool_choice", "one of none, auto, required or an object", choice)
    elif choice.get("type") == "allowed_tools":
        allowed = choice.get("allowed_tools")
        listed = allowed.get("tools", _ABSENT) if isinstance(allowed, dict) else _ABSENT
        yield from _list("tool_choice.allowed_tools.tools", listed)
        for entry in listed if isinstance(listed, list) else ():
            yield from _chosen(entry, offered)
    else:
        yield from _chosen(choice, offered)


def _chosen(choice: object, offered: set[tuple[object, object]]) -> Iterator[Complaint]:
    kind = str(choice.get("type")) if isinstance(choice, dict) else ""
    inner = choice.get(kind) if isinstance(choice, dict) else None
    if not isinstance(inner, dict):
        text = f"Missing required parameter: 'tool_choice.{kind}'."
        yield Complaint(text, f"tool_choice.{kind}", "missing_required_parameter")
        return
    name = inner.get("name")
    if (kind, name) not in offered:
        yield Complaint(f"Tool choice '{name}' not found in 'tools' parameter.", "tool_choice")


def _message(path: str, message: object) -> Iterator[Complaint]:
    if not isinstance(message, dict):
        yield _mistyped(path, "an object", message)
        return
    role = message.get("role", _ABSENT)
    if role is _ABSENT:
        yield Complaint(
            f"Missing required parameter: '{path}.role'.", f"{path}.role", "missing_required_parameter"
        )
    if role not in _ROLES:
        listed = ", ".join(f"'{known}'" for known in _ROLES[:-1])
        text = f"Invalid value: '{role}'. Supported values are: {listed}, and '{_ROLES[-1]}'."
        yield Complaint(text, f"{path}.role", "invalid_value")
    if message.get("tool_calls") is not None:
        if role != "assistant":
            yield Complaint(
                f"Unknown parameter: '{path}.tool_calls'.", f"{path}.tool_calls", "unknown_parameter"
            )
        yield from _list(f"{path}.tool_calls", message["tool_calls"])
        for place, call in enumerate(message["tool_calls"]):
            yield from _call(f"{path}.tool_calls[{place}]", call)
    yield from _content(path, message)


def _content(path: str, message: dict[str, Any]) -> Iterator[Complaint]:
    content = message.get("content")
    if content is None:
        stands_for_it = ("tool_calls", "function_call", "refusal", "audio")
        if message["role"] == "assistant" and any(message.get(key) for key in stands_for_it):
            return
        if message["role"] == "function":
            return
        yield Complaint("Invalid value for 'content': expected a string, got null.", f"{path}.content")
    elif isinstance(content, list):
        yield from _list(f"{path}.content", content)
        for place, part in enumerate(content):
            if not isinstance(part, dict) or not isinstance(part.get("type"), str):
                where = f"{path}.content[{place}].type"
                yield Complaint(
                    f"Missing required parameter: '{where}'.", where, "missing_required_parameter"
                )
    elif not isinstance(content, str):
        yield _mistyped(f"{path}.content", "one of a string or array of objects", content)


def _call(path: str, call: object) -> Iterator[Complaint]:
    if not isinstance(call, dict):
        yield _mistyped(path, "an object", call)
        return
    if not isinstance(call.get("id"), str) or not call["id"]:
        yield Complaint(
            f"Missing required parameter: '{path}.id'.", f"{path}.id", "missing_required_parameter"
        )
    kind = call.get("type", "")
    text_key = {"function": "arguments", "custom": "input"}.get(kind) if isinstance(kind, str) else None
    inner = call.get(kind) if text_key else None
    if not isinstance(inner, dict):
        text = f"Invalid value: '{kind}'. Supported values are: 'function' and 'custom'."
        yield Complaint(text, f"{path}.type", "invalid_value")
        return
    yield from _named(f"{path}.{kind}.name", inner.get("name"))
    if not isinstance(inner.get(str(text_key)), str):
        yield _mistyped(f"{path}.{kind}.{text_key}", "a string", inner.get(str(text_key)))


def _pairing(messages: Sequence[dict[str, Any]]) -> Iterator[Complaint]:
    """Every call is answered directly after its turn, every result has a call, no call is answered twice."""
    waiting: list[str] = []
    asked_at = 0
    for place, message in enumerate(messages):
        if message["role"] == "tool":
            key = message.get("tool_call_id")
            if key is None:
                path = f"messages[{place}].tool_call_id"
                yield Complaint(f"Missing required parameter: '{path}'.", path, "missing_required_parameter")
            if key not in waiting:
                text = (
                    "Invalid parameter: messages with role 'tool' must be a response to a preceeding message "
                    "with 'tool_calls'."
                )
                yield Complaint(text, f"messages.[{place}].role")
            else:
                waiting.remove(key)
            continue
        yield from _unanswered(waiting, asked_at)
        waiting = [call["id"] for call in message.get("tool_calls") or ()]
        asked_at = place
        if len(set(waiting)) != len(waiting):
            path = f"messages[{place}].tool_calls"
            yield Complaint(f"Duplicate value for 'id' in '{path}'.", path, "invalid_value")
    yield from _unanswered(waiting, asked_at)


def _unanswered(waiting: list[str], place: int) -> Iterator[Complaint]:
    if waiting:
        text = (
            "An assistant message with 'tool_calls' must be followed by tool messages responding to each "
            f"'tool_call_id'. The following tool_call_ids did not have response messages: {', '.join(waiting)}"
        )
        yield Complaint(text, f"messages.[{place}].role")
