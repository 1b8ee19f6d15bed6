"""JSON as text: one object read strictly, and JSON edited without touching a byte that is not meant.

Laws: nothing here recurses over what came in, so depth cannot break it; an edit is a list of splices over the
original bytes, and every byte before the first splice stays where it is. Positions are byte offsets.
"""

from __future__ import annotations

import itertools
import json
import math
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

MAX_DEPTH = 64
MAX_DIGITS = 4000
"""Longer whole numbers are refused: turning them into numbers takes quadratic time."""

_WHITE = " \t\r\n"


class NotOneObject(ValueError):
    """A text that is not exactly one JSON object. `reason` is a sentence for the model; it quotes no values."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


# --- strict reading -----------------------------------------------------------------------------------------

# One match a bracket: everything between two brackets, strings included, is skipped inside the expression. It
# matches at the end too, so that no place is tried twice.
_TEXT_TO_BRACKET = re.compile(r'(?:[^"\[\]{}]++|"(?:[^"\\]++|\\.)*+(?:"|\\?\Z))*+([\[\]{}]|\Z)', re.DOTALL)
_SURROGATE = re.compile(r"[\ud800-\udfff]")
_MAYBE_SURROGATE = re.compile(r"[\ud800-\udfff]|\\u[dD][89a-fA-F]")
_KIND_BY_START = {
    "[": "an array",
    '"': "a string",
    "n": "null",
    "t": "true",
    "f": "false",
    "`": "fenced text",
}


def read_object(text: str, max_depth: int = MAX_DEPTH) -> dict[str, object]:
    """The one JSON object that `text` is; white space around it is fine, and nothing at all is an empty object.

    Raises NotOneObject for anything that two readers could take differently: text after the object, keys that
    occur twice (at any level, also through escapes), NaN and infinities, lone surrogates, endless numbers; for
    what is no object, is cut off, or is deeper than `max_depth` (RFC 8259; C3).
    """
    bare = text.strip(_WHITE)
    if not bare:
        return {}
    if bare[0] != "{":
        kind = _KIND_BY_START.get(bare[0], "a number" if bare[0] in "-0123456789" else "other text")
        raise NotOneObject(f"It has to be one JSON object in braces, and it starts as {kind}.")
    _refuse_depth(bare, max_depth)
    try:
        value, end = _STRICT.raw_decode(bare)
    except json.JSONDecodeError as fault:
        raise NotOneObject(_what_is_wrong(bare, fault)) from None
    except RecursionError:
        raise NotOneObject(_too_deep(max_depth)) from None
    if end != len(bare):
        raise NotOneObject("There is more text after the JSON object; send the one object and nothing else.")
    if _MAYBE_SURROGATE.search(bare):
        _refuse_surrogates(value)
    read: dict[str, object] = value
    return read


def _too_deep(max_depth: int) -> str:
    return f"The JSON is nested deeper than {max_depth} levels."


def _refuse_depth(text: str, max_depth: int) -> None:
    depth = 0
    for found in _TEXT_TO_BRACKET.finditer(text):
        if found[1] and found[1] in "[{":
            depth += 1
            if depth > max_depth:
                raise NotOneObject(_too_deep(max_depth))
        elif found[1]:
            depth -= 1


def _what_is_wrong(text: str, fault: json.JSONDecodeError) -> str:
    if fault.pos >= len(text) or fault.msg.startswith("Unterminated string"):
        return "The JSON is cut off before the object ends."
    return f"It is not valid JSON near character {fault.pos + 1}."


def _refuse_surrogates(value: object) -> None:
    waiting = [value]
    while waiting:
        part = waiting.pop()
        if isinstance(part, dict):
            waiting += part.keys()
            waiting += part.values()
        elif isinstance(part, list):
            waiting += part
        elif isinstance(part, str) and _SURROGATE.search(part):
            raise NotOneObject("A string holds half of a surrogate pair, which is no character.")


def _without_duplicates(pairs: list[tuple[str, object]]) -> dict[str, object]:
    read = dict(pairs)
    if len(read) != len(pairs):
        raise NotOneObject("A key occurs twice in one object, so it is not clear which value is meant.")
    return read


def _short_integer(digits: str) -> int:
    if len(digits) > MAX_DIGITS:
        raise NotOneObject(f"A number has more than {MAX_DIGITS} digits.")
    return int(digits)


def _finite_float(digits: str) -> float:
    number = float(digits)
    if not math.isfinite(number):
        raise NotOneObject("A number is too large to be represented.")
    return number


def _no_constant(name: str) -> NoReturn:
    raise NotOneObject(f"{name} is not a JSON value.")


_STRICT = json.JSONDecoder(
    object_pairs_hook=_without_duplicates,
    parse_int=_short_integer,
    parse_float=_finite_float,
    parse_constant=_no_constant,
)


def _only_once(pairs: list[tuple[str, object]]) -> None:
    if len({name for name, _ in pairs}) != len(pairs):
        raise ValueError("a key occurs twice in one object")


# What the values are does not matter here; digits stay digits, since turning long ones into numbers takes long.
_KEYS = json.JSONDecoder(object_pairs_hook=_only_once, parse_int=str, parse_float=str)


def refuse_double_keys(body: bytes) -> None:
    """Nothing, where `body` (known to be JSON) can be understood in one way only.

    Raises ValueError where a key occurs twice in one object, at any level, also through escapes: of two readers, one
    may take the first and the other the last (RFC 8259, 4); and where it is too deep to be looked through.
    """
    try:
        _KEYS.decode(body.decode())
    except RecursionError:
        raise ValueError("it is nested too deep") from None


# --- where things stand ---------------------------------------------------------------------------------------

_SPACE = re.compile(rb"[ \t\r\n]*+")
_STRING = re.compile(rb'"(?:[^"\\]++|\\.)*+"', re.DOTALL)
_SCALAR = re.compile(rb"[^ \t\r\n,:\[\]{}\"]++")
_TO_BRACKET = re.compile(_TEXT_TO_BRACKET.pattern.encode(), re.DOTALL)


@dataclass(frozen=True, slots=True)
class Span:
    """A stretch of the body, in bytes: from `start` up to, not including, `end`."""

    start: int
    end: int

    def cut(self, body: bytes) -> bytes:
        """The bytes of this stretch."""
        return body[self.start : self.end]


@dataclass(frozen=True, slots=True)
class Members:
    """Where an object stands and where its members do. `whole` runs from a member's key to its value's end."""

    span: Span
    values: Mapping[str, Span] = field(default_factory=dict)
    whole: Mapping[str, Span] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Elements:
    """Where an array stands and where its elements do."""

    span: Span
    values: tuple[Span, ...] = ()


def members(body: bytes, at: int = 0) -> Members:
    """The members of the object that starts at `at` (white space before it is skipped).

    Raises ValueError where there is no object, or where a key occurs twice: that would be ambiguous.
    """
    start = _skip_space(body, at)
    if body[start : start + 1] != b"{":
        raise ValueError(f"no object at byte {start}")
    values: dict[str, Span] = {}
    whole: dict[str, Span] = {}
    place = _skip_space(body, start + 1)
    if body[place : place + 1] == b"}":
        return Members(Span(start, place + 1))
    while True:
        name = _STRING.match(body, place)
        if name is None:
            raise ValueError(f"no key at byte {place}")
        key = json.loads(name[0])
        if key in values:
            raise ValueError("a key occurs twice in one object")
        colon = _skip_space(body, name.end())
        if body[colon : colon + 1] != b":":
            raise ValueError(f"no colon at byte {colon}")
        value = value_at(body, colon + 1)
        values[key] = value
        whole[key] = Span(place, value.end)
        place = _skip_space(body, value.end)
        if body[place : place + 1] == b"}":
            return Members(Span(start, place + 1), values, whole)
        place = _skip_comma(body, place)


def elements(body: bytes, at: int = 0) -> Elements:
    """The elements of the array that starts at `at`. Raises ValueError where there is none."""
    start = _skip_space(body, at)
    if body[start : start + 1] != b"[":
        raise ValueError(f"no array at byte {start}")
    values: list[Span] = []
    place = _skip_space(body, start + 1)
    if body[place : place + 1] == b"]":
        return Elements(Span(start, place + 1))
    while True:
        value = value_at(body, place)
        values.append(value)
        place = _skip_space(body, value.end)
        if body[place : place + 1] == b"]":
            return Elements(Span(start, place + 1), tuple(values))
        place = _skip_comma(body, place)


def value_at(body: bytes, at: int = 0) -> Span:
    """The value (of any kind) that starts at `at`, without the white space around it; it is not parsed."""
    start = _skip_space(body, at)
    first = body[start : start + 1]
    if first in {b"{", b"["}:
        depth = 0
        for bracket in _TO_BRACKET.finditer(body, start):
            if not bracket[1]:
                break
            depth += 1 if bracket[1] in b"{[" else -1
            if depth == 0:
                return Span(start, bracket.end())
        raise ValueError(f"the value at byte {start} has no end")
    found = (_STRING if first == b'"' else _SCALAR).match(body, start)
    if found is None:
        raise ValueError(f"no value at byte {start}")
    return Span(start, found.end())


def is_deeper(body: bytes, most: int) -> bool:
    """Whether a JSON text is nested deeper than `most` levels."""
    steps = (1 if bracket[1] in {b"{", b"["} else -1 for bracket in _TO_BRACKET.finditer(body))
    return any(depth > most for depth in itertools.accumulate(steps))


def locate(body: bytes, *path: str | int, at: int = 0) -> Span | None:
    """Where the value at a path of keys and places (negative: from the end), begun at byte `at`, stands, or None."""
    span = value_at(body, at)
    for part in path:
        first = body[span.start : span.start + 1]
        if isinstance(part, str):
            found = members(body, span.start).values.get(part) if first == b"{" else None
        else:
            values = elements(body, span.start).values if first == b"[" else ()
            found = values[part] if -len(values) <= part < len(values) else None
        if found is None:
            return None
        span = found
    return span


def _skip_space(body: bytes, at: int) -> int:
    found = _SPACE.match(body, at)
    return found.end() if found else at


def _skip_comma(body: bytes, at: int) -> int:
    if body[at : at + 1] != b",":
        raise ValueError(f"no comma at byte {at}")
    return _skip_space(body, at + 1)


# --- edits ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Splice:
    """The bytes from `start` to `end` give way to `replacement`."""

    start: int
    end: int
    replacement: bytes = b""


def spliced(body: bytes, splices: Iterable[Splice]) -> bytes:
    """The body with all splices done; several at one place are done in the order given. None: the same object.

    Raises ValueError where two overlap.
    """
    ordered = sorted(splices, key=lambda splice: (splice.start, splice.end))
    if not ordered:
        return body
    parts = []
    place = 0
    for splice in ordered:
        if splice.start < place:
            raise ValueError(f"two edits overlap at byte {splice.start}")
        parts += [body[place : splice.start], splice.replacement]
        place = splice.end
    return b"".join([*parts, body[place:]])


def quoted(text: str) -> bytes:
    """The text as a JSON string. Half a surrogate pair becomes an escape."""
    return json.dumps(text, ensure_ascii=False).encode("utf-8", "backslashreplace")


def replaced(span: Span, value: bytes) -> Splice:
    """Another value in place of this one."""
    return Splice(span.start, span.end, value)


def appended_text(string: Span, text: str) -> Splice:
    """Text added at the end of a JSON string."""
    return Splice(string.end - 1, string.end - 1, quoted(text)[1:-1])


def prepended_text(string: Span, text: str) -> Splice:
    """Text added at the beginning of a JSON string."""
    return Splice(string.start + 1, string.start + 1, quoted(text)[1:-1])


def array_edit(array: Elements, *, drop: Collection[int] = (), append: Sequence[bytes] = ()) -> list[Splice]:
    """Elements taken out by place, with their commas, and others put in at the end."""
    kept = [place for place in range(len(array.values)) if place not in drop]
    return _list_edit(array.span, array.values, kept, append)


def object_edit(
    object_: Members, *, drop: Collection[str] = (), put: Mapping[str, bytes] | None = None
) -> list[Splice]:
    """Members taken out (absent ones are ignored), others set: in place where they exist, else at the end."""
    put = put or {}
    keys = list(object_.whole)
    kept = [place for place, key in enumerate(keys) if key not in drop]
    fresh = [
        quoted(key) + b":" + value for key, value in put.items() if key not in object_.values or key in drop
    ]
    splices = [
        replaced(object_.values[key], value)
        for key, value in put.items()
        if key in object_.values and key not in drop
    ]
    return splices + _list_edit(object_.span, tuple(object_.whole.values()), kept, fresh)


def _list_edit(
    outer: Span, items: Sequence[Span], kept: Sequence[int], fresh: Sequence[bytes]
) -> list[Splice]:
    """Whatever is between two kept items or behind the last one goes; `fresh` ones come behind the last."""
    added = b",".join(fresh)
    if not kept:
        if not items:
            return [Splice(outer.start + 1, outer.start + 1, added)] if added else []
        return [Splice(items[0].start, items[-1].end, added)]
    splices = []
    if kept[0]:
        splices.append(Splice(items[0].start, items[kept[0]].start))
    splices += [
        Splice(items[left].end, items[right - 1].end)
        for left, right in itertools.pairwise(kept)
        if right - left > 1
    ]
    last = items[kept[-1]].end
    tail = items[-1].end
    if added or tail != last:
        splices.append(Splice(last, tail, b"," + added if added else b""))
    return splices
