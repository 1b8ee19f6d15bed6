"""What a run may spend and what it has spent: units, bounds, the smallest of several, and what is left.

All counts are whole numbers; time is in seconds (float); money is in whole nanodollars, in which the cheapest token still
has a price of several. `None` in a bound means: not limited there.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


NANO = 1_000_000_000
"""Nanodollars in a dollar."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """The most that one scope may spend, by unit (D12, E5: all must hold)."""

    rounds: int | None = None
    calls: int | None = None
    seconds: float | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    total_tokens: int | None = None
    nano_usd: int | None = None
    per_tool: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Brakes:
    """When repetition counts as no progress (design §8). None switches one brake off."""

    same_call_nudge: int | None = 2
    """The same call had the same result this often: a note goes to the model."""
    same_call_stop: int | None = 3
    """… this often: a further one is refused and the run is brought to an end."""
    same_result_stop: int | None = 5
    """Ever new arguments, always the same empty or failing result of one tool, this often."""
    cycle_rounds: int | None = 3
    """A cycle of calls (period up to 8) with unchanged results, this many times round."""
    transient_retries: int | None = 3
    """The same call after `temporarily_unavailable`, this many further tries (D11)."""
    insisted_refusals: int | None = 2
    """The same refusal this often in a turn ends the run (D5)."""
    refusals: int | None = 6
    """Refused calls of any kind in a turn, this many, end the run."""


@dataclass(frozen=True, slots=True)
class Limits:
    """All that bounds a run: per turn (since the user's last message), per run, and the brakes."""

    turn: Bounds = Bounds()
    run: Bounds = Bounds()
    brakes: Brakes = Brakes()


@dataclass(frozen=True, slots=True)
class Amounts:
    """What was spent, or is asked for."""

    rounds: int = 0
    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    per_tool: Mapping[str, int] = field(default_factory=dict)
    unverified_tokens: int = 0
    """The part of the tokens that is an estimate, since no usage was ever reported (E4)."""
    nano_usd: int = 0
    unverified_nano_usd: int = 0
    """The part of the money that is an estimate: no usage was reported, or nobody knows the model's price."""

    @property
    def total_tokens(self) -> int:
        """Input and output together."""
        return self.input_tokens + self.output_tokens

    def __add__(self, other: Amounts) -> Amounts:
        """Both together."""
        return _combine(self, other, 1)

    def __sub__(self, other: Amounts) -> Amounts:
        """What remains of this when the other is taken away."""
        return _combine(self, other, -1)


@dataclass(frozen=True, slots=True)
class Shortage:
    """A limit that would be passed. Spent is what was used before the refused act."""

    scope: str
    """`turn` or `run`."""
    unit: str
    """A field of `Bounds`, or `per_tool.<name>`; money is said as `usd`."""
    limit: float
    """In the unit; money in dollars."""
    used: float

    @property
    def says(self) -> str:
        """In words, for people and models."""
        unit, _, tool = self.unit.partition(".")
        if unit == "usd":
            return f"the limit of ${_dollars(self.limit)} per {self.scope} is reached (${_dollars(self.used)} used)"
        what = f"calls of {tool!a}" if tool else unit.replace("_", " ")
        return f"the limit of {_figure(self.limit)} {what} per {self.scope} is reached ({_figure(self.used)} used)"


@dataclass(frozen=True, slots=True)
class Reservation:
    """Amounts put aside for one act, in this turn scope of this run, until it is settled or released."""

    id: str
    run_id: str
    amounts: Amounts
    turn: int
    max_output: int | None = None
    """The most that the answer may write, where there is money for less than the request allows."""


def _dollars(amount: float) -> str:
    whole, _, part = f"{amount:.6f}".partition(".")
    return f"{whole}.{part.rstrip('0').ljust(2, '0')}"


def _figure(amount: float) -> str:
    return str(int(amount)) if float(amount).is_integer() else f"{amount:.1f}"


def _combine(left: Amounts, right: Amounts, sign: int) -> Amounts:
    tools = dict(left.per_tool)
    for name, count in right.per_tool.items():
        tools[name] = tools.get(name, 0) + sign * count
    return Amounts(
        rounds=left.rounds + sign * right.rounds,
        calls=left.calls + sign * right.calls,
        input_tokens=left.input_tokens + sign * right.input_tokens,
        output_tokens=left.output_tokens + sign * right.output_tokens,
        per_tool={name: count for name, count in tools.items() if count},
        unverified_tokens=left.unverified_tokens + sign * right.unverified_tokens,
        nano_usd=left.nano_usd + sign * right.nano_usd,
        unverified_nano_usd=left.unverified_nano_usd + sign * right.unverified_nano_usd,
    )


def _least(left: float | None, right: float | None) -> float | None:
    if left is None:
        return right
    return left if right is None else min(left, right)


def _smallest_bounds(left: Bounds, right: Bounds) -> Bounds:
    tools = dict(left.per_tool)
    for name, count in right.per_tool.items():
        tools[name] = min(count, tools.get(name, count))
    plain = {
        part.name: _least(getattr(left, part.name), getattr(right, part.name))
        for part in fields(Bounds)
        if part.name != "per_tool"
    }
    return replace(left, per_tool=tools, **plain)  # type: ignore[arg-type]  # each value is of its field's own kind


def smallest(left: Limits, right: Limits) -> Limits:
    """The stricter of two sets of limits, unit by unit (F2: limits take the smallest)."""
    brakes = {
        part.name: _least(getattr(left.brakes, part.name), getattr(right.brakes, part.name))
        for part in fields(Brakes)
    }
    return Limits(
        turn=_smallest_bounds(left.turn, right.turn),
        run=_smallest_bounds(left.run, right.run),
        brakes=Brakes(**brakes),  # type: ignore[arg-type]  # each value is of its field's own kind
    )


def one_round_more(limits: Limits) -> Limits:
    """The limits with the reserve from which the last answer of a run is paid: one round, and no other unit (E7)."""

    def more(bounds: Bounds) -> Bounds:
        return bounds if bounds.rounds is None else replace(bounds, rounds=bounds.rounds + 1)

    return replace(limits, turn=more(limits.turn), run=more(limits.run))


def shortage(scope: str, bounds: Bounds, spent: Amounts, seconds: float, ask: Amounts) -> Shortage | None:
    """The first limit that `ask` on top of `spent` would pass, or None.

    Tokens are short when they are used up already, not when the estimate of the next request might pass the
    limit: a result that arrives exactly at the limit is delivered (E6), and an estimate is no sure bound (E4).
    For a call they never are: it costs none, and what its own round put aside is not used up yet. Money is short when
    what is put aside would pass the limit: its bound is the dearest that the request may cost, and what is spent cannot
    be had back. Nothing is short of money for an act that costs none.
    """
    for unit, asked in (("rounds", ask.rounds), ("calls", ask.calls)):
        limit = getattr(bounds, unit)
        used = getattr(spent, unit)
        if limit is not None and asked and used + asked > limit:
            return Shortage(scope, unit, limit, used)
    for name, asked in ask.per_tool.items():
        limit = bounds.per_tool.get(name)
        used = spent.per_tool.get(name, 0)
        if limit is not None and asked and used + asked > limit:
            return Shortage(scope, f"per_tool.{name}", limit, used)
    for unit in ("input_tokens", "output_tokens", "total_tokens"):
        limit = getattr(bounds, unit)
        used = getattr(spent, unit)
        if limit is not None and not ask.calls and used >= limit:
            return Shortage(scope, unit, limit, used)
    if bounds.nano_usd is not None and ask.nano_usd and spent.nano_usd + ask.nano_usd > bounds.nano_usd:
        return Shortage(scope, "usd", bounds.nano_usd / NANO, spent.nano_usd / NANO)
    if bounds.seconds is not None and seconds >= bounds.seconds:
        return Shortage(scope, "seconds", bounds.seconds, round(seconds, 3))
    return None


def seconds_left(limits: Limits, turn_seconds: float, run_seconds: float) -> float | None:
    """How much time is left in the tightest scope (E3), never below zero; None where time is not limited."""
    left = None
    for bounds, passed in ((limits.turn, turn_seconds), (limits.run, run_seconds)):
        if bounds.seconds is not None:
            left = _least(left, max(0.0, bounds.seconds - passed))
    return left


def money_left(limits: Limits, turn_spent: Amounts, run_spent: Amounts) -> int | None:
    """Nanodollars left in the tightest scope, never below zero; None where money is not limited."""
    left: int | None = None
    for bounds, spent in ((limits.turn, turn_spent), (limits.run, run_spent)):
        if bounds.nano_usd is not None:
            here = max(0, bounds.nano_usd - spent.nano_usd)
            left = here if left is None else min(left, here)
    return left


def is_money_limited(limits: Limits) -> bool:
    """Whether some scope bounds what may be spent."""
    return limits.turn.nano_usd is not None or limits.run.nano_usd is not None


def nano_usd(dollars: float | None) -> int | None:
    """A limit in dollars, as nanodollars."""
    return None if dollars is None else round(dollars * NANO)
