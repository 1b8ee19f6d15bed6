"""What a tool result means, and what is declared about a tool.

Found, not found, forbidden, temporarily unavailable and failed lead to different next steps (A5, A6, D7). An
empty value is "not found", never a failure.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


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
    """Results of a tool that hold `contains` (case ignored) have this status. Policy data gives these."""

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
