"""Limits are counted, compared and said exactly (D12, E2, E5, E6, F2)."""

from dataclasses import fields

import pytest
from hypothesis import given, strategies as st

from proxy.core.limits import (
    Amounts,
    Bounds,
    Brakes,
    Limits,
    Shortage,
    one_round_more,
    seconds_left,
    shortage,
    smallest,
)

COUNTS = st.integers(0, 20)
OPTIONAL = st.none() | COUNTS
NAMES = st.sampled_from(["order", "policy", "refund"])
AMOUNTS = st.builds(
    Amounts,
    rounds=COUNTS,
    calls=COUNTS,
    input_tokens=COUNTS,
    output_tokens=COUNTS,
    per_tool=st.dictionaries(NAMES, st.integers(1, 9)),
    unverified_tokens=COUNTS,
)
BOUNDS = st.builds(
    Bounds,
    rounds=OPTIONAL,
    calls=OPTIONAL,
    seconds=OPTIONAL,
    input_tokens=OPTIONAL,
    output_tokens=OPTIONAL,
    total_tokens=OPTIONAL,
    per_tool=st.dictionaries(NAMES, COUNTS),
)
BRAKES = st.builds(Brakes, **{part.name: OPTIONAL for part in fields(Brakes)})
LIMITS = st.builds(Limits, turn=BOUNDS, run=BOUNDS, brakes=BRAKES)
ONE_CALL = Amounts(calls=1, per_tool={"order": 1})


@given(AMOUNTS, AMOUNTS)
def test_what_is_added_can_be_taken_away_again(first: Amounts, second: Amounts) -> None:
    assert first + second - second == first
    assert first + Amounts() == first
    assert (first + second).total_tokens == first.total_tokens + second.total_tokens


@given(LIMITS, LIMITS)
def test_the_smallest_of_two_limits_is_no_weaker_than_either(first: Limits, second: Limits) -> None:
    """F2."""
    both = smallest(first, second)

    assert both == smallest(second, first)
    assert smallest(both, first) == both
    assert smallest(first, Limits(brakes=first.brakes)) == first
    for scope in ("turn", "run"):
        one, other, least = getattr(first, scope), getattr(second, scope), getattr(both, scope)
        for name in one.per_tool.keys() | other.per_tool.keys():
            assert least.per_tool[name] == min(
                part.per_tool[name] for part in (one, other) if name in part.per_tool
            )
        for part in fields(Bounds):
            values = [getattr(bounds, part.name) for bounds in (one, other)]
            if part.name != "per_tool":
                known = [value for value in values if value is not None]
                assert getattr(least, part.name) == (min(known) if known else None)


@given(BOUNDS, AMOUNTS, st.floats(0, 30), AMOUNTS)
def test_an_act_that_found_room_leaves_no_count_beyond_its_limit(
    bounds: Bounds, spent: Amounts, seconds: float, ask: Amounts
) -> None:
    """E2: the check is before the action, never after."""
    if shortage("run", bounds, spent, seconds, ask) is not None:
        return
    after = spent + ask
    for unit in ("rounds", "calls"):
        limit, asked = getattr(bounds, unit), getattr(ask, unit)
        assert limit is None or not asked or getattr(after, unit) <= limit
    for name, limit in bounds.per_tool.items():
        assert name not in ask.per_tool or after.per_tool[name] <= limit


@given(BOUNDS, AMOUNTS, st.floats(0, 30), AMOUNTS)
def test_a_shortage_names_a_limit_that_is_really_there(
    bounds: Bounds, spent: Amounts, seconds: float, ask: Amounts
) -> None:
    short = shortage("turn", bounds, spent, seconds, ask)
    if short is None:
        return
    unit, _, tool = short.unit.partition(".")
    limit = bounds.per_tool[tool] if tool else getattr(bounds, unit)

    assert short.limit == limit
    assert short.scope == "turn"


