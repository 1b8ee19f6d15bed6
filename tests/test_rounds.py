"""One model request on its way: sent, tried again, read, and settled exactly once on every path."""

import asyncio
import json
from collections.abc import AsyncGenerator, Callable
from dataclasses import replace

import pytest

from proxy.bodies import chunks_of
from proxy.core.limits import Amounts, Bounds, Limits, Reservation
from proxy.core.messages import Exchange, RequestEdit, Turn, Usage
from proxy.core.runs import Outcome, Run
from proxy.core.spending import CHARACTERS_A_TOKEN
from proxy.dialects.openai_chat import OPENAI_CHAT
from proxy.errors import ClientFault, StoreFault, UpstreamFault
from proxy.stores.memory import MemoryStore
from proxy.upstream import CLOSED, UNREACHABLE, streams
from tests.staged import SSE, ScriptedAnswer, Stage

HEART = 3600.0


def chunk(delta: object = None, *, finish: str | None = None, usage: tuple[int, int] | None = None) -> bytes:
    choices = [{"index": 0, "delta": delta or {}, "finish_reason": finish}] if usage is None else []
    body: dict[str, object] = {
        "id": "c1",
        "object": "chat.completion.chunk",
        "model": "m",
        "choices": choices,
    }
    if usage is not None:
        body["usage"] = {"prompt_tokens": usage[0], "completion_tokens": usage[1], "total_tokens": sum(usage)}
    return f"data: {json.dumps(body)}\n\n".encode()


TEXT = chunk({"role": "assistant", "content": "Hello."})
WHOLE = [TEXT, chunk(finish="stop"), chunk(usage=(80, 20)), b"data: [DONE]\n\n"]
ERROR = b'data: {"error":{"message":"Overloaded","type":"server_error","code":503}}\n\n'
LATER = [("retry-after", "0"), *SSE]


def refused(status: int) -> ScriptedAnswer:
    return ScriptedAnswer([b'{"error":{"message":"no"}}'], status, LATER)


def unreachable() -> UpstreamFault:
    return UpstreamFault("no way", code=UNREACHABLE)


async def read_all(stage: Stage) -> None:
    """A round as the gate goes through it, its whole stream read."""
    async with stage.round() as round_:
        await stage.sends(round_)
        reader = OPENAI_CHAT.reader(lambda: "id")
        async for _ in round_.frames(reader, HEART):
            pass
        round_.read(reader.turn())


def spent(stage: Stage) -> Amounts:
    return stage.state.run.spent


# ---- what a round costs ----


async def test_a_round_costs_what_the_provider_reported() -> None:
    """E2, E4"""
    stage = await Stage(ScriptedAnswer(WHOLE)).opens()
    await read_all(stage)

    assert spent(stage) == stage.state.run.turn_spent == Amounts(rounds=1, input_tokens=80, output_tokens=20)
    assert list(dict.fromkeys(stage.trace.names())) == ["model_call", "first_chunk", "finished"]
    assert stage.audit.names() == ["answered"]
    assert stage.state.run.outcome is Outcome.RUNNING


async def test_a_round_without_usage_costs_an_estimate() -> None:
    """E4: marked as unverified."""
    stage = await Stage(ScriptedAnswer(WHOLE[:2])).opens()
    await read_all(stage)

    streamed = sum(map(len, WHOLE[:2])) // CHARACTERS_A_TOKEN + 1
    assert spent(stage).output_tokens == min(streamed, 100)
    assert spent(stage).unverified_tokens == spent(stage).total_tokens > 100 // CHARACTERS_A_TOKEN


async def test_usage_so_far_of_a_stream_that_broke_off_is_not_the_last_word() -> None:
    """E4, C018: at least what was streamed, at most what was put aside."""
    said_so_far = chunk(usage=(300, 1))
    stage = await Stage(ScriptedAnswer([said_so_far, TEXT, UpstreamFault("gone", code=CLOSED)])).opens()
    with pytest.raises(UpstreamFault):
        await read_all(stage)

    assert spent(stage).input_tokens == 300
    assert 10 < spent(stage).output_tokens <= 100
    assert spent(stage).unverified_tokens == spent(stage).output_tokens


