"""Streams that are called something else."""

from collections.abc import Sequence
from itertools import pairwise

import pytest

from proxy.bodies import EVENTS, Peeked, looked_into
from proxy.errors import UpstreamFault
from tests.staged import ScriptedAnswer

pytestmark = pytest.mark.asyncio
JSON = [("content-type", "application/json")]


def answer(*pieces: bytes, kind: Sequence[tuple[str, str]] = JSON) -> ScriptedAnswer:
    return ScriptedAnswer(pieces, 200, kind)


async def rest_of(looked: Peeked | ScriptedAnswer) -> bytes:
    found = b""
    while chunk := await looked.next_chunk():
        found += chunk
    return found


@pytest.mark.parametrize(
    ("body", "is_stream"),
    [
        (b'data: {"choices":[]}\n\n', True),
        (b"event: message_start\ndata: {}\n\n", True),
        (b": a comment\n\n", True),
        (b"id:1\ndata: {}\n\n", True),
        (b"retry: 10\n\n", True),
        (b"\xef\xbb\xbfdata:{}\n\n", True),
        (b"\n\n \r\ndata: {}\n\n", True),
        (b'{"data:": 1}', False),
        (b'"data: x"', False),
        (b" \n[1]", False),
        (b"database: down", False),
        (b"<html>", False),
        (b"data", False),
        (b"", False),
    ],
)
async def test_a_stream_is_known_by_its_first_bytes_wherever_they_are_cut(
    body: bytes, is_stream: bool
) -> None:
    """F1: whatever it is, nothing of it is lost."""
    for pieces in [[body], [body[at : at + 1] for at in range(len(body))]]:
        looked, found = await looked_into(answer(*filter(None, pieces)), EVENTS)
        assert found is is_stream
        assert await rest_of(looked) == body  # type: ignore[arg-type]  # one of the two
    for cut, _ in pairwise(range(1, len(body))):
        looked, found = await looked_into(answer(body[:cut], body[cut:]), EVENTS)
        assert found is is_stream
        assert await looked.read(100) == body


async def test_an_answer_that_says_what_it_is_is_not_looked_at() -> None:
    said = answer(b"{}", kind=[("content-type", "text/event-stream; charset=utf-8")])
    assert await looked_into(said, EVENTS) == (said, True)
    other = answer(b"data: {}\n\n", kind=JSON)
    assert await looked_into(other, "application/x-ndjson") == (other, False)


async def test_the_limit_counts_what_was_looked_at() -> None:
    looked, _ = await looked_into(answer(b"{" * 20), EVENTS)
    with pytest.raises(UpstreamFault, match="longer than 19 bytes"):
        await looked.read(19)
    whole, _ = await looked_into(answer(b"{" * 20), EVENTS)
    assert await whole.read(20) == b"{" * 20


async def test_closing_closes_the_answer() -> None:
    inner = answer(b"{}")
    looked, _ = await looked_into(inner, EVENTS)
    assert (looked.status, looked.headers) == (200, JSON)
    looked.close()
    assert inner.closed
