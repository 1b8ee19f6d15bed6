"""Answers that were tampered with: values, events and bytes changed anywhere. See `tests.judged` for what must hold."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from hypothesis import HealthCheck, given, settings, strategies as st

from tests.dialects.agents import AGENTS
from tests.judged import Stage, assert_sound, judging
from tests.mutations import tampered
from tests.siege import EACH, JSON, STREAM

pytestmark = pytest.mark.asyncio(loop_scope="module")

MANY = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def stage(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Stage]:
    async with judging(tmp_path_factory.mktemp("siege")) as stage:
        yield stage


@EACH
@MANY
@given(data=st.data())
async def test_an_answer_tampered_with(dialect: str, stage: Stage, data: st.DataObject) -> None:
    body = data.draw(tampered(json.loads(AGENTS[dialect].whole)))
    stage.provider.says_body(body, JSON)
    for stream in (False, True):
        assert_sound(dialect, await stage.asks(dialect, stream=stream), stream=stream)


def blocks_of(stream: bytes) -> list[bytes]:
    return [block + b"\n\n" for block in stream.split(b"\n\n") if block]


@st.composite
def tampered_stream(draw: st.DrawFn, stream: bytes) -> bytes:
    """Events tampered with, left out, doubled, in another order."""
    blocks = blocks_of(stream)
    tampered_with: set[bytes] = set()
    for _ in range(draw(st.integers(1, 4))):
        place = draw(st.integers(0, len(blocks) - 1))
        what = draw(st.sampled_from(["tamper", "tamper", "tamper", "drop", "double", "move"]))
        head, mark, body = blocks[place].partition(b"data: ")
        if what == "tamper" and body.startswith(b"{") and blocks[place] not in tampered_with:
            blocks[place] = head + mark + draw(tampered(json.loads(body))) + b"\n\n"
            tampered_with.add(blocks[place])
        elif what == "drop" and len(blocks) > 1:
            del blocks[place]
        elif what == "double":
            blocks.insert(draw(st.integers(0, len(blocks))), blocks[place])
        elif what == "move":
            blocks.insert(draw(st.integers(0, len(blocks) - 1)), blocks.pop(place))
    return b"".join(blocks)


@EACH
@MANY
@given(data=st.data())
async def test_a_stream_tampered_with(dialect: str, stage: Stage, data: st.DataObject) -> None:
    stage.provider.says_body(data.draw(tampered_stream(AGENTS[dialect].stream)), STREAM)
    for stream in (True, False):
        assert_sound(dialect, await stage.asks(dialect, stream=stream), stream=stream)


@EACH
@MANY
@given(data=st.data())
async def test_bytes_that_were_changed_on_the_way(dialect: str, stage: Stage, data: st.DataObject) -> None:
    stream = data.draw(st.booleans())
    body = bytearray(AGENTS[dialect].stream if stream else AGENTS[dialect].whole)
    for _ in range(data.draw(st.integers(1, 6))):
        place = data.draw(st.integers(0, len(body) - 1))
        what = data.draw(
            st.sampled_from([b"", b"\n", b"\r", b'"', b"\\", b"}", b"\xff", b"\0", b"0", b"\n\ndata: "])
        )
        body[place : place + data.draw(st.integers(0, 3))] = what
    stage.provider.says_body(bytes(body), STREAM if stream else JSON)
    assert_sound(dialect, await stage.asks(dialect, stream=stream), stream=stream)