@pytest.mark.parametrize("status", [400, 401, 404, 500])
async def test_a_refused_request_gives_every_token_back(status: int) -> None:
    """C013: a round it was (E2), but nothing was made."""
    stage = await Stage(refused(status)).opens()
    async with stage.round() as round_:
        answer = await stage.sends(round_)
        round_.text_bytes = len(await answer.read(1000))

    assert spent(stage) == Amounts(rounds=1)


async def test_a_request_that_never_left_costs_nothing() -> None:
    """C013: connection refused, also for its further tries."""
    stage = await Stage(unreachable(), unreachable(), upstream={"retries": 1}).opens()
    async with stage.round() as round_:
        with pytest.raises(UpstreamFault):
            await stage.sends(round_)

    assert len(stage.upstream.requests) == 2
    assert spent(stage) == Amounts()


async def test_an_error_that_comes_first_in_a_stream_costs_a_round() -> None:
    """C024, C013: nothing was produced."""
    stage = await Stage(ScriptedAnswer([ERROR])).opens()
    await read_all(stage)

    assert spent(stage) == Amounts(rounds=1)


async def test_an_error_behind_text_costs_what_was_produced() -> None:
    """C024, E4"""
    stage = await Stage(ScriptedAnswer([TEXT, ERROR])).opens()
    await read_all(stage)

    assert spent(stage).input_tokens > 0
    assert spent(stage).unverified_tokens == spent(stage).total_tokens


async def test_a_whole_answer_that_cannot_be_read_stays_at_what_was_put_aside() -> None:
    """E4, E13: nobody knows what it cost."""
    broken = ScriptedAnswer([UpstreamFault("gone", code=CLOSED)])
    stage = await Stage(broken).opens(stream=False)
    async with stage.round() as round_:
        answer = await stage.sends(round_)
        put_aside = spent(stage)
        with pytest.raises(UpstreamFault):
            await answer.read(1000)

    assert replace(spent(stage), unverified_tokens=0) == put_aside
    assert spent(stage).unverified_tokens == put_aside.total_tokens


# ---- whoever hangs up ----


async def hang_up(stage: Stage, act: Callable[[], object], begun: asyncio.Event) -> None:
    async def turn() -> None:
        await act()  # type: ignore[misc]  # it is a coroutine

    task = asyncio.get_running_loop().create_task(turn())
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_hanging_up_before_the_head_of_the_answer_is_paid() -> None:
    """E13, C018: the request has left; it cannot be repeated for ever without a count."""
    begun = asyncio.Event()
    stage = await Stage(begun).opens()

    async def act() -> None:
        async with stage.round() as round_:
            await stage.sends(round_)

    await hang_up(stage, act, begun)

    run = stage.state.run
    assert run.spent.rounds == 1
    assert run.spent.unverified_tokens == run.spent.total_tokens > 100
    assert (run.outcome, run.outcome_detail) == (Outcome.CANCELLED, "client_gone")
    assert stage.trace.names() == ["model_call", "abandoned", "run_ended"]
    assert stage.audit.names() == ["run_ended"]


async def test_hanging_up_in_mid_stream_lets_go_of_the_provider_and_settles() -> None:
    """B2, C018: whatever was read so far counts, though nobody handed it over."""
    never, begun = asyncio.Event(), asyncio.Event()
    answer = ScriptedAnswer([chunk(usage=(300, 1)), TEXT, never])
    stage = await Stage(answer).opens()

    async def act() -> None:
        async with stage.round() as round_:
            await stage.sends(round_)
            async for _ in round_.frames(OPENAI_CHAT.reader(lambda: "id"), HEART):
                if len(answer.pieces) == 1:
                    begun.set()

    await hang_up(stage, act, begun)

    assert answer.closed
    assert spent(stage).input_tokens == 300
    assert 10 < spent(stage).output_tokens <= 100
    assert stage.state.run.outcome is Outcome.CANCELLED


