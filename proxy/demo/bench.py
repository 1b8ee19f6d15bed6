"""What guarding costs: requests through Callgate, through a bare aiohttp pass-through, and straight to the provider.

    python -m proxy.demo.bench [--rounds N] [--requests N]

Everything runs on loopback, each part in a process of its own, bounded in count and time. The three ways take turns
within a round, so that a machine whose speed drifts moves all of them; what is printed is the median over the rounds of
each round's own ratio. Callgate enforces fully: every answer proposes one call, judged by Rego, its schema, progress
and limits.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import aiohttp
from rich import box
from rich.console import Console
from rich.table import Table

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

CHAT = "/v1/chat/completions"
START_SECONDS = 60.0
TICKS = os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100
TOOL = {
    "type": "function",
    "function": {
        "name": "get_order",
        "description": "Looks up an order.",
        "parameters": {"type": "object", "properties": {"id": {"type": "string"}}, "required": ["id"]},
    },
}


@dataclass(frozen=True, slots=True)
class Load:
    """One way of asking. `size`: bytes of the request, about."""

    name: str
    size: int
    stream: bool
    concurrency: int

    def body(self, number: int) -> bytes:
        """A first request of a run of its own."""
        text = f"Where is my order A123? ({number}) " + "x" * self.size
        body = {
            "model": "bench",
            "stream": self.stream,
            "messages": [{"role": "user", "content": text}],
            "tools": [TOOL],
        }
        if self.stream:
            body["stream_options"] = {"include_usage": True}
        return json.dumps(body).encode()


LOADS = (
    Load("2 KB", 1500, stream=False, concurrency=1),
    Load("50 KB", 50_000, stream=False, concurrency=1),
    Load("2 KB stream", 1500, stream=True, concurrency=1),
    Load("2 KB x16", 1500, stream=False, concurrency=16),
    Load("2 KB stream x16", 1500, stream=True, concurrency=16),
)


@dataclass(slots=True)
class Way:
    """One way to the provider, and the process in between (none: straight)."""

    name: str
    url: str
    pid: int | None = None

    def cpu_seconds(self) -> float:
        """CPU used so far by the process and its children that still live (the policy worker)."""
        return sum(map(_cpu_seconds, _family(self.pid))) if self.pid else 0.0

    def memory(self) -> int:
        """Resident bytes of the same."""
        return sum(map(_resident, _family(self.pid))) if self.pid else 0


@dataclass(slots=True)
class Figures:
    """Measurements of one way under one load, a value a round."""

    p50: list[float] = field(default_factory=list)
    """Seconds from sending to the last byte."""
    cpu: list[float] = field(default_factory=list)
    """CPU seconds a request."""


def _family(pid: int) -> Iterator[int]:
    yield pid
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in task.read_text(encoding="ascii").split():
            yield from _family(int(child))


def _cpu_seconds(pid: int) -> float:
    fields = (
        Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
    )
    return (int(fields[11]) + int(fields[12])) / TICKS


def _resident(pid: int) -> int:
    pages = int(Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


async def _measure(
    http: aiohttp.ClientSession, way: Way, load: Load, requests: int, figures: Figures
) -> None:
    seconds: list[float] = []
    numbers = iter(range(requests))
    used = way.cpu_seconds()

    async def ask() -> None:
        for number in numbers:
            begun = time.perf_counter()
            async with http.post(way.url + CHAT, data=load.body(number), headers=HEADERS) as answer:
                came = await answer.read()
            seconds.append(time.perf_counter() - begun)
            if answer.status != 200 or b"get_order" not in came:
                msg = f"{way.name}: status {answer.status}: {came[:200]!r}"
                raise RuntimeError(msg)

    async with asyncio.TaskGroup() as group:
        for _ in range(load.concurrency):
            group.create_task(ask())
    figures.p50.append(statistics.median(seconds))
    figures.cpu.append((way.cpu_seconds() - used) / requests)


HEADERS = {"content-type": "application/json", "authorization": "Bearer bench"}


async def bench(
    ways: Sequence[Way], loads: Sequence[Load], rounds: int, requests: int
) -> dict[tuple[str, str], Figures]:
    """All figures by (load, way). One warm-up round that is not counted."""
    found = {(load.name, way.name): Figures() for load in loads for way in ways}
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as http:
        for number in range(rounds + 1):
            for load in loads:
                for way in ways:
                    figures = found[load.name, way.name] if number else Figures()
                    await _measure(http, way, load, requests, figures)
    return found


def table_of(found: dict[tuple[str, str], Figures], loads: Sequence[Load]) -> Table:
    """Added time and CPU as ratios to the bare pass-through, medians of each round's own ratio."""
    table = Table(
        title="Cost of a request, ms (ratio: Callgate to bare)", title_justify="left", box=box.SIMPLE
    )
    table.add_column("load", no_wrap=True)
    for heading in ("direct", "bare +", "ours +", "ratio", "bare CPU", "our CPU", "ratio"):
        table.add_column(heading, justify="right")
    for load in loads:
        straight, bare, ours = (found[load.name, name] for name in ("straight", "bare", "callgate"))
        bare_adds = [a - b for a, b in zip(bare.p50, straight.p50, strict=True)]
        we_add = [a - b for a, b in zip(ours.p50, straight.p50, strict=True)]
        table.add_row(
            load.name,
            *(_ms(values) for values in (straight.p50, bare_adds, we_add)),
            _ratio(we_add, bare_adds),
            _ms(bare.cpu),
            _ms(ours.cpu),
            _ratio(ours.cpu, bare.cpu),
        )
    return table


