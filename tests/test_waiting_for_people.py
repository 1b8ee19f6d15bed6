"""Calls that need a person, end to end: a real Callgate, its admin port, a strict provider (D4, C4, E8)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Coroutine
from pathlib import Path
from typing import Any, TypeVar

import aiohttp
import pytest
import pytest_asyncio

from proxy.core.messages import TextDelta
from proxy.demo import Answer, Call
from proxy.dialects import DIALECTS
from tests.dialects.agents import AGENTS
from tests.dialects.speakers import SPEAKERS, Asked
from tests.playbook import Play
from tests.shelf import Shelf
from tests.test_approval_webhook import receiving
from tests.test_gate import accepted, ends, memory_of, settled, steps
from tests.wire_agent import WIRES, Wire, WireAgent, calls_in, until_holds

pytestmark = pytest.mark.asyncio(loop_scope="module")

T = TypeVar("T")
NEEDS_PERSON: dict[str, Any] = {
    "org": {
        "tools": {
            "refund": {
                "approval": "required",
                "arguments": {"order_id": {"pattern": "^A", "message": "Orders begin with A."}},
            }
        }
    }
}
WRITES: dict[str, Any] = {"org": {"tools": {"refund": {"effect": "write"}, "get_order": {"effect": "read"}}}}
HOLD: dict[str, Any] = {
    "approvals__when_needed": "hold",
    "stream__heartbeat_seconds": 0.01,
    "admin__token": "letmein",
}
PENDING: dict[str, Any] = {"admin__token": "letmein"}
REFUND, ORDER = Call("refund", {"order_id": "A1"}), Call("get_order", {"order_id": "A1"})
DOWN = '{"error": "TIMEOUT"}'

each_wire = pytest.mark.parametrize("wire", [pytest.param(wire, id=wire.name) for wire in WIRES])
each_way = pytest.mark.parametrize(
    "stream", [pytest.param(False, id="whole"), pytest.param(True, id="streamed")]
)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shelf(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Shelf]:
    async with Shelf(tmp_path_factory.mktemp("rules")) as shelf:
        yield shelf


def started(work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
    return asyncio.get_running_loop().create_task(work)


async def admin(stage: Play, method: str, path: str, said: object = None) -> Any:
    headers = {"authorization": "Bearer letmein"}
    url = stage.callgate.admin_url + path
    async with stage.http.request(method, url, json=said, headers=headers) as answer:
        assert answer.status == 200, await answer.text()
        return await answer.json()


async def waiting(stage: Play, count: int = 1) -> list[str]:
    """The ids of what waits, the oldest first, once there are so many."""
    async with asyncio.timeout(10):
        while True:
            found = (await admin(stage, "GET", "/approvals?status=pending"))["approvals"]
            if len(found) == count:
                return [each["id"] for each in reversed(found)]


async def says(stage: Play, word: str, approval: str, reason: str = "") -> None:
    await admin(stage, "POST", f"/approvals/{approval}/{word}", {"by": "ann", "reason": reason})


async def words(stage: Play) -> list[tuple[str, str, str]]:
    """Status, who and why of each record of approvals so far."""
    return [
        (record["status"], record["by"], record["reason"])
        for record in await stage.records("approval")
        if record["kind"] == "approval"
    ]


def text_in(wire: Wire, piece: bytes) -> str:
    """The text in the beginning of a stream."""
    frames = wire.dialect.reader(lambda: "made").feed(piece)
    return "".join(event.text for frame in frames for event in frame.events if isinstance(event, TextDelta))


# ---- held ----


@each_wire
@each_way
async def test_a_held_call_leaves_when_it_is_approved(
    shelf: Shelf, wire: Wire, stream: bool, tmp_path: Path
) -> None:
    """D4: as the provider's own call."""
    async with shelf.play(tmp_path, NEEDS_PERSON, **HOLD) as stage:
        stage.provider.script(Answer("I refund it.", calls=(REFUND,)), Answer("Done."))
        agent = WireAgent(stage, wire, stream=stream)
        answer = started(agent.says("Refund A1."))
        (asked,) = await waiting(stage)
        await says(stage, "approve", asked, "fine")
        turn = await answer
        last = await agent.brings("ok")

        assert [json.loads(call.arguments) for call in turn.calls] == [{"order_id": "A1"}]
        assert last.text == "Done."
        assert await words(stage) == [
            ("pending", "", ""),
            ("approved", "ann", "fine"),
            ("used", "ann", "fine"),
        ]
        assert await steps(stage) == [("refund", "found")]
        assert accepted(stage)
        await settled(stage)


