"""JSON that somebody has tampered with: one or more places of a valid value hold what nobody would send."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import strategies as st

ODD = (
    "null",
    "true",
    "false",
    "0",
    "-1",
    "1.5",
    "1e999",
    "-0",
    "9" * 30,
    "9" * 5000,
    "NaN",
    "Infinity",
    '""',
    '"x"',
    '"user"',
    '"tool"',
    '"tool_use"',
    '"function"',
    '"delete_note"',
    '"\\ud800"',
    '"\\udc00\\ud800"',
    '"\\u0000"',
    '"\\u202e\\u200b"',
    '"{\\"id\\": 4}"',
    "[]",
    "{}",
    "[null]",
    "[[]]",
    '["x"]',
    '[{"type":"text","text":"x"}]',
    '{"type":"tool_use","id":"toolu_x","name":"delete_note","input":{}}',
    '{"name":"delete_note","arguments":"{}"}',
    '[{"id":"call_x","type":"function","function":{"name":"delete_note","arguments":"{}"}}]',
    '{"a":1,"a":2}',
    "[" * 200 + "]" * 200,
    '{"a":' * 1100 + "1" + "}" * 1100,
    "nope",
    "'x'",
    '"\x01"',
    '"',
)
"""Values as text; not all of them are JSON."""


class Written:
    """A value that is written as this very text."""

    def __init__(self, text: str) -> None:
        self.text = text


Node = tuple[str, list[Any]]
"""A JSON object or array that may hold anything: `("{", [[key, value], …])` or `("[", [value, …])`."""


def opened(value: Any) -> Any:
    """The value in a form in which keys can occur twice."""
    if isinstance(value, dict):
        return ("{", [[key, opened(part)] for key, part in value.items()])
    if isinstance(value, list):
        return ("[", [opened(part) for part in value])
    return value


def written(value: Any) -> str:
    """The value as compact JSON text (or nearly)."""
    if isinstance(value, Written):
        return value.text
    if isinstance(value, tuple):
        kind, parts = value
        if kind == "[":
            return f"[{','.join(map(written, parts))}]"
        return "{" + ",".join(f"{json.dumps(key)}:{written(part)}" for key, part in parts) + "}"
    return json.dumps(value, ensure_ascii=False)


def _holders(value: Any) -> list[Node]:
    """All objects and arrays in it that hold something, the outermost first."""
    if not isinstance(value, tuple):
        return []
    kind, parts = value
    inner = [part[1] for part in parts] if kind == "{" else parts
    return [*([value] if parts else []), *(found for part in inner for found in _holders(part))]


@st.composite
def tampered(draw: st.DrawFn, value: Any, most: int = 3) -> bytes:
    """The value's JSON text with up to `most` places replaced, left out, doubled, moved or added to."""
    whole = opened(value)
    for _ in range(draw(st.integers(1, most))):
        holders = _holders(whole)
        if not holders:
            break
        kind, parts = draw(st.sampled_from(holders))
        place = draw(st.integers(0, len(parts) - 1))
        odd = Written(draw(st.sampled_from(ODD)))
        what = draw(
            st.sampled_from(["replace", "replace", "replace", "drop", "double", "add", "rename", "move"])
        )
        if what == "drop":
            del parts[place]
        elif what == "double" and kind == "{":
            # Behind or before the other one: two readers may take either.
            parts.insert(place + draw(st.integers(0, 1)), [parts[place][0], odd])
        elif what == "double":
            parts.insert(place, parts[place])
        elif what == "add":
            parts.insert(place, ["extra", odd] if kind == "{" else odd)
        elif what == "rename" and kind == "{":
            parts[place][0] = draw(
                st.sampled_from(["", "role", "content", "type", "id", "tool_calls", "input"])
            )
        elif what == "move":
            parts.append(parts.pop(place))
        elif kind == "{":
            parts[place][1] = odd
        else:
            parts[place] = odd
    return written(whole).encode("utf-8", "surrogatepass")