def _ms(values: Sequence[float]) -> str:
    return f"{statistics.median(values) * 1000:.2f}"


def _ratio(ours: Sequence[float], bare: Sequence[float]) -> str:
    ratios = [a / b for a, b in zip(ours, bare, strict=True) if b > 0]
    return f"{statistics.median(ratios):.1f}x" if ratios else "-"


def _started(role: str, *arguments: str) -> tuple[subprocess.Popen[str], str]:
    """A part in its own process, and the address that it prints when it is ready."""
    part = subprocess.Popen(  # noqa: S603 - our own module
        [sys.executable, "-m", "proxy.demo.bench_parts", role, *arguments], stdout=subprocess.PIPE, text=True
    )
    url = part.stdout.readline().strip() if part.stdout else ""
    if not url:
        part.kill()
        msg = f"the {role} did not start"
        raise RuntimeError(msg)
    return part, url


def main() -> None:
    """Runs the benchmark and prints its tables."""
    arguments = argparse.ArgumentParser(prog="python -m proxy.demo.bench", description="What guarding costs.")
    arguments.add_argument("--rounds", type=int, default=5, help="interleaved rounds that count (default 5)")
    arguments.add_argument(
        "--requests", type=int, default=200, help="requests a load, way and round (default 200)"
    )
    given = arguments.parse_args()
    parts = [_started("provider")]
    try:
        provider = parts[0][1]
        parts += [_started("bare", provider), _started("callgate", provider)]
        ways = [
            Way("straight", provider),
            Way("bare", parts[1][1], parts[1][0].pid),
            Way("callgate", parts[2][1], parts[2][0].pid),
        ]
        idle = ways[2].memory()
        found = asyncio.run(bench(ways, LOADS, given.rounds, given.requests))
        out = Console()
        out.print(table_of(found, LOADS))
        out.print(
            f"Callgate with its policy worker: {idle >> 20} MB when idle, {ways[2].memory() >> 20} MB after "
            f"{(given.rounds + 1) * given.requests * len(LOADS)} requests, each a run of its own."
        )
    finally:
        for part, _ in parts:
            part.terminate()
            part.wait(10)


if __name__ == "__main__":
    main()
