"""What a round is put aside for and booked for (E2, E4)."""

from __future__ import annotations

from hypothesis import given, strategies as st

from proxy.core.limits import Amounts, Reservation
from proxy.core.messages import Request, Usage
from proxy.core.spending import (
    CHARACTERS_A_TOKEN,
    DEFAULT_OUTPUT_TOKENS,
    LEAST_OUTPUT,
    SMALLEST_MAXIMUM,
    Cost,
    Meter,
    booked,
    lowered_output,
    round_ask,
    unmetered,
)

COUNTS = st.integers(0, 100_000)
PRICES = st.integers(0, 100_000)


def metered(reads: int, writes: int, cache_writes: int | None = None) -> Meter:
    """Prices in nanodollars a token."""

    def cost(usage: Usage) -> Cost:
        written = usage.cache_write_tokens
        plain = (usage.input_tokens - written) * reads + written * (cache_writes or reads)
        return Cost(plain + usage.output_tokens * writes)

    return cost


def asked(max_output: int | None = 100, size: int = 400, choices: int = 1) -> Request:
    return Request("test", "m", (), max_output=max_output, text_size=size, choices=choices)


def test_a_round_is_put_aside_for_at_its_dearest() -> None:
    """E4: all of the input may be written to a cache, and every choice may be as long as it may."""
    ask = round_ask(asked(choices=2), metered(2, 8, 3))

    assert ask == Amounts(rounds=1, input_tokens=101, output_tokens=200, nano_usd=101 * 3 + 200 * 8)


def test_without_a_maximum_a_usual_answer_is_put_aside() -> None:
    assert round_ask(asked(None), unmetered).output_tokens == DEFAULT_OUTPUT_TOKENS
    assert round_ask(asked(None), unmetered).nano_usd == 0


@given(
    max_output=st.none() | st.integers(0, 100_000),
    size=st.integers(0, 100_000),
    choices=st.integers(1, 3),
    reads=PRICES,
    writes=PRICES,
    left=st.integers(0, 10**9),
)
def test_a_lowered_answer_costs_no_more_than_what_is_left(
    *, max_output: int | None, size: int, choices: int, reads: int, writes: int, left: int
) -> None:
    """E4: and it is lowered only where there is money for less."""
    request, meter = asked(max_output, size, choices), metered(reads, writes)
    most = lowered_output(request, meter, left)

    if most is not None:
        assert round_ask(request, meter, most).nano_usd <= left
        assert LEAST_OUTPUT <= most < (max_output or SMALLEST_MAXIMUM)
    elif max_output and writes and max_output > LEAST_OUTPUT:
        fits = round_ask(request, meter).nano_usd <= left
        least = round_ask(request, meter, LEAST_OUTPUT * 2).nano_usd
        assert fits or least * 10 > left * 9


def test_usage_is_booked_at_its_price() -> None:
    """C017."""
    reservation = Reservation("r", "run", Amounts(1, 0, 101, 100, nano_usd=1000), 1)
    usage = Usage(50, 10)

    assert booked(reservation, usage, 0, metered(2, 8), ended=True) == Amounts(1, 0, 50, 10, nano_usd=180)


@given(usage=st.none() | st.builds(Usage, COUNTS, COUNTS), streamed=COUNTS)
def test_what_was_not_reported_is_never_free(*, usage: Usage | None, streamed: int) -> None:
    """E4: to be verified, never zero."""
    reservation = Reservation("r", "run", Amounts(1, 0, 101, 100), 1)
    spent = booked(reservation, usage, streamed, metered(2, 8), ended=False)

    assert spent.nano_usd == spent.unverified_nano_usd == spent.input_tokens * 2 + spent.output_tokens * 8
    assert spent.nano_usd > 0
    assert spent.output_tokens >= min(streamed // CHARACTERS_A_TOKEN, 100)


def test_a_price_that_is_counted_at_a_guess_is_unverified() -> None:
    def guessed(usage: Usage) -> Cost:
        return Cost(usage.output_tokens, is_sure=False)

    reservation = Reservation("r", "run", Amounts(1), 1)
    spent = booked(reservation, Usage(5, 7), 0, guessed, ended=True)

    assert (spent.nano_usd, spent.unverified_nano_usd) == (7, 7)
