"""Final answers are checked: flagged, or held and asked for again, in every dialect, streamed or not (E15)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from proxy.core.runs import Identity
from proxy.demo import Answer, Call, Raw
from proxy.dialects import DIALECTS
from tests.dialects.agents import AGENTS, Read
from tests.dialects.speakers import SPEAKERS, Asked, Said
from tests.playbook import CHAT, Answered, Play, play
from tests.shelf import Shelf

pytestmark = pytest.mark.asyncio(loop_scope="module")

RULES = {
    "org": {
        "answers": {
            "orders": {"ids": "[A-Z][0-9]+"},
            "refunds": {"claims": "refunded", "only_after": ["refund"]},
        }
    }
}
READ = Said((("call_1", "look_up", {"id": "A1"}),), ('{"id": "A1", "next": "B7"}',))
GOOD, BAD = Answer("Orders A1 and B7 are on their way."), Answer("Order C9 is on its way.")
HOLD: dict[str, Any] = {"answers__hold": True}
both = pytest.mark.parametrize("stream", [pytest.param(False, id="whole"), pytest.param(True, id="streamed")])
each_dialect = pytest.mark.parametrize("dialect", [dialect.name for dialect in DIALECTS])


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def shelf(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Shelf]:
    """Policies that stay open for all tests of this file."""
    async with Shelf(tmp_path_factory.mktemp("shelf")) as shelf:
        yield shelf


async def ask(stage: Play, dialect: str, *, stream: bool) -> tuple[Answered, Read]:
    """The agent comes with a result and gets its final answer."""
    path, body = SPEAKERS[dialect].says(Asked(("look_up",), (READ,), stream=stream))
    got = await stage.post(path, body)
    agent = AGENTS[dialect]
    return got, (agent.reads_stream if stream else agent.reads_whole)(got.body)


async def objections(stage: Play) -> list[list[str]]:
    """The codes that were said about each final answer."""
    decisions = await stage.records("decision")
    return [
        [verdict["code"] for verdict in record["verdicts"]]
        for record in decisions
        if record["kind"] == "decision" and record["phase"] == "answer"
    ]


@both
@each_dialect
async def test_an_answer_is_flagged_where_text_leaves_at_once(
    shelf: Shelf, tmp_path: Path, dialect: str, *, stream: bool
) -> None:
    """E15: what it names was never read; the text is the provider's own."""
    async with shelf.play(tmp_path, RULES) as stage:
        stage.provider.script(BAD)
        got, read = await ask(stage, dialect, stream=stream)

        assert read.text == BAD.text
        assert await objections(stage) == [["evidence_missing"]]
        assert got.headers.get("x-callgate-answer") == (None if stream else "flagged; code=evidence_missing")
        (end,) = await stage.records("run_end")
        assert end["kind"] == "run_end"
        assert (end["outcome"], end["detail"]) == ("completed", "evidence_missing")


@both
@each_dialect
async def test_an_answer_that_is_held_is_asked_for_again_once(
    shelf: Shelf, tmp_path: Path, dialect: str, *, stream: bool
) -> None:
    """E15: the agent sees nothing of the first one, the model is told why, and both rounds are paid."""
    async with shelf.play(tmp_path, RULES, **HOLD) as stage:
        stage.provider.script(BAD, GOOD)
        got, read = await ask(stage, dialect, stream=stream)

        assert read.text == GOOD.text
        assert b"Order C9" not in got.body
        first, second = stage.provider.seen[-2:]
        assert b"Order C9" not in first.body
        assert b"Order C9 is on its way." in second.body
        assert b"Nothing in this conversation shows C9" in second.body
        assert await objections(stage) == [["evidence_missing"]]
        (end,) = await stage.records("run_end")
        assert end["kind"] == "run_end"
        assert (end["outcome"], end["detail"]) == ("completed", "")
        assert end["spent"]["output_tokens"] == 60


