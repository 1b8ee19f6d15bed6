"""What a call is about: the identifying values among its arguments, whatever the tool calls them (D2, D6)."""

from __future__ import annotations

import re
from collections.abc import Mapping

_CAMEL = re.compile(r"(?<=[a-z])(?=[A-Z])")
_ID_NAME = re.compile(r"(?:^|_)(?:id|ids|number|no|key|ref|reference|code|uuid|email|user|account|order)$")
_DATE = re.compile(r"\d{4}-\d\d(?:-\d\d)?(?:[T ][\d:.+Z-]*)?|\d{1,2}:\d\d(?::\d\d)?")
_MEASURE = re.compile(r"[-+]?\d{1,5}(?:\.\d+)?")
_ID_LENGTH = 128
_LONG_NUMBER = 100_000
_ENDLESS = 10**40
_CODE_LENGTH = 5


def objects(arguments: Mapping[str, object]) -> frozenset[str]:
    """The identifying values in a call's arguments: what a call is about, whatever the tool (D2, D6).

    A string counts that has no white space and either holds a digit, an `@`, or is all capitals, and is no date,
    time or small number; any scalar counts whose argument is named like an id.
    """
    found = set()
    waiting: list[tuple[str, object]] = list(arguments.items())
    while waiting:
        name, value = waiting.pop()
        if isinstance(value, Mapping):
            waiting.extend(value.items())
        elif isinstance(value, list | tuple):
            waiting.extend((name, part) for part in value)
        elif isinstance(value, str | int) and not isinstance(value, bool) and _identifies(name, value):
            found.add(str(value))
    return frozenset(found)


def _identifies(name: str, value: str | int) -> bool:
    named = _ID_NAME.search(_CAMEL.sub("_", name).lower()) is not None
    if isinstance(value, int):
        return abs(value) < _ENDLESS and (named or value >= _LONG_NUMBER)
    if not value or len(value) > _ID_LENGTH or any(sign.isspace() for sign in value):
        return False
    if named:
        return True
    if _DATE.fullmatch(value) or _MEASURE.fullmatch(value):
        return False
    capitals = len(value) >= _CODE_LENGTH and value.isalnum() and value.isupper()
    return capitals or "@" in value or any(sign.isdigit() for sign in value)
