"""What a tool result means, and what is declared about a tool.

Found, not found, forbidden, temporarily unavailable and failed lead to different next steps (A5, A6, D7). An
empty value is "not found", never a failure.

Reading is conservative: an envelope that says so is believed (error fields, status numbers, the wire's error
flag, a text that begins as an error does); words inside ordinary content never are. What a tool says in its own
way is declared by status rules.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from . import result_words as words

if TYPE_CHECKING:
    from .messages import ToolResult


class StepStatus(StrEnum):
    """What became of a call."""

    PENDING = "pending"
    """Released; no result seen yet."""
    FOUND = "found"
    NOT_FOUND = "not_found"
    FORBIDDEN = "forbidden"
    TEMPORARILY_UNAVAILABLE = "temporarily_unavailable"
    FAILED = "failed"
    REFUSED = "refused"
    """Never released: a check said no."""


FRUITLESS = frozenset(
    {StepStatus.NOT_FOUND, StepStatus.FORBIDDEN, StepStatus.FAILED, StepStatus.TEMPORARILY_UNAVAILABLE}
)
"""Statuses that bring nothing new."""


@dataclass(frozen=True, slots=True)
class StatusRule:
    """Results of a tool that hold `contains` (case ignored) have this status. Policy data gives these.

    An empty `contains` stands for a result without any text.
    """

    contains: str
    status: StepStatus


@dataclass(frozen=True, slots=True)
class ToolTraits:
    """What policy declares about one tool."""

    effect: str = "unknown"
    """`read`, `write` or `unknown` (D4)."""
    risk: str = "unknown"
    """`low`, `medium`, `high` or `unknown`."""
    volatile_arguments: tuple[str, ...] = ()
    """Argument names that say nothing about what is asked (request ids, time stamps)."""
    volatile_results: tuple[str, ...] = ()
    """Field names of a JSON result that change though nothing is new."""
    identity_fields: tuple[str, ...] = ()
    """Field names that identify a result (its version, its document ids), where it has them (D9)."""
    status_rules: tuple[StatusRule, ...] = ()
    polling: bool = False
    """The same call with the same result is what this tool is for; only its own limits stop it."""
    truncate: int = 0
    """Characters of a result that the model reads; 0: all."""
    fence: bool = False
    """What it returns comes from outside: the model reads it between marks."""
    idempotency_argument: str = ""
    """Path of the argument by which the tool tells one intended act from another; empty: it has none."""
    repeatable: bool = False
    """Doing the very same again is fine (D4)."""


NO_TRAITS = ToolTraits()


# --- which kind of result is this? ------------------------------------------------------------------------------

READ_CHARACTERS = 65_536
"""Longer results are content: nobody reports an error at this length."""
_HEAD = 400
"""So much of an error's text says which kind it is."""
_SHORT = 200
"""A plain text that says no more than that nothing was found, or that access was refused, is not longer."""

_DEEPEST = 3
"""An envelope says what it has to say in its outer levels."""
_ERROR_NUMBERS = range(400, 600)
_PASSING_NUMBERS = frozenset({408, 425, 429, *range(500, 600)})

_WORDS = (
    (StepStatus.FORBIDDEN, words.FORBIDDEN),
    (StepStatus.TEMPORARILY_UNAVAILABLE, words.PASSING),
    (StepStatus.NOT_FOUND, words.NOT_FOUND),
)
_PLAIN_STARTS = (
    (StepStatus.FORBIDDEN, words.FORBIDDEN_START),
    (StepStatus.TEMPORARILY_UNAVAILABLE, words.PASSING_START),
    (StepStatus.NOT_FOUND, words.NOT_FOUND_START),
)


def classify(result: ToolResult, traits: ToolTraits) -> StepStatus:
    """The kind of a tool result (A5, A6, D7): what policy says of this tool's texts first, then what the result
    itself says, else found."""
    lowered = result.text.casefold() if traits.status_rules else ""
    for rule in traits.status_rules:
        if rule.contains.casefold() in lowered if rule.contains else not lowered.strip():
            return rule.status
    status = _status(result.text, traits)
    if not result.is_error or status in {StepStatus.FORBIDDEN, StepStatus.TEMPORARILY_UNAVAILABLE}:
        return status
    return _status_of_error(result.text)


