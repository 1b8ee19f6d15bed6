"""Check `budget`: what the store refused to reserve (A1, B1, B3, D12, E2, E5, E6, C014).

| check | code | says |
|---|---|---|
| `budget.rounds` | `budget_rounds` | no further model request |
| `budget.calls` | `budget_calls` | no further tool call |
| `budget.per_tool` | `budget_per_tool` | no further call of this tool |
| `budget.seconds` | `budget_seconds` | the time is used up |
| `budget.tokens` | `budget_tokens` | the tokens (input, output or total) are used up |
| `budget.usd` | `budget_usd` | the money is used up |
| `budget.price` | `price_unknown` | money is limited and nobody knows what the model costs |

A request that finds no room is the last one: FINISH. Of several calls the first ones that fit pass; the others are
refused with REASK, so that the model learns what was withheld. If none fits, the turn is brought to its end
(FINISH), except where only single tools are used up: the model may do without them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from proxy.core.results import summary
from proxy.core.verdicts import Action, Verdict

if TYPE_CHECKING:
    from collections.abc import Iterator

    from proxy.core.limits import Shortage
    from proxy.core.verdicts import Facts

PER_TOOL = "per_tool"


class BudgetCheck:
    """Shortages as verdicts."""

    name = "budget"

    def on_request(self, facts: Facts) -> Iterator[Verdict]:
        """Ends the run where the next round does not fit."""
        if facts.shortage is not None:
            yield _verdict(facts.shortage, Action.FINISH, _sentence(facts.shortage))
        if facts.unpriced:
            yield Verdict(
                "budget.price",
                "price_unknown",
                Action.DENY,
                f"Money is limited here, and the price of the model {summary(facts.request.model, 100)!a} is not known. "
                "The operator of this system can set it.",
                reason_class="policy_error",
            )

    def on_calls(self, facts: Facts) -> Iterator[Verdict]:
        """Refuses the calls that do not fit."""
        short = {place: found for place, found in enumerate(facts.call_shortages) if found is not None}
        some_fit = len(short) < len(facts.calls)
        for place, shortage in short.items():
            spared = some_fit or _unit(shortage) == PER_TOOL
            advice = "Go on with what you have, or with other tools." if spared else ""
            message = f"{_sentence(shortage)} {advice}".rstrip()
            yield _verdict(shortage, Action.REASK if spared else Action.FINISH, message, place)

    def on_answer(self, facts: Facts) -> Iterator[Verdict]:  # noqa: ARG002 - the seam's signature
        """Nothing to say: a result or an answer at the limit is delivered (E6)."""
        yield from ()


def _verdict(shortage: Shortage, action: Action, message: str, call: int | None = None) -> Verdict:
    unit = _unit(shortage)
    group = "tokens" if unit.endswith("_tokens") else unit
    fields: dict[str, str | int | float | None] = {
        "budget": unit,
        "scope": shortage.scope,
        "limit": shortage.limit,
        "used": shortage.used,
    }
    if unit == PER_TOOL:
        fields["tool"] = _tool(shortage)
    return Verdict(
        f"budget.{group}", f"budget_{group}", action, message, call, reason_class="budget", fields=fields
    )


def _unit(shortage: Shortage) -> str:
    return shortage.unit.partition(".")[0]


def _tool(shortage: Shortage) -> str:
    return shortage.unit.partition(".")[2]


def _sentence(shortage: Shortage) -> str:
    return shortage.says[:1].upper() + shortage.says[1:] + "."
