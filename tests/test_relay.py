"""One streamed answer on its way to the agent: text at once, calls only as judged, errors hidden only in time."""

import asyncio
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

import pytest

from proxy.core.actions import Answer, AskAgain, CallsMove, Release
from proxy.core.messages import (
    CallDelta,
    CallKey,
    CallReady,
    ChoiceEnded,
    Event,
    Frame,
    Problem,
    RequestEdit,
    StreamEnded,
    StreamFailed,
    TextDelta,
    ToolCall,
    Turn,
    TurnStarted,
)
from proxy.core.runs import Outcome
from proxy.core.verdicts import Action, Verdict
from proxy.relay import BROKEN, INCOMPLETE, TOO_LARGE, UNFINISHED, Relay

OVERLOADED = Problem(529, "overloaded_error", "Overloaded", retryable=True)
WRONG = Problem(400, "invalid_request_error", "Wrong")
NO = Verdict("tools.unknown", "tool_unknown", Action.REASK, "No such tool.", 0)


def frame(raw: str, *events: Event) -> Frame:
    return Frame(raw.encode(), events)


START = frame("start", TurnStarted("a", "m"))
TEXT = frame("text", TextDelta(0, "Let me look."))
PIECE = frame("piece", CallDelta((0, 0)))
CALL = frame("call", CallReady(ToolCall("c1", "lookup", "{}", (0, 0))))
SECOND = frame("second", CallDelta((0, 1)), CallReady(ToolCall("c2", "send", "{}", (0, 1))))
END = frame("end", ChoiceEnded(0, "stop"))
DONE = frame("done", StreamEnded())


def failing(problem: Problem = OVERLOADED) -> Frame:
    return frame("error", StreamFailed(problem))


@dataclass
class Wire:
    """Reader, writer and judge in one: what was written is in words, what was judged is kept."""

    move: CallsMove = field(default_factory=Release)
    judged: list[list[str]] = field(default_factory=list)
    at_judgement: list[str] = field(default_factory=list)
    out: list[str] = field(default_factory=list)
    seen: list[bytes] = field(default_factory=list)

    async def judge(self, calls: Sequence[ToolCall]) -> CallsMove:
        self.judged.append([call.id for call in calls])
        self.at_judgement = [*self.out]
        return self.move

    def turn(self) -> Turn:
        return Turn(text="Let me look.")

    def feed(self, chunk: bytes) -> list[Frame]:
        raise NotImplementedError

    def end(self) -> list[Frame]:
        raise NotImplementedError

    def passed(self, frame: Frame) -> bytes:
        self.seen.append(frame.raw)
        return frame.raw + b";"

    def rewritten(self, frame: Frame, text: str) -> bytes:
        return f"{self.passed(frame).decode()}={text}".encode()

    def resolved(self, frames: Sequence[Frame], refused: Collection[CallKey], note: str) -> bytes:
        held = b"+".join(each.raw for each in frames)
        return f"[{held.decode()}-{sorted(refused)}{note}];".encode()

    def abandoned(self, frames: Sequence[Frame], turn: Turn) -> bytes:
        return f"abandoned {len(frames)} {turn.text}".encode()

    def closing(self, text: str) -> bytes:
        raise NotImplementedError

    def failed(self, problem: Problem) -> bytes:
        return f"failed {problem.code};".encode()

    def keep_alive(self) -> bytes:
        return b"alive;"

    def relay(self, *, fresh: bool = True, room: int = 1000, heartbeat: float = 60.0) -> Relay:
        return Relay(self, self, self.judge, room, fresh=fresh, heartbeat=heartbeat)

    async def run(self, relay: Relay, *batches: Sequence[Frame], may_retry: bool = False) -> str:
        """Feeds the batches as the gate does; everything that was written."""
        for batch in batches:
            async for part in relay.feed(batch, may_retry=may_retry):
                assert part
                self.out.append(part.decode())
            if relay.stopped:
                break
        if left := relay.end():
            self.out.append(left.decode())
        return "".join(self.out)


async def test_text_passes_as_it_came() -> None:
    wire = Wire()
    relay = wire.relay()

    assert await wire.run(relay, [START, TEXT], [END], [DONE]) == "start;text;end;done;"
    assert (wire.judged, relay.move, relay.failed, relay.refused) == ([], None, None, {})
    assert not relay.fresh


async def test_text_leaves_before_the_calls_behind_it_are_judged() -> None:
    """The same batch holds both; judging takes time."""
    wire = Wire()
    relay = wire.relay()
    out = await wire.run(relay, [START, TEXT, PIECE, CALL, END, DONE])

    assert wire.at_judgement == ["start;text;"]
    assert out == "start;text;[piece+call+end-[]];done;"
    assert (wire.judged, relay.refused) == ([["c1"]], {})


