"""The flow of a turn, requirement by requirement, over plain HTTP in both wire formats, streamed and not. Behind
Callgate stands a strict provider that plays a script."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from proxy.core.runs import Run
from proxy.demo import Answer, Call, Raw, ScriptedProvider, Seen
from proxy.stores.memory import MemoryStore
from tests.playbook import CHAT, Play
from tests.shelf import Shelf
from tests.talk import Clock
from tests.wire_agent import WIRES, Wire, WireAgent, calls_in, until_holds

pytestmark = pytest.mark.asyncio(loop_scope="module")

ONLY_B1: dict[str, Any] = {
    "org": {
        "tools": {
            "refund": {"arguments": {"order_id": {"one_of": ["B1"], "message": "Refund only order B1."}}}
        }
    }
}
ORDER = Call("get_order", {"order_id": "A1"})
OTHER = Call("get_order", {"order_id": "A2"})
THIRD = Call("get_order", {"order_id": "A3"})
REFUND = Call("refund", {"order_id": "A1"})

each_wire = pytest.mark.parametrize("wire", [pytest.param(wire, id=wire.name) for wire in WIRES])
each_way = pytest.mark.parametrize(
    "stream", [pytest.param(False, id="whole"), pytest.param(True, id="streamed")]
)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shelf(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Shelf]:
    async with Shelf(tmp_path_factory.mktemp("rules")) as shelf:
        yield shelf


def limited(**turn: Any) -> dict[str, Any]:
    return {"org": {"limits": {"turn": turn}}}


def body_of(seen: Seen) -> Any:
    """A request as the provider reads it."""
    return seen.json


def accepted(stage: Play) -> bool:
    """The provider objected to nothing that came, and nothing scripted is left."""
    return all(seen.refused is None for seen in stage.provider.seen) and not stage.provider.left


def runs_of(stage: Play) -> list[Run]:
    """All runs that are kept."""
    return list(memory_of(stage)._runs.values())


def memory_of(stage: Play) -> MemoryStore:
    store: Any = stage.callgate.parts.ledger._store
    memory = getattr(store, "_store", store)
    assert isinstance(memory, MemoryStore)
    return memory


async def settled(stage: Play) -> Run:
    """The only run, once nothing is reserved in it any more."""
    async with asyncio.timeout(5):
        while memory_of(stage)._reserved:  # noqa: ASYNC110 - a store tells nobody when it was settled
            await asyncio.sleep(0)
    (run,) = runs_of(stage)
    return run


async def ends(stage: Play) -> list[tuple[str, str]]:
    """Outcome and detail of each end of a run so far."""
    return [
        (record["outcome"], record["detail"])
        for record in await stage.records("run_end")
        if record["kind"] == "run_end"
    ]


async def steps(stage: Play) -> list[tuple[str, str]]:
    """Tool and status of each step so far."""
    return [
        (record["tool"], record["status"])
        for record in await stage.records("step")
        if record["kind"] == "step"
    ]


# ---- nothing is changed ----


@each_wire
@each_way
async def test_what_nobody_changes_travels_byte_for_byte(
    shelf: Shelf, wire: Wire, stream: bool, tmp_path: Path
) -> None:
    """A7, C10: odd spacing, escapes, unknown members and parallel calls, on the way there and on the way back."""
    usage = '"stream_options" : {"include_usage":true},' if stream and wire.path == CHAT else ""
    body = (
        f'{{ "model":"scripted-large",  "max_tokens":100 ,"stream": {str(stream).lower()},{usage} '
        '"metadata":{"user_id":"\\u00fc \U0001f600"},\n"messages":[{"content":"Hi \\/ \\u0041", "role":"user"}],'
        f'"tools":{json.dumps(wire.tools(), indent=1)} }}'
    )
    script = Answer("Let me see.", calls=(ORDER, Call("refund", '{ "order_id" :"\\u0041 1"}')), usage=(7, 9))
    async with shelf.play(tmp_path) as stage, ScriptedProvider() as alone:
        for provider in (stage.provider, alone):
            provider.script(script)
        answered = await stage.post(wire.path, body.encode())
        headers = {**stage.headers, "content-type": "application/json"}
        async with stage.http.post(alone.url + wire.path, data=body.encode(), headers=headers) as direct:
            assert answered.body == await direct.read()
            assert answered.status == direct.status == 200
            name = "x-request-id" if wire.path == CHAT else "request-id"
            assert answered.headers[name] == direct.headers[name]
        assert stage.provider.seen[0].body == body.encode()
        assert accepted(stage)


@each_wire
@each_way
async def test_a_providers_error_travels_byte_for_byte(
    shelf: Shelf, wire: Wire, stream: bool, tmp_path: Path
) -> None:
    """F1: whatever its shape."""
    error = Raw(b'{"odd" :  "error"}\n', 418, {"x-request-id": "req_7", "retry-after": "77"})
    async with shelf.play(tmp_path) as stage:
        stage.provider.script(error)
        agent = WireAgent(stage, wire, stream)
        await agent.says("Hi")
        assert (agent.last.status, agent.last.body) == (418, error.body)
        assert (agent.last.headers["x-request-id"], agent.last.headers["retry-after"]) == ("req_7", "77")
        assert await ends(stage) == [("failed", "upstream_418")]


@each_wire
@each_way
async def test_every_reply_names_its_run_and_the_run_is_the_same_from_request_to_request(
    shelf: Shelf, wire: Wire, stream: bool, tmp_path: Path
) -> None:
    """A9: one id strings the steps together, and another conversation has another one."""
    async with shelf.play(tmp_path) as stage:
        stage.provider.respond(lambda _: Answer("Hello."))
        stage.provider.script(Answer(calls=(ORDER,)), Answer("Found."))
        agent, other = (WireAgent(stage, wire, stream) for _ in range(2))
        await agent.says("Where is A1?")
        await agent.brings("On its way.")
        await agent.says("Thank you.")
        await other.says("Where is A1?")
        assert len({answer.headers["x-callgate-run"] for answer in agent.answered}) == 1
        assert other.last.headers["x-callgate-run"] != agent.last.headers["x-callgate-run"]
        assert len({answer.headers["x-callgate-request"] for answer in agent.answered}) == 3


async def test_usage_that_the_agent_did_not_ask_for_is_counted_and_kept_from_it(
    shelf: Shelf, tmp_path: Path
) -> None:
    """E4, F1: a streamed answer's tokens are known all the same; the agent gets the stream that it asked for."""
    async with shelf.play(tmp_path) as stage:
        stage.provider.script(Answer("Hello.", usage=(70, 7)), Answer("Hello.", usage=(80, 8)))
        agent = WireAgent(stage, WIRES[0], stream=True, usage_wanted=False)
        assert (await agent.says("Hi")).usage is None
        assert all(event == "[DONE]" or event["choices"] for event in agent.last.events)
        assert body_of(stage.provider.seen[0])["stream_options"] == {"include_usage": True}
        run = await settled(stage)
        assert (run.spent.input_tokens, run.spent.output_tokens, run.spent.unverified_tokens) == (70, 7, 0)