@each_wire
async def test_text_of_a_held_stream_is_out_at_once_and_the_stream_stays_alive(
    shelf: Shelf, wire: Wire, tmp_path: Path
) -> None:
    """C031, D4: nothing of the call is out before the person has spoken."""
    async with shelf.play(tmp_path, NEEDS_PERSON, **HOLD) as stage:
        stage.provider.script(Answer("I refund it.", calls=(REFUND,)))
        agent = WireAgent(stage, wire, stream=True)
        agent.messages.append({"role": "user", "content": "Refund A1."})
        headers = {"content-type": "application/json", **stage.headers}
        url = stage.url + wire.path
        async with stage.http.post(url, data=agent.body(), headers=headers) as answer:
            pieces = answer.content.iter_any()
            before = await until_holds(pieces, b"keep-alive")
            (asked,) = await waiting(stage)
            before += await until_holds(pieces, b"keep-alive")
            await says(stage, "approve", asked)
            rest = await answer.content.read()

        assert text_in(wire, before) == "I refund it."
        assert b"order_id" not in before
        assert [call.name for call in calls_in(wire, before + rest)] == ["refund"]


@each_wire
@each_way
async def test_a_rejected_call_goes_back_to_the_model_with_the_reason(
    shelf: Shelf, wire: Wire, stream: bool, tmp_path: Path
) -> None:
    """C4, D4."""
    async with shelf.play(tmp_path, NEEDS_PERSON, **HOLD) as stage:
        stage.provider.script(Answer("I refund it.", calls=(REFUND,)), Answer("I may not."))
        agent = WireAgent(stage, wire, stream=stream)
        answer = started(agent.says("Refund A1."))
        (asked,) = await waiting(stage)
        await says(stage, "reject", asked, "not this month")
        turn = await answer
        ((_, told),) = wire.results_of(stage.provider.seen[-1].json)

        assert turn.calls == ()
        assert turn.text.endswith("I may not.")
        assert "approval_rejected" in told
        assert "not this month" in told
        assert await ends(stage) == [("completed", "")]
        assert (await settled(stage)).spent.calls == 0


async def test_what_nobody_decides_in_time_is_refused(shelf: Shelf, tmp_path: Path) -> None:
    """D4."""
    async with shelf.play(tmp_path, NEEDS_PERSON, **HOLD, approvals__timeout_seconds=0.05) as stage:
        stage.provider.script(Answer(calls=(REFUND,)), Answer("Nobody was there."))
        agent = WireAgent(stage, WIRES[0])
        turn = await agent.says("Refund A1.")
        ((_, told),) = WIRES[0].results_of(stage.provider.seen[-1].json)

        assert turn.text.endswith("Nobody was there.")
        assert "approval_expired" in told
        assert await words(stage) == [("pending", "", ""), ("expired", "", "")]


async def test_an_answer_is_held_so_long_and_then_pending(shelf: Shelf, tmp_path: Path) -> None:
    """D4, E8: and passes later, when it was approved meanwhile."""
    async with shelf.play(tmp_path, NEEDS_PERSON, **HOLD, approvals__hold_seconds=0.05) as stage:
        stage.provider.script(Answer(calls=(REFUND,)), Answer("It waits."), Answer(calls=(REFUND,)))
        agent = WireAgent(stage, WIRES[0])
        await agent.says("Refund A1.")
        outcome = agent.last.headers["x-callgate-outcome"]
        await says(stage, "approve", (await waiting(stage))[0])
        turn = await agent.says("It is approved.")

        assert outcome == "needs_input"
        assert [call.name for call in turn.calls] == ["refund"]


