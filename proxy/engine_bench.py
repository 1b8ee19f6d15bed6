"""How quickly policies decide: decisions a second and their latency, by engine, one and many at once.

A decision is measured as a turn waits for it: from our own words to a checked decision, with the configured policies.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from rich import box
from rich.table import Table

from proxy.core.messages import Message, Request, Role, Tool, ToolCall
from proxy.core.results import StepStatus
from proxy.core.runs import Identity, Run, Step
from proxy.engines import Policies, open_policies
from proxy.policy_settings import Policy

AT_ONCE = (1, 32)
_NOW = 1_800_000_000.0
_STEPS = 12
_WARM_UP = 20


@dataclass(slots=True)
class Figures:
    """What was measured of one engine."""

    engine: str
    at_once: int
    seconds: float = 0.0
    """From the first question to the last answer."""
    latencies: list[float] = field(default_factory=list)
    """Seconds, one a decision."""
    faults: int = 0
    """Questions that got none, within the configured time or at all; they count in no other figure."""

    @property
    def per_second(self) -> float:
        """Decisions."""
        return len(self.latencies) / self.seconds if self.seconds else 0.0

    def latency(self, share: float) -> float:
        """Seconds that this share of the decisions did not take longer than (0.5: the median)."""
        ranked = sorted(self.latencies)
        return ranked[min(int(share * len(ranked)), len(ranked) - 1)] if ranked else 0.0


async def measured(engine: str, settings: Policy, at_once: Sequence[int], decisions: int) -> list[Figures]:
    """So many decisions of this engine for each number at once. Raises EngineFault where it cannot decide."""
    async with _opened(settings) as policies:
        await _ask(policies, Figures(engine, 1), _WARM_UP)
        found = []
        for many in at_once:
            figures = Figures(engine, many)
            await _ask(policies, figures, decisions)
            found.append(figures)
    return found


@asynccontextmanager
async def _opened(settings: Policy) -> AsyncIterator[Policies]:
    policies = await open_policies(settings)
    try:
        yield policies
    finally:
        await policies.close()


async def _ask(policies: Policies, figures: Figures, decisions: int) -> None:
    numbers = iter(range(decisions))
    held = policies.hold()

    async def one_after_another() -> None:
        for number in numbers:
            run, calls, parsed = _question(number)
            begun = time.perf_counter()
            decision = await held.decide("calls", _IDENTITY, _REQUEST, run, calls, parsed, now=_NOW)
            if decision.fault:
                figures.faults += 1
            else:
                figures.latencies.append(time.perf_counter() - begun)

    begun = time.perf_counter()
    try:
        await asyncio.gather(*(one_after_another() for _ in range(figures.at_once)))
    finally:
        held.let_go()
    figures.seconds = time.perf_counter() - begun


# --- what is asked: two calls in the middle of a run of some length, never twice the same -------------------------

_TOOLS = (
    "get_order",
    "list_orders",
    "get_invoice",
    "pay_invoice",
    "refund",
    "search",
    "send_mail",
    "run_cmd",
)
_IDENTITY = Identity(organisation="acme", team="payments", agent="refund_bot", user="ann", roles=("clerk",))
_REQUEST = Request(
    dialect="bench",
    model="bench-model",
    messages=(Message(Role.USER, "Please look into order A100, and pay what is still open."),),
    tools=tuple(Tool(name) for name in _TOOLS),
)


def _question(number: int) -> tuple[Run, list[ToolCall], list[dict[str, object]]]:
    steps = tuple(_step(place, f"A{number + place}") for place in range(_STEPS))
    run = Run("bench", "bench", _NOW - 60, turn_started_at=_NOW - 30, steps=steps)
    parsed: list[dict[str, object]] = [
        {"order_id": f"A{number}", "lang": "en"},
        {"query": f"invoice of A{number}", "limit": 10},
    ]
    names = ("get_order", "search")
    calls = [
        ToolCall(f"call_{name}", name, json.dumps(each)) for name, each in zip(names, parsed, strict=True)
    ]
    return run, calls, parsed


def _step(place: int, order: str) -> Step:
    result = {
        "order_id": order,
        "customer_id": "ann",
        "status": "open",
        "lines": [{"sku": "X1", "count": 2}] * 4,
    }
    return Step(
        number=place + 1,
        turn=1,
        round=place + 1,
        call_id=f"done_{place}",
        tool="get_order",
        arguments=json.dumps({"order_id": order}),
        fingerprint="",
        status=StepStatus.FOUND,
        released_at=_NOW - 20,
        result_at=_NOW - 19,
        result=json.dumps(result),
    )


def table_of(found: Sequence[Figures]) -> Table:
    """One line an engine and number at once."""
    table = Table(title="Decisions of policies", title_justify="left", box=box.SIMPLE)
    table.add_column("engine", no_wrap=True)
    for heading in ("at once", "decisions", "none", "a second", "p50 ms", "p99 ms"):
        table.add_column(heading, justify="right")
    for each in found:
        latencies = (f"{each.latency(share) * 1000:.2f}" for share in (0.5, 0.99))
        table.add_row(
            each.engine,
            str(each.at_once),
            str(len(each.latencies)),
            str(each.faults),
            f"{each.per_second:.0f}",
            *latencies,
        )
    return table
