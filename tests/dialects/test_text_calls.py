"""Calls in text, in every dialect, streamed or not: judged, held, refused and cut off like native ones (C5, C6, promise 3).

Each is played through a running Callgate; the official SDK of the dialect says what the agent got.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from proxy.demo import Answer, Call
from proxy.dialects import DIALECTS
from tests.dialects.agents import AGENTS, Read
from tests.dialects.speakers import SPEAKERS, Asked
from tests.playbook import Play
from tests.shelf import Shelf

pytestmark = pytest.mark.asyncio(loop_scope="module")

RULES = {"org": {"denied_tools": ["cancel"]}}
REACT = [{"name": "react"}]
TOOLS = ("look_up", "cancel")
ALLOWED = "Well, I look.\nAction: look_up\nAction Input: A1"
REFUSED = "Well, I cancel.\nAction: cancel\nAction Input: A1"
FINAL = "Thought: done\nFinal Answer: It is blue."

each_dialect = pytest.mark.parametrize("dialect", [dialect.name for dialect in DIALECTS])
each_way = pytest.mark.parametrize(
    "stream", [pytest.param(False, id="whole"), pytest.param(True, id="streamed")]
)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shelf(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Shelf]:
    async with Shelf(tmp_path_factory.mktemp("rules")) as shelf:
        yield shelf


async def asked(play: Play, dialect: str, *answers: Answer, stream: bool) -> tuple[bytes, Read]:
    """One request of an agent, and what it gets."""
    play.provider.script(*answers)
    path, body = SPEAKERS[dialect].says(Asked(TOOLS, stream=stream))
    got = await play.post(path, body)
    assert got.status == 200, got.body
    assert [seen.refused for seen in play.provider.seen if seen.refused] == []
    agent = AGENTS[dialect]
    return got.body, (agent.reads_stream if stream else agent.reads_whole)(got.body)


@each_dialect
@each_way
async def test_an_allowed_call_passes_byte_for_byte(
    dialect: str, shelf: Shelf, tmp_path: Path, *, stream: bool
) -> None:
    """Promise 1: what the agent gets is what the provider sent, and the call is on record."""
    async with shelf.play(tmp_path, RULES, channels=REACT) as play:
        body, _ = await asked(play, dialect, Answer(ALLOWED), stream=stream)
        (decision,) = await play.decisions()
    (tmp_path / "plain").mkdir()
    async with shelf.play(tmp_path / "plain", RULES) as play:
        assert (await asked(play, dialect, Answer(ALLOWED), stream=stream))[0] == body
    assert (decision["tool"], decision["outcome"]) == ("look_up", "allow")


@each_dialect
@each_way
async def test_a_refused_call_is_asked_again(
    dialect: str, shelf: Shelf, tmp_path: Path, *, stream: bool
) -> None:
    """C5, D5: in its own form, and the agent reads the answer to that."""
    async with shelf.play(tmp_path, RULES, channels=REACT) as play:
        _, read = await asked(play, dialect, Answer(REFUSED), Answer(FINAL), stream=stream)
        again = play.provider.seen[1].body.decode()
    assert read.text.endswith(FINAL)
    assert "Action" not in read.text
    assert "Action: cancel" in again
    assert "Observation: [callgate]" in again


@each_dialect
@each_way
async def test_a_denied_call_is_taken_out(
    dialect: str, shelf: Shelf, tmp_path: Path, *, stream: bool
) -> None:
    """D5, E14: what is said instead is read as a final answer."""
    async with shelf.play(tmp_path, RULES, channels=REACT, reask__per_turn=0) as play:
        _, read = await asked(play, dialect, Answer(f"{REFUSED}\nObservation: done"), stream=stream)
    assert "Action" not in read.text
    assert "Observation" not in read.text
    assert "Final Answer: " in read.text
    assert "callgate" in read.text


@each_dialect
@each_way
async def test_what_the_model_made_up_is_cut_off(
    dialect: str, shelf: Shelf, tmp_path: Path, *, stream: bool
) -> None:
    """C6."""
    made_up = f"{ALLOWED}\nObservation: it is red\nThought: fine\nFinal Answer: red"
    async with shelf.play(tmp_path, RULES, channels=REACT) as play:
        _, read = await asked(play, dialect, Answer(made_up), stream=stream)
    assert read.text == f"{ALLOWED}\n"


@each_dialect
@each_way
async def test_native_calls_beside_it_are_judged_for_themselves(
    dialect: str, shelf: Shelf, tmp_path: Path, *, stream: bool
) -> None:
    """C5, C10: one of both kinds is refused, the other stays."""
    native, denied = Call("look_up", {"id": "A1"}), Call("cancel", {"id": "A1"})
    async with shelf.play(tmp_path, RULES, channels=REACT, reask__per_turn=0) as play:
        _, read = await asked(play, dialect, Answer(REFUSED, calls=(native,)), stream=stream)
        assert [name for _, name, _ in read.calls] == ["look_up"]
        assert "Action: cancel" not in read.text
        _, read = await asked(play, dialect, Answer(ALLOWED, calls=(denied,)), stream=stream)
        assert read.calls == ()
        assert "Action: look_up" in read.text
        _, read = await asked(play, dialect, Answer(REFUSED, calls=(denied, native)), stream=stream)
        assert [name for _, name, _ in read.calls] == ["look_up"]
        assert "Action" not in read.text
        assert read.text.startswith("Well, I cancel.\n")
        _, read = await asked(play, dialect, Answer(REFUSED, calls=(denied,)), stream=stream)
        assert read.calls == ()
        assert "Action: cancel" not in read.text
        assert read.text.count("[callgate]") == 1