async def test_a_closed_generator_settles_like_a_hang_up() -> None:
    answer = ScriptedAnswer([TEXT, asyncio.Event()])
    stage = await Stage(answer).opens()

    async def stream() -> AsyncGenerator[object]:
        async with stage.round() as round_:
            await stage.sends(round_)
            async for batch in round_.frames(OPENAI_CHAT.reader(lambda: "id"), HEART):
                yield batch

    parts = stream()
    await anext(parts)
    await parts.aclose()

    assert answer.closed
    assert spent(stage).rounds == 1
    assert stage.state.run.outcome is Outcome.CANCELLED


async def test_an_agent_that_leaves_when_the_answer_is_over_cancels_nothing() -> None:
    """Some close the connection as soon as they have read the finish word."""
    stage = await Stage(ScriptedAnswer([*WHOLE[:2], asyncio.Event()])).opens()

    async def stream() -> AsyncGenerator[object]:
        async with stage.round() as round_:
            await stage.sends(round_)
            async for batch in round_.frames(OPENAI_CHAT.reader(lambda: "id"), HEART):
                yield batch

    parts = stream()
    await anext(parts)
    await anext(parts)
    await parts.aclose()

    assert spent(stage).rounds == 1
    assert stage.state.run.outcome is Outcome.RUNNING


class SlowStore(MemoryStore):
    """Settles only when it is told to."""

    def __init__(self, clock: Callable[[], float]) -> None:
        super().__init__(100, 3600.0, clock)
        self.asked, self.may = asyncio.Event(), asyncio.Event()

    async def settle(self, reservation: Reservation, spent: Amounts, now: float) -> Run:
        self.asked.set()
        await self.may.wait()
        return await super().settle(reservation, spent, now)


async def test_hanging_up_while_a_round_is_settled_breaks_nothing_off() -> None:
    """Cancelled twice, with a store that takes its time: every reservation of the round is settled."""
    stage = Stage(refused(503), ScriptedAnswer(WHOLE), upstream={"retries": 1})
    store = SlowStore(stage.clock)
    stage.store, stage.ledger._store = store, store
    await stage.opens()
    task = asyncio.get_running_loop().create_task(read_all(stage))
    await store.asked.wait()
    for _ in range(2):
        task.cancel()
        await asyncio.sleep(0)
    store.may.set()
    with pytest.raises(asyncio.CancelledError):
        await task

    assert spent(stage) == Amounts(rounds=2, input_tokens=80, output_tokens=20)
    assert len(store._reserved) == 0


class GoneStore(MemoryStore):
    """Is no longer there when it comes to settling."""

    async def settle(self, reservation: Reservation, spent: Amounts, now: float) -> Run:
        raise StoreFault("the store does not answer")


async def test_a_store_that_is_gone_takes_no_answer_back(caplog: pytest.LogCaptureFixture) -> None:
    """E4: what was put aside stays spent, and it is said."""
    stage = Stage(ScriptedAnswer(WHOLE))
    store = GoneStore(100, 3600.0, stage.clock)
    stage.store, stage.ledger._store = store, store
    await stage.opens()
    await read_all(stage)

    assert spent(stage).total_tokens > 100
    assert "stays booked" in caplog.text


async def test_a_check_that_breaks_leaves_nothing_open() -> None:
    stage = await Stage(ScriptedAnswer(WHOLE)).opens()

    async def act() -> None:
        async with stage.round() as round_:
            await stage.sends(round_)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await act()
    assert isinstance(stage.store, MemoryStore)

    assert spent(stage).rounds == 1
    assert len(stage.store._reserved) == 0
    assert stage.state.run.outcome is Outcome.RUNNING


async def test_a_round_that_was_never_put_aside_settles_nothing() -> None:
    stage = await Stage().opens()
    async with stage.round():
        pass

    assert spent(stage) == Amounts()


