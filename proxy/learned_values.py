"""What values that were seen at one place of a tool's arguments have in common, as constraints of rule data.

Pure. Laws: every value that was seen keeps to the constraint; a value of another type or another shape does not. Where
the rule data cannot say it, nothing is said, and the argument is then refused.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

LARGEST_NUMBER = 2**53
LONGEST_WORD = 64
"""Characters of a text that may be an id or a word to choose from; longer ones, and those with white space, are free."""
MIXED_CHOICES = 32
_UNSAFE = frozenset("\\.^$*+?()[]{}|")
_SLUG = re.compile(r"[0-9A-Za-z_.:@-]+")
_ID_MARKS = "_.:@-"

Constraint = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Thresholds:
    """When values count as what."""

    choices: int = 8
    """The most words of a closed set."""
    times: int = 3
    """A closed set's words were seen in so many runs each, on average."""


def constraint_of(
    values: Sequence[Any],
    thresholds: Thresholds | None = None,
    *,
    occasions: int | None = None,
    is_secret: bool = False,
) -> Constraint | None:
    """What holds for all of these JSON values (no nulls, at least one). None: rule data cannot say it.

    `occasions`: how often some run had some value, repetition in one run not counted; None: all are runs of their own.
    `is_secret`: nothing of the values themselves may stand in it.
    """
    occasions = len(values) if occasions is None else occasions
    kinds = {_kind(value) for value in values}
    limits = thresholds or Thresholds()
    if len(kinds) > 1:
        return None if is_secret else _mixed(values, kinds)
    (kind,) = kinds
    if kind == "array":
        return {"type": "array", "max_length": max(len(value) for value in values)}
    if kind == "object":
        return {"type": "object"}
    if kind == "boolean":
        is_one = not is_secret and len(set(values)) == 1 and occasions >= limits.times
        return {"equals": values[0]} if is_one else {"type": "boolean"}
    if kind == "number":
        return _numbers(values, is_secret=is_secret)
    return _texts(values, limits, occasions, is_secret=is_secret)


def _kind(value: object) -> str:
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int | float):
        return "number"
    if isinstance(value, str):
        return "string"
    return "array" if isinstance(value, list) else "object"


def _mixed(values: Sequence[Any], kinds: set[str]) -> Constraint | None:
    """There is no constraint `this or that type`: only the very values."""
    distinct = _distinct(values)
    too_large = any(_kind(value) == "number" and abs(value) > LARGEST_NUMBER for value in distinct)
    if kinds & {"array", "object"} or len(distinct) > MIXED_CHOICES or too_large:
        return None
    return {"one_of": distinct}


def _distinct(values: Iterable[Any]) -> list[Any]:
    """Each once, in an order that does not hang on the recordings'."""
    return [json.loads(text) for text in sorted({json.dumps(value) for value in values})]


def _numbers(values: Sequence[Any], *, is_secret: bool) -> Constraint | None:
    if max(abs(value) for value in values) > LARGEST_NUMBER:
        return None
    kind = "integer" if all(float(value).is_integer() for value in values) else "number"
    return {"type": kind} if is_secret else {"type": kind, "min": min(values), "max": max(values)}


def _texts(values: Sequence[str], limits: Thresholds, occasions: int, *, is_secret: bool) -> Constraint:
    longest = max(map(_length, values))
    free: Constraint = {"type": "string", "max_length": _rounded_up(longest)}
    if is_secret:
        return free
    distinct = sorted(set(values))
    are_words = all(_is_word(value) for value in distinct)
    if are_words and len(distinct) <= limits.choices and occasions >= limits.times * len(distinct):
        return {"one_of": distinct}
    folder = _common_folder(distinct)
    if folder:
        return {"starts_with": folder, "max_length": _rounded_up(longest)}
    pattern = _pattern(distinct) if are_words else ""
    return {"pattern": pattern} if pattern else free


def _length(text: str) -> int:
    """As the engine that counts most: one of them counts characters beyond 16 bits as two."""
    return len(text) + sum(char > "\uffff" for char in text)


def _rounded_up(length: int) -> int:
    """The next power of two: how long a free text was is chance."""
    return 1 << (length - 1).bit_length() if length else 0


def _is_word(text: str) -> bool:
    return 0 < len(text) <= LONGEST_WORD and text.isascii() and text.isprintable() and " " not in text