def _status(text: str, traits: ToolTraits) -> StepStatus:
    bare = text.strip()
    nothing = StepStatus.NOT_FOUND if traits.effect == "read" else StepStatus.FOUND
    if bare.lower() in words.EMPTY_WORDS:
        # A tool that only acts often has nothing to say; only one that is known to look things up found nothing.
        return nothing
    if len(bare) > READ_CHARACTERS:
        return StepStatus.FOUND
    if bare[0] not in '{["':
        return _status_of_text(bare)
    try:
        value = _unwrapped(json.loads(bare))
    except (ValueError, RecursionError):
        return _status_of_text(bare)
    if isinstance(value, str):
        return _status_of_text(value.strip()) if value.strip() else nothing
    said = _status_said(value) if isinstance(value, dict) else None
    if said is not None:
        return said
    is_empty = _is_empty(value, 0) and traits.effect != "write"
    return StepStatus.NOT_FOUND if is_empty else StepStatus.FOUND


def _unwrapped(value: object) -> object:
    """The text in a list of one text part, which is how some agents pass a tool's text on."""
    if (
        isinstance(value, list)
        and len(value) == 1
        and isinstance(value[0], dict)
        and value[0].get("type") == "text"
    ):
        text = value[0].get("text")
        return text if isinstance(text, str) else value
    return value


def _status_said(value: Mapping[str, object]) -> StepStatus | None:
    """What an object says of itself; None: it is content."""
    successes = [value[name] for name in words.SUCCESS_FIELDS if isinstance(value.get(name), bool)]
    if True in successes:
        return StepStatus.FOUND
    reasons = " ".join(_reasons(value, 0))
    if value.get("found") is False and not any(_is_error(value.get(name)) for name in words.ERROR_FIELDS):
        return StepStatus.NOT_FOUND
    number = _status_number(value)
    failed = any(_is_error(value.get(name)) for name in words.ERROR_FIELDS) and not _has_payload(value)
    flagged = False in successes or any(value.get(name) is True for name in words.ERROR_FLAGS)
    if failed or flagged:
        by_number = _status_of_number(number)
        return by_number if by_number not in {None, StepStatus.FAILED} else _status_of_error(reasons)
    if number is not None:
        return _status_of_number(number)
    word = value.get("status")
    if isinstance(word, str) and value.keys() <= words.ENVELOPE_FIELDS and not _has_payload(value):
        by_word = _by_words(_plain_words(word))
        is_error = _plain_words(word) in {"error", "failed", "failure", "fail"}
        return by_word or (_status_of_error(reasons) if is_error else None)
    return None


def _is_error(value: object) -> bool:
    """Whether the value of an error field reports one. A number alone is a measure, unless it is an HTTP status."""
    if isinstance(value, str):
        return value.strip().lower() not in words.NO_ERROR
    if isinstance(value, bool | dict | list):
        return bool(value)
    return isinstance(value, int) and _status_of_number(value) is not None


def _has_payload(value: Mapping[str, object]) -> bool:
    return any(value.get(name) for name in ("data", "result", "results", "items"))


def _reasons(value: object, depth: int) -> Iterator[str]:
    """The words with which an error envelope says what is wrong."""
    if isinstance(value, str):
        yield value[:_HEAD]
    elif isinstance(value, int) and not isinstance(value, bool):
        yield f"code {value}"
    elif isinstance(value, list) and depth < _DEEPEST:
        for part in value[:3]:
            yield from _reasons(part, depth + 1)
    elif isinstance(value, dict) and depth < _DEEPEST:
        for name in (*words.ERROR_FIELDS, *words.REASON_FIELDS):
            if name in value:
                yield from _reasons(value[name], depth + 1)