@each_wire
@pytest.mark.parametrize(
    "body", [b"", b"{", b"[]", b'{"model":"m"}', b'{"model":"m","messages":"x"}', b'{"a":1,"a":2}']
)
async def test_a_body_that_cannot_be_judged_goes_nowhere(
    shelf: Shelf, wire: Wire, body: bytes, tmp_path: Path
) -> None:
    """F1, E1: the error has the shape of the dialect and says what is wrong."""
    async with shelf.play(tmp_path) as stage:
        answered = await stage.post(wire.path, body)
        assert answered.status == 400
        assert len(answered.json["error"]["message"]) > 10
        assert answered.headers["x-should-retry"] == "false"
        assert stage.provider.seen == []
        assert runs_of(stage) == []


# ---- calls ----


@each_way
async def test_in_every_choice_of_an_answer_calls_are_judged(
    shelf: Shelf, stream: bool, tmp_path: Path
) -> None:
    """D1, C7: several choices cannot be asked again as one; what is allowed passes, what is not is taken out."""
    async with shelf.play(tmp_path, ONLY_B1) as stage:
        stage.provider.script(Answer("Well.", calls=(ORDER, REFUND)))
        agent = WireAgent(stage, WIRES[0], stream, more={"n": 2})
        turn = await agent.says("Refund A1.")
        assert [(call.name, call.key[0]) for call in turn.calls] == [("get_order", 0), ("get_order", 1)]
        assert b'"refund"' not in agent.last.body
        assert [made["outcome"] for made in await stage.decisions()] == ["allow", "block"] * 2


