"""Drop-in (F1) on the Responses API: loops of the official SDK that keep the history, that leave it with the provider, and
the OpenAI Agents SDK as it comes. A strict provider, which remembers, refuses every history that the real one would refuse.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import openai
import pytest
import pytest_asyncio

from proxy.demo import Answer, Call, Raw, ScriptedProvider, Seen
from tests.agents import Agent, Shop, openai_runner, responses_loops
from tests.playbook import RESPONSES
from tests.shelf import Shelf
from tests.test_sdks import ONLY_B1, ORDER, OTHER_ORDER, REFUND, TASK, each_way, taken

pytestmark = pytest.mark.asyncio(loop_scope="module")

AGENTS = (
    Agent("by-hand", "responses", responses_loops.run_by_hand, openai.APIError),
    Agent("stored", "responses", responses_loops.run_stored, openai.APIError),
    Agent("conversation", "responses", responses_loops.run_conversation, openai.APIError),
    Agent("openai-agents", "responses", openai_runner.run_responses, openai.APIError),
)
each_agent = pytest.mark.parametrize("agent", [pytest.param(agent, id=agent.name) for agent in AGENTS])


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shelf(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Shelf]:
    async with Shelf(tmp_path_factory.mktemp("rules")) as shelf:
        yield shelf


@pytest.fixture(autouse=True)
def _keeps_to_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_AGENTS_DISABLE_TRACING", "1")
    for name in ("http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


def items_in(seen: Seen, kind: str) -> list[dict[str, Any]]:
    """The items of this type in a request."""
    body: Any = seen.json
    given = body["input"]
    return [item for item in given if item.get("type") == kind] if isinstance(given, list) else []


@each_agent
@each_way
async def test_an_agent_works_as_if_nothing_were_between(
    agent: Agent, stream: bool, shelf: Shelf, tmp_path: Path
) -> None:
    """F1, A7, C10: tools run, the answer comes, and the provider gets the very bytes it would have got."""
    script = (
        Answer("Let me see.", calls=(ORDER,)),
        Answer(calls=(Call("search_policy", {"topic": "returns"}), OTHER_ORDER)),
        Answer("A1 is on its way. You can return it."),
    )
    async with ScriptedProvider() as alone:
        alone.script(*script)
        said = await agent.run(alone.url, direct := Shop(), TASK, stream=stream)
    async with shelf.play(tmp_path) as stage:
        stage.provider.script(*script)
        assert await agent.run(stage.url, guarded := Shop(), TASK, stream=stream) == said
        assert taken(stage.provider)
        assert [seen.body for seen in stage.provider.seen] == [seen.body for seen in alone.seen]
    assert said == "A1 is on its way. You can return it."
    assert guarded.called == direct.called
    assert len(guarded.called) == 3


@each_agent
@each_way
async def test_a_refused_call_never_reaches_the_agent_and_the_answer_still_comes(
    agent: Agent, stream: bool, shelf: Shelf, tmp_path: Path
) -> None:
    """F1, D5, C4: the model is told inside the proxy why not, where the call is kept, and answers again."""
    async with shelf.play(tmp_path, ONLY_B1) as stage:
        stage.provider.script(
            Answer("I will pay it back.", calls=(REFUND,)), Answer("A1 cannot be paid back by me.")
        )
        said = await agent.run(stage.url, shop := Shop(), TASK, stream=stream)
        assert taken(stage.provider)
        (result,) = items_in(stage.provider.seen[1], "function_call_output")
        steps = await stage.records("step")
    assert shop.called == []
    assert said.endswith("A1 cannot be paid back by me.")
    assert "This call was not run" in result["output"]
    assert [(step["tool"], step["status"]) for step in steps if step["kind"] == "step"] == [
        ("refund", "refused")
    ]


@each_agent
@each_way
async def test_an_agent_goes_on_after_an_answer_that_was_asked_for_again(
    agent: Agent, stream: bool, shelf: Shelf, tmp_path: Path
) -> None:
    """F1, C7: what it goes on from is the answer that it saw, and holds all that the provider waits for."""
    async with shelf.play(tmp_path, ONLY_B1) as stage:
        stage.provider.script(
            Answer(calls=(REFUND,)), Answer("Then I look.", calls=(ORDER,)), Answer("It is on its way.")
        )
        said = await agent.run(stage.url, shop := Shop(), TASK, stream=stream)
        assert taken(stage.provider)
    assert said == "It is on its way."
    assert shop.called == [("get_order", "A1")]


@each_agent
@each_way
async def test_of_several_calls_the_allowed_ones_run_and_none_is_left_without_a_result(
    agent: Agent, stream: bool, shelf: Shelf, tmp_path: Path
) -> None:
    """F1, C7, C10: what the provider keeps has the refused call too, and gets its result with the others."""
    async with shelf.play(tmp_path, ONLY_B1) as stage:
        stage.provider.script(
            Answer("Both at once.", calls=(ORDER, REFUND, OTHER_ORDER)), Answer("Two orders found.")
        )
        said = await agent.run(stage.url, shop := Shop(), TASK, stream=stream)
        assert taken(stage.provider)
        results = items_in(stage.provider.seen[1], "function_call_output")
        history = json.dumps(stage.provider.seen[1].json)
    assert said == "Two orders found."
    assert shop.called == [("get_order", "A1"), ("get_order", "A2")]
    assert [one["output"][:8] for one in results if one["output"].startswith("Order")] == [
        "Order A1",
        "Order A2",
    ]
    assert "Refund only order B1." in history


@each_agent
@each_way
async def test_at_the_limit_of_calls_an_answer_still_comes(
    agent: Agent, stream: bool, shelf: Shelf, tmp_path: Path
) -> None:
    """F1, B3, E6: a last request without tool calls."""
    async with shelf.play(tmp_path, {"org": {"limits": {"turn": {"calls": 2}}}}) as stage:
        calls = (ORDER, OTHER_ORDER, Call("get_order", {"order_id": "A3"}))
        stage.provider.script(*(Answer(calls=(call,)) for call in calls))
        stage.provider.script(Answer("As far as I could see: on the way."))
        said = await agent.run(stage.url, shop := Shop(), TASK, stream=stream)
        assert taken(stage.provider)
        last: Any = stage.provider.seen[-1].json
        (end,) = await stage.records("run_end")
    assert said == "As far as I could see: on the way."
    assert shop.called == [("get_order", "A1"), ("get_order", "A2")]
    assert (last["tool_choice"], len(last["tools"])) == ("none", 3)
    assert "No further tool calls are possible in this turn." in json.dumps(last)
    assert end["kind"] == "run_end"
    assert (end["outcome"], end["detail"]) == ("limit_reached", "budget_calls")


@each_agent
@each_way
async def test_a_denial_is_an_ordinary_answer_to_the_framework(
    agent: Agent, stream: bool, shelf: Shelf, tmp_path: Path
) -> None:
    """F1, C13: made by program where the model is not asked again."""
    async with shelf.play(tmp_path, ONLY_B1, reask__per_turn=0) as stage:
        stage.provider.script(Answer(calls=(REFUND,)))
        said = await agent.run(stage.url, shop := Shop(), TASK, stream=stream)
        assert taken(stage.provider)
    assert said.startswith("[callgate] The call to ")
    assert said.endswith(" was not run: Refund only order B1.")
    assert shop.called == []


@each_agent
@each_way
async def test_a_denial_said_as_an_error_is_raised_once(
    agent: Agent, stream: bool, shelf: Shelf, tmp_path: Path
) -> None:
    """F1: also in a stream that has begun."""
    no_calls = {"org": {"limits": {"turn": {"calls": 0}}}}
    async with shelf.play(tmp_path, no_calls, denied="error") as stage:
        stage.provider.script(Answer(calls=(REFUND,)), Answer(calls=(REFUND,)))
        with pytest.raises(agent.raises, match="The limit of 0 calls per turn is reached"):
            await agent.run(stage.url, shop := Shop(), TASK, stream=stream)
        assert taken(stage.provider)
    assert shop.called == []


@each_agent
@each_way
async def test_a_provider_s_error_is_raised_as_the_framework_s_own(
    agent: Agent, stream: bool, shelf: Shelf, tmp_path: Path
) -> None:
    """F1: status, body and retry hints arrive."""
    error = {"error": {"type": "rate_limit_error", "message": "Not now.", "param": None, "code": None}}
    async with shelf.play(tmp_path, upstream__retries=0) as stage:
        stage.provider.respond(lambda _: Raw(json.dumps(error).encode(), 429, {"retry-after-ms": "1"}))
        with pytest.raises(agent.raises, match="Not now") as raised:
            await agent.run(stage.url, Shop(), TASK, stream=stream)
        assert agent.status_of(raised.value) == 429


async def test_only_the_caller_for_whom_an_answer_was_made_can_fetch_list_or_delete_it(
    shelf: Shelf, tmp_path: Path
) -> None:
    """F1, F2: the sibling routes."""
    async with (
        shelf.play(tmp_path) as stage,
        openai.AsyncOpenAI(base_url=f"{stage.url}/v1", api_key="sk-ann", max_retries=0) as ann,
        openai.AsyncOpenAI(base_url=f"{stage.url}/v1", api_key="sk-bob", max_retries=0) as bob,
    ):
        stage.provider.script(Answer("On its way."))
        made = await ann.responses.create(model="scripted-large", input=TASK)
        assert (await ann.responses.retrieve(made.id)).output_text == "On its way."
        assert [item.type for item in (await ann.responses.input_items.list(made.id)).data] == ["message"]
        arrived = len(stage.provider.seen)
        for asked in (bob.responses.retrieve, bob.responses.delete, bob.responses.cancel):
            with pytest.raises(openai.NotFoundError):
                await asked(made.id)
        with pytest.raises(openai.NotFoundError):
            await bob.responses.input_items.list(made.id)
        with pytest.raises(openai.APIStatusError):
            await bob.responses.create(model="scripted-large", input="And?", previous_response_id=made.id)
        assert len(stage.provider.seen) == arrived
        await ann.responses.delete(made.id)


async def test_a_conversation_without_an_answer_is_nobodys_and_then_its_callers(
    shelf: Shelf, tmp_path: Path
) -> None:
    """F1: sessions of the Agents SDK look into a conversation before there is any answer in it; once there is one, nobody
    else does."""
    items = f"{RESPONSES.removesuffix('responses')}conversations/conv_new/items"
    async with shelf.play(tmp_path) as stage:
        stage.provider.script(Answer("Blue."))

        async def looks(key: str) -> tuple[int, int]:
            before = len(stage.provider.seen)
            headers = {"authorization": f"Bearer {key}"}
            async with stage.http.get(stage.url + items, headers=headers) as got:
                return got.status, len(stage.provider.seen) - before

        assert (await looks("sk-test"))[1] == 1
        body = {"model": "scripted-large", "input": "Which?", "conversation": "conv_new"}
        answered = await stage.post(RESPONSES, body, {"authorization": "Bearer sk-test"})
        assert answered.status == 200
        assert (await looks("sk-test"))[1] == 1
        assert await looks("sk-other") == (404, 0)
