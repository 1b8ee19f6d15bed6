"""Drop-in (F1) for agents that call tools in text: LangChain's ReAct and JSON agents and smolagents' code agent (C5, E14)."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from proxy.demo import Answer, ScriptedProvider
from tests.agents import Shop
from tests.agents.text_agents import run_code, run_json, run_react
from tests.shelf import Shelf
from tests.test_sdks import taken

pytestmark = [
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.filterwarnings(
        "ignore::DeprecationWarning", "ignore::ResourceWarning", "ignore::UserWarning"
    ),
]
TASK = "Where is my order A1?"
REACT: list[dict[str, Any]] = [{"name": "react"}]
CODE: list[dict[str, Any]] = [{"name": "fences", "code_tool": "python"}]
JSON: list[dict[str, Any]] = [{"name": "structured", "final": "Final Answer"}]
NO_REFUND = {"org": {"denied_tools": ["refund"]}}
NO_REFUND_IN_CODE = {"org": {"tools": {"python": {"arguments": {"code": {"not_contains": "refund("}}}}}}

each_way = pytest.mark.parametrize(
    "stream", [pytest.param(False, id="whole"), pytest.param(True, id="streamed")]
)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shelf(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Shelf]:
    async with Shelf(tmp_path_factory.mktemp("rules")) as shelf:
        yield shelf


def acts(tool: str, order: str = "A1") -> Answer:
    return Answer(f" I look.\nAction: {tool}\nAction Input: {order}")


def codes(code: str) -> Answer:
    return Answer(f"Thought: I look.\n<code>\n{code}\n</code>")


FINAL = Answer(" I know.\nFinal Answer: It is on its way.")
FINAL_CODE = codes('final_answer("It is on its way.")')


@each_way
async def test_a_react_agent_works_as_if_nothing_were_between(
    stream: bool, shelf: Shelf, tmp_path: Path
) -> None:
    """F1, A7: the provider gets the very bytes it would have got; the steps are one run."""
    script = (acts("get_order"), acts("get_order", "A2"), FINAL)
    async with ScriptedProvider() as alone:
        alone.script(*script)
        said = await run_react(alone.url, direct := Shop(), TASK, stream=stream)
    async with shelf.play(tmp_path, NO_REFUND, channels=REACT) as stage:
        stage.provider.script(*script)
        assert await run_react(stage.url, guarded := Shop(), TASK, stream=stream) == said
        assert taken(stage.provider)
        # Usage is asked for where a stream would not bring it.
        asked = b',"stream_options":{"include_usage":true}'
        bodies = [seen.body.replace(asked, b"") for seen in stage.provider.seen]
        assert bodies == [seen.body.replace(asked, b"") for seen in alone.seen]
        decisions = await stage.decisions()
    assert said == "It is on its way."
    assert guarded.called == direct.called == [("get_order", "A1"), ("get_order", "A2")]
    assert len({decision["run"] for decision in decisions}) == 1


@each_way
async def test_a_react_agent_never_gets_a_refused_call(stream: bool, shelf: Shelf, tmp_path: Path) -> None:
    """C5, D5: the model is told in an observation, and answers again."""
    async with shelf.play(tmp_path, NO_REFUND, channels=REACT) as stage:
        stage.provider.script(acts("refund"), FINAL)
        assert await run_react(stage.url, shop := Shop(), TASK, stream=stream) == "It is on its way."
        assert b"Observation: [callgate]" in stage.provider.seen[1].body
    assert shop.called == []


@each_way
async def test_a_react_agent_that_insists_gets_a_final_answer(
    stream: bool, shelf: Shelf, tmp_path: Path
) -> None:
    """D5, E14: a parser takes what is made by program for the end."""
    async with shelf.play(tmp_path, NO_REFUND, channels=REACT) as stage:
        stage.provider.script(*[acts("refund")] * 4)
        said = await run_react(stage.url, shop := Shop(), TASK, stream=stream)
    assert "callgate" in said
    assert shop.called == []


@each_way
async def test_a_react_agent_in_a_loop_is_stopped(stream: bool, shelf: Shelf, tmp_path: Path) -> None:
    """D9, E11: in one message of the user it is all the same a run with steps."""
    async with shelf.play(tmp_path, NO_REFUND, channels=REACT) as stage:
        stage.provider.script(*[acts("get_order")] * 8)
        await run_react(stage.url, shop := Shop(), TASK, stream=stream)
        decisions = await stage.decisions()
    assert len(shop.called) < 5
    assert {"loop", "no_progress"} & {name for decision in decisions for name in decision["classes"]}


@each_way
async def test_a_code_agent_works_as_if_nothing_were_between(
    stream: bool, shelf: Shelf, tmp_path: Path
) -> None:
    """F1."""
    script = (codes('print(get_order("A1"))'), FINAL_CODE)
    async with shelf.play(tmp_path, NO_REFUND_IN_CODE, channels=CODE) as stage:
        stage.provider.script(*script)
        assert await run_code(stage.url, shop := Shop(), TASK, stream=stream) == "It is on its way."
        assert taken(stage.provider)
        decisions = await stage.decisions()
    assert shop.called == [("get_order", "A1")]
    assert [decision["tool"] for decision in decisions] == ["python", "python"]


@each_way
async def test_a_code_agent_never_runs_refused_code(stream: bool, shelf: Shelf, tmp_path: Path) -> None:
    """C5: a rule about the code of a code action, with or without a fence."""
    async with shelf.play(tmp_path, NO_REFUND_IN_CODE, channels=CODE) as stage:
        stage.provider.script(codes('refund("A1")'), Answer('refund("A1")'), FINAL_CODE)
        said = await run_code(stage.url, shop := Shop(), TASK, stream=stream)
    assert shop.called == []
    assert "callgate" in said


def says(action: str, given: str = "A1") -> Answer:
    return Answer(f"```json\n{json.dumps({'action': action, 'action_input': given})}\n```")


@each_way
async def test_a_json_agent_works_as_if_nothing_were_between(
    stream: bool, shelf: Shelf, tmp_path: Path
) -> None:
    """F1, C5: and what its tools return is known for results."""
    script = (says("get_order"), says("get_order", "A2"), says("Final Answer", "It is on its way."))
    async with shelf.play(tmp_path, NO_REFUND, channels=JSON) as stage:
        stage.provider.script(*script)
        assert await run_json(stage.url, shop := Shop(), TASK, stream=stream) == "It is on its way."
        assert taken(stage.provider)
        decisions, steps = await stage.decisions(), await stage.records("step")
    assert shop.called == [("get_order", "A1"), ("get_order", "A2")]
    assert len({decision["run"] for decision in decisions}) == 1
    assert [step for step in steps if step["kind"] == "step" and step["status"] != "pending"]


@each_way
async def test_a_json_agent_never_gets_a_refused_call(stream: bool, shelf: Shelf, tmp_path: Path) -> None:
    """C5, D5: asked again, and one that insists ends with a final answer that its parser takes."""
    async with shelf.play(tmp_path, NO_REFUND, channels=JSON) as stage:
        stage.provider.script(says("refund"), says("Final Answer", "No."), *[says("refund")] * 4)
        assert await run_json(stage.url, shop := Shop(), TASK, stream=stream) == "No."
        assert "callgate" in await run_json(stage.url, shop, TASK, stream=stream)
    assert shop.called == []