@each_wire
@each_way
async def test_the_finish_word_is_not_trusted(shelf: Shelf, wire: Wire, stream: bool, tmp_path: Path) -> None:
    """C11: an answer that says it has ended, with a call in it, is judged like any other."""
    async with shelf.play(tmp_path, ONLY_B1) as stage:
        stage.provider.script(Answer(calls=(REFUND,), finish="stop"), Answer("I may not."))
        turn = await WireAgent(stage, wire, stream).says("Refund A1.")
        assert (turn.text, turn.calls) == ("I may not.", ())
        assert accepted(stage)
        assert await steps(stage) == [("refund", "refused")]


@each_wire
@each_way
async def test_a_tool_that_does_not_exist_is_answered_with_those_that_do(
    shelf: Shelf, wire: Wire, stream: bool, tmp_path: Path
) -> None:
    """C2, C4: an instruction to the model, not a fault of the agent."""
    async with shelf.play(tmp_path) as stage:
        stage.provider.script(Answer(calls=(Call("get_ordr", {"order_id": "A1"}),)), Answer(calls=(ORDER,)))
        turn = await WireAgent(stage, wire, stream).says("Where is A1?")
        ((_, told),) = wire.results_of(body_of(stage.provider.seen[1]))
        assert [call.name for call in turn.calls] == ["get_order"]
        assert all(name in told for name in ("get_ordr", "get_order", "search_policy", "refund"))
        assert accepted(stage)


@each_wire
@each_way
async def test_arguments_that_do_not_fit_the_tools_own_schema_go_back_to_the_model(
    shelf: Shelf, wire: Wire, stream: bool, tmp_path: Path
) -> None:
    """C3, C4: looked up and validated before anything is released; the tool gets the bytes that were judged."""
    good = Call("get_order", '{"order_id"  : "A1"}')
    async with shelf.play(tmp_path) as stage:
        stage.provider.script(Answer(calls=(Call("get_order", {"id": 1}),)), Answer(calls=(good,)))
        turn = await WireAgent(stage, wire, stream).says("Where is A1?")
        assert [call.arguments for call in turn.calls] == ['{"order_id"  : "A1"}']
        ((_, told),) = wire.results_of(body_of(stage.provider.seen[1]))
        assert "order_id" in told
        assert accepted(stage)


@each_wire
@each_way
async def test_several_calls_keep_their_order_when_one_of_them_is_refused(
    shelf: Shelf, wire: Wire, stream: bool, tmp_path: Path
) -> None:
    """C10, C7, D5: out, back, and in the records; the refused one leaves no orphan."""
    async with shelf.play(tmp_path, ONLY_B1) as stage:
        stage.provider.script(Answer(calls=(OTHER, REFUND, ORDER, THIRD)), Answer("Three found."))
        agent = WireAgent(stage, wire, stream)
        turn = await agent.says("Where are they?")
        assert [json.loads(call.arguments)["order_id"] for call in turn.calls] == ["A2", "A1", "A3"]
        assert "Refund only order B1." in turn.text
        assert (await agent.brings("two", "one", "three")).text == "Three found."
        assert [text for _, text in wire.results_of(body_of(stage.provider.seen[1]))] == [
            "two",
            "one",
            "three",
        ]
        assert [(made["tool"], made["outcome"]) for made in await stage.decisions()] == [
            ("get_order", "allow"),
            ("refund", "block"),
            ("get_order", "allow"),
            ("get_order", "allow"),
        ]
        assert accepted(stage)


@each_wire
async def test_text_leaves_at_once_and_nothing_of_a_call_before_it_is_judged(
    shelf: Shelf, wire: Wire, tmp_path: Path
) -> None:
    """D1: the agent reads the text while the provider is still in the middle of the call."""
    async with ScriptedProvider() as rehearsal:
        rehearsal.script(Answer("Let me see.", calls=(REFUND,)))
        async with shelf.play(tmp_path) as stage:
            agent = WireAgent(stage, wire, stream=True, messages=[{"role": "user", "content": "Hi"}])
            headers = {**stage.headers, "content-type": "application/json"}
            async with stage.http.post(rehearsal.url + wire.path, data=agent.body(), headers=headers) as said:
                whole = await said.read()
            half = whole[: whole.index(b"A1")]
            stage.provider.script(Raw(half, headers={"content-type": "text/event-stream"}, ending="hang"))
            async with stage.http.post(stage.url + wire.path, data=agent.body(), headers=headers) as answer:
                got = await until_holds(answer.content.iter_any(), b"see.")
            assert b"refund" in half
            assert b"refund" not in got
            assert calls_in(wire, got) == []


