"""Every recorded exchange through a running Callgate: what nobody changes arrives byte for byte, and of a call that is
refused nothing arrives. Where the two differ from what was recorded, the list says which, how and why; a line of it
that is no longer needed is an error too.
"""

from __future__ import annotations

import asyncio
import json
import logging
import random
import re
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from proxy.demo import Raw, ScriptedProvider, Seen
from proxy.stores.memory import MemoryStore
from tests.dialects import wire
from tests.dialects.agents import AGENTS, SDK_FAULTS, Read
from tests.dialects.wire import Exchange
from tests.playbook import CHAT, MESSAGES, Answered, Play
from tests.shelf import Shelf

pytestmark = pytest.mark.asyncio(loop_scope="module")

PATHS = {"openai-chat": CHAT, "anthropic-messages": MESSAGES}
EACH = pytest.mark.parametrize("dialect", PATHS)
NAME = "x-recording"
AT_ONCE = 8
BYTE_BY_BYTE = 40_000
"""So many bytes of streams, the smallest first, are written one byte at a time."""
ONE_HOP = {"transfer-encoding", "content-type", "cache-control"}
"""Headers that are not compared: of the connection alone, or told apart by the body."""
NO_CUT = 12
"""Shorter stretches of arguments occur anywhere."""

REFUSED = {
    "am-0e6a402d": "messages[0]: an object is required",  # its provider refused it too
    "am-3b4e14b4": "no call before it has this id",  # a result of a call that was never made (A3, E1)
    "am-92157c36": "no call before it has this id",
}
"""Requests that are no sound ones: status 400 with these words, and the provider sees nothing of them."""
UNREADABLE = {
    "oc-11997f59": "the answer holds no choices",  # status 200, but no chat at all
    "oc-7a222433": "the answer is not valid JSON",
    "oc-ef88da4d": "the answer is not valid JSON",  # an event stream that is called JSON
    "oc-f82d92ea": "the answer is not valid JSON",
}
"""Answers that cannot be judged: status 502 with these words (fail closed)."""
UNFIT = {"oc-78f04185": "3.8"}
"""A call whose arguments do not fit the tool's own schema, and the value that does not (C3): it is not released."""
WITHOUT_ID = {"oc-482c66a0": 1}
"""Calls that came without an id get one (C003)."""
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


# --- the agent and the provider of a recording ---


def asked(dialect: str, one: Exchange) -> bytes:
    """The recorded request; where none was recorded, one that such an answer may follow."""
    if one.request:
        return one.request
    names = dict.fromkeys(call["name"] for call in one.observed["tool_calls"])
    body: dict[str, Any] = {"model": "m", "messages": [{"role": "user", "content": "Go."}]}
    if dialect == "openai-chat":
        body["tools"] = [{"type": "function", "function": {"name": name}} for name in names]
        body |= {"stream": True, "stream_options": {"include_usage": True}} if one.is_stream else {}
    else:
        body["tools"] = [{"name": name, "input_schema": {"type": "object"}} for name in names]
        body |= {"max_tokens": 100, "stream": one.is_stream}
    return json.dumps(body).encode()


def answer_of(one: Exchange, cuts: Iterable[int]) -> Raw:
    """The recorded answer, cut so."""
    kind = "text/event-stream" if one.is_stream else "application/json"
    headers = {name: value for name, value in one.headers if name != "transfer-encoding"}
    return Raw(one.answer, one.status, {"content-type": kind} | headers, tuple(cuts))


def anywhere(chance: random.Random) -> Callable[[Exchange], list[int]]:
    """Cuts of the network at a few random places."""
    return lambda one: chance.sample(range(len(one.answer)), min(12, len(one.answer)))


class Stage:
    """A Callgate in front of a provider that answers each agent with its recording."""

    def __init__(self, dialect: str, play: Play, answers: Mapping[str, Raw]) -> None:
        self.dialect = dialect
        self.play = play
        self.answers = answers

    async def all(self, ones: Iterable[Exchange], body: Callable[[Exchange], bytes]) -> dict[str, Answered]:
        """What the agents got, by recording. Each is a caller of its own."""
        free = asyncio.Semaphore(AT_ONCE)
        found: dict[str, Answered] = {}

        async def ask(one: Exchange) -> None:
            async with free, asyncio.timeout(30):
                headers = {NAME: one.id, "authorization": f"Bearer key-of-{one.id}"}
                found[one.id] = await self.play.post(PATHS[self.dialect], body(one), headers)

        await asyncio.gather(*map(ask, ones))
        return found

    @property
    def seen(self) -> dict[str, Seen]:
        """What the provider got, by recording; each at most once."""
        seen = self.play.provider.seen
        found = {one.headers[NAME]: one for one in seen}
        assert len(found) == len(seen)
        return found

    def assert_settled(self) -> None:
        store: Any = self.play.callgate.parts.ledger._store
        memory = getattr(store, "_store", store)
        assert isinstance(memory, MemoryStore)
        assert not memory._reserved


