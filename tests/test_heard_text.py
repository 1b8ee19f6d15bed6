"""Streams in whose text calls are listened for: frames leave verbatim, in order, and only when it is known what they are."""

import itertools
from collections.abc import Sequence

from hypothesis import given, strategies as st

from proxy.core.messages import CallDelta, CallReady, ChoiceEnded, Frame, TextDelta, Turn
from proxy.heard_text import FIRST_SLOT, MOST_HELD_BYTES, HeardText, applied_edits
from tests.channels.forms import CASES, scanner_of

CALL = 'So. <tool_call>{"name": "read", "arguments": {"id": 4}}</tool_call>'


class Pieces:
    """A reader whose chunks are pieces of text."""

    def __init__(self) -> None:
        self.text = ""

    def feed(self, chunk: bytes) -> list[Frame]:
        said = chunk.decode()
        self.text += said
        return [Frame(chunk, (TextDelta(0, said),))]

    def end(self) -> list[Frame]:
        return [Frame(b"end", (ChoiceEnded(0, "stop"),))]

    def turn(self) -> Turn:
        return Turn(text=self.text)


def heard(name: str, pieces: Sequence[str]) -> tuple[list[Frame], HeardText]:
    reader = HeardText(Pieces(), scanner_of(name))
    frames = [frame for piece in pieces for frame in reader.feed(piece.encode())]
    return frames + reader.end(), reader


@given(st.sampled_from(CASES), st.lists(st.integers(0, 200), max_size=6))
def test_frames_leave_verbatim_and_in_order(
    case: tuple[str, str, list[tuple[str, str]]], cuts: list[int]
) -> None:
    """Promise 1, C6: wherever the stream is cut, the same calls are ready, and all bytes are there."""
    name, text, calls = case
    places = sorted({0, len(text), *(cut % (len(text) + 1) for cut in cuts)})
    pieces = [text[left:right] for left, right in itertools.pairwise(places)]
    frames, reader = heard(name, pieces)
    assert b"".join(frame.raw for frame in frames) == text.encode() + b"end"
    ready = [event.call for frame in frames for event in frame.events if isinstance(event, CallReady)]
    assert [(call.name, call.arguments) for call in ready] == calls
    assert [call.key for call in ready] == [(0, FIRST_SLOT + place) for place in range(len(calls))]
    assert reader.turn().calls == tuple(ready)
    begun = {event.key for frame in frames for event in frame.events if isinstance(event, CallDelta)}
    assert begun == {call.key for call in ready}


def test_text_leaves_before_the_call_does() -> None:
    """C6: only the possible beginning of a mark waits."""
    reader = HeardText(Pieces(), scanner_of("tags"))
    assert [frame.raw for frame in reader.feed(b"So. ")] == [b"So. "]
    assert reader.feed(b"<tool") == []
    assert [frame.raw for frame in reader.feed(b"box>")] == [b"<tool", b"box>"]
    assert reader.feed(b"<tool_call>{") == []


def test_the_same_words_have_the_same_ids_in_every_answer() -> None:
    first, again = (heard("tags", [CALL])[1].turn().calls[0].id for _ in range(2))
    twice = [call.id for call in heard("tags", [CALL, CALL[4:]])[1].turn().calls]
    assert first == again == twice[0]
    assert twice[0] != twice[1]


def test_what_was_made_up_is_not_shown() -> None:
    """C6."""
    frames, reader = heard("tags", [CALL, "<tool_response>7", "</tool_response> So it is 7."])
    assert [frame.shown for frame in frames] == [None, "", "", None]
    assert reader.turn().text == CALL


def test_a_call_that_never_ends_is_given_to_the_gate_as_one_that_is_too_large() -> None:
    """Fail closed: what is held has a limit."""
    reader = HeardText(Pieces(), scanner_of("tags"))
    reader.feed(b"<tool_call>{")
    frames = reader.feed(b"x" * (MOST_HELD_BYTES + 1))
    assert [event.key for frame in frames for event in frame.events if isinstance(event, CallDelta)]


def test_edits_are_applied_within_a_piece() -> None:
    edits = [(2, 6, "-"), (8, 9, "")]
    assert "".join(applied_edits("0123456789"[at : at + 3], at, edits) for at in (0, 3, 6, 9)) == "01-679"


class AfterTheEnd(Pieces):
    """A stream that says more after its choice has ended."""

    def feed(self, chunk: bytes) -> list[Frame]:
        if chunk == b"end":
            return self.end()
        return super().feed(chunk)


def test_nothing_is_added_to_a_call_after_the_end() -> None:
    """Promise 5: the agent would run what was never judged."""
    reader = HeardText(AfterTheEnd(), scanner_of("react"))
    call = "Action: read\nAction Input: a"
    frames = [
        frame for chunk in (call, "end", "; and b") for frame in reader.feed(chunk.encode())
    ] + reader.end()
    assert [frame.shown for frame in frames[:3]] == [None, None, ""]
    assert [call.arguments for call in reader.turn().calls] == ['{"input": "a"}']


def test_text_after_the_end_is_listened_to_like_any_other() -> None:
    """Fail closed: and none of it is lost."""
    reader = HeardText(AfterTheEnd(), scanner_of("tags"))
    frames = [frame for chunk in ("So.", "end", CALL) for frame in reader.feed(chunk.encode())] + reader.end()
    assert b"".join(frame.raw for frame in frames) == f"So.end{CALL}end".encode()
    assert [call.name for call in reader.turn().calls] == ["read"]