# ---- further tries ----


async def test_a_further_try_is_a_round_of_its_own() -> None:
    """E2: counted and checked; what the refused try put aside pays for the next one."""
    stage = await Stage(refused(503), refused(429), ScriptedAnswer(WHOLE), upstream={"retries": 2}).opens()
    await read_all(stage)

    assert len(stage.upstream.requests) == 3
    assert spent(stage) == Amounts(rounds=3, input_tokens=80, output_tokens=20)
    assert stage.trace.names()[:5] == ["model_call", "finished"] * 2 + ["model_call"]
    calls = [named["attempt"] for name, _, named in stage.trace.told if name == "model_call"]
    statuses = [args[1:] for name, args, _ in stage.trace.told if name == "finished"]
    assert calls == [1, 2, 3]
    assert statuses == [(503, "503"), (429, "429"), (200, "")]


async def test_an_unreachable_try_is_forgotten_when_the_next_one_arrives() -> None:
    stage = await Stage(unreachable(), ScriptedAnswer(WHOLE), upstream={"retries": 1}).opens()
    await read_all(stage)

    assert spent(stage) == Amounts(rounds=2, input_tokens=80, output_tokens=20)
    statuses = [args[1:] for name, args, _ in stage.trace.told if name == "finished"]
    assert statuses == [(0, UNREACHABLE), (200, "")]


async def test_a_refused_try_says_nothing_about_one_that_was_never_answered() -> None:
    stage = await Stage(
        refused(503), UpstreamFault("x", code="upstream_timeout", status=504), upstream={"retries": 1}
    ).opens()
    async with stage.round() as round_:
        with pytest.raises(UpstreamFault):
            await stage.sends(round_)

    statuses = [args[1:] for name, args, _ in stage.trace.told if name == "finished"]
    assert statuses == [(503, "503"), (0, "upstream_timeout")]
    assert spent(stage).rounds == 2
    assert spent(stage).unverified_tokens == spent(stage).total_tokens > 100


async def test_no_further_try_beyond_the_limit() -> None:
    """E2: the check is before the act; the agent gets the provider's own refusal."""
    stage = await Stage(refused(503), upstream={"retries": 5}).opens(limits=Limits(run=Bounds(rounds=1)))
    async with stage.round() as round_:
        answer = await stage.sends(round_)
        assert answer.status == 503

    assert spent(stage) == Amounts(rounds=1)
    assert len(stage.upstream.requests) == 1


@pytest.mark.parametrize(("status", "headers"), [(400, LATER), (500, LATER), (503, [("retry-after", "60")])])
async def test_what_would_not_get_better_soon_is_not_tried_again(
    status: int, headers: list[tuple[str, str]]
) -> None:
    stage = await Stage(ScriptedAnswer([], status, headers), upstream={"retries": 5}).opens()
    async with stage.round() as round_:
        assert (await stage.sends(round_)).status == status

    assert len(stage.upstream.requests) == 1


# ---- time ----


async def test_time_that_is_left_bounds_the_request() -> None:
    """E3: of turn and run the tighter one, from their starts."""
    limits = Limits(turn=Bounds(seconds=100), run=Bounds(seconds=60))
    stage = await Stage(ScriptedAnswer(WHOLE)).opens(limits=limits)
    stage.clock.now += 45
    await read_all(stage)

    assert stage.upstream.requests[0].deadline_seconds == 15


async def test_no_time_left_means_nothing_leaves() -> None:
    """E3: and nothing is booked."""
    stage = await Stage().opens(limits=Limits(turn=Bounds(seconds=60)))
    async with stage.round() as round_:
        await stage.reserves(round_)
        stage.clock.now += 60
        with pytest.raises(UpstreamFault) as raised:
            await round_.send(b"{}", stage.state.facts.limits)

    assert raised.value.status == 504
    assert stage.upstream.requests == []
    assert spent(stage) == Amounts()


