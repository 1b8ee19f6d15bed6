"""The benchmark measures what it says it does; how fast is not tested."""

from __future__ import annotations

import io
import os

from rich.console import Console

from proxy.demo.bench import LOADS, Figures, Load, Way, bench, table_of
from proxy.demo.bench_parts import ANSWER
from proxy.demo.provider import ScriptedProvider


async def test_every_way_is_measured_once_a_round_and_the_warm_up_does_not_count() -> None:
    """What is printed rests on as many values as rounds were asked for."""
    load = Load("small", 100, stream=True, concurrency=2)
    async with ScriptedProvider(strict=False) as provider:
        provider.respond(lambda _: ANSWER)
        ways = [Way(name, provider.url, os.getpid()) for name in ("straight", "bare", "callgate")]

        found = await bench(ways, [load], rounds=2, requests=3)

    assert [len(figures.p50) for figures in found.values()] == [2, 2, 2]
    assert all(value > 0 for figures in found.values() for value in figures.p50)
    assert len(provider.seen) == 3 * 3 * 3


def test_ratios_are_of_the_same_round() -> None:
    """A machine that slows down between rounds moves both sides."""
    load = LOADS[0]
    found = {
        (load.name, "straight"): Figures([0.001, 0.010, 0.001], [0, 0, 0]),
        (load.name, "bare"): Figures([0.002, 0.020, 0.002], [0.001, 0.010, 0.001]),
        (load.name, "callgate"): Figures([0.003, 0.030, 0.003], [0.004, 0.040, 0.004]),
    }
    out = Console(width=120, record=True, file=io.StringIO())

    out.print(table_of(found, [load]))

    text = out.export_text()
    assert "2.0x" in text
    assert "4.0x" in text


def test_a_request_has_the_size_that_its_load_says() -> None:
    """2 KB are 2 KB, tools included."""
    sizes = {load.name: len(load.body(1)) for load in LOADS}

    assert 1800 < sizes["2 KB"] < 2300
    assert 50_000 < sizes["50 KB"] < 51_000
