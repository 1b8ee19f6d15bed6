"""Every recorded exchange through a running Callgate: what nobody changes arrives byte for byte, and of a call that is
refused nothing arrives. Where the two differ from what was recorded, the list says which, how and why; a line of it
that is no longer needed is an error too.
"""

from __future__ import annotations

import json
import logging
import random
import re
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Iterable
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from proxy.demo import Answer
from proxy.dialects import DIALECTS
from tests.dialects import wire
from tests.dialects.agents import AGENTS
from tests.dialects.wire import Exchange
from tests.playbook import Answered
from tests.recorded import EACH, REFUSED, UNREADABLE, anywhere, asked, sdk, staged, tool_of, traces_left
from tests.shelf import Shelf

pytestmark = pytest.mark.asyncio(loop_scope="module")

BYTE_BY_BYTE = 40_000
"""So many bytes of streams, the smallest first, are written one byte at a time."""
FEW_SHORT_STREAMS = {"openai-responses": 9, "ollama": 1, "bedrock-converse": 9}
TEXT_BEHIND = {"bc-c54daff9"}
"""The model says more behind a call: where it is asked again, that goes with the call."""
ONE_HOP = {"transfer-encoding", "content-type", "cache-control"}
"""Headers that are not compared: of the connection alone, or told apart by the body."""
UNFIT = {
    "oc-78f04185": "3.8",
    # Tools without arguments, that are called with some.
    **dict.fromkeys(("ge-2d163c2c", "ge-976d6c46"), "input_file_0.wav"),
    **dict.fromkeys(("ge-2d744326", "ge-fe2e9fba"), "input_file_0.png"),
    **dict.fromkeys(("ge-38092773", "ge-6d9d27e9", "ge-f6f6f25a"), "input_file_0"),
    "ge-e90d0b32": '"all"',
}
"""A call whose arguments do not fit the tool's own schema, and the value that does not (C3): it is not released."""
WITHOUT_ID = {"oc-482c66a0": 1}
"""Calls that came without an id get one (C003)."""
SEVERAL = {"oc-12fbb3af", "oc-ce49e3c2"}
"""Several choices in one answer: there is no one turn that could be continued, so nothing goes back to the model."""
NUDGED = {
    "oc-10eb84c8": '[callgate] The same call to "dangerous_operation" gave the same result 2 times. '
    "Another one will not change it. Work with what you have, or say what is missing."
}
"""Runs that make no progress: this note is joined to their newest message (D9)."""
USAGE_UNASKED = {"oc-07735e6d": 1}
"""The provider reports usage to a client that did not ask for it. Callgate asked, so the frame is taken out (C019)."""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shelf(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Shelf]:
    async with Shelf(tmp_path_factory.mktemp("rules")) as shelf:
        yield shelf


# --- nothing changed ---


def without_usage_frames(body: bytes) -> bytes:
    """A stream less the frames that carry nothing but usage."""
    frames = re.findall(rb".*?(?:\r?\n){2}|.+\Z", body, re.DOTALL)
    return b"".join(
        frame
        for frame in frames
        if not (re.search(rb'"choices": ?\[\]', frame) and re.search(rb'"usage": ?\{', frame))
    )


def without_note(one: Exchange, arrived: bytes) -> bytes:
    """The request as it arrived, less the note that this one has to hold."""
    if one.id not in NUDGED:
        return arrived
    note = json.dumps("\n\n" + NUDGED[one.id])[1:-1].encode()
    assert arrived.count(note) == 1
    return arrived.replace(note, b"")


def arriving(dialect: str, sent: bytes) -> bytes:
    """The request as the provider has to get it: the very bytes, and at its end, where the client did not ask for
    usage, that one question (C019)."""
    request = json.loads(sent)
    options = request.get("stream_options") or {}
    if dialect != "openai-chat" or not request.get("stream") or options.get("include_usage"):
        return sent
    if "include_usage" in options:
        return sent.replace(b'"include_usage": false', b'"include_usage": true')
    return sent.removesuffix(b"}") + b',"stream_options":{"include_usage":true}}'


