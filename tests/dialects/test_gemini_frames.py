"""The two forms of Gemini's streams, cut anywhere."""

import json
from itertools import pairwise

import pytest
from hypothesis import given, strategies as st

from proxy.core.messages import Malformed
from proxy.dialects.gemini_frames import Block, Splitter
from proxy.dialects.sse import MAX_EVENT_BYTES
from tests.dialects import gemini_agent as agent

PIECES = (
    agent.piece({"text": 'a "]}\\[{ ü'}),
    agent.piece(agent.call("read", {"id": [1, {"x": "\\"}]})),
    agent.piece({"text": ""}, finish="STOP"),
)
STREAMS = {
    "events": agent.events(*PIECES),
    "array": agent.array(*PIECES),
    "indented": json.dumps(PIECES, indent=2).encode(),
    "one object": json.dumps(PIECES[0]).encode(),
}


def split(stream: bytes, cuts: tuple[int, ...] = ()) -> list[Block]:
    splitter = Splitter()
    bounds = [0, *sorted(cuts), len(stream)]
    found = [block for start, end in pairwise(bounds) for block in splitter.feed(stream[start:end])]
    return found + splitter.end()


@pytest.mark.parametrize("stream", STREAMS.values(), ids=STREAMS)
def test_where_the_network_cuts_makes_no_difference(stream: bytes) -> None:
    """C11: each cut in two, and byte by byte."""
    whole = split(stream)
    assert b"".join(block.raw for block in whole) == stream
    assert split(stream, tuple(range(len(stream)))) == whole
    for at in range(len(stream)):
        assert split(stream, (at,)) == whole


@pytest.mark.parametrize("stream", STREAMS.values(), ids=STREAMS)
def test_each_element_is_found(stream: bytes) -> None:
    found = [json.loads(block.data) for block in split(stream) if block.data is not None]
    assert found == list(PIECES)[: len(found)]
    assert len(found) in {1, len(PIECES)}


@given(st.binary(max_size=60), st.sampled_from([b"", b"[", b"{", b"[{}", b"[{},", b"[]"]), st.data())
def test_anything_is_cut_without_loss_or_refused(rest: bytes, front: bytes, data: st.DataObject) -> None:
    stream = front + rest
    cut = data.draw(st.integers(0, len(stream)))
    try:
        blocks = split(stream, (cut,))
    except Malformed:
        return
    assert b"".join(block.raw for block in blocks) == stream


@pytest.mark.parametrize(
    "stream",
    [
        b"[[{}]]",
        b"[1,{}]",
        b'["x",{}]',
        b"[{},true,{}]",
        b"[{}]{}",
        b"[{}][{}]",
        b"[{},[{}]]",
        b"[{}}",
        b"[]]",
        b"{}]",
    ],
)
def test_an_array_of_anything_but_objects_is_refused(stream: bytes) -> None:
    """C11: a client may find an element where another finds none."""
    with pytest.raises(Malformed):
        split(stream)


@pytest.mark.parametrize("stream", [b"[{},", b"[", b"[{}\n"])
def test_an_array_without_end_has_none(stream: bytes) -> None:
    assert not any(block.is_end for block in split(stream))


def test_what_broke_off_says_so() -> None:
    *_, last = split(b'[{"a":1},{"a":')
    assert (last.whole, last.data) == (False, b'{"a":')
    assert split(b"[{} x")[-1].strange


def test_an_element_that_grows_and_grows_is_refused() -> None:
    splitter = Splitter()
    with pytest.raises(Malformed):
        splitter.feed(b'[{"' + b"x" * MAX_EVENT_BYTES)


def test_white_space_alone_is_kept() -> None:
    assert [block.raw for block in split(b" \n")] == [b" \n"]
    assert split(b"") == []