@each_wire
async def test_a_stream_that_breaks_off_inside_a_call_releases_nothing_of_it(
    shelf: Shelf, wire: Wire, tmp_path: Path
) -> None:
    """B2, F1: the agent is told by an error in its own format."""
    async with ScriptedProvider() as rehearsal:
        rehearsal.script(Answer("Let me see.", calls=(ORDER,)))
        async with shelf.play(tmp_path) as stage:
            agent = WireAgent(stage, wire, stream=True, messages=[{"role": "user", "content": "Hi"}])
            headers = {**stage.headers, "content-type": "application/json"}
            async with stage.http.post(rehearsal.url + wire.path, data=agent.body(), headers=headers) as said:
                whole = await said.read()
            half = whole[: whole.index(b"A1")]
            stage.provider.script(Raw(half, headers={"content-type": "text/event-stream"}, ending="reset"))
            answered = await stage.post(wire.path, agent.body())
            assert b"get_order" in half
            assert b"get_order" not in answered.body
            assert b'"error"' in answered.body
            run = await settled(stage)
            assert (run.outcome, run.spent.calls) == ("failed", 0)
            assert run.spent.unverified_tokens > 0


# ---- results ----


@pytest.mark.parametrize(
    ("text", "flag", "status"),
    [
        ('{"found":true,"data":{"id":"A1"}}', False, "found"),
        ('{"found":false,"reason":"no such order"}', False, "not_found"),
        ('{"error":"DB_TIMEOUT","message":"try later"}', False, "temporarily_unavailable"),
        ('{"error":"FORBIDDEN","message":"not yours"}', False, "forbidden"),
        ("the tool crashed", True, "failed"),
    ],
)
@each_wire
async def test_results_are_classed_by_what_they_say_and_by_the_flag_of_the_wire(
    shelf: Shelf, wire: Wire, text: str, flag: bool, status: str, tmp_path: Path
) -> None:
    """A5, A6, A11, D7: four kinds; where a format has an error flag, that counts."""
    expected = "found" if flag and wire.path == CHAT else status
    async with shelf.play(tmp_path) as stage:
        stage.provider.script(Answer(calls=(ORDER,)), Answer("So it is."))
        agent = WireAgent(stage, wire)
        await agent.says("Where is A1?")
        await agent.brings(text, is_error=flag)
        assert await steps(stage) == [("get_order", expected)]
        assert accepted(stage)


@each_wire
@each_way
async def test_a_call_without_a_result_gets_one_before_the_provider_sees_it(
    shelf: Shelf, wire: Wire, stream: bool, tmp_path: Path
) -> None:
    """C7: the user spoke while the tool ran; the strict provider would not have taken it."""
    async with shelf.play(tmp_path) as stage:
        stage.provider.script(Answer(calls=(ORDER, OTHER)), Answer("Never mind."))
        agent = WireAgent(stage, wire, stream)
        await agent.says("Where are they?")
        assert (await agent.says("Stop, never mind.")).text == "Never mind."
        assert ["interrupted" in text for _, text in wire.results_of(body_of(stage.provider.seen[1]))] == [
            True
        ] * 2
        assert accepted(stage)


@each_wire
@each_way
async def test_a_foreign_result_is_refused_by_its_id(
    shelf: Shelf, wire: Wire, stream: bool, tmp_path: Path
) -> None:
    """A3, E1: nothing reaches the provider, and the agent's developer is told which id."""
    async with shelf.play(tmp_path) as stage:
        stage.provider.script(Answer(calls=(ORDER,)))
        agent = WireAgent(stage, wire, stream)
        await agent.says("Where is A1?")
        agent.messages += wire.results([("call_of_another", "x")])
        assert "call_of_another" in (await agent.asks()).text
        assert agent.last.status == 400
        assert agent.last.headers["x-should-retry"] == "false"
        assert len(stage.provider.seen) == 1


