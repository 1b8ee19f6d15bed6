"""Calls as models write them in text, read: JSON objects with a name and arguments in their usual spellings, and XML.

Law: what some agent's parser may run is never plain text. JSON that is cut off, says a thing twice or goes on behind its end
is read by one parser and not by another: where it has the members of a call it is a call that cannot be read.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from proxy.core.json_text import NotOneObject, elements, members, read_object, value_at
from proxy.core.messages import UNREADABLE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .scanner import Proposed


@dataclass(frozen=True, slots=True)
class Fields:
    """Which members make an object a call."""

    names: tuple[str, ...] = ("name", "tool", "tool_name", "action", "function", "recipient_name")
    arguments: tuple[str, ...] = (
        "arguments",
        "parameters",
        "args",
        "input",
        "action_input",
        "tool_input",
        "tool_arguments",
    )
    enough: tuple[str, ...] = ("tool", "tool_name", "action")
    """Names that make a call without any arguments."""


USUAL = Fields()
FINISH = frozenset({"finish", "final", "final answer", "final_answer", "answer", "respond"})
"""Names that end an agent's loop: no tools, unless one is configured that has such a name."""
_ESCAPE = re.compile(r"\\u([0-9a-fA-F]{4})")
_KEY = re.compile(r"(?<!\w)(\w++)[\"']?\s*+:")
_XML_NAME = re.compile(r"\s*+([^>\s]++)\s*+>")
_XML_PARAMETER = re.compile(r"(?:=|\s++name=)\"?([^>\"]++)\"?>(.*)</parameter>\s*", re.DOTALL)


def marked(text: str) -> list[Proposed]:
    """The calls in a text that a mark says to be calls; what cannot be read is refused by its name."""
    return proposed(text) or unreadable(text)


def unreadable(text: str) -> list[Proposed]:
    """A call that cannot be read."""
    return [(UNREADABLE, text.strip())]


def proposed(text: str, fields: Fields = USUAL) -> list[Proposed]:
    """The calls that a JSON text stands for: an object with a name and arguments, or a list of such. The arguments are
    the very text in it. Empty: it stands for none."""
    return _calls(text, fields) or []


def suspected(text: str, fields: Fields = USUAL) -> list[Proposed] | None:
    """The same for a text that is meant to be JSON, and may be broken; None: it is no call and has not the members of
    one."""
    calls = _calls(text, fields)
    if calls is not None:
        return calls or None
    keys = set(_KEY.findall(_ESCAPE.sub(lambda found: chr(int(found[1], 16)), text)))
    names = keys.intersection(fields.names)
    is_call = names and (keys.intersection(fields.arguments) or names.intersection(fields.enough))
    return unreadable(text) if is_call else None


def _calls(text: str, fields: Fields) -> list[Proposed] | None:
    """None: it is not one JSON value, or says a thing twice."""
    raw = text.strip().encode("utf-8", "surrogatepass")
    try:
        if value_at(raw).end != len(raw):
            return None
        parts = [part.cut(raw) for part in elements(raw).values] if raw[:1] == b"[" else [raw]
        found = [_one(part, fields) for part in parts]
    except (ValueError, RecursionError):
        return None
    calls = [call for call in found if call is not None]
    return calls if not calls or all(found) else unreadable(text)


def in_fence(text: str, fields: Fields = USUAL) -> list[Proposed] | None:
    """The same for JSON in a fence, which may be closed in the line in which it ends."""
    bare = text.strip()
    if bare[:1] not in {"{", "["}:
        return None
    inner, closed, rest = bare.partition("```")
    is_closed = closed and "```" not in rest
    return suspected(inner if is_closed and not proposed(bare, fields) else bare, fields)


def _one(raw: bytes, fields: Fields) -> Proposed | None:
    if raw[:1] != b"{":
        return None
    values = members(raw).values
    names = [key for key in fields.names if key in values]
    given = [values[key].cut(raw) for key in fields.arguments if key in values]
    if not names or not (given or any(key in fields.enough for key in names)):
        inner = values.get("function")
        return _one(inner.cut(raw), fields) if names == ["function"] and inner is not None else None
    if len(names) > 1 or len(given) > 1:
        return UNREADABLE, raw.decode("utf-8", "surrogatepass")
    name = values[names[0]].cut(raw)
    if name[:1] != b'"':
        return None
    said = given[0].decode("utf-8", "surrogatepass") if given else "{}"
    if said.startswith('"'):
        plain = json.loads(said)
        # Some write the arguments as JSON in a string; any other text is the tool's one input.
        said = plain if plain.strip().startswith("{") else json.dumps({"input": plain}, ensure_ascii=False)
    elif said == "null":
        said = "{}"
    return json.loads(name), said


def xml_call(text: str) -> list[Proposed]:
    """`name>` and then parameters as elements, or JSON."""
    found = _XML_NAME.match(text)
    if found is None:
        return unreadable(text)
    name, rest = found[1].strip("\"'"), text[found.end() :].strip()
    if rest.startswith("{"):
        return [(name, rest)]
    before, *parts = rest.split("<parameter")
    read = [_XML_PARAMETER.fullmatch(part) for part in parts]
    values = {part[1].strip(): _plain(part[2]) for part in read if part is not None}
    # What is left open, stands between or is said twice is taken by one parser and not by another.
    if before.strip() or len(values) < len(parts):
        return unreadable(text)
    return [(name, json.dumps(values, ensure_ascii=False))]


def _plain(text: str) -> str:
    return text.removeprefix("\n").removesuffix("\n")


def written(calls: Sequence[Proposed]) -> str:
    """The calls as JSON, one object each, one a line."""
    return "\n".join(f'{{"name": {json.dumps(name)}, "arguments": {arguments}}}' for name, arguments in calls)


def one_input(name: str, text: str) -> Proposed:
    """A call whose input is JSON, or else a text, which tools get without its quotes. An object within the text is what
    some parsers take instead: its members are there as well."""
    bare = text.strip()
    if bare.startswith("{"):
        return name, bare
    first, last = bare.find("{"), bare.rfind("}")
    within: dict[str, object] = {}
    if 0 <= first < last:
        try:
            within = read_object(bare[first : last + 1])
        except NotOneObject:
            within = {}
    if "input" in within:
        return UNREADABLE, bare
    return name, json.dumps({**within, "input": bare.strip('"')}, ensure_ascii=False)