async def test_of_a_call_nothing_is_written_until_it_is_judged() -> None:
    """C020: neither id nor name nor a piece of its arguments."""
    wire = Wire()
    relay = wire.relay()
    for part in (START, PIECE, PIECE, CALL):
        assert [out async for out in relay.feed([part], may_retry=False)] == (
            [b"start;"] if part is START else []
        )
        assert relay.holding == (part is not START)
    assert [out async for out in relay.feed([END], may_retry=False)] == [b"[piece+piece+call+end-[]];"]
    assert not relay.holding


async def test_refused_calls_are_taken_out_and_the_model_is_told() -> None:
    """C10, D5: by key, as the judge counts them."""
    wire = Wire(Release({1: NO}, note=" not run"))
    relay = wire.relay()

    assert await wire.run(relay, [PIECE, CALL, SECOND, END]) == "[piece+call+second+end-[(0, 1)] not run];"
    assert wire.judged == [["c1", "c2"]]
    assert [*relay.refused.values()] == [NO]


@pytest.mark.parametrize("refused", [{}, {0: NO}])
async def test_what_the_agent_got_is_remembered_as_its_answer(refused: dict[int, Verdict]) -> None:
    """What comes back in the history is compared with it: of a refused turn with the note, not what was kept back."""
    wire = Wire(Release(refused, note=" not run" if refused else ""))
    relay = wire.relay()
    await wire.run(relay, [START, TEXT], [PIECE, CALL, TEXT, END], [DONE])
    assert relay.said == "Let me look." * 2 + (" not run" if refused else "")

    wire = Wire(AskAgain(("No.",), RequestEdit()))
    relay = wire.relay()
    await wire.run(relay, [START, TEXT], [PIECE, CALL, TEXT, END], [DONE])
    assert relay.said == "Let me look."


async def test_calls_that_come_later_are_judged_too() -> None:
    """C11: whatever the provider said had ended."""
    wire = Wire()
    relay = wire.relay()

    assert await wire.run(relay, [PIECE, CALL, END], [TEXT, SECOND], [DONE]) == (
        "[piece+call+end-[]];text;[second+done-[]];"
    )
    assert wire.judged == [["c1"], ["c2"]]


@pytest.mark.parametrize(
    "move",
    [
        AskAgain(("no",), RequestEdit()),
        Answer("Stopped.", Outcome.DENIED, "tool_not_allowed"),
    ],
)
async def test_what_stops_an_answer_lets_no_further_frame_out(move: Answer | AskAgain) -> None:
    wire = Wire(move)
    relay = wire.relay()

    assert await wire.run(relay, [TEXT, PIECE, CALL, END, DONE], [TEXT]) == "text;"
    assert (relay.move, relay.stopped, relay.refused) == (move, True, {})
    assert (relay.holding, relay.failed) == (False, None)


async def test_an_abandoned_answer_is_closed_with_the_frames_that_were_dropped() -> None:
    """When the rest was read: its usage comes last."""
    wire = Wire(AskAgain(("no",), RequestEdit()))
    relay = wire.relay()
    await wire.run(relay, [TEXT, PIECE, CALL, END])

    assert relay.abandoned() == b"abandoned 3 Let me look."


# ---- errors of the provider ----


@pytest.mark.parametrize("before", [[], [PIECE], [START], [START, TEXT], [PIECE, CALL, END]])
async def test_an_error_is_hidden_by_another_try_while_nothing_has_left(before: list[Frame]) -> None:
    """C024: also where other frames came with it, of which the writer must not think that they arrived."""
    wire = Wire()
    relay = wire.relay()

    assert await wire.run(relay, [*before, failing()], may_retry=True) == ""
    assert (relay.failed, relay.stopped, relay.fresh) == (OVERLOADED, True, True)
    assert (wire.seen, wire.judged) == ([], [])


async def test_a_held_beginning_counts_as_nothing_left() -> None:
    wire = Wire()
    relay = wire.relay()

    assert await wire.run(relay, [PIECE], [failing()], may_retry=True) == ""
    assert relay.stopped


@pytest.mark.parametrize(
    ("fresh", "may_retry", "problem", "batches"),
    [
        (True, False, OVERLOADED, [[START, failing()]]),
        (False, True, OVERLOADED, [[START, failing()]]),
        (True, True, OVERLOADED, [[START], [failing()]]),
        (True, True, WRONG, [[START, failing(WRONG)]]),
    ],
)
async def test_else_the_agent_gets_the_providers_own_error(
    fresh: bool, may_retry: bool, problem: Problem, batches: list[list[Frame]]
) -> None:
    """C024: its own type, not a made-up one."""
    wire = Wire()
    relay = wire.relay(fresh=fresh)

    assert await wire.run(relay, *batches, may_retry=may_retry) == "start;error;"
    assert (relay.failed, relay.stopped) == (problem, False)