@each_wire
async def test_an_altered_call_in_the_history_is_noticed(shelf: Shelf, wire: Wire, tmp_path: Path) -> None:
    """A2: the assistant's message has to come back as it was."""
    async with shelf.play(tmp_path) as stage:
        stage.provider.script(Answer(calls=(ORDER,)))
        agent = WireAgent(stage, wire)
        turn = await agent.says("Where is A1?")
        agent.messages[-1] = json.loads(json.dumps(agent.messages[-1]).replace("A1", "B9"))
        agent.messages += wire.results([(turn.calls[0].id, "On its way.")])
        assert turn.calls[0].id in (await agent.asks()).text
        assert agent.last.status == 400
        assert len(stage.provider.seen) == 1


# ---- limits ----


@each_wire
@each_way
async def test_the_last_request_keeps_its_tools_and_moves_nothing(
    shelf: Shelf, wire: Wire, stream: bool, tmp_path: Path
) -> None:
    """B3, A7, B6, E7: only the choice is none and an instruction stands at the tail; everything cached stays."""
    async with shelf.play(tmp_path, limited(rounds=1)) as stage:
        stage.provider.script(Answer(calls=(ORDER,)), Answer("On its way, as far as I know."))
        agent = WireAgent(stage, wire, stream)
        await agent.says("Where is A1?")
        turn = await agent.brings("On its way.")
        assert turn.text == "On its way, as far as I know."
        sent, wished = body_of(stage.provider.seen[1]), json.loads(agent.body())
        assert sent["tools"] == wished["tools"]
        assert wire.choice_of(sent) == "none"
        assert sent["messages"][:-1] == wished["messages"][:2]
        assert "On its way." in json.dumps(sent["messages"][-1])
        assert "No further tool calls are possible" in json.dumps(sent["messages"][-1])
        assert accepted(stage)
        assert await ends(stage) == [("limit_reached", "budget_rounds")]
        run = await settled(stage)
        assert (run.spent.rounds, run.spent.calls) == (2, 1)


@each_wire
@each_way
async def test_a_result_that_arrives_exactly_at_the_limit_is_delivered(
    shelf: Shelf, wire: Wire, stream: bool, tmp_path: Path
) -> None:
    """E6, E2: the limit of calls stops new calls; the request with the last result goes out as it came."""
    async with shelf.play(tmp_path, limited(calls=1)) as stage:
        stage.provider.script(Answer(calls=(ORDER,)), Answer("On its way."))
        agent = WireAgent(stage, wire, stream)
        await agent.says("Where is A1?")
        asked = json.loads(agent.body())
        assert (await agent.brings("On its way.")).text == "On its way."
        assert body_of(stage.provider.seen[1])["messages"][:2] == asked["messages"]
        assert wire.choice_of(body_of(stage.provider.seen[1])) is None
        assert await ends(stage) == [("completed", "")]


@each_wire
@each_way
async def test_of_the_calls_in_one_answer_the_first_that_fit_pass(
    shelf: Shelf, wire: Wire, stream: bool, tmp_path: Path
) -> None:
    """E2, D12: each is reserved before it leaves, in order."""
    async with shelf.play(tmp_path, limited(calls=2)) as stage:
        stage.provider.script(Answer(calls=(ORDER, OTHER, THIRD)))
        turn = await WireAgent(stage, wire, stream).says("Where are they?")
        assert [json.loads(call.arguments)["order_id"] for call in turn.calls] == ["A1", "A2"]
        assert "limit of 2 calls" in turn.text
        assert (await settled(stage)).spent.calls == 2


@each_wire
@each_way
async def test_rounds_are_counted_apart_from_calls_and_nothing_that_was_sent_is_left_out(
    shelf: Shelf, wire: Wire, stream: bool, tmp_path: Path
) -> None:
    """B1, E2, E12: a try that failed, a refusal that was mended, and the answer: three rounds, no call."""
    async with shelf.play(tmp_path, ONLY_B1) as stage:
        stage.provider.script(
            Raw(b"{}", 503, {"retry-after": "0"}), Answer(calls=(REFUND,)), Answer("I may not.")
        )
        assert (await WireAgent(stage, wire, stream).says("Refund A1.")).text == "I may not."
        run = await settled(stage)
        assert (run.spent.rounds, run.spent.calls) == (3, 0)
        assert (run.spent.input_tokens, run.spent.output_tokens) == (400, 60)
        assert run.spent.unverified_tokens == 0
        assert len(stage.provider.seen) == 3


