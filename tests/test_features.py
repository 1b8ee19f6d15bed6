"""The README's table of features, played: every yes works, streamed and whole, and every no is one (C1, D15, F1)."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from proxy.core.messages import Malformed, ToolKind
from proxy.demo import Answer, Call
from proxy.dialects import DIALECTS, Dialect, RouteKind
from tests.dialects.agents import AGENTS, Read
from tests.dialects.speakers import SPEAKERS, Asked, Said
from tests.features import FEATURES, HOSTED, NO
from tests.playbook import RESPONSES, Answered, Play
from tests.shelf import Shelf

pytestmark = pytest.mark.asyncio(loop_scope="module")

RULES = {"org": {"allowed_tools": ["look_up"]}}
TOOLS = ("look_up", "erase")
ALLOWED, REFUSED = Call("look_up", {"id": "A1"}), Call("erase", {"id": "planted-B2"})
NAMES = {dialect.name: dialect for dialect in DIALECTS}

each_way = pytest.mark.parametrize(
    "stream", [pytest.param(False, id="whole"), pytest.param(True, id="streamed")]
)


def having(feature: str) -> pytest.MarkDecorator:
    """Every dialect that has it."""
    return pytest.mark.parametrize("name", [name for name in NAMES if (name, feature) not in NO])


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shelf(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Shelf]:
    async with Shelf(tmp_path_factory.mktemp("rules")) as shelf:
        yield shelf


async def ask(play: Play, name: str, *turns: Said, stream: bool) -> tuple[Answered, Read]:
    path, body = SPEAKERS[name].says(Asked(TOOLS, turns, stream=stream))
    got = await play.post(path, body)
    assert got.status == 200, got.body
    return got, (AGENTS[name].reads_stream if stream else AGENTS[name].reads_whole)(got.body)


async def test_the_table_is_about_what_there_is() -> None:
    assert {feature for _, feature in NO} <= FEATURES.keys()
    assert {name for name, _ in NO} <= NAMES.keys()


@having("streaming gate")
async def test_text_leaves_and_a_refused_call_does_not(name: str, shelf: Shelf, tmp_path: Path) -> None:
    """C3: not one byte of its arguments."""
    async with shelf.play(tmp_path, RULES, reask__per_turn=0) as play:
        play.provider.script(Answer("Well then.", calls=(REFUSED,)))
        got, read = await ask(play, name, stream=True)
    assert "Well then." in read.text
    assert read.calls == ()
    assert b"planted-B2" not in got.body


@having("re-ask")
@each_way
async def test_the_model_answers_again(name: str, stream: bool, shelf: Shelf, tmp_path: Path) -> None:
    """D5, C4."""
    async with shelf.play(tmp_path, RULES) as play:
        play.provider.script(Answer(calls=(REFUSED,)), Answer("Sorry then."))
        _, read = await ask(play, name, stream=stream)
        bodies = [seen.body for seen in play.provider.seen]
    assert (read.calls, len(bodies)) == ((), 2)
    assert "Sorry then." in read.text
    assert b"tool_not_allowed" in bodies[1]


@having("last answer")
@each_way
async def test_a_last_answer_comes(name: str, stream: bool, shelf: Shelf, tmp_path: Path) -> None:
    """B3: at the limit, told to the model in so many words."""
    async with shelf.play(tmp_path, RULES, limits__turn__rounds=1) as play:
        play.provider.script(Answer(calls=(ALLOWED,)), Answer("It is blue."))
        _, first = await ask(play, name, stream=stream)
        _, last = await ask(play, name, Said(first.calls, ("blue",)), stream=stream)
        told = play.provider.seen[1].body
    assert ([name for _, name, _ in first.calls], last.calls) == (["look_up"], ())
    assert "It is blue." in last.text
    assert b"No further tool calls" in told


@having("partial refusal")
@each_way
async def test_the_other_call_arrives(name: str, stream: bool, shelf: Shelf, tmp_path: Path) -> None:
    """C7, C10."""
    async with shelf.play(tmp_path, RULES) as play:
        play.provider.script(Answer(calls=(REFUSED, ALLOWED)), Answer("It is blue."))
        got, read = await ask(play, name, stream=stream)
        assert [(tool, arguments) for _, tool, arguments in read.calls] == [("look_up", {"id": "A1"})]
        assert b"planted-B2" not in got.body
        _, last = await ask(play, name, Said(read.calls, ("blue",)), stream=stream)
        assert [seen.refused for seen in play.provider.seen] == [None, None]
    assert "It is blue." in last.text


@having("stored state")
@each_way
async def test_what_the_provider_keeps_is_gone_on_from(
    name: str, stream: bool, shelf: Shelf, tmp_path: Path
) -> None:
    """C1: the provider has a result for every call, the refused one included, and what is fetched is judged."""
    dialect = NAMES[name]
    assert any(route.kind is RouteKind.KEPT for route in dialect.routes)
    async with shelf.play(tmp_path, RULES) as play:
        play.provider.script(Answer(calls=(REFUSED, ALLOWED)), Answer("It is blue."))
        path, body = SPEAKERS[name].says(Asked(TOOLS, stream=stream))
        first = await play.post(path, body | {"store": True})
        read = (AGENTS[name].reads_stream if stream else AGENTS[name].reads_whole)(first.body)
        async with play.http.get(f"{play.url}{RESPONSES}/{read.id}") as got:
            fetched = await got.read()
        assert (got.status, b"planted-B2" in fetched, b"look_up" in fetched) == (200, False, True)
        output = {"type": "function_call_output", "call_id": read.calls[0][0], "output": "blue"}
        follow: dict[str, Any] = {**body, "store": True, "previous_response_id": read.id, "input": [output]}
        last = await play.post(path, follow)
        assert [seen.refused for seen in play.provider.seen if seen.method == "POST"] == [None, None]
    assert last.status == 200
    assert b"It is blue." in last.body.replace(b'", "', b"") or stream


@pytest.mark.parametrize("name", [name for name in NAMES if (name, "stored state") in NO])
async def test_nothing_is_kept_where_the_table_says_so(name: str) -> None:
    dialect = NAMES[name]
    assert not any(route.kind is RouteKind.KEPT for route in dialect.routes)
    with pytest.raises(Malformed):
        dialect.parse_kept(AGENTS[name].whole)
    assert not parsed(dialect, {}).store


def parsed(dialect: Dialect, more: dict[str, Any]) -> Any:
    path, body = SPEAKERS[dialect.name].says(Asked(TOOLS))
    return dialect.parse_request(json.dumps(merged(body, more)).encode(), path)


def merged(body: dict[str, Any], more: dict[str, Any]) -> dict[str, Any]:
    """The body with more in it; lists and objects grow."""
    out = dict(body)
    for key, value in more.items():
        old = out.get(key)
        if isinstance(old, list):
            out[key] = [*old, *value]
        elif isinstance(old, dict):
            out[key] = merged(old, value)
        else:
            out[key] = value
    return out


@having("hosted tools")
@each_way
async def test_a_tool_of_the_provider_is_offered_only_where_it_may_be(
    name: str, stream: bool, shelf: Shelf, tmp_path: Path
) -> None:
    """D1, C022: hidden where it is not on the list, sent where it is."""
    more, word = HOSTED[name]
    (tool,) = [one.name for one in parsed(NAMES[name], more).tools if one.kind is ToolKind.HOSTED]
    path, body = SPEAKERS[name].says(Asked(TOOLS, stream=stream))
    for allowed in (False, True):
        rules = {"org": {"allowed_tools": ["look_up", *([tool] if allowed else [])]}}
        (folder := tmp_path / str(allowed)).mkdir()
        async with shelf.play(folder, rules) as play:
            play.provider.script(Answer("It is blue."))
            got = await play.post(path, merged(body, more))
            assert got.status == 200, got.body
            assert (word.encode() in play.provider.seen[0].body) == allowed
            decided: list[Any] = await play.records("decision")
            codes = [verdict["code"] for record in decided for verdict in record["verdicts"]]
            assert ("hosted_not_inspected" in codes, "tools_narrowed" in codes) == (allowed, True)


@pytest.mark.parametrize("name", [name for name in NAMES if (name, "hosted tools") in NO])
async def test_nothing_is_hosted_where_the_table_says_so(name: str) -> None:
    assert name not in HOSTED
    assert all(tool.kind is not ToolKind.HOSTED for tool in parsed(NAMES[name], {}).tools)
