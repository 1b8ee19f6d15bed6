"""What policy makes of one call, so that two policies can be compared."""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .core.verdicts import Decision, Demand, Denial


class Result(IntEnum):
    """Mildest first."""

    ALLOWED = 0
    APPROVAL = 1
    """A person is asked."""
    REFUSED = 2

    @property
    def word(self) -> str:
        """For people and programs."""
        return ("allowed", "needs approval", "refused")[self]


def result_of(decision: Decision, place: int) -> Result:
    """What this decision makes of the call at this place. No decision refuses, as it does in force."""
    if decision.fault or any(_denials(decision, place)):
        return Result.REFUSED
    if any(demand.call in {place, None} for demand in decision.demands):
        return Result.APPROVAL
    return Result.ALLOWED


def reasons_of(decision: Decision, place: int) -> tuple[str, ...]:
    """`layer: rule (code)` of all that keeps the call at this place, without repeats."""
    if decision.fault:
        return (f"no decision: {decision.fault}",)
    said: list[Denial | Demand] = [*_denials(decision, place)]
    said += [demand for demand in decision.demands if demand.call in {place, None}]
    return tuple(dict.fromkeys(f"{each.layer}: {each.rule} ({each.code})" for each in said))


def _denials(decision: Decision, place: int) -> Iterator[Denial]:
    return (denial for denial in decision.denials if not denial.shadow and denial.call in {place, None})
