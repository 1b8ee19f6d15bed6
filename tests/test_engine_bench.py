"""The benchmark measures what it says it does; how fast is not tested."""

import pytest
from rich.console import Console

from proxy.engine_bench import Figures, measured, table_of
from proxy.errors import EngineFault
from proxy.policy_settings import Opa, Policy
from tests.real_opa import real_opa


async def test_both_engines_are_measured_one_and_many_at_once() -> None:
    """F3."""
    async with real_opa() as server:
        opa = Opa(url=server.url, timeout_seconds=30)
        found = await measured("embedded", Policy(deadline_seconds=30), (1, 4), 12)
        found += await measured("opa", Policy(engine="opa", opa=opa), (1, 4), 12)

    assert [(each.engine, each.at_once, len(each.latencies)) for each in found] == [
        ("embedded", 1, 12),
        ("embedded", 4, 12),
        ("opa", 1, 12),
        ("opa", 4, 12),
    ]
    assert all(each.per_second > 0 for each in found)


async def test_an_engine_that_does_not_decide_is_not_measured() -> None:
    opa = Opa(url="http://127.0.0.1:1", start_seconds=0)
    with pytest.raises(EngineFault, match="cannot be reached"):
        await measured("opa", Policy(engine="opa", opa=opa), (1,), 1)


def test_the_table_tells_rates_and_ranks() -> None:
    figures = Figures("embedded", 2, 0.5, [number / 1000 for number in range(1, 101)])
    assert (figures.per_second, figures.latency(0.5), figures.latency(0.99)) == (200.0, 0.051, 0.1)
    assert (Figures("x", 1).per_second, Figures("x", 1).latency(0.5)) == (0.0, 0.0)

    console = Console(width=100, record=True)
    console.print(table_of([figures]))
    assert "embedded         2         100      0        200    51.00   100.00" in console.export_text()
