"""Real worker processes: deadlines, crashes, reloads, and that none is left behind."""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from proxy.engines import Bundle, load_bundle
from proxy.engines.embedded import EmbeddedEngine, EmbeddedSettings
from proxy.errors import EngineFault
from tests.asked import asked, codes, shipped, team_rule, written
from tests.processes import children

# Never ends within a deadline, is stopped by nothing in the language, and needs no memory to speak of.
ENDLESS = """deny contains {"code": "endless", "message": "x"} if {
	input.identity.user == "endless"
	some a in numbers.range(1, 3000)
	some b in numbers.range(1, 3000)
	some c in numbers.range(1, 3000)
	a + b + c < 0
}"""
HUGE = """deny contains {"code": "huge", "message": "x"} if {
	input.identity.user == "huge"
	count(numbers.range(1, 900000000)) == 1
}"""
FAILING = """deny contains {"code": "too_much", "message": "No more than 100."} if {
	some call in input.calls
	to_number(call.arguments.amount) > 100
}"""


def bundle(folder: Path, rule: str = "", name: str = "policies") -> Bundle:
    if not rule:
        return shipped()
    return load_bundle([written(folder / name, team_rule(rule))])


@asynccontextmanager
async def engine(policies: Bundle, **settings: Any) -> AsyncIterator[EmbeddedEngine]:
    started = await EmbeddedEngine.start(policies, EmbeddedSettings(**settings))
    try:
        yield started
    finally:
        await started.close()


def by(user: str, **changes: Any) -> dict[str, Any]:
    question = asked(**changes)
    question["identity"]["user"] = user
    return question


async def test_it_decides(tmp_path: Path) -> None:
    """F3: the embedded engine is the default."""
    async with engine(bundle(tmp_path)) as decides:
        decision = await decides.decide(asked())

        assert decision["deny"] == []
        assert decides.revision == bundle(tmp_path).revision


async def test_a_policy_without_end_is_stopped_and_others_still_get_their_decision(tmp_path: Path) -> None:
    """C033: an evaluation over its time is a fault, and the proxy lives on."""
    async with engine(bundle(tmp_path, ENDLESS), deadline=0.3) as decides:
        runaway = asyncio.gather(decides.decide(by("endless")), return_exceptions=True)
        others = asyncio.gather(*(decides.decide(by("ann")) for _ in range(5)))

        (fault,) = await runaway
        assert isinstance(fault, EngineFault)
        assert "too long" in fault.message
        assert [decision["deny"] for decision in await others] == [[]] * 5


async def test_another_worker_answers_while_one_is_stuck(tmp_path: Path) -> None:
    async with engine(bundle(tmp_path, ENDLESS), workers=2, deadline=5.0) as decides:
        loop = asyncio.get_running_loop()
        runaway = loop.create_task(decides.decide(by("endless")))
        decision = await decides.decide(by("ann"))

        assert decision["deny"] == []
        assert not runaway.done()
        await decides.close()
        with pytest.raises(EngineFault):
            await runaway


async def test_a_policy_without_bounds_ends_its_worker_and_not_the_machine(tmp_path: Path) -> None:
    async with engine(bundle(tmp_path, HUGE), deadline=20.0, memory=512 * 1024 * 1024) as decides:
        with pytest.raises(EngineFault):
            await decides.decide(by("huge"))

        assert (await decides.decide(by("ann")))["deny"] == []


async def test_a_built_in_that_fails_in_a_denial_is_a_fault_with_its_place(tmp_path: Path) -> None:
    """C033, run 1 to 3."""
    async with engine(bundle(tmp_path, FAILING)) as decides:
        with pytest.raises(EngineFault, match=r"rules\.rego:5:\d+: .*could not parse"):
            await decides.decide(asked(arguments={"amount": "12x"}))

        assert codes(await decides.decide(asked(arguments={"amount": "500"}))) == ["too_much"]
        assert codes(await decides.decide(asked(arguments={"amount": "50"}))) == []


async def test_the_fault_of_one_team_is_not_met_by_another(tmp_path: Path) -> None:
    """F2: the rules of a team are evaluated for its members only."""
    async with engine(bundle(tmp_path, FAILING)) as decides:
        question = asked(arguments={"amount": "12x"})
        question["identity"]["team"] = "red"

        assert (await decides.decide(question))["deny"] == []


async def test_who_waits_too_long_for_a_worker_is_told(tmp_path: Path) -> None:
    async with engine(bundle(tmp_path, ENDLESS), deadline=10.0, queue_wait=0.05) as decides:
        loop = asyncio.get_running_loop()
        runaway = loop.create_task(decides.decide(by("endless")))
        for _ in range(5):
            await asyncio.sleep(0)  # so that it has the worker
        with pytest.raises(EngineFault, match="too busy"):
            await decides.decide(by("ann"))

        await decides.close()
        with pytest.raises(EngineFault):
            await runaway


async def test_a_worker_that_is_killed_is_replaced(tmp_path: Path) -> None:
    async with engine(bundle(tmp_path), queue_wait=20.0) as decides:
        (before,) = children()
        os.kill(before, 9)
        outcomes = await asyncio.gather(*(decides.decide(asked()) for _ in range(3)), return_exceptions=True)
        faults = [outcome for outcome in outcomes if isinstance(outcome, BaseException)]

        assert len(faults) <= 1
        assert all(isinstance(fault, EngineFault) for fault in faults)
        assert before not in children()


async def test_an_agent_that_hangs_up_costs_no_worker(tmp_path: Path) -> None:
    async with engine(bundle(tmp_path)) as decides:
        before = children()
        asking = asyncio.get_running_loop().create_task(decides.decide(asked()))
        await asyncio.sleep(0)
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking

        assert (await decides.decide(asked()))["deny"] == []
        assert children() == before


async def test_nothing_is_left_when_it_is_closed(tmp_path: Path) -> None:
    async with engine(bundle(tmp_path), workers=2) as decides:
        assert len(children()) == 2
    with pytest.raises(EngineFault, match="closed"):
        await decides.decide(asked())

    assert children() == []


def test_workers_end_with_the_process_that_started_them() -> None:
    """Killed outright, it can tell nobody; its workers see their input end."""
    script = """
import asyncio, os, sys
from proxy.engines import load_bundle
from proxy.engines.embedded import EmbeddedEngine
async def main():
    engine = await EmbeddedEngine.start(load_bundle([]))
    (worker,) = engine._free
    print(worker._transport.get_pid(), flush=True)
    os._exit(0)
asyncio.run(main())
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60
    )
    pid = int(done.stdout)
    for _ in range(1000):
        if not Path(f"/proc/{pid}/cmdline").exists() or not Path(f"/proc/{pid}/cmdline").read_bytes():
            break
        subprocess.run(["true"], check=True)  # a little time, without sleeping

    assert not Path(f"/proc/{pid}/cmdline").exists() or not Path(f"/proc/{pid}/cmdline").read_bytes()


@pytest.mark.parametrize(
    "value",
    [
        'quo"te',
        "back\\slash",
        "new\nline",
        "naïve 订单 🙂",
        "::ffff:10.0.0.1",
        "\u202e",
        "{}",
        "data.x",
        "%s %d",
    ],
)
async def test_hostile_texts_come_back_as_they_were(tmp_path: Path, value: str) -> None:
    rule = """deny contains {"code": "seen", "message": call.arguments.x} if some call in input.calls"""
    async with engine(bundle(tmp_path, rule)) as decides:
        decision = await decides.decide(asked(arguments={"x": value, value: value}))

        assert [denial["message"] for denial in json.loads(json.dumps(decision["deny"]))] == [value]
