"""Budgets and brakes as an operator writes them, with the defaults that hold where nobody said anything (A1)."""

from __future__ import annotations

from functools import cached_property
from typing import Annotated, Literal

from pydantic import Field

from proxy.core.limits import Bounds, Brakes, Limits, nano_usd
from proxy.setting_kinds import Count, Part, Positive, Seconds

Money = Annotated[float, Field(ge=0, le=1_000_000, allow_inf_nan=False)]


class ScopeLimits(Part):
    """The most that one scope may spend; null: not limited."""

    rounds: Count | None = None
    """Model requests."""
    calls: Count | None = None
    """Tool calls."""
    seconds: Seconds | None = None
    """Wall time, waits included."""
    input_tokens: Count | None = None
    """Tokens read by the model."""
    output_tokens: Count | None = None
    """Tokens written by the model."""
    total_tokens: Count | None = None
    """Both together."""
    usd: Money | None = None
    """US dollars, by the prices in `prices`."""
    per_tool: dict[str, Count] = Field(default_factory=dict)
    """Calls of single tools, by name."""

    def to_core(self) -> Bounds:
        """The same in the words of the limits."""
        said = dict(self)
        return Bounds(nano_usd=nano_usd(said.pop("usd")), **said)


class TurnLimits(ScopeLimits):
    """Since the user last spoke."""

    rounds: Count | None = 100
    """Model requests."""
    calls: Count | None = 200
    """Tool calls."""
    seconds: Seconds | None = 3600
    """Wall time, waits included."""


class RunLimits(ScopeLimits):
    """In the whole conversation."""

    rounds: Count | None = 500
    """Model requests."""
    calls: Count | None = 1000
    """Tool calls."""
    seconds: Seconds | None = 86_400
    """Wall time, waits included."""


_BRAKES = Brakes()


class BrakeSettings(Part):
    """When repetition counts as no progress; null switches one brake off."""

    same_call_nudge: Positive | None = _BRAKES.same_call_nudge
    """The same call had the same result this often: a note goes to the model."""
    same_call_stop: Positive | None = _BRAKES.same_call_stop
    """The same call had the same result this often: a further one is refused."""
    same_result_stop: Positive | None = _BRAKES.same_result_stop
    """Ever new arguments, always the same empty or failing result, this often."""
    cycle_rounds: Positive | None = _BRAKES.cycle_rounds
    """A cycle of calls with unchanged results, this many times round."""
    transient_retries: Count | None = _BRAKES.transient_retries
    """The same call after a passing fault, this many further tries."""
    insisted_refusals: Positive | None = _BRAKES.insisted_refusals
    """The same refusal this often in a turn ends the run."""
    refusals: Positive | None = _BRAKES.refusals
    """Refused calls of any kind in a turn, this many, end the run."""


class LimitSettings(Part):
    """Budgets and brakes that hold for everybody; policies can only lower them."""

    turn: TurnLimits = TurnLimits()
    """Since the user last spoke."""
    run: RunLimits = RunLimits()
    """In the whole conversation."""
    brakes: BrakeSettings = BrakeSettings()
    """When repetition counts as no progress."""
    exhausted: Literal["answer", "refuse"] = "answer"
    """At a limit: `answer`, a last answer from what there is (B3), or `refuse`, the dialect's error with 403 (C015)."""

    def to_core(self) -> Limits:
        """The same in the words of the limits."""
        return self._core

    @cached_property
    def _core(self) -> Limits:
        return Limits(self.turn.to_core(), self.run.to_core(), Brakes(**dict(self.brakes)))