@each_wire
async def test_an_overload_that_comes_first_in_a_stream_is_tried_again_unseen(
    shelf: Shelf, wire: Wire, tmp_path: Path
) -> None:
    """E2, F1: status 200 was there already, but nothing had reached the agent."""
    inner = {"type": "overloaded_error", "message": "Overloaded"}
    frame = f"event: error\ndata: {json.dumps({'type': 'error', 'error': inner})}\n\n".encode()
    async with shelf.play(tmp_path) as stage:
        stage.provider.script(Raw(frame, headers={"content-type": "text/event-stream"}), Answer("Hello."))
        assert (await WireAgent(stage, wire, stream=True).says("Hi")).text == "Hello."
        assert (await settled(stage)).spent.rounds == 2


@each_wire
@each_way
async def test_a_turn_is_asked_again_as_often_as_configured_and_no_more(
    shelf: Shelf, wire: Wire, stream: bool, tmp_path: Path
) -> None:
    """C13: once by default; the second refusal in the same turn is said to the user."""
    async with shelf.play(tmp_path, ONLY_B1) as stage:
        stage.provider.script(Answer("First.", calls=(REFUND,)), Answer("Second.", calls=(REFUND,)))
        turn = await WireAgent(stage, wire, stream).says("Refund A1.")
        assert turn.calls == ()
        assert turn.text.startswith("First.")
        assert turn.text.endswith("was not run: Refund only order B1.")
        assert len(stage.provider.seen) == 2
        assert turn.usage is not None
        assert turn.usage.input_tokens == 400


@each_wire
@each_way
async def test_a_refusal_insisted_on_ends_the_turn(
    shelf: Shelf, wire: Wire, stream: bool, tmp_path: Path
) -> None:
    """D5, E8: told twice, asked for a third time: no more tools, and an answer all the same."""
    async with shelf.play(tmp_path, ONLY_B1, reask__per_turn=5) as stage:
        stage.provider.script(*[Answer(calls=(REFUND,))] * 3, Answer("I may not."))
        turn = await WireAgent(stage, wire, stream).says("Refund A1.")
        assert turn.text == "I may not."
        assert wire.choice_of(body_of(stage.provider.seen[-1])) == "none"
        assert await ends(stage) == [("no_progress", "insisted")]
        assert accepted(stage)


@each_wire
@each_way
async def test_the_same_call_with_the_same_result_is_braked_and_a_new_message_starts_afresh(
    shelf: Shelf, wire: Wire, stream: bool, tmp_path: Path
) -> None:
    """A4, D9, E10: a note, then an end; what the user says next opens a new count."""
    async with shelf.play(tmp_path) as stage:
        stage.provider.script(*[Answer(calls=(ORDER,))] * 4, Answer("It does not change."))
        agent = WireAgent(stage, wire, stream)
        await agent.says("Where is A1?")
        for _ in range(2):
            await agent.brings("Nothing new.")
        assert (await agent.brings("Nothing new.")).text == "It does not change."
        assert await ends(stage) == [("no_progress", "same_call")]
        stage.provider.script(Answer(calls=(ORDER,)), Answer("Now it is there."))
        assert [call.name for call in (await agent.says("Look again.")).calls] == ["get_order"]
        assert (await agent.brings("There.")).text == "Now it is there."
        assert await ends(stage) == [("no_progress", "same_call"), ("completed", "")]
        assert accepted(stage)


@each_wire
@each_way
async def test_a_finished_run_stays_finished_and_says_so_again(
    shelf: Shelf, wire: Wire, stream: bool, tmp_path: Path
) -> None:
    """C12, E7, E10: whoever asks on in the same turn gets the report, and no model is asked."""
    async with shelf.play(tmp_path, limited(rounds=1)) as stage:
        stage.provider.script(Answer(calls=(ORDER,)), Answer(calls=(OTHER,)))
        agent = WireAgent(stage, wire, stream)
        await agent.says("Where is A1?")
        report = (await agent.brings("On its way.")).text
        assert report.startswith(
            "[callgate] This task was stopped: The limit of 1 rounds per turn is reached"
        )
        for _ in range(2):
            assert (await agent.asks()).text == report
            assert agent.last.headers["x-callgate-outcome"] == "limit_reached"
        assert len(stage.provider.seen) == 2
        assert await ends(stage) == [("limit_reached", "budget_rounds")]
        stage.provider.script(Answer("Good morning."))
        assert (await agent.says("Something else.")).text == "Good morning."