async def test_a_header_that_cannot_travel_leaves_nothing_booked() -> None:
    stage = await Stage().opens()
    stage.state.incoming.headers.add("x-odd", "a\r\nb")  # type: ignore[attr-defined]  # the stage's own can be changed
    async with stage.round() as round_:
        with pytest.raises(ClientFault):
            await stage.sends(round_)

    assert spent(stage) == Amounts()


# ---- reading ----


async def batches(stage: Stage, heartbeat: float = HEART, **more: Callable[[], bool]) -> list[object]:
    async with stage.round() as round_:
        await stage.sends(round_)
        reader = OPENAI_CHAT.reader(lambda: "id")
        return [
            None if batch is None else b"".join(frame.raw for frame in batch)
            async for batch in round_.frames(reader, heartbeat, **more)
        ]


async def test_frames_are_the_stream_byte_for_byte() -> None:
    """A7: wherever it was cut."""
    raw = b"".join(WHOLE)
    pieces = [raw[start : start + 7] for start in range(0, len(raw), 7)]
    stage = await Stage(ScriptedAnswer(pieces)).opens()

    assert b"".join(part for part in await batches(stage) if isinstance(part, bytes)) == raw


async def test_a_silent_provider_is_covered_by_signs_of_life() -> None:
    """C031"""
    may = asyncio.Event()
    stage = await Stage(ScriptedAnswer([TEXT, may, *WHOLE[1:]])).opens()
    got: list[object] = []
    async with stage.round() as round_:
        await stage.sends(round_)
        async for batch in round_.frames(OPENAI_CHAT.reader(lambda: "id"), 0.01):
            got.append(batch)
            if batch is None:
                may.set()

    assert got[1] is None
    assert got.count(None) < len(got)


async def test_a_held_call_that_arrives_piece_by_piece_is_covered_too() -> None:
    """C031: a piece every five seconds is activity of the provider, and silence for the agent."""
    stage = Stage()
    held: list[bytes] = [TEXT] * 9

    class Ticking(ScriptedAnswer):
        async def next_chunk(self) -> bytes:
            stage.clock.now += 5
            return await super().next_chunk()

    stage.upstream.script.append(Ticking(held))
    await stage.opens()
    got = await batches(stage, 15.0, holding=lambda: True)

    assert [each is None for each in got] == [False, False, False, True] * 3

    stage.upstream.script.append(Ticking(held))
    assert None not in await batches(stage, 15.0, holding=lambda: False)


async def test_how_long_calls_were_held_counts_from_the_first_piece_and_not_from_the_text_before() -> None:
    """C031, F4: the price of judging shows as a figure."""
    stage = Stage()

    class Ticking(ScriptedAnswer):
        async def next_chunk(self) -> bytes:
            stage.clock.now += 5
            return await super().next_chunk()

    stage.upstream.script.append(Ticking([TEXT] * 4))
    await stage.opens()
    seen: list[object] = []
    async with stage.round() as round_:
        await stage.sends(round_)
        frames = round_.frames(OPENAI_CHAT.reader(lambda: "id"), HEART, lambda: len(seen) > 1)
        async for batch in frames:
            seen += [batch]
        round_.calls_judged()

    assert stage.trace.last("calls_held") == ((15.0,), {})


async def test_a_frame_that_cannot_be_read_is_the_providers_fault() -> None:
    stage = await Stage(ScriptedAnswer([b"data: " + b"x" * (40 << 20)])).opens()
    with pytest.raises(UpstreamFault, match="cannot be read"):
        await batches(stage)

    assert spent(stage).rounds == 1


async def test_the_rest_of_an_abandoned_answer_is_read_for_its_usage() -> None:
    """E4: usage comes last."""
    answer = ScriptedAnswer(WHOLE)
    stage = await Stage(answer).opens()
    async with stage.round() as round_:
        await stage.sends(round_)
        reader = OPENAI_CHAT.reader(lambda: "id")
        async for _ in round_.frames(reader, HEART):
            break
        await round_.drain(reader)

    assert spent(stage) == Amounts(rounds=1, input_tokens=80, output_tokens=20)


