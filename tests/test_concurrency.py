"""Many runs at once in one process, told apart by nothing but what they were answered."""

from __future__ import annotations

import asyncio
import gc
import json
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import pytest_asyncio

from proxy.core.verdicts import Facts
from proxy.demo import Answer, Call, Seen
from proxy.exchange import Incoming
from proxy.relay import Relay
from proxy.rounds import Round
from proxy.stores.memory import MemoryStore
from proxy.traces import RequestTrace
from proxy.turn_state import State
from tests.playbook import Play
from tests.shelf import Shelf
from tests.wire_agent import WIRES, Wire, WireAgent

pytestmark = pytest.mark.asyncio(loop_scope="module")

AT_ONCE = 200
ROUNDS = 3
OF_A_REQUEST = (Facts, Incoming, Relay, RequestTrace, Round, State)
"""What lives as long as a request and no longer."""
each_wire = pytest.mark.parametrize("wire", [pytest.param(wire, id=wire.name) for wire in WIRES])


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shelf(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Shelf]:
    async with Shelf(tmp_path_factory.mktemp("rules")) as shelf:
        yield shelf


def answer_to(wire: Wire, seen: Seen) -> Answer:
    """The same calls for everybody; at the end everything that this run's tools said."""
    told = [text for _, text in wire.results_of(seen.json)]
    if len(told) == ROUNDS - 1:
        return Answer(f"I was told {', '.join(told)}.")
    return Answer("Let me see.", calls=(Call("get_order", {"order_id": f"A{len(told)}"}),))


async def works(stage: Play, wire: Wire, number: int) -> str:
    """One run: the prompt of all others, results of its own."""
    agent = WireAgent(stage, wire, stream=True)
    turn = await agent.says("Where are my orders?")
    for step in range(ROUNDS - 1):
        assert [call.name for call in turn.calls] == ["get_order"]
        turn = await agent.brings(f"r{number}s{step}")
    (run,) = {answered.headers["x-callgate-run"] for answered in agent.answered}
    assert turn.text == f"I was told {', '.join(f'r{number}s{step}' for step in range(ROUNDS - 1))}."
    return run


def alive() -> Counter[str]:
    """How many objects of requests there are."""
    gc.collect()
    return Counter(type(each).__name__ for each in gc.get_objects() if isinstance(each, OF_A_REQUEST))


async def told_of(stage: Play, kind: str) -> Counter[str]:
    """How many records of this kind there are of each run."""
    return Counter(record["run"] for record in await stage.records(kind) if record["kind"] != "lost")


async def all_quiet(stage: Play) -> MemoryStore:
    """The store, once nothing is reserved any more."""
    store: Any = stage.callgate.parts.ledger._store
    memory: MemoryStore = getattr(store, "_store", store)
    async with asyncio.timeout(5):
        while memory._reserved:  # noqa: ASYNC110 - a store tells nobody when it was settled
            await asyncio.sleep(0)
    return memory


@each_wire
async def test_two_hundred_equal_runs_at_once_are_told_apart_and_leave_nothing_behind(
    shelf: Shelf, wire: Wire, tmp_path: Path
) -> None:
    """F1, A9, E2: same caller, same prompt, same calls. None is mixed up, none is lost, every count is exact."""
    async with shelf.play(tmp_path) as stage, aiohttp.ClientSession(connector=_no_limit()) as http:
        stage.http = http
        stage.provider.respond(lambda seen: answer_to(wire, seen))
        runs = await asyncio.gather(*(works(stage, wire, number) for number in range(AT_ONCE)))
        memory = await all_quiet(stage)
        assert len(set(runs)) == AT_ONCE
        assert set(memory._runs) == set(runs)
        for run in memory._runs.values():
            assert (run.spent.rounds, run.spent.calls, run.outcome) == (ROUNDS, ROUNDS - 1, "completed")
            assert len({step.result.partition("s")[0] for step in run.steps}) == 1
            assert [step.result.partition("s")[2] for step in run.steps] == ["0", "1"]
        assert {seen.refused for seen in stage.provider.seen} == {None}
        assert await told_of(stage, "run_end") == Counter(runs)
        steps = await told_of(stage, "step")
        assert steps == Counter(dict.fromkeys(runs, ROUNDS - 1))
        await stage.callgate.flush_audit()
        assert alive() == Counter()


@each_wire
async def test_what_a_request_needs_is_gone_when_it_is_over_however_many_came(
    shelf: Shelf, wire: Wire, tmp_path: Path
) -> None:
    """Memory is flat: what is kept is what the store keeps, and that is bounded."""
    meanwhile: list[Counter[str]] = []

    def answer(seen: Seen) -> Answer:
        if not meanwhile:
            meanwhile.append(alive())
        return answer_to(wire, seen)

    async with shelf.play(tmp_path, state__max_runs=10) as stage:
        stage.provider.respond(answer)
        for number in range(20):
            await works(stage, wire, number)
        memory = await all_quiet(stage)
        assert len(memory._runs) == 10
        # Else the last line would say nothing. There is no relay yet.
        assert len(meanwhile[0]) == len(OF_A_REQUEST) - 1
        assert alive() == Counter()


async def test_a_run_asked_for_in_parallel_is_counted_as_often_as_it_asked(
    shelf: Shelf, tmp_path: Path
) -> None:
    """E2, B1: what is reserved is reserved: ten at once never get more than the limit."""
    rules = {"org": {"limits": {"turn": {"rounds": 4}}}}
    wire = WIRES[0]
    async with shelf.play(tmp_path, rules) as stage:
        stage.provider.respond(lambda _: Answer("Hello."))
        agents = [
            WireAgent(stage, wire, headers={"x-callgate-run": "task-7"}, more={"seed": number})
            for number in range(10)
        ]
        await agents[0].says("Hi")
        await asyncio.gather(*(agent.says("Hi") for agent in agents[1:]))
        free = [seen for seen in stage.provider.seen if wire.choice_of(json.loads(seen.body)) is None]
        assert len(free) == 4


def _no_limit() -> aiohttp.TCPConnector:
    return aiohttp.TCPConnector(limit=0)