@each_wire
@each_way
async def test_time_left_bounds_the_provider(shelf: Shelf, wire: Wire, stream: bool, tmp_path: Path) -> None:
    """E3: the clock runs from the run's start, waits included; a call never gets more than what is left of it."""
    clock = Clock()
    async with shelf.play(tmp_path, limited(seconds=30), clock=clock, upstream__retries=0) as stage:
        stage.provider.script(Answer(calls=(ORDER,)), Raw(b" ", ending="hang"))
        agent = WireAgent(stage, wire, stream)
        await agent.says("Where is A1?")
        clock.now += 29.95
        turn = await agent.brings("On its way.")
        await stage.provider.until(lambda: stage.provider.seen[1].hung_up)
        assert agent.last.status == 504, turn.text
        assert "did not answer in time" in turn.text
        clock.now += 1
        report = (await agent.asks()).text
        assert report.startswith(
            "[callgate] This task was stopped: The limit of 30 seconds per turn is reached"
        )
        assert len(stage.provider.seen) == 2


# ---- hanging up ----


@each_wire
@each_way
async def test_when_the_agent_hangs_up_the_provider_is_let_go_within_a_second(
    shelf: Shelf, wire: Wire, stream: bool, tmp_path: Path
) -> None:
    """B2, E4, E13: what may have been produced is booked as unverified, never as nothing."""
    async with shelf.play(tmp_path) as stage:
        start = b'data: {"choices":[{"index":0,"delta":{"content":"Once upon"}}]}\n\n'
        if wire.path != CHAT:
            start = b'event: ping\ndata: {"type": "ping"}\n\n'
        media = "text/event-stream" if stream else "application/json"
        stage.provider.script(Raw(start, headers={"content-type": media}, ending="hang"))
        agent = WireAgent(stage, wire, stream, messages=[{"role": "user", "content": "Tell me a story."}])
        headers = {**stage.headers, "content-type": "application/json"}
        asking = asyncio.get_running_loop().create_task(
            stage.http.post(stage.url + wire.path, data=agent.body(), headers=headers)
        )
        if stream:
            answer = await asking
            await answer.content.readany()
            answer.close()
        else:
            await stage.provider.until(lambda: len(stage.provider.seen) == 1)
            asking.cancel()
        await stage.provider.until(lambda: stage.provider.seen[0].hung_up, within=1)
        run = await settled(stage)
        assert run.spent.rounds == 1
        assert run.spent.unverified_tokens == run.spent.total_tokens > 0
        assert run.outcome == "cancelled"


@each_wire
async def test_a_request_that_is_sent_again_after_a_hang_up_goes_on_where_it_was(
    shelf: Shelf, wire: Wire, tmp_path: Path
) -> None:
    """B2, E2, E8: an SDK's own retry after its time-out belongs to the same run, which then ends as it ends."""
    async with shelf.play(tmp_path) as stage:
        stage.provider.script(Raw(b" ", ending="hang"), Answer("Hello."))
        agent = WireAgent(stage, wire, messages=[{"role": "user", "content": "Hi"}])
        headers = {**stage.headers, "content-type": "application/json"}
        asking = asyncio.get_running_loop().create_task(
            stage.http.post(stage.url + wire.path, data=agent.body(), headers=headers)
        )
        await stage.provider.until(lambda: len(stage.provider.seen) == 1)
        asking.cancel()
        await stage.provider.until(lambda: stage.provider.seen[0].hung_up)
        await settled(stage)
        agent.headers = {"x-stainless-retry-count": "1"}
        assert (await agent.asks()).text == "Hello."
        run = await settled(stage)
        assert (run.spent.rounds, run.outcome) == (2, "completed")


# ---- faults ----


