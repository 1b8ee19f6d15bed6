"""What a provider may answer: whatever it is, the agent gets a sound answer or a clear error, in time, and never a call
that was not judged.

The judge allows one call, `read_note` with `{"id": 4}`. Every answer here holds it, and one that is refused.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import pytest
import pytest_asyncio
from hypothesis import HealthCheck, given, settings, strategies as st

from tests.any_provider import AnyProvider
from tests.dialects.agents import AGENTS, SDK_FAULTS, Read
from tests.mutations import tampered
from tests.playbook import Answered
from tests.shelf import Shelf
from tests.siege import EACH, JSON, STREAM, Siege, assert_sound_error, besieged

pytestmark = pytest.mark.asyncio(loop_scope="module")

each_way = pytest.mark.parametrize(
    "stream", [pytest.param(False, id="whole"), pytest.param(True, id="streamed")]
)
MANY = settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
ALLOWED = ("read_note", {"id": 4})
MOST = 1 << 20


@dataclass
class Stage:
    """Between an agent and a provider."""

    siege: Siege
    provider: AnyProvider

    async def asks(self, dialect: str, *, stream: bool) -> Answered:
        got = await self.siege.asks(dialect, asked(dialect, stream=stream))
        await self.siege.is_unharmed()
        return got


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def stage(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Stage]:
    folder = tmp_path_factory.mktemp("siege")
    async with Shelf(folder) as shelf, AnyProvider() as provider:
        urls = {f"upstream__{name}__base_url": provider.url for name in ("openai_chat", "anthropic_messages")}
        async with besieged(shelf, folder, max_body_bytes=MOST, **urls) as siege:
            yield Stage(siege, provider)


def asked(dialect: str, *, stream: bool) -> bytes:
    """A request whose tools have schemas that fit the allowed call alone."""
    body = json.loads(AGENTS[dialect].request) | {"stream": stream}
    schema = {
        "type": "object",
        "properties": {"id": {"const": 4}},
        "required": ["id"],
        "additionalProperties": False,
    }
    for tool in body["tools"]:
        if "function" in tool:
            tool["function"]["parameters"] = schema
        else:
            tool["input_schema"] = schema
    return json.dumps(body).encode()


# --- what an agent makes of an answer ---


def assert_only_judged_calls(dialect: str, got: Answered, *, stream: bool) -> None:
    """C3, D5: neither the official SDK nor a careless client finds a call that may not be made."""
    agent = AGENTS[dialect]
    try:
        with warnings.catch_warnings(action="ignore"):  # the SDK is surprised, and reads on
            read: Read | None = (agent.reads_stream if stream else agent.reads_whole)(got.body)
    except SDK_FAULTS:
        read = None
    # A call without a name calls nothing.
    found = [] if read is None else [(name, arguments) for _, name, arguments in read.calls if name]
    assert all(call == ALLOWED for call in found), got.body
    assert set(careless(got.body, stream=stream)) <= {ALLOWED[0]}, got.body


def careless(body: bytes, *, stream: bool) -> list[str]:
    """The names of calls that a client finds which looks no closer than it must."""
    texts = [line[5:] for line in body.splitlines() if line.startswith(b"data:")] if stream else [body]
    names = []
    for text in texts:
        try:
            value = json.loads(text)
        except (ValueError, RecursionError):
            continue
        names += [name for name in _names(value) if isinstance(name, str) and name]
    return names


def _names(value: Any) -> list[Any]:
    choices, content = _at(value, "choices"), _at(value, "content") or _at(_at(value, "message"), "content")
    found = []
    for choice in choices if isinstance(choices, list) else []:
        for message in (_at(choice, "message"), _at(choice, "delta")):
            calls = _at(message, "tool_calls")
            found += [
                _at(_at(call, "function"), "name") for call in (calls if isinstance(calls, list) else [])
            ]
            found.append(_at(_at(message, "function_call"), "name"))
    blocks = [_at(value, "content_block"), *(content if isinstance(content, list) else [])]
    return found + [_at(block, "name") for block in blocks if _at(block, "type") == "tool_use"]


def _at(value: Any, key: str) -> Any:
    return value.get(key) if isinstance(value, dict) else None


def assert_sound(dialect: str, got: Answered, *, stream: bool) -> None:
    """An answer, a stream, or an error that says what is wrong with the provider."""
    if got.status != 200:
        assert got.status in {502, 504}, (got.status, got.body)
        assert_sound_error(dialect, got)
        return
    assert_only_judged_calls(dialect, got, stream=got.headers["content-type"].startswith(STREAM))


# --- tampered answers ---


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