@each_way
async def test_an_agent_that_hangs_up_lets_go_and_may_come_again(
    shelf: Shelf, stream: bool, tmp_path: Path
) -> None:
    """B2, D4: nothing stays put aside, the question stays, and the next try passes."""
    wire = WIRES[0]
    async with shelf.play(tmp_path, NEEDS_PERSON, **HOLD) as stage:
        stage.provider.script(
            Answer("I refund it.", calls=(REFUND,)), Answer("I refund it.", calls=(REFUND,))
        )
        agent = WireAgent(stage, wire, stream=stream)
        agent.messages.append({"role": "user", "content": "Refund A1."})
        async with aiohttp.ClientSession() as http:
            headers = {"content-type": "application/json"}
            asks = started(_reads(http, stage.url + wire.path, agent.body(), headers))
            (asked,) = await waiting(stage)
            asks.cancel()
            await asyncio.gather(asks, return_exceptions=True)
        async with asyncio.timeout(10):
            while not await ends(stage):
                pass
        run = await settled(stage)
        await says(stage, "approve", asked)
        agent.headers = {"x-stainless-retry-count": "1"}  # as the official SDKs mark their own retries
        again = await agent.asks()

        assert (run.outcome, run.spent.calls) == ("cancelled", 0)
        assert [call.name for call in again.calls] == ["refund"]
        assert (await words(stage))[-1] == ("used", "ann", "")


async def _reads(http: aiohttp.ClientSession, url: str, body: bytes, headers: dict[str, str]) -> bytes:
    async with http.post(url, data=body, headers=headers) as answer:
        return await answer.read()


async def test_what_has_happened_while_a_call_was_held_counts(shelf: Shelf, tmp_path: Path) -> None:
    """D4: two requests of one run at once, each approved: the refund is made once."""
    rules = {"org": {"tools": {"refund": {"effect": "write", "approval": "required"}}}}
    async with shelf.play(tmp_path, rules, **HOLD) as stage:
        stage.provider.script(*[Answer(calls=(REFUND,))] * 2, Answer("It is on its way."))
        first = WireAgent(stage, WIRES[0])
        second = WireAgent(stage, WIRES[0], headers={"x-stainless-retry-count": "1"})
        answers = [started(first.says("Refund A1."))]
        (asked,) = await waiting(stage)
        answers.append(started(second.says("Refund A1.")))
        async with asyncio.timeout(10):
            while len(memory_of(stage)._reserved) < 2:  # noqa: ASYNC110 - a store tells nobody
                await asyncio.sleep(0)
        await says(stage, "approve", asked)
        (again,) = await waiting(stage)
        await says(stage, "approve", again)
        turns = [await answer for answer in answers]

        assert sorted(len(turn.calls) for turn in turns) == [0, 1]
        assert await steps(stage) == [("refund", "refused")]
        assert [status for status, _, _ in await words(stage)].count("used") == 1
        await settled(stage)


@pytest.mark.parametrize("name", [dialect.name for dialect in DIALECTS])
@each_way
async def test_official_clients_of_every_dialect_wait_and_read_what_comes(
    name: str, stream: bool, shelf: Shelf, tmp_path: Path
) -> None:
    """F1, D4: with signs of life in between, a call that was approved, and a word about one that was not."""
    rules = {"org": {"tools": {"erase": {"approval": "required"}}}}
    path, body = SPEAKERS[name].says(Asked(("look_up", "erase"), (), stream=stream))
    reads = AGENTS[name].reads_stream if stream else AGENTS[name].reads_whole
    async with shelf.play(tmp_path, rules, **HOLD | {"stream__heartbeat_seconds": 0.001}) as stage:
        stage.provider.script(
            Answer("Well then.", calls=(Call("erase", {"id": "B2"}),)),
            Answer("Well then.", calls=(Call("erase", {"id": "B2"}),)),
            Answer("Sorry then."),
        )
        said = []
        for word in ("approve", "reject"):
            answer = started(stage.post(path, body))
            await says(stage, word, (await waiting(stage))[0], "as agreed")
            said.append(reads((await answer).body))
        told = stage.provider.seen[-1].body

        assert [[call[1:] for call in each.calls] for each in said] == [[("erase", {"id": "B2"})], []]
        assert said[0].text == "Well then."
        assert said[1].text.endswith("Sorry then.")
        assert b"approval_rejected" in told
        assert b"as agreed" in told


# ---- pending ----