@asynccontextmanager
async def staged(
    shelf: Shelf,
    tmp_path: Path,
    dialect: str,
    cuts: Callable[[Exchange], Iterable[int]],
    **rules: object,
) -> AsyncIterator[Stage]:
    answers = {one.id: answer_of(one, cuts(one)) for one in wire.every(dialect)}
    provider = ScriptedProvider(strict=False)
    provider.respond(lambda seen: answers[seen.headers[NAME]])
    await shelf.policies(rules)
    before = asyncio.all_tasks()
    settings = {"reask__per_turn": 0, "upstream__retries": 0}
    async with shelf.play(tmp_path, rules, provider=provider, **settings) as play:
        stage = Stage(dialect, play, answers)
        yield stage
        stage.assert_settled()
    assert asyncio.all_tasks() == before


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
        message = got.json["choices"][0]["message"]
        assert "tool_calls" not in message
        assert "do not fit its schema" in message["content"]
        assert UNFIT[one.id] not in message["content"]
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
        assert (one.id in seen) == (one.id not in REFUSED), one.id
        if one.id in seen:
            arrived = without_note(one, seen[one.id].body)
            assert arrived == arriving(dialect, asked(dialect, one)), one.id
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
    if one.id not in UNREADABLE:
        for name, value in one.headers:
            assert name in ONE_HOP or got.headers[name] == value, (one.id, name)


def assert_all_judged(ones: Iterable[Exchange], judged: list[dict[str, Any]]) -> None:
    """C10, C11: the calls that were judged are those that an independent reader found, of each tool as many."""
    expected = Counter(
        call["name"]
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
    assert len(ones) > 30
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
            assert seen[one.id].body == arriving(dialect, quiet(one)) != quiet(one)
            assert got[one.id].body == without_usage_frames(one.answer), one.id
            hidden += got[one.id].body != one.answer
    assert hidden > 20


# --- every call refused ---


def told_beside(one: Exchange) -> str:
    """The recorded answer without its calls: what a model writes in its text it may also have written in a call."""

    def plain(value: Any) -> Any:
        if isinstance(value, list):
            return [plain(part) for part in value if not is_call(part)]
        if isinstance(value, dict):
            return {
                key: plain(part)
                for key, part in value.items()
                if key not in {"tool_calls", "function_call", "partial_json"}
            }
        return value

    def is_call(part: Any) -> bool:
        return isinstance(part, dict) and part.get("type") == "tool_use"

    if one.is_stream:
        lines = [line[5:].strip() for line in one.answer.decode().splitlines() if line.startswith("data:")]
        said = [plain(json.loads(line)) for line in lines if line[:1] == "{"]
    else:
        said = [plain(json.loads(one.answer))]
    # The refusal names the tool, in quotes.
    said += [f'"{call["name"]}"' for call in one.observed["tool_calls"]]
    return "\n".join(json.dumps(part, ensure_ascii=False) for part in said)


def pieces_of(one: Exchange) -> set[str]:
    """Ids, and every stretch of the arguments, as it may stand in JSON text."""
    found = set()
    for call in one.observed["tool_calls"]:
        found |= {call["id"]} if len(call["id"] or "") >= 8 else set()
        arguments = call["arguments"]
        text = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
        for spelled in {text, json.dumps(text, ensure_ascii=False)[1:-1]}:
            found |= {spelled[at : at + NO_CUT] for at in range(len(spelled) - NO_CUT + 1)}
    return found


def sdk(judge: Callable[[bytes], Read], body: bytes) -> Read | None:
    """What the SDK reads; None where it cannot read the provider's own answer."""
    try:
        return judge(body)
    except SDK_FAULTS:
        return None


@EACH
async def test_of_refused_calls_nothing_arrives_and_the_sdk_reads_to_the_end(
    dialect: str, shelf: Shelf, tmp_path: Path
) -> None:
    """D1, D5: neither an id nor a stretch of the arguments, streamed or not, and the answer is a sound one."""
    ones = [
        one
        for one in wire.recorded(dialect)
        if one.observed["tool_calls"] and one.id not in REFUSED.keys() | UNREADABLE.keys()
    ]
    async with staged(
        shelf, tmp_path, dialect, anywhere(random.Random(9)), org={"allowed_tools": []}
    ) as stage:
        got = await stage.all(ones, lambda one: asked(dialect, one))
        judged = await stage.play.decisions()
    assert len(judged) == sum(len(one.observed["tool_calls"]) for one in ones)
    assert {call["outcome"] for call in judged} == {"block"}
    unread = [one.id for one in ones if not reads_without_calls(dialect, one, got[one.id])]
    assert len(unread) < len(ones) / 20, unread


def reads_without_calls(dialect: str, one: Exchange, got: Answered) -> bool:
    """Checks what the agent got. False: the SDK could not read the recorded answer either."""
    assert got.status == 200, one.id
    beside = told_beside(one)
    left = [piece for piece in pieces_of(one) if piece in got.body.decode() and piece not in beside]
    assert left == [], one.id
    agent = AGENTS[dialect]
    judge = agent.reads_stream if one.is_stream else agent.reads_whole
    before = sdk(judge, one.answer)
    if before is None:
        return False
    after = judge(got.body)
    assert after.calls == (), one.id
    assert "[callgate]" in after.text, one.id
    assert after.text.startswith(before.text.rstrip()), one.id
    return True
