"""Event blocks do not depend on where the network cut the bytes, and joined they are the stream."""

import itertools
import re

import pytest
from hypothesis import given, strategies as st

from proxy.core.messages import Malformed
from proxy.dialects.sse import RawEvent, SseSplitter, comment, event


def split(*chunks: bytes) -> list[RawEvent]:
    splitter = SseSplitter()
    found = [block for chunk in chunks for block in splitter.feed(chunk)]
    return found + splitter.end()


def meaning(blocks: list[RawEvent]) -> list[tuple[str, bytes]]:
    return [(block.event, block.data) for block in blocks if block.data is not None and block.whole]


def as_the_standard_says(stream: bytes) -> list[tuple[str, bytes]]:
    """A second reader: the whole stream at once, line by line."""
    found = []
    name = ""
    lines: list[bytes] = []
    for line in re.split(rb"\r\n|\n|\r", stream.removeprefix(b"\xef\xbb\xbf"))[:-1]:
        field, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if not line:
            if lines:
                found.append((name, b"\n".join(lines)))
            name, lines = "", []
        elif field == b"data":
            lines.append(value)
        elif field == b"event":
            name = value.decode("utf-8", "replace")
    return found


SAMPLE = (
    b"\xef\xbb\xbf: opening\n\n"
    b'event: message\ndata:{"a":"Z\xc3\xbcrich"}\n\n'
    b"id: 7\nretry: 3000\ndata: one\ndata:  two\ndata\n\n"
    b"\ndata: [DONE]\n\n"
)
MEANING = [("message", '{"a":"Zürich"}'.encode()), ("", b"one\n two\n"), ("", b"[DONE]")]


@pytest.mark.parametrize("line_end", [b"\n", b"\r\n", b"\r"])
def test_every_line_end_and_every_cut_gives_the_same_blocks(line_end: bytes) -> None:
    """C1: cut between CR and LF, inside a character, anywhere."""
    stream = SAMPLE.replace(b"\n", line_end)
    whole = split(stream)
    assert meaning(whole) == MEANING == as_the_standard_says(stream)
    assert b"".join(block.raw for block in whole) == stream
    for cut in range(len(stream)):
        assert split(stream[:cut], stream[cut:]) == whole
    assert split(*(stream[place : place + 1] for place in range(len(stream)))) == whole


@given(
    st.lists(
        st.sampled_from(
            [
                b"data: a",
                b"data:",
                b"data",
                b":",
                b"event: x",
                b"\r",
                b"\n",
                b"\r\n",
                b"\n\n",
                b"\xc3\xa9",
                b"\xef\xbb\xbf",
            ]
        ),
        max_size=14,
    ).map(b"".join),
    st.lists(st.integers(0, 60), max_size=5),
)
def test_any_mix_of_line_ends_is_read_as_the_standard_says(stream: bytes, cuts: list[int]) -> None:
    borders = [0, *sorted(cut for cut in cuts if cut <= len(stream)), len(stream)]
    whole = split(stream)
    assert split(*(stream[a:b] for a, b in itertools.pairwise(borders))) == whole
    assert b"".join(block.raw for block in whole) == stream
    assert meaning(whole) == as_the_standard_says(stream)


@pytest.mark.parametrize("line_end", [b"\n", b"\r\n", b"\r"])
def test_a_block_is_given_as_soon_as_its_blank_line_is_there(line_end: bytes) -> None:
    splitter = SseSplitter()
    assert [block.data for block in splitter.feed(b"data: now" + line_end + line_end)] == [b"now"]


def test_a_stream_that_ends_inside_a_block_gives_its_bytes_marked() -> None:
    assert split(b"data: a\n\ndata: b")[-1] == RawEvent(b"data: b", "", b"b", whole=False)
    assert split(b"data: b\n")[-1] == RawEvent(b"data: b\n", "", b"b", whole=False)
    assert split(b"data: b\r\n\r")[-1] == RawEvent(b"data: b\r\n\r", "", b"b")
    assert split(b"data: b\n\n")[-1].whole


def test_a_line_without_end_cannot_eat_the_memory() -> None:
    splitter = SseSplitter(max_event_bytes=100)
    splitter.feed(b"data: " + b"x" * 94)
    with pytest.raises(Malformed, match="larger than 100 bytes"):
        splitter.feed(b"x")


def test_many_small_blocks_in_one_chunk_may_pass_the_limit_of_one() -> None:
    assert len(SseSplitter(max_event_bytes=20).feed(b"data: 1\n\n" * 1000)) == 1000


def test_a_huge_event_byte_by_byte_takes_linear_time() -> None:
    splitter = SseSplitter()
    for _ in range(300_000):
        assert splitter.feed(b"x") == []
    assert len(splitter.end()[0].raw) == 300_000


def test_what_is_written_is_read_back() -> None:
    assert meaning(split(event(b'{"a":1}', "ping"))) == [("ping", b'{"a":1}')]
    assert meaning(split(event(b"one\r\ntwo\rthree"))) == [("", b"one\ntwo\nthree")]
    assert meaning(split(comment("keep\nalive"), comment(""))) == []
    assert comment("keep-alive") == b": keep-alive\n\n"
    assert event(b"x") == b"data: x\n\n"


@pytest.mark.parametrize(
    "line", [b' data: {"a":1}', b'\xef\xbb\xbfdata: {"a":1}', b'{"a":1}', b'DATA:{"a":1}']
)
def test_a_line_that_only_careless_clients_read_is_called_strange(line: bytes) -> None:
    """D5: what the standard skips, a client that trims its lines does not."""
    blocks = split(
        b"data: 1\n\n" + line + b"\n\ndata: 2\n" + line + b"\n\n: {comment}\nid: {1}\nnonsense\n\n"
    )
    assert [block.strange for block in blocks] == [False, True, True, False]
