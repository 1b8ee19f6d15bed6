"""Agents of compatible providers through a running Callgate: what is allowed arrives to the byte, what is refused goes
back to the model, whatever the provider's manners are. Streams are cut at every byte.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from proxy.demo import Answer, Raw
from tests.dialects.chat_agent import DONE, ending, opening, piece, pieces, sdk_reads, sdk_streams
from tests.dialects.compatible import COMPATIBLE, FOUR, Provider, entry, whole
from tests.playbook import CHAT
from tests.shelf import Shelf

pytestmark = [
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.filterwarnings("ignore:Pydantic serializer warnings"),  # of lists where the SDK expects text
]
NAMES = ("read_note", "drop", "now")
LEGACY = "the old functions"
EVENTS = {"content-type": "text/event-stream"}
EACH_WAY = pytest.mark.parametrize(
    "stream", [pytest.param(False, id="whole"), pytest.param(True, id="streamed")]
)
EACH = pytest.mark.parametrize("name", COMPATIBLE)
NULL = "cohere"
"""Writes `null` for no arguments, which is no object to any tool (C028): the model is told so."""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shelf(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Shelf]:
    async with Shelf(tmp_path_factory.mktemp("rules")) as shelf:
        yield shelf


def asked(name: str, *, stream: bool) -> dict[str, Any]:
    """What such an agent sends: a function, or a tool, of every name."""
    body: dict[str, Any] = {"model": "maple-1", "messages": [{"role": "user", "content": "Go."}]}
    if name == LEGACY:
        body["functions"] = [{"name": name, "parameters": {"type": "object"}} for name in NAMES]
    else:
        body["tools"] = [{"type": "function", "function": {"name": name}} for name in NAMES]
    return body | ({"stream": True, "stream_options": {"include_usage": True}} if stream else {})


def answered(provider: Provider, *, stream: bool) -> Raw:
    if stream:
        return Raw(provider.stream, headers=EVENTS, cuts=tuple(range(1, len(provider.stream))))
    return Raw(json.dumps(provider.whole).encode())


@EACH_WAY
@pytest.mark.parametrize("name", [name for name in COMPATIBLE if name != NULL])
async def test_what_is_allowed_arrives_to_the_byte(
    name: str, shelf: Shelf, tmp_path: Path, *, stream: bool
) -> None:
    """F1, A7: and every call was judged."""
    provider = COMPATIBLE[name]
    said = answered(provider, stream=stream)
    async with shelf.play(tmp_path) as play:
        play.provider.script(said)
        got = await play.post(CHAT, asked(name, stream=stream))
        decided = await play.decisions()
        seen = play.provider.seen
    assert [one["tool"] for one in decided] == [call[1] for call in provider.calls]
    assert {one["outcome"] for one in decided} <= {"allow"}
    assert [json.loads(one.body) for one in seen] == [asked(name, stream=stream)]
    if all(id_ for id_, _, _ in provider.calls) or name == LEGACY:
        assert (got.status, got.body) == (200, said.body)
    else:
        completion: Any = sdk_streams(got.body) if stream else sdk_reads(got.body)
        (call,) = completion.choices[0].message.tool_calls
        assert call.id.startswith("call_")


@EACH_WAY
@EACH
async def test_what_is_refused_goes_back_and_the_agent_gets_one_sound_answer(
    name: str, shelf: Shelf, tmp_path: Path, *, stream: bool
) -> None:
    """C2, C7, D5, E12: the provider, which is strict, takes what it gets; usage of both answers is told."""
    provider = COMPATIBLE[name]
    async with shelf.play(
        tmp_path, {"org": {"tools": {each: {"arguments": {"x": {"one_of": ["y"]}}} for each in NAMES}}}
    ) as play:
        play.provider.script(answered(provider, stream=stream), Answer("Sorry then."))
        got = await play.post(CHAT, asked(name, stream=stream))
        decided = await play.decisions()
        first, *again = (json.loads(one.body) for one in play.provider.seen)
        refused = [one.refused for one in play.provider.seen if one.refused]
        left = play.provider.left
    assert refused == []
    assert {one["outcome"] for one in decided} <= {"block"}
    completion = sdk_streams(got.body) if stream else sdk_reads(got.body)
    (choice,) = completion.choices
    assert not choice.message.tool_calls
    assert choice.finish_reason == "stop"
    assert b"read_note" not in got.body
    if not provider.calls:
        assert left == 1
        return
    assert got.body.count(b"Sorry then.") == 1 or stream
    (second,) = again
    asking, *results = second["messages"][len(first["messages"]) :]
    assert asking["role"] == "assistant"
    if name == LEGACY:
        assert asking["function_call"]["name"] == "read_note"
        assert [(one["role"], one["name"]) for one in results] == [("function", "read_note")]
    else:
        ids = [call["id"] for call in asking["tool_calls"]]
        assert [one["tool_call_id"] for one in results] == ids
        assert all(ids)
    if provider.usage and completion.usage:
        assert completion.usage.prompt_tokens == provider.usage.input_tokens + 200


@EACH_WAY
async def test_of_several_choices_each_keeps_what_it_may_call(
    shelf: Shelf, tmp_path: Path, *, stream: bool
) -> None:
    """n>1: both choices carry the same call id; there is no one turn that could go back to the model."""
    calls = ("read_note", "drop")
    if stream:
        body = b"".join(
            opening(number) + pieces(piece(0, FOUR, "c1", name), choice=number) + ending(choice=number)
            for number, name in enumerate(calls)
        )
        said = Raw(body + DONE, headers=EVENTS)
    else:
        choices = [
            {**whole({"tool_calls": [entry("c1", name)]})["choices"][0], "index": number}
            for number, name in enumerate(calls)
        ]
        said = Raw(json.dumps(whole({}, choices=choices)).encode())
    async with shelf.play(tmp_path, {"org": {"allowed_tools": ["read_note"]}}) as play:
        play.provider.script(said)
        got = await play.post(CHAT, asked("mistral", stream=stream) | {"n": 2})
        outcomes = [one["outcome"] for one in await play.decisions()]
        assert len(play.provider.seen) == 1
    assert outcomes == ["allow", "block"]
    completion: Any = sdk_streams(got.body) if stream else sdk_reads(got.body)
    kept, lost = completion.choices
    assert [(call.id, call.function.name) for call in kept.message.tool_calls] == [("c1", "read_note")]
    assert kept.finish_reason == "tool_calls"
    assert not lost.message.tool_calls
    assert lost.finish_reason == "stop"
    assert "[callgate]" in lost.message.content