@both
@each_dialect
async def test_an_answer_that_stays_wrong_leaves_flagged_or_is_replaced(
    shelf: Shelf, tmp_path: Path, dialect: str, *, stream: bool
) -> None:
    """E15: as configured."""
    async with shelf.play(tmp_path, RULES, **HOLD) as stage:
        stage.provider.script(BAD, BAD)
        _, read = await ask(stage, dialect, stream=stream)
        assert read.text == BAD.text
        assert await objections(stage) == [["evidence_missing"]] * 2

    (tmp_path / "other").mkdir()
    async with shelf.play(tmp_path / "other", RULES, **HOLD, answers__after="refuse") as stage:
        stage.provider.script(BAD, BAD)
        got, read = await ask(stage, dialect, stream=stream)

        assert b"C9 is on" not in got.body
        assert "Nothing in this conversation shows C9" in read.text
        (end,) = await stage.records("run_end")
        assert end["kind"] == "run_end"
        assert (end["outcome"], end["detail"]) == ("denied", "evidence_missing")


@both
@each_dialect
async def test_a_good_answer_is_the_provider_s_own_bytes(
    shelf: Shelf, tmp_path: Path, dialect: str, *, stream: bool
) -> None:
    """E15: held or not, what is not objected to is not changed, and one request is made."""
    bodies = []
    for place, settings in enumerate(({}, HOLD)):
        folder = tmp_path / str(place)
        folder.mkdir()
        async with shelf.play(folder, RULES, **settings) as stage:
            stage.provider.script(GOOD)
            got, read = await ask(stage, dialect, stream=stream)
            assert read.text == GOOD.text
            assert len(stage.provider.seen) == 1
            assert await objections(stage) == []
            assert "x-callgate-answer" not in got.headers
            bodies.append(len(got.body))

    assert bodies[0] == bodies[1]


@both
async def test_calls_are_judged_as_calls_also_where_answers_are_held(
    shelf: Shelf, tmp_path: Path, *, stream: bool
) -> None:
    """C10: text before a call is no final answer."""
    async with shelf.play(tmp_path, RULES, **HOLD) as stage:
        stage.provider.script(Answer("C9 next.", calls=(Call("look_up", {"id": "A2"}),)))
        _, read = await ask(stage, "openai-chat", stream=stream)

        assert read.text == "C9 next."
        assert [name for _, name, _ in read.calls] == ["look_up"]
        assert await objections(stage) == []


@both
async def test_a_claim_needs_its_tool(shelf: Shelf, tmp_path: Path, *, stream: bool) -> None:
    """E15: a required fact is there."""
    async with shelf.play(tmp_path, RULES) as stage:
        stage.provider.script(Answer("It was refunded."))
        await ask(stage, "anthropic-messages", stream=stream)

        assert await objections(stage) == [["answer_unfounded"]]


async def test_a_layer_s_own_rego_may_object(tmp_path: Path) -> None:
    """E15, F2: over the text and the run."""
    folder = tmp_path / "mine" / "callgate" / "org"
    folder.mkdir(parents=True)
    (folder / "mine.rego").write_text(
        "package callgate.org\n\n"
        'deny contains {"code": "too_short", "message": "Say more."} if {\n'
        '\tinput.phase == "answer"\n\tcount(input.answer.text) < 5\n}\n'
    )
    settings: dict[str, Any] = {"policy__folders": [str(tmp_path / "mine")]}
    async with play(tmp_path, **settings, **HOLD) as stage:
        stage.provider.script(Answer("No."), Answer("No, it is not there."))
        got, read = await ask(stage, "openai-chat", stream=False)

        assert read.text == "No, it is not there."
        assert await objections(stage) == [["too_short"]]
        assert got.json["usage"]["completion_tokens"] == 60


async def test_nothing_is_asked_where_nobody_speaks_of_answers(shelf: Shelf, tmp_path: Path) -> None:
    """Design 4: cost grows with what is new."""
    policies = await shelf.policies({})
    held = policies.hold()
    try:
        assert not held.judges_answers(Identity())
    finally:
        held.let_go()


async def test_a_stream_that_breaks_off_while_its_answer_is_held_lets_nothing_out(
    shelf: Shelf, tmp_path: Path
) -> None:
    """E15: what was not judged does not leave."""
    head = b'data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":'
    text = head + b'{"role":"assistant","content":"Order C9"},"finish_reason":null}]}\n\n'
    async with shelf.play(tmp_path, RULES, **HOLD) as stage:
        stage.provider.script(Raw(text, headers={"content-type": "text/event-stream"}))
        body = {"model": "m", "messages": [{"role": "user", "content": "Hi"}], "stream": True}
        got = await stage.post(CHAT, body)

        assert b"Order C9" not in got.body
        assert b"could be checked" in got.body
