"""What an agent may send: rubbish never breaks Callgate, and whoever sent it is told what to do, in his dialect."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from hypothesis import HealthCheck, given, settings, strategies as st

from proxy.demo import Raw
from tests.dialects.agents import AGENTS
from tests.mutations import tampered
from tests.shelf import Shelf
from tests.siege import EACH, JSON, STREAM, Siege, assert_sound_error, besieged, is_streamed

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def siege(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Siege]:
    folder = tmp_path_factory.mktemp("siege")
    async with Shelf(folder) as shelf, besieged(shelf, folder, max_body_bytes=1 << 20) as siege:
        yield siege


def fair(dialect: str, *, stream: bool) -> Raw:
    agent = AGENTS[dialect]
    return Raw(agent.stream if stream else agent.whole, headers={"content-type": STREAM if stream else JSON})


# --- bodies ---


DEEP = 100_000
NO_REQUEST = {
    "nothing": b"",
    "a blank": b" ",
    "no JSON": b"hello",
    "JSON that ends too early": b'{"model":"m","messages":[{"role":"user"',
    "JSON and more": b'{"model":"m","messages":[]} {}',
    "a list": b"[]",
    "null": b"null",
    "text": b'"hello"',
    "a number": b"1",
    "no UTF-8": b'{"model":"m","messages":[{"role":"user","content":"\xff\xfe"}]}',
    "UTF-16": '{"model":"m","messages":[]}'.encode("utf-16"),
    "a byte order mark": b'\xef\xbb\xbf{"model":"m","messages":[]}',
    "half a character": b'{"model":"m","messages":[{"role":"user","content":"\\ud800"}]}',
    "half a character, raw": b'{"model":"m","messages":[{"role":"user","content":"\xed\xa0\x80"}]}',
    "NaN": b'{"model":"m","temperature":NaN,"messages":[]}',
    "infinity": b'{"model":"m","temperature":-Infinity,"messages":[]}',
    "deep lists": b"[" * DEEP + b"]" * DEEP,
    "deep objects": b'{"a":' * DEEP + b"1" + b"}" * DEEP,
    "deep, and never closed": b'{"messages":' + b"[" * DEEP,
    "a message of another kind": b'{"model":"m","messages":["hi"]}',
    "messages of another kind": b'{"model":"m","messages":{"role":"user"}}',
    "a tool of another kind": b'{"model":"m","messages":[],"tools":[1]}',
    "messages twice": b'{"model":"m","messages":[],"messages":[]}',
    "messages twice, spelled otherwise": b'{"model":"m","messages":[],"message\\u0073":[]}',
    "the model twice": b'{"model":"m","messages":[],"model":"n"}',
    "the stream twice": b'{"stream":true,"model":"m","messages":[],"stream":false}',
    "tools twice": b'{"tools":[],"model":"m","messages":[],"tools":[]}',
    "a role that nobody has": b'{"model":"m","messages":[{"role":"root","content":"hi"}]}',
    "a role of another kind": b'{"model":"m","messages":[{"role":["user"],"content":"hi"}]}',
}


@EACH
@pytest.mark.parametrize("what", NO_REQUEST)
async def test_what_is_no_request_is_told_so_and_goes_nowhere(dialect: str, what: str, siege: Siege) -> None:
    """C4, F1: never a fault of the server."""
    siege.provider_says(fair(dialect, stream=False))
    before = len(siege.seen)

    got = await siege.asks(dialect, NO_REQUEST[what])

    assert (got.status, len(siege.seen)) == (400, before), got.body
    assert_sound_error(dialect, got)
    await siege.is_unharmed()


@EACH
async def test_a_tool_with_two_names_is_refused(dialect: str, siege: Siege) -> None:
    """D1: two readers might take either of them."""
    body = AGENTS[dialect].request.replace(b'"name": "read_note"', b'"name": "read_note", "name": "other"')
    assert body != AGENTS[dialect].request
    got = await siege.asks(dialect, body)
    assert got.status == 400
    assert_sound_error(dialect, got, "twice")


@EACH
@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
async def test_a_request_tampered_with_is_refused_or_sent(
    dialect: str, siege: Siege, data: st.DataObject
) -> None:
    body = data.draw(tampered(json.loads(AGENTS[dialect].request)))
    siege.provider_says(fair(dialect, stream=is_streamed(body)))
    before = len(siege.seen)

    got = await siege.asks(dialect, body)

    assert got.status in {200, 400}, (got.status, got.body)
    if got.status == 400:
        assert_sound_error(dialect, got)
        assert len(siege.seen) == before
    else:
        assert b"call_b2" not in got.body
        assert len(siege.seen) == before + 1
    await siege.is_unharmed()