@pytest.mark.parametrize(
    ("bounds", "spent", "ask", "unit"),
    [
        (Bounds(rounds=3), Amounts(rounds=3), Amounts(rounds=1), "rounds"),
        (Bounds(calls=3), Amounts(calls=3), ONE_CALL, "calls"),
        (Bounds(per_tool={"order": 1}), Amounts(per_tool={"order": 1}), ONE_CALL, "per_tool.order"),
        (Bounds(input_tokens=9), Amounts(input_tokens=9), Amounts(rounds=1), "input_tokens"),
        (Bounds(output_tokens=9), Amounts(output_tokens=9), Amounts(rounds=1), "output_tokens"),
        (Bounds(total_tokens=9), Amounts(input_tokens=5, output_tokens=4), Amounts(rounds=1), "total_tokens"),
        (Bounds(seconds=5), Amounts(), Amounts(rounds=1), "seconds"),
    ],
)
def test_every_unit_can_run_out(bounds: Bounds, spent: Amounts, ask: Amounts, unit: str) -> None:
    """D12, E5."""
    short = shortage("run", bounds, spent, 5.0, ask)

    assert short is not None
    assert short.unit == unit


def test_what_fits_exactly_still_fits() -> None:
    """E6."""
    bounds = Bounds(rounds=3, calls=2, per_tool={"order": 1}, total_tokens=10, seconds=5)

    assert shortage("run", bounds, Amounts(rounds=2, input_tokens=9), 4.9, Amounts(rounds=1)) is None
    assert shortage("run", bounds, Amounts(calls=1), 4.9, ONE_CALL) is None


def test_a_call_is_not_refused_for_rounds_nor_a_round_for_calls() -> None:
    """E2: model requests and tool calls are counted apart."""
    bounds = Bounds(rounds=1, calls=1, per_tool={"order": 1})

    assert shortage("run", bounds, Amounts(rounds=1), 0, ONE_CALL) is None
    assert shortage("run", bounds, Amounts(calls=1, per_tool={"order": 1}), 0, Amounts(rounds=1)) is None


def test_a_limit_of_nothing_permits_nothing() -> None:
    assert shortage("run", Bounds(calls=0), Amounts(), 0, ONE_CALL) is not None
    assert shortage("run", Bounds(total_tokens=0), Amounts(), 0, Amounts(rounds=1)) is not None


@pytest.mark.parametrize(
    ("short", "words"),
    [
        (Shortage("run", "calls", 3, 3), "the limit of 3 calls per run is reached (3 used)"),
        (
            Shortage("turn", "per_tool.get_order", 1, 1),
            "the limit of 1 calls of 'get_order' per turn is reached (1 used)",
        ),
        (
            Shortage("run", "total_tokens", 1_000_000, 1_234_567),
            "the limit of 1000000 total tokens per run is reached (1234567 used)",
        ),
        (Shortage("run", "seconds", 60.0, 61.25), "the limit of 60 seconds per run is reached (61.2 used)"),
    ],
)
def test_a_shortage_is_said_in_plain_figures(short: Shortage, words: str) -> None:
    """B3, E10."""
    assert short.says == words


def test_the_time_left_is_that_of_the_tightest_scope() -> None:
    """E3."""
    limits = Limits(turn=Bounds(seconds=10), run=Bounds(seconds=100))

    assert seconds_left(limits, 4, 4) == 6
    assert seconds_left(limits, 4, 97) == 3
    assert seconds_left(limits, 40, 50) == 0
    assert seconds_left(Limits(), 4, 4) is None
    assert seconds_left(Limits(run=Bounds(seconds=5)), 4, 4) == 1


def test_the_reserve_for_a_last_answer_is_one_round_and_nothing_else() -> None:
    """E7, B1: however many requests come at once, only one of them can be paid from it."""
    limits = Limits(turn=Bounds(rounds=3, calls=2), run=Bounds(seconds=5.0))

    assert one_round_more(limits) == Limits(turn=Bounds(rounds=4, calls=2), run=Bounds(seconds=5.0))
