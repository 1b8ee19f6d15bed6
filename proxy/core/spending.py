"""What a model request is put aside for before it leaves, and what it is booked for after (E2, E4)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .limits import Amounts
from .messages import Usage

if TYPE_CHECKING:
    from .limits import Reservation
    from .messages import Request

CHARACTERS_A_TOKEN = 4
"""A rough rule for text of which no usage was ever reported; such tokens are marked unverified (E4)."""
DEFAULT_OUTPUT_TOKENS = 1024
"""Put aside for an answer whose request names no maximum."""
SMALLEST_MAXIMUM = 4096
"""What every model can write. A higher maximum is not set where the agent set none: the model may know none so high."""
LEAST_OUTPUT = 16
"""An answer of fewer tokens is none."""


@dataclass(frozen=True, slots=True)
class Cost:
    """What something costs."""

    nano_usd: int
    is_sure: bool = True
    """False: nobody knows the model's price; it is counted as configured."""


Meter = Callable[[Usage], Cost | None]
"""What usage of one model at one provider costs; None: its price is not known, and it is not counted."""


def unmetered(_: Usage) -> None:
    """The meter where nobody asks what a model costs."""
    return


def round_ask(request: Request, meter: Meter, most: int | None = None) -> Amounts:
    """What a round may cost: its input, estimated, and as much output as it may have (`most`: lowered to this), at the
    dearest price (all of the input may be written to a cache)."""
    output = max(request.max_output or DEFAULT_OUTPUT_TOKENS, 0) if most is None else most
    reads = request.text_size // CHARACTERS_A_TOKEN + 1
    writes = output * max(request.choices, 1)
    money = _dearest(meter, reads, writes)
    return Amounts(rounds=1, input_tokens=reads, output_tokens=writes, nano_usd=money)


def lowered_output(request: Request, meter: Meter, left: int) -> int | None:
    """The most that an answer may write so that its round costs no more than what is left (nanodollars), where that is
    less than what the request allows. None: nothing is to be lowered, or nothing would be left to say."""
    reads, choices = request.text_size // CHARACTERS_A_TOKEN + 1, max(request.choices, 1)
    base = _dearest(meter, reads, 0)
    a_thousand = _dearest(meter, reads, 1000) - base
    if a_thousand <= 0:
        return None
    affordable = max(0, left - base) * 1000 // a_thousand // choices
    while affordable and _dearest(meter, reads, affordable * choices) > left:
        # Prices that rise with the amount, and fractions that were rounded up.
        affordable = min(affordable - 1, affordable * 9 // 10) if affordable > LEAST_OUTPUT else 0
    allowed = request.max_output or SMALLEST_MAXIMUM
    return affordable if LEAST_OUTPUT <= affordable < allowed else None


def booked(
    reservation: Reservation, usage: Usage | None, text_bytes: int, meter: Meter, *, ended: bool
) -> Amounts:
    """What a round that was sent is booked for. Figures come from outside: none lowers what was spent. Without usage, or
    with usage that broke off, what was put aside for the input and what was seen of the output count, unverified."""
    if usage is not None and ended:
        sure = Amounts(1, 0, max(usage.input_tokens, 0), max(usage.output_tokens, 0))
        return sure + _money(meter, usage)
    reserved = reservation.amounts
    streamed = min(text_bytes // CHARACTERS_A_TOKEN + 1, reserved.output_tokens)
    said_input = max(usage.input_tokens, 0) if usage is not None else 0
    said_output = max(usage.output_tokens, 0) if usage is not None else 0
    output = max(streamed, said_output)
    tokens = Amounts(
        rounds=1,
        input_tokens=said_input or reserved.input_tokens,
        output_tokens=output,
        unverified_tokens=output if said_input else reserved.input_tokens + output,
    )
    money = _money(meter, Usage(tokens.input_tokens, tokens.output_tokens)).nano_usd
    return tokens + Amounts(nano_usd=money, unverified_nano_usd=money)


def _money(meter: Meter, usage: Usage) -> Amounts:
    cost = meter(usage)
    if cost is None:
        return Amounts()
    return Amounts(nano_usd=cost.nano_usd, unverified_nano_usd=0 if cost.is_sure else cost.nano_usd)


def _dearest(meter: Meter, reads: int, writes: int) -> int:
    ways = (Usage(reads, writes), Usage(reads, writes, cache_write_tokens=reads))
    return max((cost.nano_usd for cost in map(meter, ways) if cost is not None), default=0)
