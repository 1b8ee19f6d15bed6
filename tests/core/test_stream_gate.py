"""The stream gate: text leaves at once, a call waits until it is whole and judged, and no order is broken."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest
from hypothesis import given, strategies as st

from proxy.core.messages import (
    CallDelta,
    CallReady,
    ChoiceEnded,
    Event,
    Frame,
    HostedCall,
    Problem,
    StreamEnded,
    StreamFailed,
    TextDelta,
    ToolCall,
    TurnStarted,
    Usage,
    UsageSeen,
)
from proxy.core.stream_gate import StreamGate

ROOM = 1 << 20


def frame(*events: Event, raw: bytes = b"f") -> Frame:
    return Frame(raw, events)


def text(choice: int = 0, said: str = "t") -> Frame:
    return frame(TextDelta(choice, said))


def piece(choice: int = 0, slot: int = 0) -> Frame:
    return frame(CallDelta((choice, slot)))


def whole(choice: int = 0, slot: int = 0) -> CallReady:
    return CallReady(ToolCall(f"c{choice}.{slot}", "lookup", "{}", (choice, slot)))


def ended(choice: int = 0) -> Frame:
    return frame(ChoiceEnded(choice, "stop"))


def fed(gate: StreamGate, frames: Sequence[Frame]) -> list[bool]:
    """For each frame whether it left at once."""
    return [gate.feed(each) is not None for each in frames]


def test_a_stream_without_calls_passes_frame_by_frame() -> None:
    gate = StreamGate(ROOM)
    frames = [
        frame(TurnStarted("a", "m")),
        text(),
        frame(),
        frame(HostedCall(ToolCall("h", "search", "{}"))),
        ended(),
        frame(UsageSeen(Usage(1, 1))),
        frame(StreamEnded()),
    ]

    assert [gate.feed(each) for each in frames] == frames
    assert not gate.holding
    assert not gate.ready


def test_from_the_first_piece_of_a_call_to_its_end_nothing_of_its_choice_leaves() -> None:
    """C020: neither id nor name nor arguments; text behind the call waits too, since order is kept."""
    gate = StreamGate(ROOM)
    frames = [text(), piece(), piece(), frame(whole()), text(), ended()]

    assert fed(gate, frames) == [True, False, False, False, False, False]
    assert gate.ready
    assert [call.id for call in gate.calls] == ["c0.0"]
    assert gate.take() == frames[1:]
    assert not gate.holding
    assert gate.calls == ()


def test_calls_come_in_wire_order() -> None:
    """C10: several in one turn."""
    gate = StreamGate(ROOM)
    fed(gate, [piece(0, 0), piece(0, 1), frame(whole(0, 0)), frame(whole(0, 1), ChoiceEnded(0, "stop"))])

    assert [call.key for call in gate.calls] == [(0, 0), (0, 1)]
    assert gate.ready


@pytest.mark.parametrize("end", [ended(), frame(StreamEnded())])
def test_a_whole_call_in_one_frame_waits_for_its_end(end: Frame) -> None:
    """C003, C11: whatever finish word comes, and where none comes."""
    gate = StreamGate(ROOM)

    assert fed(gate, [frame(CallDelta((0, 0)), whole())]) == [False]
    assert not gate.ready
    assert fed(gate, [end]) == [False]
    assert gate.ready


def test_text_of_another_choice_passes_by() -> None:
    gate = StreamGate(ROOM)

    assert fed(gate, [piece(0), text(1), frame(UsageSeen(Usage(1, 1))), text(1)]) == [
        False,
        True,
        False,
        True,
    ]


def test_no_choice_is_overtaken_by_its_own_text() -> None:
    """A frame may speak of several choices: once something of a choice is held, all that follows of it is."""
    gate = StreamGate(ROOM)
    frames = [frame(CallDelta((0, 0)), TextDelta(1, "first")), text(1, "second"), text(2, "free")]

    assert fed(gate, frames) == [False, False, True]

    gate = StreamGate(ROOM)
    frames = [frame(CallDelta((0, 0)), whole()), piece(1), ended(0), text(0, "behind its call")]
    assert fed(gate, frames) == [False] * 4
    assert not gate.ready


def test_all_choices_with_a_call_have_to_end() -> None:
    gate = StreamGate(ROOM)
    readiness = []
    for each in [piece(0), piece(1), frame(whole(0)), ended(0), frame(whole(1)), text(2), ended(1)]:
        gate.feed(each)
        readiness.append(gate.ready)

    assert readiness == [False] * 6 + [True]
    assert len(gate.calls) == 2


def test_a_call_of_which_only_pieces_came_is_broken() -> None:
    """It is named, and never among the calls."""
    gate = StreamGate(ROOM)
    fed(gate, [piece(0, 0), piece(0, 1), frame(whole(0, 1)), ended()])

    assert gate.ready
    assert gate.broken == ((0, 0),)
    assert [call.key for call in gate.calls] == [(0, 1)]

    gate.take()
    assert not gate.broken


def test_an_error_while_a_call_is_held_is_noticed() -> None:
    failed = frame(StreamFailed(Problem(529, "overloaded_error", "Overloaded")))
    gate = StreamGate(ROOM)
    seen = []
    for each in [failed, piece(), failed]:
        gate.feed(each)
        seen.append((gate.holding, gate.failed, gate.ready))

    assert seen == [(False, False, False), (True, False, False), (True, True, False)]


def test_what_is_held_is_bounded() -> None:
    """C031: blocked, not out of memory."""
    gate = StreamGate(10)
    seen: list[bool] = []
    sizes: list[tuple[int, Event]] = [
        (50, TextDelta(0, "t")),
        (10, CallDelta((0, 0))),
        (1, CallDelta((0, 0))),
    ]
    for size, event in sizes:
        gate.feed(frame(event, raw=b"x" * size))
        seen.append(gate.overflowed)
    gate.take()

    assert [*seen, gate.overflowed] == [False, False, True, False]


def test_the_gate_closes_again_for_calls_that_come_later() -> None:
    """C11: also for a call behind the end of its choice."""
    gate = StreamGate(ROOM)
    fed(gate, [piece(), frame(whole()), ended()])
    gate.take()

    assert fed(gate, [text(), piece(0, 1), frame(whole(0, 1)), frame(StreamEnded())]) == [
        True,
        False,
        False,
        False,
    ]
    assert gate.ready
    assert [call.key for call in gate.calls] == [(0, 1)]


@dataclass
class Watched:
    """What the laws say of frames fed so far, kept apart from the gate's own way of counting."""

    pieces: set[tuple[int, int]] = field(default_factory=set)
    calls: list[tuple[int, int]] = field(default_factory=list)
    waiting: set[int] = field(default_factory=set)

    def see(self, each: Frame) -> None:
        for event in each.events:
            if isinstance(event, CallDelta):
                self.pieces.add(event.key)
                self.waiting.add(event.key[0])
            elif isinstance(event, CallReady):
                self.calls.append(event.call.key)
                self.waiting.add(event.call.key[0])
        for event in each.events:
            if isinstance(event, ChoiceEnded):
                self.waiting.discard(event.choice)
            elif isinstance(event, StreamEnded):
                self.waiting.clear()


