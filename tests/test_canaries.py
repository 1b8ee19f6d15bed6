"""What is secret stays so: words that were planted in everything that comes in are looked for in everything that is
written down or told: logs, journal, spans, metrics, error bodies. None of them looks like a key, so that only what is
left out on purpose is left out.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from proxy.demo import Answer, Call, Raw, ScriptedProvider
from tests.playbook import Answered, Play
from tests.shelf import Shelf
from tests.span_tree import Told
from tests.wire_agent import WIRES, Wire, WireAgent

pytestmark = pytest.mark.asyncio(loop_scope="module")

each_wire = pytest.mark.parametrize("wire", [pytest.param(wire, id=wire.name) for wire in WIRES])
each_way = pytest.mark.parametrize(
    "stream", [pytest.param(False, id="whole"), pytest.param(True, id="streamed")]
)
OWN_KEY, KEY, UPSTREAM_KEY = "canary-key-of-callgate", "canary-key-of-caller", "canary-key-for-provider"
HEADER, COOKIE, QUERY = "canary-in-header", "canary-in-cookie", "canary-in-query"
SAID, SYSTEM, ANSWERED = "canary-said-by-user", "canary-in-system", "canary-said-by-model"
PASSWORD, TOKEN, TAIL = "canary-password", "canary-token", "canary-behind-the-summary"
PROVIDER = "canary-in-providers-error"
SHOWN = "canary-in-plain-argument"
EVERYTHING = (
    OWN_KEY,
    KEY,
    UPSTREAM_KEY,
    HEADER,
    COOKIE,
    QUERY,
    SAID,
    SYSTEM,
    ANSWERED,
    PASSWORD,
    TOKEN,
    TAIL,
    PROVIDER,
)

RULES: dict[str, Any] = {
    "org": {
        "denied_tools": ["refund"],
        "tools": {"search_policy": {"arguments": {"password": {"one_of": ["none"]}}}},
    }
}
SECRET = {"order_id": "A1", "password": PASSWORD, "nested": {"api_key": TOKEN}}
FOUND = json.dumps({"found": True, "token": TOKEN, "text": "." * 200 + TAIL})


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shelf(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Shelf]:
    async with Shelf(tmp_path_factory.mktemp("rules")) as shelf:
        yield shelf


@dataclass
class Stage:
    """A Callgate of which everything it writes and tells is kept."""

    play: Play
    told: Told
    log: pytest.LogCaptureFixture

    def agent(self, wire: Wire, *, stream: bool, **more: Any) -> WireAgent:
        system = {"system": SYSTEM} if wire.name == "messages" else {}
        headers = {"authorization": f"Bearer {OWN_KEY}", "x-own": HEADER, "cookie": f"session={COOKIE}"}
        agent = WireAgent(self.play, wire, stream=stream, more=system | more, headers=headers)
        if wire.name == "chat":
            agent.messages.append({"role": "system", "content": SYSTEM})
        return agent

    async def written(self) -> dict[str, str]:
        """All of it, by its kind."""
        await self.play.callgate.flush_audit()
        lines = [f"{record.getMessage()} {record.exc_text} {vars(record)}" for record in self.log.records]
        return {
            "log": "\n".join(lines),
            "journal": self.play.journal.read_text(),
            "telemetry": self.told.everything(),
        }

    async def assert_silent(self, *, also: Answered | None = None) -> None:
        """None of the planted words is anywhere; `also`: nor in this reply."""
        texts = await self.written() | ({} if also is None else {"reply": also.body.decode()})
        found = [(kind, word) for kind, text in texts.items() for word in EVERYTHING if word in text]
        assert found == []


@asynccontextmanager
async def staged(
    shelf: Shelf, folder: Path, log: pytest.LogCaptureFixture, **settings: Any
) -> AsyncIterator[Stage]:
    told = Told()
    digest = hashlib.sha256(OWN_KEY.encode()).hexdigest()
    key = {"hash": f"sha256:{digest}", "name": "one", "user": "ann", "roles": ["reader"]}
    chosen: dict[str, Any] = {"identity__api_keys": [key], "upstream__retries": 0, "reask__per_turn": 0}
    for dialect in ("openai_chat", "anthropic_messages"):
        chosen[f"upstream__{dialect}__credential"] = UPSTREAM_KEY
    log.set_level(logging.DEBUG)
    provider = ScriptedProvider(strict=False)
    async with shelf.play(
        folder, RULES, provider=provider, telemetry=told.telemetry, **chosen | settings
    ) as play:
        yield Stage(play, told, log)


@each_wire
@each_way
async def test_a_run_of_allowed_calls_tells_none_of_it(
    wire: Wire, stream: bool, shelf: Shelf, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """B4, F4: arguments and results stand in the journal as summaries, secrets taken out, and nowhere else."""
    async with staged(shelf, tmp_path, caplog) as stage:
        call = Call("get_order", SECRET | {"note": SHOWN})
        stage.play.provider.script(Answer(ANSWERED, calls=(call,)), Answer(ANSWERED))
        agent = stage.agent(wire, stream=stream)
        assert [call.name for call in (await agent.says(SAID)).calls] == ["get_order"]
        await agent.brings(FOUND)
        assert [
            seen.headers.get("authorization", seen.headers.get("x-api-key"))
            for seen in stage.play.provider.seen
        ] == [f"Bearer {UPSTREAM_KEY}" if wire.name == "chat" else UPSTREAM_KEY] * 2

        await stage.assert_silent()
        texts = await stage.written()
        assert SHOWN in texts["journal"], "the canaries are looked for where they would be found"
        assert SHOWN not in texts["log"] + texts["telemetry"]
        assert stage.told.spans


REFUSED = {
    "a tool that is denied": Call("refund", SECRET),
    "a tool that does not exist": Call("nothing", SECRET),
    "a value that is denied": Call("search_policy", SECRET),
    "a value of another kind": Call("get_order", SECRET | {"order_id": {"password": PASSWORD}}),
    "no JSON": Call("get_order", f'{{"order_id":"A1","password":"{PASSWORD}'),
    "JSON and more": Call("get_order", json.dumps(SECRET) + json.dumps(SECRET)),
    "the same key twice": Call("get_order", f'{{"password":"{PASSWORD}","password":"{PASSWORD}"}}'),
    "what cannot be judged": Call("get_order", SECRET | {"order_id": "\0"}),
}


@each_wire
@each_way
@pytest.mark.parametrize("what", REFUSED)
async def test_a_refusal_quotes_no_value(
    wire: Wire, stream: bool, what: str, shelf: Shelf, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """C3, D5: neither to the agent nor anywhere else."""
    call = REFUSED[what]
    if wire.name == "messages" and not stream and isinstance(call.arguments, str):
        call = REFUSED["a value of another kind"]  # a whole answer of this dialect holds an object or nothing
    async with staged(shelf, tmp_path, caplog) as stage:
        stage.play.provider.script(Answer("Well.", calls=(call,)))
        agent = stage.agent(wire, stream=stream)
        turn = await agent.says(SAID)
        assert turn.calls == ()
        assert "[callgate]" in turn.text
        await stage.assert_silent(also=agent.last)


def bodies(wire: Wire) -> Iterator[bytes]:
    """Requests that cannot be read."""
    asked = {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": SAID}]}
    good = json.dumps(asked).encode()
    yield good[:-1]
    yield good + SAID.encode()
    yield json.dumps(asked | {"messages": [SAID]}).encode()
    yield json.dumps(asked | {"messages": {"role": SAID}}).encode()
    yield json.dumps(asked | {"messages": [{"role": SAID, "content": SAID}]}).encode()
    yield json.dumps(asked | {"messages": [{"role": "user", "content": {SAID: SAID}}]}).encode()
    yield json.dumps(asked | {"tools": [SAID]}).encode()
    yield good[:-1] + b',"messages":["' + SAID.encode() + b'"]}'


@each_wire
async def test_an_error_quotes_nothing_of_what_came(
    wire: Wire, shelf: Shelf, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """C4: it says what is wrong and where, not what stands there."""
    async with staged(shelf, tmp_path, caplog) as stage:
        headers = {"authorization": f"Bearer {OWN_KEY}", "x-own": HEADER}
        for body in bodies(wire):
            got = await stage.play.post(wire.path, body, headers)
            assert got.status == 400
            await stage.assert_silent(also=got)
        for path in (f"{wire.path}/more?key={QUERY}", f"/v1/elsewhere?key={QUERY}", f"/v1/../x?key={QUERY}"):
            got = await stage.play.post(path, b"{}", headers)
            assert got.status == 404
            await stage.assert_silent(also=got)
        got = await stage.play.post(f"/v1/files?key={QUERY}", b"{}", headers)
        assert got.status == 403
        await stage.assert_silent(also=got)
        assert stage.play.provider.seen == []


@each_wire
@each_way
async def test_a_query_is_for_the_provider_alone(
    wire: Wire, stream: bool, shelf: Shelf, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """F4: some providers take keys there, under names that nobody here knows."""
    async with staged(shelf, tmp_path, caplog) as stage:
        stage.play.provider.script(Answer("Well."))
        agent = stage.agent(wire, stream=stream)
        agent.messages.append({"role": "user", "content": SAID})
        got = await stage.play.post(f"{wire.path}?session={QUERY}", agent.body(), agent.headers)
        assert got.status == 200
        assert stage.play.provider.seen[0].path.endswith(f"?session={QUERY}")
        await stage.assert_silent(also=got)


@each_wire
@each_way
async def test_what_a_provider_says_when_it_fails_is_told_to_the_agent_alone(
    wire: Wire, stream: bool, shelf: Shelf, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """C4, F4: it may quote the key that it did not like."""
    error = json.dumps({"type": "error", "error": {"type": "api_error", "message": PROVIDER}})
    events = {"content-type": "text/event-stream"}
    passed_on = [Raw(error.encode(), 401), Raw(error.encode(), 503, {"retry-after": "60", "x-own": PROVIDER})]
    replaced = [Raw(PROVIDER.encode()), Raw(f'{{"{PROVIDER}":1}}'.encode())]
    if stream:
        passed_on.append(Raw(f"event: error\ndata: {error}\n\n".encode(), headers=events))
        replaced.append(Raw(f"data: {{{PROVIDER}\n\n".encode(), headers=events))
    async with staged(shelf, tmp_path, caplog) as stage:
        for answer in passed_on + replaced:
            stage.play.provider.script(answer)
            agent = stage.agent(wire, stream=stream)
            agent.messages.append({"role": "user", "content": SAID})
            got = await stage.play.post(wire.path, agent.body(), agent.headers)
            assert (PROVIDER in got.body.decode()) == (answer in passed_on)
            await stage.assert_silent(also=None if answer in passed_on else got)


async def test_a_caller_who_is_refused_is_not_quoted(
    shelf: Shelf, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """F2: a mistyped key is a key."""
    async with staged(shelf, tmp_path, caplog, identity__anonymous="refuse") as stage:
        for wire in WIRES:
            for headers in (
                {"authorization": f"Bearer {KEY}"},
                {"x-api-key": KEY},
                {"authorization": KEY},
                {"authorization": f"Basic {KEY}"},
                {"authorization": f"Bearer {KEY}\u00e9"},
                {"authorization": f"Bearer {KEY}", "x-api-key": KEY * 300},
            ):
                got = await stage.play.post(wire.path, b"{}", headers)
                assert got.status == 401
                await stage.assert_silent(also=got)