@each_wire
@each_way
async def test_a_pending_call_is_told_to_the_model_and_passes_once_when_approved(
    shelf: Shelf, wire: Wire, stream: bool, tmp_path: Path
) -> None:
    """D4, C4, E8: the run needs input; the same call later in the run passes, the one after that does not."""
    async with shelf.play(tmp_path, NEEDS_PERSON, **PENDING) as stage:
        stage.provider.script(
            Answer("I refund it.", calls=(REFUND,)),
            Answer("It waits for a person."),
            Answer(calls=(REFUND,)),
            Answer(calls=(REFUND,)),
            Answer("It waits again."),
        )
        agent = WireAgent(stage, wire, stream=stream)
        first = await agent.says("Refund A1.")
        ((_, told),) = wire.results_of(stage.provider.seen[-1].json)
        (asked,) = await waiting(stage)
        await says(stage, "approve", asked)
        second = await agent.says("It is approved, go on.")
        third = await agent.brings("ok")

        assert first.text.endswith("It waits for a person.")
        assert "approval_pending" in told
        assert asked in told
        assert [call.name for call in second.calls] == ["refund"]
        assert third.text.endswith("It waits again.")
        assert await waiting(stage) != [asked]
        assert await ends(stage) == [("needs_input", "approval_pending"), ("needs_input", "approval_pending")]
        assert accepted(stage)


async def test_an_approved_call_passes_in_the_same_turn_too(shelf: Shelf, tmp_path: Path) -> None:
    """D4: an agent that works by itself comes back without a word of the user."""
    async with shelf.play(tmp_path, NEEDS_PERSON, **PENDING) as stage:
        stage.provider.script(
            Answer(calls=(ORDER,)),
            Answer(calls=(REFUND,)),
            Answer("It waits.", calls=(ORDER,)),
            Answer(calls=(REFUND,)),
            Answer("Done."),
        )
        agent = WireAgent(stage, WIRES[0])
        await agent.says("Refund A1.")
        await agent.brings("order A1")
        await says(stage, "approve", (await waiting(stage))[0])
        turn = await agent.brings("order A1, paid")
        last = await agent.brings("ok")

        assert [call.name for call in turn.calls] == ["refund"]
        assert last.text == "Done."
        assert agent.last.headers["x-callgate-outcome"] == "completed"


async def test_calls_beside_a_pending_one_leave(shelf: Shelf, tmp_path: Path) -> None:
    """C10, D4."""
    async with shelf.play(tmp_path, NEEDS_PERSON, **PENDING) as stage:
        stage.provider.script(Answer(calls=(REFUND, ORDER)), Answer("It waits."))
        agent = WireAgent(stage, WIRES[0])
        turn = await agent.says("Refund A1.")
        await agent.brings("order A1")

        assert [call.name for call in turn.calls] == ["get_order"]
        assert "waits for a person as apr_" in turn.text
        assert agent.last.headers["x-callgate-outcome"] == "needs_input"


async def test_a_model_that_insists_needs_input_too(shelf: Shelf, tmp_path: Path) -> None:
    """E8, D5: it is not denied, and nobody is asked twice."""
    insists = {"reask__per_turn": 9, **PENDING}
    async with shelf.play(tmp_path, NEEDS_PERSON, **insists) as stage:
        stage.provider.script(*[Answer(calls=(REFUND,))] * 3, Answer("All right, it waits."))
        agent = WireAgent(stage, WIRES[0])
        turn = await agent.says("Refund A1.")

        assert turn.text.endswith("All right, it waits.")
        assert agent.last.headers["x-callgate-outcome"] == "needs_input"
        assert len(await waiting(stage)) == 1


async def test_nobody_is_asked_about_what_is_refused_anyway(shelf: Shelf, tmp_path: Path) -> None:
    """D4: another rule speaks against it."""
    async with shelf.play(tmp_path, NEEDS_PERSON, **HOLD) as stage:
        stage.provider.script(Answer(calls=(Call("refund", {"order_id": "B1"}),)), Answer("No."))
        await WireAgent(stage, WIRES[0]).says("Refund B1.")
        ((_, told),) = WIRES[0].results_of(stage.provider.seen[-1].json)

        assert "argument_rule" in told
        assert await words(stage) == []


async def test_another_run_does_not_use_the_approval(shelf: Shelf, tmp_path: Path) -> None:
    """D4."""
    async with shelf.play(tmp_path, NEEDS_PERSON, **PENDING) as stage:
        stage.provider.script(*[Answer(calls=(REFUND,)), Answer("It waits.")] * 2)
        await WireAgent(stage, WIRES[0]).says("Refund A1.")
        await says(stage, "approve", (await waiting(stage))[0])
        other = WireAgent(stage, WIRES[0], headers={"x-callgate-run": "another"})
        turn = await other.says("Refund A1, please.")

        assert turn.calls == ()
        assert len(memory_of(stage)._runs) == 2
        assert len(await waiting(stage)) == 1


