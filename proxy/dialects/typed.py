"""Members of a request, read with their types: what is wrong is said to the developer of the agent."""

from __future__ import annotations

from typing import Any

import orjson

from proxy.core import json_text
from proxy.core.messages import Malformed

Json = dict[str, Any]


def whole_object(body: bytes) -> Json:
    """The JSON object that a body is. Raises Malformed where it is none, or where a key occurs twice: readers would differ
    about what it says."""
    try:
        value = orjson.loads(body)
    except orjson.JSONDecodeError:
        raise Malformed("the body is not valid JSON") from None
    if not isinstance(value, dict):
        raise Malformed("the body has to be a JSON object")
    try:
        json_text.refuse_double_keys(body)
    except ValueError as fault:
        raise Malformed(f"the body cannot be judged: {fault}") from None
    return value


def typed(holder: Json, key: str, kind: type, words: str) -> Any:
    """The member of this type, or None. Raises Malformed, which says that it has to be `words`."""
    value = holder.get(key)
    if value is None or (isinstance(value, kind) and not (kind is int and isinstance(value, bool))):
        return value
    raise Malformed(f"{key} has to be {words}")


def flag(holder: Json, key: str) -> bool:
    """The switch; off where it is absent. Raises Malformed."""
    return bool(typed(holder, key, bool, "true or false"))


def listed(holder: Json, key: str, *, needed: bool = False) -> list[Json]:
    """The list of objects; empty where it is absent and not needed. Raises Malformed."""
    values = typed(holder, key, list, "a list")
    if values is None:
        if needed:
            raise Malformed(f"{key} is missing")
        return []
    for place, value in enumerate(values):
        if not isinstance(value, dict):
            raise Malformed(f"{key}[{place}] has to be an object")
    found: list[Json] = values
    return found


def number(holder: Json, key: str, *, least: int, most: int | None = None) -> int | None:
    """The whole number, or None. Raises Malformed."""
    value = holder.get(key)
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or value < least or (most and value > most):
        bound = f" up to {most}" if most else ""
        raise Malformed(f"{key} has to be a whole number from {least}{bound}")
    return value