def _status_number(value: Mapping[str, object]) -> int | None:
    """An HTTP status that says error. `code` is one only in an envelope: elsewhere it may be anything."""
    names: tuple[str, ...] = words.NUMBER_FIELDS
    if value.keys() <= words.ENVELOPE_FIELDS and any(
        isinstance(value.get(name), str) for name in ("message", "msg", "error", "detail")
    ):
        names += ("code", "error")
    for name in names:
        number = value.get(name)
        if isinstance(number, int) and not isinstance(number, bool) and _status_of_number(number) is not None:
            return number
    return None


def _status_of_number(number: int | None) -> StepStatus | None:
    if number is None or number not in _ERROR_NUMBERS:
        return None
    if number in {401, 403}:
        return StepStatus.FORBIDDEN
    if number in {404, 410}:
        return StepStatus.NOT_FOUND
    if number in _PASSING_NUMBERS:
        return StepStatus.TEMPORARILY_UNAVAILABLE
    return StepStatus.FAILED


def _status_of_error(text: str) -> StepStatus:
    """The kind of what is known to be an error."""
    plain = _plain_words(text[:_HEAD])
    by_words = _by_words(plain)
    if by_words is not None:
        return by_words
    numbered = words.NUMBER_IN_TEXT.search(plain)
    return (_status_of_number(int(numbered[1])) if numbered else None) or StepStatus.FAILED


def _plain_words(text: str) -> str:
    """`DB_TIMEOUT`, `NotFoundError` and the like as words in lower case."""
    spaced = words.CAMEL.sub(" ", text)
    return " ".join(re.sub(r"[_-]+", " ", spaced).lower().split())


def _by_words(plain: str) -> StepStatus | None:
    return next((status for status, pattern in _WORDS if pattern.search(plain)), None)


def _status_of_text(text: str) -> StepStatus:
    head = " ".join(text[:_HEAD].lower().split())
    if words.ERROR_START.match(head):
        return _status_of_error(text)
    if len(text) <= _SHORT:
        return next((status for status, pattern in _PLAIN_STARTS if pattern.match(head)), StepStatus.FOUND)
    return StepStatus.FOUND


def _is_empty(value: object, depth: int) -> bool:
    """Whether a JSON value holds nothing: empty itself, or an object all of whose payload is."""
    if value is None or value in ([], {}):
        return True
    if not isinstance(value, dict) or depth > _DEEPEST:
        return False
    payload = [member for name, member in value.items() if name in words.PAYLOAD_FIELDS]
    rest = [member for name, member in value.items() if name not in words.PAYLOAD_FIELDS | words.SIZE_FIELDS]
    if any(member not in (None, [], {}, "") for member in rest):
        return False
    return bool(payload) and all(_is_empty(member, depth + 1) for member in payload)


# --- words about results ------------------------------------------------------------------------------------------

_WORDING = {
    StepStatus.PENDING: "no result yet",
    StepStatus.FOUND: "found",
    StepStatus.NOT_FOUND: "nothing found",
    StepStatus.FORBIDDEN: "access refused",
    StepStatus.TEMPORARILY_UNAVAILABLE: "temporarily unavailable",
    StepStatus.FAILED: "failed",
    StepStatus.REFUSED: "not run",
}
SUMMARY_LENGTH = 120
_MARK = "…"


def wording(status: StepStatus) -> str:
    """How a kind of result is put to the user (A5): a few words without a full stop."""
    return _WORDING[status]


def summary(text: str, limit: int = SUMMARY_LENGTH) -> str:
    """The text in one line of at most `limit` characters, what was cut marked by an ellipsis (B4, C8).

    Control and other invisible characters are left out: a result is shown to people and must not steer a terminal.
    """
    head = " ".join(text[: limit * 8].split())
    shown = "".join(sign for sign in head if unicodedata.category(sign)[0] != "C")
    if len(shown) <= limit and len(text) <= limit * 8:
        return shown
    return shown[: limit - len(_MARK)].rstrip() + _MARK