choices = st.sampled_from([0, 0, 1, 2])
events = st.one_of(
    st.builds(TextDelta, choices, st.just("t")),
    st.builds(TextDelta, choices, st.just("t")),
    st.builds(CallDelta, st.tuples(choices, st.integers(0, 1))),
    st.builds(whole, choices, st.integers(0, 1)),
    st.builds(ChoiceEnded, choices, st.just("stop")),
    st.just(UsageSeen(Usage(1, 1))),
    st.just(StreamEnded()),
)
streams = st.lists(st.lists(events, min_size=1, max_size=2), max_size=12)


def choices_of(each: Frame) -> set[int]:
    found = set()
    for event in each.events:
        if isinstance(event, TextDelta | ChoiceEnded):
            found.add(event.choice)
        elif isinstance(event, CallDelta):
            found.add(event.key[0])
        elif isinstance(event, CallReady):
            found.add(event.call.key[0])
    return found


@given(streams)
def test_any_stream_keeps_the_laws(stream: list[list[Event]]) -> None:
    frames = [frame(*found, raw=str(place).encode()) for place, found in enumerate(stream)]
    gate, law = StreamGate(ROOM), Watched()
    out: list[Frame] = []
    since: list[Frame] = []
    for each in frames:
        has_call = any(isinstance(event, CallDelta | CallReady) for event in each.events)
        was_holding = bool(since)
        law.see(each)
        left = gate.feed(each)
        if left is None:
            assert has_call or was_holding
            since.append(each)
        else:
            assert left is each
            assert not has_call
            out.append(each)
        assert gate.ready == (bool(since) and not law.waiting)
        assert [call.key for call in gate.calls] == law.calls
        assert set(gate.broken) == law.pieces - set(law.calls)
        if gate.ready:
            assert gate.take() == since
            out += since
            since, law = [], Watched()
    held = gate.take()

    assert held == since
    assert sorted(out + held, key=lambda each: int(each.raw)) == frames
    for choice in range(3):
        about = [each.raw for each in out + held if choice in choices_of(each)]
        assert about == sorted(about, key=int)


@given(streams)
def test_text_of_a_choice_of_which_nothing_is_held_never_waits(stream: list[list[Event]]) -> None:
    gate = StreamGate(ROOM)
    spoken_of: set[int] = set()
    for found in stream:
        each = frame(*found)
        only_text = bool(found) and all(isinstance(event, TextDelta) for event in found)
        free = choices_of(each).isdisjoint(spoken_of)
        left = gate.feed(each) is not None
        if only_text and free:
            assert left
        if not left:
            spoken_of |= choices_of(each)
        if gate.ready:
            gate.take()
            spoken_of = set()