@each_wire
@each_way
async def test_a_provider_that_cannot_be_reached_is_an_error_and_costs_nothing(
    shelf: Shelf, wire: Wire, stream: bool, tmp_path: Path
) -> None:
    """E4, F1: nothing was sent, so nothing is booked."""
    nowhere: dict[str, Any] = {
        f"upstream__{name}__base_url": "http://127.0.0.1:9" for name in ("openai_chat", "anthropic_messages")
    }
    async with shelf.play(tmp_path, upstream__retries=0, **nowhere) as stage:
        agent = WireAgent(stage, wire, stream)
        assert "cannot be reached" in (await agent.says("Hi")).text
        assert agent.last.status == 502
        run = await settled(stage)
        assert (run.spent.rounds, run.spent.total_tokens) == (0, 0)


@each_wire
@each_way
async def test_a_provider_that_fails_when_asked_again_is_replaced_by_what_is_known(
    shelf: Shelf, wire: Wire, stream: bool, tmp_path: Path
) -> None:
    """E7: the refusal is said by program; the stream, once begun, ends as an answer."""
    async with shelf.play(tmp_path, ONLY_B1, upstream__retries=0) as stage:
        stage.provider.script(Answer("So.", calls=(REFUND,)), Raw(b"{}", 500))
        turn = await WireAgent(stage, wire, stream).says("Refund A1.")
        assert turn.text.startswith("So.")
        assert "Refund only order B1." in turn.text
        assert "No further answer could be had" in turn.text
        assert turn.calls == ()
        assert (await settled(stage)).outcome == "failed"


@each_wire
async def test_an_answer_that_cannot_be_read_is_not_passed_on(
    shelf: Shelf, wire: Wire, tmp_path: Path
) -> None:
    """C4: what is not understood may carry a call."""
    async with shelf.play(tmp_path) as stage:
        stage.provider.script(Raw(b'{"surprise": "refund everything"}'))
        agent = WireAgent(stage, wire)
        assert "cannot be read" in (await agent.says("Hi")).text
        assert b"refund everything" not in agent.last.body
        assert agent.last.status == 502


@each_wire
async def test_a_policy_that_cannot_decide_lets_nothing_through(wire: Wire, tmp_path: Path) -> None:
    """C4, F3: told to people, since the model cannot mend it."""
    async with Shelf(tmp_path) as own, own.play(tmp_path) as stage:
        await (await own.policies({})).close()
        turn = await WireAgent(stage, wire).says("Hi")
        assert "could not be evaluated" in turn.text
        assert stage.provider.seen == []
        assert await ends(stage) == [("failed", "policy_error")]


@each_wire
@each_way
async def test_an_answer_of_countless_calls_is_refused_at_once(
    shelf: Shelf, wire: Wire, stream: bool, tmp_path: Path
) -> None:
    """D12: ten thousand calls, judged one by one, would hold up everybody else for a minute."""
    async with shelf.play(tmp_path) as stage:
        stage.provider.script(Answer("Now.", calls=tuple(ORDER for _ in range(2000))))
        agent = WireAgent(stage, wire, stream=stream)
        turn = await agent.says("Hi")
        assert agent.last.status == 200
        assert turn.calls == ()
        assert turn.text.endswith("more than 256 tool calls at once. None of them was run.")
        assert b"get_order" not in agent.last.body
        assert await ends(stage) == [("failed", "too_many_calls")]
        assert await stage.decisions() == []
        await settled(stage)


@each_wire
@pytest.mark.parametrize("said", ["", "Let me see."])
async def test_a_further_answer_that_just_stops_does_not_end_the_stream_without_a_word(
    shelf: Shelf, wire: Wire, said: str, tmp_path: Path
) -> None:
    """E7, F1: the refusal is said by program, and the stream has an ordinary end for the agent's SDK."""
    async with shelf.play(tmp_path, ONLY_B1) as stage:
        nothing = Raw(b"", headers={"content-type": "text/event-stream"})
        stage.provider.script(Answer(said, calls=(REFUND,)), nothing)
        agent = WireAgent(stage, wire, stream=True)
        turn = await agent.says("Refund it")
        assert "Refund only order B1." in turn.text
        assert "No further answer could be had" in turn.text
        assert turn.calls == ()
        assert any(turn.finish)
        assert (await ends(stage))[-1][1] == "no_answer"
        await settled(stage)
