"""Where a Chat Completions answer may hide a call from this reader, but not from every client.

Clients differ: some take the first of two equal keys, some do not tell `Tool_Calls` from `tool_calls`, some find calls
in the parts of a content. An answer in which they would see different calls is Malformed; no such answer is ever guessed at.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from proxy.core import json_text
from proxy.core.messages import Malformed

from .values import Json, objects, text

# Only a text with one of these can hold a call: nearly every chunk has none, and is not looked at any closer. Keys may
# be spelled with escapes of plain letters.
_MAY_CALL = re.compile(rb"tool_?calls?\b|function_?calls?\b|tool_?use|\\u00[2-7]", re.IGNORECASE)
_NO_LETTER = re.compile(r"[^a-z]")
_CALLS = frozenset({"toolcall", "toolcalls", "functioncall", "functioncalls", "tooluse", "tooluses"})
_FLAT = ("name", "arguments", "input", "parameters")


def refuse_hidden(raw: bytes, value: Json) -> None:
    """Raises Malformed where the JSON text `raw`, which reads as `value`, may hold a call that is not judged."""
    if not _MAY_CALL.search(raw):
        return
    try:
        json_text.refuse_double_keys(raw)
    except ValueError:
        raise Malformed("a key occurs twice beside a tool call") from None
    _refuse_beside(value, frozenset({"choices"}))
    for choice in objects(value.get("choices")):
        _refuse_beside(choice, frozenset({"delta", "message"}))
        for message in (choice.get("delta"), choice.get("message")):
            if isinstance(message, dict):
                _refuse_in_message(message)


def _refuse_in_message(message: Json) -> None:
    _refuse_beside(message, frozenset({"tool_calls", "function_call"}))
    content = message.get("content")
    for part in [content] if isinstance(content, dict) else objects(content):
        if _plain(text(part.get("type"))) in _CALLS:
            raise Malformed("a content holds a tool call")
    for entry in objects(message.get("tool_calls")):
        _refuse_beside(entry, frozenset({"function", "custom"}))
        forms = [entry[form] for form in ("function", "custom") if isinstance(entry.get(form), dict)]
        if sum(1 for form in forms if form.get("name")) > 1:
            raise Malformed("an entry of tool_calls holds two calls")
        if not forms and text(entry.get("type")) in {"", "function", "custom"}:
            for key in _FLAT:
                if entry.get(key):
                    raise Malformed("an entry of tool_calls holds no function")
        for form in forms:
            _refuse_beside(form, frozenset({"name", "arguments"}))
    legacy = message.get("function_call")
    if isinstance(legacy, dict):
        _refuse_beside(legacy, frozenset({"name", "arguments"}))


def _refuse_beside(holder: Mapping[str, object], judged: frozenset[str]) -> None:
    """Nothing here may be a call, or be taken for one of the judged members, but those themselves."""
    for key in _said(holder):
        plain = _plain(key)
        if key not in judged and (plain in _CALLS or plain in {_plain(name) for name in judged}):
            raise Malformed("a tool call may stand where not every client looks for it")


def _said(holder: Mapping[str, object]) -> Iterator[str]:
    """The keys whose values say something: some providers send empty ones beside everything else."""
    return (key for key, value in holder.items() if value not in (None, "", [], {}))


def _plain(name: str) -> str:
    return _NO_LETTER.sub("", name.lower())