async def test_in_shadow_nobody_is_asked_and_it_is_recorded(shelf: Shelf, tmp_path: Path) -> None:
    modes = {"checks__modes": {"approval": "shadow"}, **HOLD}
    async with shelf.play(tmp_path, NEEDS_PERSON, **modes) as stage:
        stage.provider.script(Answer(calls=(REFUND,)))
        turn = await WireAgent(stage, WIRES[0]).says("Refund A1.")
        judged = [
            each
            for each in await stage.records("decision")
            if each["kind"] == "decision" and each["phase"] == "calls"
        ]
        said = [(each["code"], each["mode"]) for record in judged for each in record["verdicts"]]

        assert [call.name for call in turn.calls] == ["refund"]
        assert await words(stage) == []
        assert said == [("approval_pending", "shadow")]


async def test_somebody_elses_system_is_told(shelf: Shelf, tmp_path: Path) -> None:
    """D4: and what it decides comes by the same routes."""
    async with receiving() as receiver:
        hook = {"approvals__webhook__url": receiver.url, "approvals__webhook__secret": "s"}
        async with shelf.play(tmp_path, NEEDS_PERSON, **HOLD, **hook) as stage:
            stage.provider.script(Answer(calls=(REFUND,)))
            answer = started(WireAgent(stage, WIRES[0]).says("Refund A1."))
            _, body = await receiver.next()
            told = json.loads(body)["approval"]
            await says(stage, "approve", told["id"])

            assert [call.name for call in (await answer).calls] == ["refund"]
            assert json.loads(told["arguments"]) == {"order_id": "A1"}


# ---- side effects ----


@each_wire
@each_way
async def test_what_was_done_is_not_done_again(
    shelf: Shelf, wire: Wire, stream: bool, tmp_path: Path
) -> None:
    """D4: the model is told that it is done, also when the user speaks again."""
    async with shelf.play(tmp_path, WRITES) as stage:
        stage.provider.script(
            Answer(calls=(REFUND,)), Answer("Done."), Answer(calls=(REFUND,)), Answer("It was done before.")
        )
        agent = WireAgent(stage, wire, stream=stream)
        await agent.says("Refund A1.")
        await agent.brings("refunded")
        await agent.says("Thanks.")
        told = wire.results_of(stage.provider.seen[-1].json)[-1][1]

        assert "side_effect_done" in told
        assert agent.last.status == 200
        assert await steps(stage) == [("refund", "found"), ("refund", "refused")]


async def test_what_may_have_been_done_is_looked_at_before_it_is_tried_again(
    shelf: Shelf, tmp_path: Path
) -> None:
    """D4, D11."""
    async with shelf.play(tmp_path, WRITES) as stage:
        stage.provider.script(
            Answer(calls=(REFUND,)),
            Answer(calls=(REFUND,)),
            Answer("I look first.", calls=(ORDER,)),
            Answer(calls=(REFUND,)),
            Answer("Done."),
        )
        agent = WireAgent(stage, WIRES[0])
        await agent.says("Refund A1.")
        looks = await agent.brings(DOWN)
        tries = await agent.brings('{"refunded": false}')
        last = await agent.brings("refunded")

        assert [call.name for call in looks.calls] == ["get_order"]
        assert [call.name for call in tries.calls] == ["refund"]
        assert last.text == "Done."
        assert accepted(stage)


async def test_after_a_loss_of_state_the_history_still_tells_what_was_done(
    shelf: Shelf, tmp_path: Path
) -> None:
    """D4, C012: another process, the same conversation."""
    wire = WIRES[0]
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    async with shelf.play(tmp_path / "a", WRITES) as stage:
        stage.provider.script(Answer(calls=(REFUND,)), Answer("Done."))
        agent = WireAgent(stage, wire)
        await agent.says("Refund A1.")
        await agent.brings("refunded")
    async with shelf.play(tmp_path / "b", WRITES) as stage:
        stage.provider.script(Answer(calls=(REFUND,)), Answer("It was done before."))
        agent.stage = stage
        turn = await agent.says("And now?")

        assert turn.calls == ()
        assert "side_effect_done" in wire.results_of(stage.provider.seen[-1].json)[-1][1]