def difference(one: Exchange, got: Answered) -> str:
    """How the answer differs from the recorded one: the name of the list that permits it, or nothing."""
    if (got.status, got.body) == (one.status, one.answer):
        return ""
    if one.id in REFUSED or one.id in UNREADABLE:
        expected = (REFUSED | UNREADABLE)[one.id]
        assert got.status == (400 if one.id in REFUSED else 502)
        assert expected in got.json["error"]["message"]
        return "REFUSED" if one.id in REFUSED else "UNREADABLE"
    assert got.status == one.status
    if one.id in UNFIT:
        words = got.body.decode()
        assert not re.search('"(tool_calls|functionCall)":', words)
        assert "do not fit its schema" in words
        assert UNFIT[one.id] not in words
        return "UNFIT"
    if one.id in WITHOUT_ID:
        made = re.findall(rb'"id":"call_[0-9a-f]{24}"', got.body)
        assert len(made) == WITHOUT_ID[one.id]
        assert got.body.replace(made[0], b'"id":""') == one.answer
        return "WITHOUT_ID"
    assert one.id in USAGE_UNASKED
    assert got.body == without_usage_frames(one.answer)
    return "USAGE_UNASKED"


@EACH
async def test_every_recording_passes_byte_for_byte(
    dialect: str, shelf: Shelf, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """F1, A7: the provider gets the agent's bytes, the agent gets the provider's: answers, streams and errors."""
    ones = wire.every(dialect)
    async with staged(shelf, tmp_path, dialect, anywhere(random.Random(7))) as stage:
        got = await stage.all(ones, lambda one: asked(dialect, one))
        seen = stage.seen
        judged = await stage.play.decisions()
    different: dict[str, set[str]] = defaultdict(set)
    for one in ones:
        different[difference(one, got[one.id])].add(one.id)
        bodies = [without_note(one, arrived.body) for arrived in seen[one.id]]
        sent = [] if one.id in REFUSED else [arriving(dialect, asked(dialect, one))]
        assert bodies == sent, one.id
        assert_headers_arrived(one, got[one.id])
    known = {one.id for one in ones}
    assert all(different[name] == listed & known for name, listed in LISTS.items())
    assert any(one.status != 200 for one in ones)
    assert_all_judged(ones, judged)
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


LISTS = {
    "REFUSED": REFUSED.keys(),
    "UNREADABLE": UNREADABLE.keys(),
    "UNFIT": UNFIT.keys(),
    "WITHOUT_ID": WITHOUT_ID.keys(),
    "USAGE_UNASKED": USAGE_UNASKED.keys(),
}


def assert_headers_arrived(one: Exchange, got: Answered) -> None:
    """F1: request ids, rate limits and pauses are the provider's own."""
    if one.id not in UNREADABLE.keys() | REFUSED.keys():
        for name, value in one.headers:
            assert name in ONE_HOP or got.headers[name] == value, (one.id, name)


def assert_all_judged(ones: Iterable[Exchange], judged: list[dict[str, Any]]) -> None:
    """C10, C11: the calls that were judged are those that an independent reader found, of each tool as many."""
    expected = Counter(
        tool_of(one, call)
        for one in ones
        if one.status == 200 and one.id not in REFUSED.keys() | UNREADABLE.keys()
        for call in one.observed["tool_calls"]
    )
    assert Counter(call["tool"] for call in judged) == expected
    assert sum(call["outcome"] == "block" for call in judged) == sum(one.id in UNFIT for one in ones)


@EACH
async def test_streams_that_come_byte_by_byte_pass_too(dialect: str, shelf: Shelf, tmp_path: Path) -> None:
    """F1: where the network cuts makes no difference, also inside a character or an escape."""
    room = BYTE_BY_BYTE
    ones = []
    for one in sorted(wire.every(dialect), key=lambda one: len(one.answer)):
        if one.is_stream and one.id not in UNREADABLE.keys() | USAGE_UNASKED.keys() | REFUSED.keys():
            room -= len(one.answer)
            ones += [one] if room > 0 else []
    assert len(ones) >= FEW_SHORT_STREAMS.get(dialect, 31)
    async with staged(shelf, tmp_path, dialect, lambda one: range(1, len(one.answer))) as stage:
        got = await stage.all(ones, lambda one: asked(dialect, one))
        for one in ones:
            assert (got[one.id].status, got[one.id].body) == (one.status, one.answer), one.id


async def test_usage_that_the_agent_did_not_ask_for_is_not_shown(shelf: Shelf, tmp_path: Path) -> None:
    """C019: Callgate asks for it, and the stream is as if nobody had."""
    dialect = "openai-chat"
    ones = [
        one for one in wire.recorded(dialect) if one.is_stream and b'"include_usage": true' in one.request
    ]

    def quiet(one: Exchange) -> bytes:
        request = json.loads(one.request)
        del request["stream_options"]
        return json.dumps(request, ensure_ascii=False).encode()

    async with staged(shelf, tmp_path, dialect, anywhere(random.Random(8))) as stage:
        got = await stage.all(ones, quiet)
        seen = stage.seen
        hidden = 0
        for one in ones:
            assert [one.body for one in seen[one.id]] == [arriving(dialect, quiet(one))] != [quiet(one)]
            assert got[one.id].body == without_usage_frames(one.answer), one.id
            hidden += got[one.id].body != one.answer
    assert hidden > 20


# --- every call refused ---


def called(dialect: str) -> list[Exchange]:
    """All answers with calls that can be judged."""
    unjudged = REFUSED.keys() | UNREADABLE.keys()
    return [one for one in wire.recorded(dialect) if one.observed["tool_calls"] and one.id not in unjudged]


@EACH
async def test_of_refused_calls_nothing_arrives_and_the_sdk_reads_to_the_end(
    dialect: str, shelf: Shelf, tmp_path: Path
) -> None:
    """D1, D5: neither an id nor a stretch of the arguments, streamed or not, and the answer is a sound one."""
    ones = called(dialect)
    async with staged(
        shelf, tmp_path, dialect, anywhere(random.Random(9)), org={"allowed_tools": []}
    ) as stage:
        got = await stage.all(ones, lambda one: asked(dialect, one))
        judged = await stage.play.decisions()
    assert len(judged) == sum(len(one.observed["tool_calls"]) for one in ones)
    assert {call["outcome"] for call in judged} == {"block"}
    unread = [one.id for one in ones if not reads_without_calls(dialect, one, got[one.id])]
    assert len(unread) < len(ones) / (15 if AGENTS[dialect].is_strict else 20), unread


def reads_without_calls(dialect: str, one: Exchange, got: Answered, end: str = "") -> bool:
    """Checks what the agent got. False: the SDK could not read the recorded answer either."""
    assert got.status == 200, one.id
    assert traces_left(one, got) == [], one.id
    agent = AGENTS[dialect]
    judge = agent.reads_stream if one.is_stream else agent.reads_whole
    before = sdk(judge, one.answer)
    if before is None:
        return False
    after = judge(got.body)
    assert after.calls == (), one.id
    if not (end and one.id in TEXT_BEHIND):
        assert after.text.startswith(before.text.rstrip()), one.id
    assert after.text.endswith(end) if end else "[callgate]" in after.text, one.id
    return True


def assert_goes_on(one: Exchange, second: dict[str, Any]) -> None:
    """Where the provider keeps the history, the refusals go on from the answer that holds the calls, and nothing else."""
    answers = {call["id"] for call in one.observed["tool_calls"]}
    assert second["previous_response_id"] == json.loads(one.answer)["id"], one.id
    assert {item["call_id"] for item in second["input"]} == answers, one.id


@EACH
async def test_refused_calls_go_back_to_the_model_behind_all_that_was_said(
    dialect: str, shelf: Shelf, tmp_path: Path
) -> None:
    """A7, C2, C7, E12: one insertion, each call with its result, and the agent sees one answer, the last one's end."""
    ones = [one for one in called(dialect) if one.id not in SEVERAL]
    nothing_fits = {"arguments": {"never": {"one_of": ["x"]}}}
    tools = {tool_of(one, call): nothing_fits for one in ones for call in one.observed["tool_calls"]}
    cuts, end = anywhere(random.Random(10)), Answer("Sorry then.")
    async with staged(shelf, tmp_path, dialect, cuts, again=end, org={"tools": tools}) as stage:
        got = await stage.all(ones, lambda one: asked(dialect, one))
        seen = stage.seen
    read = next(known for known in DIALECTS if known.name == dialect).parse_request
    for one in ones:
        assert len(seen[one.id]) == 2, one.id
        first, second = (each.body for each in seen[one.id])
        if read(first).previous:
            assert_goes_on(one, json.loads(second))
            continue
        start = next(place for place, (a, b) in enumerate(zip(first, second, strict=False)) if a != b)
        is_text = isinstance(json.loads(first).get("input"), str)  # becomes an item between others
        # Where a program waits in the provider's container, the request has to name it.
        plain = re.sub(rb',"container":"container_\w+"}\Z', b"}", second)
        assert plain.endswith(first[start:]) or is_text, one.id
        before, after = read(first).messages, read(second).messages
        assert after[: len(before)] == before, one.id
        added = after[len(before) :]
        calls = [call.id for message in added for call in message.calls]
        assert calls == [result.call_id for message in added for result in message.results], one.id
        assert len(calls) == len(one.observed["tool_calls"]), one.id
    unread = [one.id for one in ones if not reads_without_calls(dialect, one, got[one.id], "Sorry then.")]
    assert len(unread) < len(ones) / (15 if AGENTS[dialect].is_strict else 20), unread