def _common_folder(values: Sequence[str]) -> str:
    """The path that all (two at least) begin with, up to a slash; empty: there is none worth naming."""
    if len(values) < 2 or not all("/" in value for value in values):  # noqa: PLR2004 - what one has in common is itself
        return ""
    first, last = values[0], values[-1]  # of sorted texts the outermost have least in common
    pairs = enumerate(zip(first, last, strict=False))
    same = next((place for place, pair in pairs if pair[0] != pair[1]), min(len(first), len(last)))
    folder = first[: first.rfind("/", 0, same) + 1]
    climbs = any(".." in re.split(r"[/\\]", value) for value in values)
    return "" if climbs or not folder.strip("/") or folder.endswith("://") else folder


# --- shapes -------------------------------------------------------------------------------------------------------


def _pattern(values: Sequence[str]) -> str:
    """An anchored regular expression of the shape that all have; empty: they have none."""
    for runs_of in (_narrow_runs, _wide_runs):
        shapes = [list(runs_of(value)) for value in values]
        if len({tuple(kind for kind, _ in shape) for shape in shapes}) == 1:
            return f"^{''.join(_piece(column) for column in zip(*shapes, strict=True))}$"
    if all(_SLUG.fullmatch(value) for value in values):
        text = "".join(values)
        marks = "".join(mark for mark in _ID_MARKS if mark in text)
        return f"^[{_classes(text)}{marks}]{{1,{2 * max(map(len, values))}}}$"
    return ""


def _narrow_runs(value: str) -> Iterator[tuple[str, str]]:
    """Stretches of capitals, of small letters, of digits; each other character by itself."""
    for found in re.finditer(r"[A-Z]+|[a-z]+|[0-9]+|[\s\S]", value):
        text = found[0]
        yield (_classes(text) or text), text


def _wide_runs(value: str) -> Iterator[tuple[str, str]]:
    """Stretches of letters and digits together."""
    for found in re.finditer(r"[A-Za-z0-9]+|[\s\S]", value):
        text = found[0]
        yield ("word" if text[0].isalnum() else text), text


def _classes(text: str) -> str:
    return "".join(name for name in ("0-9", "A-Z", "a-z") if re.search(f"[{name}]", text))


def _piece(column: Sequence[tuple[str, str]]) -> str:
    """One stretch of all the values as a part of a pattern."""
    kind, text = column[0]
    if not text[0].isalnum():
        return f"\\{kind}" if kind in _UNSAFE else kind
    lengths = {len(text) for _, text in column}
    least, most = (min(lengths), max(lengths)) if len(lengths) == 1 else (1, 2 * max(lengths))
    bound = f"{{{least}}}" if least == most else f"{{{least},{most}}}"
    return f"[{_classes(''.join(text for _, text in column))}]{bound}"


# --- places -------------------------------------------------------------------------------------------------------


def places(arguments: Mapping[str, Any], deepest: int = 12) -> dict[str, list[Any]]:
    """By path, as rule data names them, the values that are there; null counts as not there. What no path can name
    (dots, stars and empty names) is left out with all below it."""
    found: dict[str, list[Any]] = {}
    waiting: list[tuple[tuple[str, ...], Any]] = [((), arguments)]
    while waiting:
        path, value = waiting.pop()
        if value is None or len(path) > deepest:
            continue
        if path:
            name = ".".join(path)
            if len(name) > 256:  # noqa: PLR2004 - the longest name in rule data
                continue
            found.setdefault(name, []).append(value)
        if isinstance(value, list):
            waiting += [((*path, "*"), part) for part in reversed(value)]
        elif isinstance(value, dict):
            named = [(key, part) for key, part in value.items() if key and key != "*" and "." not in key]
            waiting += [((*path, key), part) for key, part in reversed(named)]
    return found


def is_missing(value: Any, path: str) -> bool:
    """Whether something that the path names is not there, as the policies see it."""
    part, _, rest = path.partition(".")
    if part == "*":
        if not isinstance(value, list | dict):
            return True
        parts = value if isinstance(value, list) else value.values()
        return bool(rest) and any(is_missing(each, rest) for each in parts)
    if not isinstance(value, dict) or value.get(part) is None:
        return True
    return bool(rest) and is_missing(value[part], rest)