async def test_an_error_in_mid_call_takes_the_call_with_it() -> None:
    """The error itself reaches the agent; whole or not, the call does not, and nobody is asked about it."""
    wire = Wire()
    relay = wire.relay()

    assert await wire.run(relay, [TEXT, PIECE, CALL], [failing()]) == "text;[piece+call+error-[(0, 0)]];"
    assert (relay.failed, wire.judged) == (OVERLOADED, [])


async def test_a_stream_that_breaks_off_in_mid_call_releases_nothing() -> None:
    wire = Wire()
    relay = wire.relay()

    assert await wire.run(relay, [TEXT, PIECE, CALL]) == "text;failed upstream_error;"
    assert (relay.failed, wire.judged) == (BROKEN, [])
    assert relay.end() == b""


async def test_an_unfinished_call_is_taken_out_and_the_agent_is_told() -> None:
    """The provider ended its answer; what was whole beside it goes too, since it was never judged."""
    wire = Wire()
    relay = wire.relay()

    assert await wire.run(relay, [TEXT, PIECE, SECOND, END, DONE]) == (
        f"text;[piece+second+end-[(0, 0), (0, 1)]{INCOMPLETE}];done;"
    )
    assert (relay.failed, wire.judged) == (UNFINISHED, [])


@pytest.mark.parametrize("ends", [[PIECE, PIECE], [CALL, END]])
async def test_a_call_larger_than_allowed_is_refused_and_not_judged(ends: list[Frame]) -> None:
    """C031: blocked, not out of memory; also where the frame that is too much ends it."""
    wire = Wire()
    relay = wire.relay(room=8)

    assert await wire.run(relay, [TEXT, PIECE, *ends, DONE]) == "text;"
    assert relay.move == Answer(TOO_LARGE, Outcome.FAILED, "call_too_large")
    assert (relay.stopped, wire.judged) == (True, [])


async def test_a_judge_that_breaks_lets_nothing_out() -> None:
    """Fail closed: what was text has left, the call has not."""

    class Broken(Wire):
        async def judge(self, calls: Sequence[ToolCall]) -> CallsMove:
            raise ZeroDivisionError

    wire = Broken()
    relay = wire.relay()
    with pytest.raises(ZeroDivisionError):
        await wire.run(relay, [TEXT, PIECE, CALL, END])

    assert wire.out == ["text;"]


class Slow(Wire):
    """A judge that waits for somebody."""

    def __init__(self) -> None:
        super().__init__()
        self.begun, self.word = asyncio.Event(), asyncio.Event()
        self.let_go = False

    async def judge(self, calls: Sequence[ToolCall]) -> CallsMove:
        try:
            self.begun.set()
            await self.word.wait()
        except asyncio.CancelledError:
            self.let_go = True
            raise
        return await super().judge(calls)


async def test_while_a_call_is_judged_the_agent_gets_signs_of_life() -> None:
    """C031, D4: a person may take long."""
    wire = Slow()
    parts = wire.relay(heartbeat=0.001).feed([TEXT, PIECE, CALL, END], may_retry=False)

    assert [await anext(parts) for _ in range(3)] == [b"text;", b"alive;", b"alive;"]
    wire.word.set()
    rest = [part async for part in parts]
    assert rest[-1] == b"[piece+call+end-[]];"
    assert set(rest[:-1]) <= {b"alive;"}


async def test_an_agent_that_hangs_up_ends_the_judgement() -> None:
    """B2: at once, not when the person has decided."""
    wire = Slow()
    parts = wire.relay(heartbeat=0.001).feed([PIECE, CALL, END], may_retry=False)
    assert await anext(parts) == b"alive;"
    await parts.aclose()

    assert wire.let_go


async def test_whoever_cancels_the_stream_cancels_the_judgement() -> None:
    wire = Slow()
    reads = asyncio.get_running_loop().create_task(wire.run(wire.relay(), [PIECE, CALL, END]))
    await wire.begun.wait()
    reads.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reads

    assert wire.let_go


async def test_frames_of_which_nothing_is_written_keep_an_answer_fresh() -> None:
    """Usage alone, where the agent did not ask for it."""

    class Quiet(Wire):
        def passed(self, frame: Frame) -> bytes:
            del frame
            return b""

    wire = Quiet()
    relay = wire.relay()

    assert await wire.run(relay, [DONE]) == ""
    assert relay.fresh