async def test_a_rest_that_does_not_come_is_not_waited_for() -> None:
    answer = ScriptedAnswer([*WHOLE[:2], UpstreamFault("gone", code=CLOSED)])
    stage = await Stage(answer).opens()
    async with stage.round() as round_:
        await stage.sends(round_)
        await round_.drain(OPENAI_CHAT.reader(lambda: "id"))

    assert spent(stage).unverified_tokens == spent(stage).total_tokens > 0
    assert stage.trace.last("finished")[0][2] == "abandoned"


async def test_nothing_is_read_before_anything_was_sent() -> None:
    stage = await Stage().opens()
    async with stage.round() as round_:
        reader = OPENAI_CHAT.reader(lambda: "id")
        assert [batch async for batch in round_.frames(reader, HEART)] == []
        await round_.drain(reader)


async def test_an_unread_body_is_passed_on_and_closed() -> None:
    answer = ScriptedAnswer([b"a", b"b"])

    assert [part async for part in chunks_of(answer)] == [b"a", b"b"]
    assert answer.closed


@pytest.mark.parametrize(
    ("kind", "asked", "is_stream"),
    [
        ("text/event-stream", "text/event-stream", True),
        ("Text/Event-Stream; charset=utf-8", "text/event-stream", True),
        ("application/json", "text/event-stream", False),
        ("application/x-ndjson", "text/event-stream", False),
        (None, "text/event-stream", False),
        ("application/x-ndjson; charset=utf-8", "application/x-ndjson", True),
        ("application/json", "application/x-ndjson", False),
        ("application/json; charset=UTF-8", "application/json", True),
    ],
)
def test_a_stream_is_known_by_the_content_type_that_was_asked_for(
    kind: str | None, asked: str, is_stream: bool
) -> None:
    headers = [("x", asked)] + ([("Content-Type", kind)] if kind else [])

    assert streams(ScriptedAnswer([], 200, headers), asked) is is_stream


# ---- the state of a turn ----


async def test_the_body_is_the_agents_own_until_something_is_changed() -> None:
    """A7: the very same object."""
    stage = await Stage().opens()
    state = stage.state
    assert state.body is state.incoming.body

    state.edit = RequestEdit(note="Be brief.")
    noted = state.body
    state.exchanges.append(Exchange(b'{"role":"assistant","content":"x"}', ()))

    assert b"Be brief." in noted
    assert b'"content":"x"' in state.body


async def test_what_earlier_answers_of_a_turn_said_and_cost_adds_up() -> None:
    stage = await Stage().opens()
    stage.state.earlier += [
        Turn(text="One.", usage=Usage(1, 2)),
        Turn(),
        Turn(text="Two.", usage=Usage(3, 4)),
    ]

    assert stage.state.earlier_text == "One.\n\nTwo."
    assert stage.state.earlier_usage == Usage(4, 6)


async def test_a_reservation_is_settled_once_however_often_a_round_is_left() -> None:
    stage = await Stage(ScriptedAnswer(WHOLE)).opens()
    round_ = stage.round()
    async with round_:
        put_aside = await stage.reserves(round_)
    async with round_:
        pass

    assert isinstance(put_aside, Reservation)
    assert spent(stage) == Amounts()


async def test_a_round_that_is_settled_before_it_is_left_is_settled_once() -> None:
    """What is decided about its calls rests on what it really cost."""
    stage = await Stage(refused(503), ScriptedAnswer(WHOLE), upstream={"retries": 1}).opens()
    async with stage.round() as round_:
        await stage.sends(round_)
        reader = OPENAI_CHAT.reader(lambda: "id")
        async for _ in round_.frames(reader, HEART):
            pass
        round_.read(reader.turn())
        await round_.settle()
        assert spent(stage) == Amounts(rounds=2, input_tokens=80, output_tokens=20)

    assert spent(stage) == Amounts(rounds=2, input_tokens=80, output_tokens=20)
    assert stage.audit.names() == ["answered"]
