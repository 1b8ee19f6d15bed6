"""Amazon's binary event streams: cut anywhere, verified, and written so that AWS's own parser reads them."""

from itertools import pairwise

import pytest
from botocore.eventstream import EventStreamBuffer
from hypothesis import given, settings, strategies as st

from proxy.dialects.bedrock_frames import Message, MessageSplitter, event, exception, with_payload, written
from tests.dialects import wire

STREAM = (
    event("messageStart", b'{"role":"assistant"}') + event("a", b"{}") + exception("b", b'{"message":"x"}')
)


def split(*chunks: bytes) -> list[Message]:
    splitter = MessageSplitter()
    return [message for chunk in chunks for message in splitter.feed(chunk)] + splitter.end()


def read_by_aws(stream: bytes) -> list[tuple[dict[str, str], bytes]]:
    buffer = EventStreamBuffer()
    buffer.add_data(stream)
    return [(message.headers, message.payload) for message in buffer]


@settings(max_examples=60, deadline=None)
@given(
    st.dictionaries(
        st.text(st.characters(codec="ascii"), min_size=1, max_size=8), st.text(max_size=8), max_size=4
    ),
    st.binary(max_size=40),
)
def test_what_is_written_is_read_by_awss_parser_and_by_ours(headers: dict[str, str], payload: bytes) -> None:
    raw = written(headers, payload)
    assert read_by_aws(raw) == [(headers, payload)]
    assert split(raw) == [Message(raw, headers, payload)]


def test_every_cut_gives_the_same_messages() -> None:
    whole = split(STREAM)
    assert len(whole) == 3
    assert split(*(STREAM[at : at + 1] for at in range(len(STREAM)))) == whole
    for cut in range(len(STREAM)):
        assert split(STREAM[:cut], STREAM[cut:]) == whole


@settings(max_examples=80, deadline=None)
@given(st.binary(max_size=200), st.lists(st.integers(0, 260), max_size=6))
def test_any_bytes_leave_as_they_came(noise: bytes, cuts: list[int]) -> None:
    stream = STREAM[:90] + noise
    ends = [0, *sorted(cut for cut in cuts if cut < len(stream)), len(stream)]
    assert b"".join(message.raw for message in split(*(stream[a:b] for a, b in pairwise(ends)))) == stream


@pytest.mark.parametrize("at", range(len(event("a", b'{"b":1}'))))
def test_one_wrong_byte_anywhere_is_noticed(at: int) -> None:
    """Fail closed: nothing of the message, nor of what follows, is taken for sound."""
    raw = bytearray(event("a", b'{"b":1}'))
    raw[at] ^= 1
    assert not any(message.sound for message in split(bytes(raw) + STREAM))


@pytest.mark.parametrize(
    "again", [b"\x01a\x07\x00\x01x\x01a\x07\x00\x01y", b"\x02:a\x06\x00\x01x", b"\x01a\x0b", b"\x09a"]
)
def test_headers_that_readers_could_take_differently_are_not_sound(again: bytes) -> None:
    sound = Message(written({}, b""))
    empty = written({"z" * (len(again) - 4): ""}, b"") if len(again) > 4 else sound.raw
    raw = bytearray(empty[:12] + again + empty[12 + len(again) : -4])
    raw[0:4] = (len(raw) + 4).to_bytes(4, "big")
    raw[4:8] = len(again).to_bytes(4, "big")
    assert not any(message.sound for message in split(checked(bytes(raw))))


def checked(raw: bytes) -> bytes:
    """The message with checksums that hold."""
    from zlib import crc32

    raw = raw[:8] + crc32(raw[:8]).to_bytes(4, "big") + raw[12:]
    return raw + crc32(raw).to_bytes(4, "big")


def test_another_payload_keeps_the_headers() -> None:
    (message,) = split(event("a", b"{}"))
    assert read_by_aws(with_payload(message, b'{"x":1}'))[0] == (message.headers, b'{"x":1}')


def test_recorded_streams_are_read_as_awss_parser_reads_them() -> None:
    for one in wire.recorded("bedrock-converse"):
        if one.is_stream:
            ours = [(dict(message.headers), message.payload) for message in split(one.answer)]
            assert ours == read_by_aws(one.answer), one.id
