"""An agent and a judge that allows one call, `read_note` with `{"id": 4}`; every answer in tests holds it, and one that
is refused. Whatever the provider says, the agent finds no other call.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.any_provider import AnyProvider
from tests.dialects.agents import AGENTS, SDK_FAULTS, Read
from tests.playbook import Answered
from tests.shelf import Shelf
from tests.siege import STREAM, Siege, assert_sound_error, besieged

each_way = pytest.mark.parametrize(
    "stream", [pytest.param(False, id="whole"), pytest.param(True, id="streamed")]
)
ALLOWED = ("read_note", {"id": 4})
MOST = 1 << 20


@dataclass
class Stage:
    """Between an agent and a provider."""

    siege: Siege
    provider: AnyProvider

    def request(self, dialect: str, *, stream: bool) -> bytes:
        """What the agent asks."""
        return asked(dialect, stream=stream)

    async def asks(self, dialect: str, *, stream: bool) -> Answered:
        """What the agent gets; afterwards all is as before."""
        got = await self.siege.asks(dialect, asked(dialect, stream=stream))
        await self.siege.is_unharmed()
        return got


@asynccontextmanager
async def judging(folder: Path, **settings: Any) -> AsyncIterator[Stage]:
    """A Callgate whose provider may say anything."""
    async with Shelf(folder) as shelf, AnyProvider() as provider:
        urls = {f"upstream__{name}__base_url": provider.url for name in ("openai_chat", "anthropic_messages")}
        async with besieged(shelf, folder, max_body_bytes=MOST, **urls, **settings) as siege:
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
    assert set(careless(dialect, got.body, stream=stream)) <= {ALLOWED[0]}, got.body


def careless(dialect: str, body: bytes, *, stream: bool) -> list[str]:
    """The names of calls that a client finds which looks no closer than it must."""
    texts = [line[5:] for line in body.splitlines() if line.startswith(b"data:")] if stream else [body]
    names = []
    for text in texts:
        try:
            value = json.loads(text)
        except (ValueError, RecursionError):
            continue
        found = _chat_names(value) if dialect == "openai-chat" else _messages_names(value)
        names += [name for name in found if isinstance(name, str) and name]
    return names


def _chat_names(value: Any) -> list[Any]:
    choices = _at(value, "choices")
    found = []
    for choice in choices if isinstance(choices, list) else []:
        for message in (_at(choice, "message"), _at(choice, "delta")):
            calls = _at(message, "tool_calls")
            found += [
                _at(_at(call, "function"), "name") for call in (calls if isinstance(calls, list) else [])
            ]
            found.append(_at(_at(message, "function_call"), "name"))
    return found


def _messages_names(value: Any) -> list[Any]:
    content = _at(value, "content") or _at(_at(value, "message"), "content")
    blocks = [_at(value, "content_block"), *(content if isinstance(content, list) else [])]
    return [_at(block, "name") for block in blocks if _at(block, "type") == "tool_use"]


def _at(value: Any, key: str) -> Any:
    return value.get(key) if isinstance(value, dict) else None


def assert_sound(dialect: str, got: Answered, *, stream: bool) -> None:
    """An answer, a stream, or an error that says what is wrong with the provider."""
    if got.status != 200:
        assert got.status in {502, 504}, (got.status, got.body)
        assert_sound_error(dialect, got)
        return
    assert_only_judged_calls(dialect, got, stream=got.headers["content-type"].startswith(STREAM))
