"""Whole turns that a real OPA server decides: what an agent sees is what it sees with the embedded engine (F3)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from proxy.demo import Answer, Call
from proxy.errors import EngineFault
from tests.asked import team_rule, written
from tests.playbook import Play, play
from tests.real_opa import RealOpa, real_opa, silent
from tests.wire_agent import WIRES, Wire, WireAgent

ORDER = Call("get_order", {"order_id": "A1"})
REFUND = Call("refund", {"order_id": "A1"})
RULES: dict[str, Any] = {
    "org": {
        "tools": {
            "refund": {"arguments": {"order_id": {"one_of": ["B1"], "message": "Refund only order B1."}}}
        },
        "limits": {"turn": {"calls": 4}},
    }
}


@asynccontextmanager
async def decided_by(
    server: RealOpa, tmp_path: Path, rules: Mapping[str, object] = RULES, **settings: Any
) -> AsyncIterator[Play]:
    """A Callgate whose policies this server evaluates."""
    patient = {"policy__opa__timeout_seconds": 30, **settings}
    async with play(tmp_path, rules, policy__engine="opa", policy__opa__url=server.url, **patient) as stage:
        yield stage


@pytest.mark.parametrize("wire", WIRES, ids=lambda wire: wire.name)
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
async def test_a_refused_call_is_told_to_the_model_and_an_allowed_one_leaves(
    wire: Wire, stream: bool, tmp_path: Path
) -> None:
    """D1, D2, C4, F3: over a socket."""
    async with real_opa(unix=tmp_path) as server, decided_by(server, tmp_path) as stage:
        stage.provider.script(Answer(calls=(REFUND,)), Answer(calls=(ORDER,)), Answer("Found."))
        agent = WireAgent(stage, wire, stream)
        await agent.says("Where is A1?")
        await agent.brings("On its way.")

        assert [(each["tool"], each["outcome"]) for each in await stage.decisions()] == [
            ("refund", "block"),
            ("get_order", "allow"),
        ]
        assert b"Refund only order B1." in stage.provider.seen[1].body


async def test_a_server_that_hangs_refuses_and_later_decides_by_itself(tmp_path: Path) -> None:
    """C033: fail closed while it is down; nobody has to do anything when it is back. Readiness tells of it."""
    async with real_opa() as server:
        hasty: dict[str, Any] = {"policy__opa__breaker_failures": 1, "policy__opa__breaker_seconds": 0.01}
        async with decided_by(server, tmp_path, **hasty) as stage:
            stage.provider.respond(lambda _: Answer(calls=(ORDER,)))
            await server.stop()
            first = await WireAgent(stage, WIRES[0]).says("Where is A1?")
            assert first.calls == ()
            assert stage.provider.seen == []
            assert "cannot be reached" in await note_of(stage)

            await server.start()
            # The first one after the pause tries; how long a pause lasts is the clock's business.
            while not (await WireAgent(stage, WIRES[0]).says("Where is A1?")).calls:
                pass
            assert await note_of(stage) == ""


async def note_of(stage: Play) -> str:
    """What readiness says about the engine."""
    async with aiohttp.ClientSession() as session, session.get(f"{stage.callgate.admin_url}/readyz") as ready:
        assert ready.status == 200
        said: str = (await ready.json())["notes"].get("engine", "")
        return said


async def test_a_setting_lets_pass_what_nobody_decided(tmp_path: Path) -> None:
    """F3: `faults.engine: open` means the same with either engine."""
    async with real_opa() as server, decided_by(server, tmp_path, faults__engine="open") as stage:
        stage.provider.script(Answer(calls=(ORDER,)))
        await server.stop()
        turn = await WireAgent(stage, WIRES[0]).says("Where is A1?")
        assert [call.name for call in turn.calls] == ["get_order"]


async def test_policies_change_while_answers_are_under_way(tmp_path: Path) -> None:
    """C034: each turn is decided to its end by what it began under; afterwards one copy is left on the server."""
    folder = written(tmp_path / "policies", team_rule(""))
    rule = folder / "callgate" / "team" / "blue" / "rules.rego"
    closed = 'deny contains {"code": "closed", "message": "No more."} if input.phase == "request"'
    async with real_opa() as server:
        async with decided_by(server, tmp_path, {}, policy__folders=[str(folder)]) as stage:
            old = stage.callgate.policies.hold()
            rule.write_text(f"package callgate.org.blue\n\n{closed}\n".replace("org.blue", "team.blue"))
            await stage.callgate.policies.reload()
            new = stage.callgate.policies.hold()
            assert old.revision != new.revision
            assert len(await server.names()) == 2
            old.let_go()
            new.let_go()
        assert await server.names() == set()


async def test_there_is_no_serving_without_a_server(tmp_path: Path) -> None:
    async with silent() as url:
        hasty = {"policy__opa__timeout_seconds": 0.2, "policy__opa__start_seconds": 0}
        with pytest.raises(EngineFault, match="in time"):
            async with decided_by(RealOpa(url.removeprefix("http://")), tmp_path, {}, **hasty):
                pass
