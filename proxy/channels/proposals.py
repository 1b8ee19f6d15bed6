"""Calls as models write them in text, read: JSON objects with a name and arguments in their usual spellings."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

from proxy.core.json_text import elements, members, value_at

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .scanner import Proposed

NAMES = ("name", "tool", "tool_name", "action", "function", "recipient_name")
ARGUMENTS = ("arguments", "parameters", "args", "input", "action_input", "tool_input", "tool_arguments")
UNREADABLE = "unreadable_call"
"""The name of a call that is marked as one and cannot be read: nobody offers such a tool, so it is refused."""
_XML_NAME = re.compile(r"\s*([^>\s]+)\s*>")
_XML_PARAMETER = re.compile(r"<parameter(?:=|\s+name=)\"?([^>\"]+)\"?>(.*?)</parameter>", re.DOTALL)


def marked(text: str) -> list[Proposed]:
    """The calls in a text that a mark says to be calls; what cannot be read is refused by its name."""
    return proposed(text) or [(UNREADABLE, text.strip())]


def proposed(text: str, names: Sequence[str] = NAMES, arguments: Sequence[str] = ARGUMENTS) -> list[Proposed]:
    """The calls that a JSON text stands for: an object with a name and arguments, or a list of such. The arguments are
    the very text in it. Empty: it stands for none."""
    raw = text.strip().encode("utf-8", "surrogatepass")
    try:
        span = value_at(raw)
        if span.end != len(raw):
            return []
        if raw[:1] == b"[":
            parts = [part.cut(raw) for part in elements(raw).values]
            found = [_one(part, names, arguments) for part in parts]
            return [call for call in found if call is not None] if all(found) else []
        one = _one(raw, names, arguments)
    except (ValueError, RecursionError):
        return []
    return [one] if one is not None else []


def _one(raw: bytes, names: Sequence[str], arguments: Sequence[str]) -> Proposed | None:
    if raw[:1] != b"{":
        return None
    values = members(raw).values
    inner = values.get("function")
    if inner is not None and raw[inner.start : inner.start + 1] == b"{":
        return _one(inner.cut(raw), names, arguments)
    name = next((values[key] for key in names if key in values), None)
    given = next((values[key] for key in arguments if key in values), None)
    if name is None or given is None or raw[name.start : name.start + 1] != b'"':
        return None
    said = given.cut(raw).decode("utf-8", "surrogatepass")
    if said.startswith('"'):
        plain = json.loads(said)
        # Some write the arguments as JSON in a string; any other text is the tool's one input.
        said = plain if plain.strip().startswith("{") else json.dumps({"input": plain}, ensure_ascii=False)
    elif said == "null":
        said = "{}"
    return json.loads(name.cut(raw)), said


def xml_call(text: str) -> list[Proposed]:
    """`name>` and then parameters as elements, or JSON."""
    found = _XML_NAME.match(text)
    if found is None:
        return [(UNREADABLE, text.strip())]
    name, rest = found[1].strip("\"'"), text[found.end() :].strip()
    if rest.startswith("{"):
        return [(name, rest)]
    values = {key.strip(): _plain(value) for key, value in _XML_PARAMETER.findall(rest)}
    return [(name, json.dumps(values, ensure_ascii=False))]


def _plain(text: str) -> str:
    return text.removeprefix("\n").removesuffix("\n")


def written(calls: Sequence[Proposed]) -> str:
    """The calls as JSON, one object each, one a line."""
    return "\n".join(f'{{"name": {json.dumps(name)}, "arguments": {arguments}}}' for name, arguments in calls)


def one_input(name: str, text: str) -> Proposed:
    """A call whose input is JSON, or else a text."""
    bare = text.strip()
    if bare.startswith("{"):
        return name, bare
    return name, json.dumps({"input": bare}, ensure_ascii=False)
