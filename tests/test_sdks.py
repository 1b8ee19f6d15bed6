"""Drop-in (F1): agents of official SDKs and frameworks run their loops through Callgate. Only the base URL is new to
them; a strict provider, which refuses every history that the real one would refuse, stands behind."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import anthropic
import certifi
import openai
import pytest
import pytest_asyncio
from opentelemetry.trace import SpanKind

from proxy.demo import Answer, Call, Raw, ScriptedProvider, Seen
from tests.agents import AGENTS, Agent, Shop
from tests.shelf import Shelf
from tests.span_tree import Told

pytestmark = pytest.mark.asyncio(loop_scope="module")

TASK = "Where is my order A1, and can I have my money back?"
ONLY_B1 = {
    "org": {
        "tools": {
            "refund": {"arguments": {"order_id": {"one_of": ["B1"], "message": "Refund only order B1."}}}
        }
    }
}
ORDER = Call("get_order", {"order_id": "A1"})
OTHER_ORDER = Call("get_order", {"order_id": "A2"})
REFUND = Call("refund", {"order_id": "A1"})

each_agent = pytest.mark.parametrize("agent", [pytest.param(agent, id=agent.name) for agent in AGENTS])
each_sdk = pytest.mark.parametrize("agent", [pytest.param(agent, id=agent.name) for agent in AGENTS[:2]])
"""The two that all others are built upon."""
each_way = pytest.mark.parametrize(
    "stream", [pytest.param(False, id="whole"), pytest.param(True, id="streamed")]
)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shelf(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Shelf]:
    async with Shelf(tmp_path_factory.mktemp("rules")) as shelf:
        yield shelf


@pytest.fixture(autouse=True)
def _keeps_to_itself(monkeypatch: pytest.MonkeyPatch, one_authority: Path) -> None:
    """No framework sends traces anywhere, none takes a detour to loopback."""
    monkeypatch.setenv("LANGSMITH_TRACING", "false")
    monkeypatch.setenv("LANGCHAIN_TRACING_V2", "false")
    monkeypatch.setenv("OPENAI_AGENTS_DISABLE_TRACING", "1")
    monkeypatch.setenv("SSL_CERT_FILE", str(one_authority))
    for name in ("http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


@pytest.fixture(scope="session")
def one_authority(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Every client loads all the world's authorities, though it only talks to loopback: one is quicker."""
    first, end, _ = Path(certifi.where()).read_text().partition("-----END CERTIFICATE-----\n")
    file = tmp_path_factory.mktemp("tls") / "authority.pem"
    file.write_text(first + end)
    return file


def taken(provider: ScriptedProvider) -> bool:
    """The provider objected to nothing that came, and nothing scripted is left."""
    return all(seen.refused is None for seen in provider.seen) and not provider.left


def body_of(seen: Seen) -> Any:
    """A request as the provider reads it."""
    return seen.json


def results_in(body: Any) -> list[tuple[str, str]]:
    """Id and text of each tool result in a request, in order, in either wire format."""
    found = []
    for message in body["messages"]:
        if message["role"] == "tool":
            found.append((message["tool_call_id"], _text(message["content"])))
        elif message["role"] == "user" and isinstance(message["content"], list):
            found += [
                (part["tool_use_id"], _text(part["content"]))
                for part in message["content"]
                if part["type"] == "tool_result"
            ]
    return found


def calls_in(body: Any) -> list[str]:
    """The names of the calls in a request's history, in order, in either wire format."""
    found = []
    for message in body["messages"]:
        if message["role"] != "assistant":
            continue
        found += [call["function"]["name"] for call in message.get("tool_calls") or ()]
        if isinstance(message["content"], list):
            found += [part["name"] for part in message["content"] if part["type"] == "tool_use"]
    return found


def _text(content: Any) -> str:
    return content if isinstance(content, str) else "".join(part["text"] for part in content)


def choice_of(body: Any) -> Any:
    """The tool choice in a request, as a word where it is one."""
    choice = body.get("tool_choice")
    return choice["type"] if isinstance(choice, dict) else choice


def requests_of(told: Told) -> int:
    """How many requests came to Callgate."""
    return sum(span.kind is SpanKind.SERVER for span in told.spans)


# ---- nothing to object to ----


@each_agent
@each_way
async def test_an_agent_works_as_if_nothing_were_between(
    agent: Agent, stream: bool, shelf: Shelf, tmp_path: Path
) -> None:
    """F1, A7, C10: tools run, the answer comes, and the provider gets what it would have got without Callgate."""
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
        bodies = [without_usage_wish(seen.json) for seen in stage.provider.seen]
        sent_alone = [seen.body for seen in alone.seen]
        sent = [seen.body for seen in stage.provider.seen]
    assert said == "A1 is on its way. You can return it."
    assert guarded.called == direct.called
    assert guarded.called == [("get_order", "A1"), ("search_policy", "returns"), ("get_order", "A2")]
    assert bodies == [without_usage_wish(seen.json) for seen in alone.seen]
    if asks_nothing(alone.seen[0].json):
        assert sent == sent_alone


def asks_nothing(body: Any) -> bool:
    """Callgate adds nothing: the answer is whole, or its usage is asked for already or always comes."""
    return not body.get("stream") or "max_tokens" in body or bool(body.get("stream_options"))


def without_usage_wish(body: Any) -> Any:
    """The request less the one thing that is asked for in addition (C019)."""
    return {name: value for name, value in body.items() if name != "stream_options"}


# ---- refusals ----


@each_agent
@each_way
async def test_a_refused_call_never_reaches_the_agent_and_the_answer_still_comes(
    agent: Agent, stream: bool, shelf: Shelf, tmp_path: Path
) -> None:
    """F1, D5, C4: the model is told inside the proxy why not, and answers again."""
    async with shelf.play(tmp_path, ONLY_B1) as stage:
        stage.provider.script(
            Answer("I will pay it back.", calls=(REFUND,)), Answer("A1 cannot be paid back by me.")
        )
        said = await agent.run(stage.url, shop := Shop(), TASK, stream=stream)
        assert taken(stage.provider)
        again: Any = stage.provider.seen[1].json
        steps = await stage.records("step")
    assert shop.called == []
    assert said.endswith("A1 cannot be paid back by me.")
    assert calls_in(again) == ["refund"]
    (result,) = results_in(again)
    assert "This call was not run" in result[1]
    assert [(step["tool"], step["status"]) for step in steps if step["kind"] == "step"] == [
        ("refund", "refused")
    ]


@each_sdk
@each_way
async def test_a_tool_that_is_not_allowed_is_hidden_and_a_call_of_it_refused_all_the_same(
    agent: Agent, stream: bool, shelf: Shelf, tmp_path: Path
) -> None:
    """F1, D1, D5: the model's request goes out with fewer tools, and what it asks for is judged nevertheless."""
    async with shelf.play(tmp_path, {"org": {"denied_tools": ["refund"]}}) as stage:
        stage.provider.script(Answer(calls=(REFUND,)), Answer("I cannot do that."))
        said = await agent.run(stage.url, shop := Shop(), TASK, stream=stream)
        assert taken(stage.provider)
        first, again = (body_of(seen) for seen in stage.provider.seen)
        ((_, told),) = results_in(again)
        assert [len(body["tools"]) for body in (first, again)] == [2, 2]
    assert said == "I cannot do that."
    assert shop.called == []
    assert "get_order" in told
    assert "search_policy" in told


@each_agent
@each_way
async def test_of_several_calls_the_allowed_ones_run_and_the_agent_s_history_stays_sound(
    agent: Agent, stream: bool, shelf: Shelf, tmp_path: Path
) -> None:
    """F1, C7, C10: the refused one is taken out, a note says so, no orphan is left."""
    async with shelf.play(tmp_path, ONLY_B1) as stage:
        stage.provider.script(
            Answer("Both at once.", calls=(ORDER, REFUND, OTHER_ORDER)), Answer("Two orders found.")
        )
        said = await agent.run(stage.url, shop := Shop(), TASK, stream=stream)
        assert taken(stage.provider)
        history: Any = stage.provider.seen[1].json
    assert said == "Two orders found."
    assert shop.called == [("get_order", "A1"), ("get_order", "A2")]
    assert calls_in(history) == ["get_order", "get_order"]
    assert [text[:8] for _, text in results_in(history)] == ["Order A1", "Order A2"]
    assert "[callgate] The call to " in json.dumps(history)
    assert " was not run: Refund only order B1." in json.dumps(history)


# ---- limits ----


@each_agent
@each_way
async def test_at_the_limit_of_calls_an_answer_still_comes(
    agent: Agent, stream: bool, shelf: Shelf, tmp_path: Path
) -> None:
    """F1, B3: the call too many is taken back inside the proxy."""
    await a_limit_is_reached(agent, shelf, tmp_path, "calls", stream=stream)


@each_sdk
@each_way
async def test_at_the_limit_of_rounds_an_answer_still_comes(
    agent: Agent, stream: bool, shelf: Shelf, tmp_path: Path
) -> None:
    """F1, A1, B1, B3: the request too many is the last one."""
    await a_limit_is_reached(agent, shelf, tmp_path, "rounds", stream=stream)


async def a_limit_is_reached(agent: Agent, shelf: Shelf, tmp_path: Path, unit: str, *, stream: bool) -> None:
    """E6: a last request without tool calls; the result that came at the limit is in it."""
    async with shelf.play(tmp_path, {"org": {"limits": {"turn": {unit: 2}}}}) as stage:
        calls = (ORDER, OTHER_ORDER, Call("get_order", {"order_id": "A3"}))
        stage.provider.script(*(Answer(calls=(call,)) for call in calls[: 2 if unit == "rounds" else 3]))
        stage.provider.script(Answer("As far as I could see: on the way."))
        said = await agent.run(stage.url, shop := Shop(), TASK, stream=stream)
        assert taken(stage.provider)
        last: Any = stage.provider.seen[-1].json
        (end,) = await stage.records("run_end")
    assert said == "As far as I could see: on the way."
    assert shop.called == [("get_order", "A1"), ("get_order", "A2")]
    assert (choice_of(last), len(last["tools"])) == ("none", 3)
    assert [text[:8] for _, text in results_in(last)][:2] == ["Order A1", "Order A2"]
    assert "No further tool calls are possible in this turn." in json.dumps(last)
    assert end["kind"] == "run_end"
    assert (end["outcome"], end["detail"]) == ("limit_reached", f"budget_{unit}")


# ---- said by program ----


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


@each_sdk
@each_way
async def test_when_no_model_can_be_paid_any_more_the_report_is_an_ordinary_answer(
    agent: Agent, stream: bool, shelf: Shelf, tmp_path: Path
) -> None:
    """F1, E7, E10, D12: no further request is made; the report says what there is."""
    async with shelf.play(tmp_path, {"org": {"limits": {"turn": {"total_tokens": 300}}}}) as stage:
        stage.provider.script(Answer(calls=(ORDER,)), Answer(calls=(OTHER_ORDER,)))
        said = await agent.run(stage.url, shop := Shop(), TASK, stream=stream)
        assert taken(stage.provider)
    assert said.startswith(
        "[callgate] This task was stopped: The limit of 300 total tokens per turn is reached"
    )
    assert "Found: get_order (2 results)." in said
    assert shop.called == [("get_order", "A1"), ("get_order", "A2")]


@each_agent
@each_way
async def test_a_denial_said_as_an_error_is_raised_once(
    agent: Agent, stream: bool, shelf: Shelf, tmp_path: Path
) -> None:
    """F1: with `denied: error` the framework raises its own type, and nobody tries again. In a stream that has begun it
    is the error of a stream."""
    told = Told()
    no_calls = {"org": {"limits": {"turn": {"calls": 0}}}}
    async with shelf.play(tmp_path, no_calls, telemetry=told.telemetry, denied="error") as stage:
        # Told that it may call no more, the model calls again.
        stage.provider.script(Answer(calls=(REFUND,)), Answer(calls=(REFUND,)))
        with pytest.raises(agent.raises, match="The limit of 0 calls per turn is reached") as raised:
            await agent.run(stage.url, shop := Shop(), TASK, stream=stream)
        if not stream:
            assert agent.status_of(raised.value) == 403
        assert taken(stage.provider)
    assert requests_of(told) == 1
    assert shop.called == []


@each_agent
async def test_an_exhausted_budget_said_as_an_error_is_raised_once(
    agent: Agent, shelf: Shelf, tmp_path: Path
) -> None:
    """F1, C015: before a stream begins it has a status, and the SDK sees that trying again is of no use."""
    told = Told()
    tokens = {"org": {"limits": {"turn": {"total_tokens": 100}}}}
    async with shelf.play(tmp_path, tokens, telemetry=told.telemetry, denied="error") as stage:
        stage.provider.script(Answer(calls=(ORDER,)))
        with pytest.raises(agent.raises, match="The limit of 100 total tokens per turn is reached") as raised:
            await agent.run(stage.url, shop := Shop(), TASK, stream=True)
        assert agent.status_of(raised.value) == 403
        assert taken(stage.provider)
    assert requests_of(told) == 2
    assert shop.called == [("get_order", "A1")]


# ---- errors ----


OVERLOADED_CHAT = b'data: {"error":{"message":"The server is overloaded","type":"server_error","param":null,"code":null}}\n\n'
OVERLOADED_MESSAGES = b'event: error\ndata: {"type":"error","error":{"type":"overloaded_error","message":"The server is overloaded"}}\n\n'
ERROR_TYPES = {429: "rate_limit_error", 500: "api_error", 529: "overloaded_error"}


def provider_error(agent: Agent, status: int) -> Raw:
    """As the provider says it; the header keeps the SDKs from waiting half a second before they try again."""
    inner: dict[str, Any] = {"type": ERROR_TYPES[status], "message": "Not now."}
    body: Any = {"type": "error", "error": inner}
    if agent.speaks == "openai":
        body = {"error": inner | {"param": None, "code": None}}
    return Raw(json.dumps(body).encode(), status, {"retry-after-ms": "1"})


@each_agent
@each_way
async def test_a_provider_s_error_is_raised_as_the_framework_s_own(
    agent: Agent, stream: bool, shelf: Shelf, tmp_path: Path
) -> None:
    """F1: status, body and retry hints arrive."""
    await an_error_is_raised(agent, shelf, tmp_path, 429, stream=stream)


@pytest.mark.parametrize("status", [500, 529])
@each_sdk
@each_way
async def test_other_errors_of_a_provider_are_raised_too(
    agent: Agent, stream: bool, status: int, shelf: Shelf, tmp_path: Path
) -> None:
    """F1."""
    await an_error_is_raised(agent, shelf, tmp_path, status, stream=stream)


async def an_error_is_raised(
    agent: Agent, shelf: Shelf, tmp_path: Path, status: int, *, stream: bool
) -> None:
    """After the retries that each of them makes by default."""
    async with shelf.play(tmp_path, upstream__retries=0) as stage:
        stage.provider.respond(lambda _: provider_error(agent, status))
        with pytest.raises(agent.raises, match="Not now") as raised:
            await agent.run(stage.url, Shop(), TASK, stream=stream)
        assert agent.status_of(raised.value) == status
        assert len(stage.provider.seen) == 3


@each_agent
async def test_an_overload_inside_a_stream_is_raised_too(agent: Agent, shelf: Shelf, tmp_path: Path) -> None:
    """F1, C024: status 200 went out long before."""
    frame = OVERLOADED_CHAT if agent.speaks == "openai" else OVERLOADED_MESSAGES
    async with shelf.play(tmp_path, upstream__retries=0) as stage:
        stage.provider.respond(lambda _: Raw(frame, headers={"content-type": "text/event-stream"}))
        with pytest.raises(agent.raises, match="The server is overloaded"):
            await agent.run(stage.url, Shop(), TASK, stream=True)


@each_agent
async def test_a_caller_who_is_not_known_gets_the_framework_s_authentication_error(
    agent: Agent, shelf: Shelf, tmp_path: Path
) -> None:
    """F1, F2: and nothing reaches the provider."""
    async with shelf.play(tmp_path, identity__anonymous="refuse") as stage:
        with pytest.raises(agent.raises, match="This caller is not known") as raised:
            await agent.run(stage.url, Shop(), TASK, stream=False)
        assert agent.status_of(raised.value) == 401
        assert stage.provider.seen == []


@each_sdk
@each_way
async def test_a_request_that_is_too_long_is_an_error_of_the_framework_s_own(
    agent: Agent, stream: bool, shelf: Shelf, tmp_path: Path
) -> None:
    """F1."""
    async with shelf.play(tmp_path, max_body_bytes=2000) as stage:
        with pytest.raises(agent.raises, match="longer than 2000 bytes") as raised:
            await agent.run(stage.url, Shop(), "long " * 500, stream=stream)
        assert agent.status_of(raised.value) == 413
        assert stage.provider.seen == []


async def test_the_official_sdks_raise_their_types_by_name(shelf: Shelf, tmp_path: Path) -> None:
    """F1: not only an error, but the one that a program written for the provider catches."""
    async with (
        shelf.play(tmp_path, identity__anonymous="refuse") as stage,
        openai.AsyncOpenAI(base_url=f"{stage.url}/v1", api_key="sk-test") as chat,
        anthropic.AsyncAnthropic(base_url=stage.url, api_key="sk-test") as messages,
    ):
        with pytest.raises(openai.AuthenticationError):
            await chat.chat.completions.create(model="m", messages=[{"role": "user", "content": "Hi"}])
        with pytest.raises(anthropic.AuthenticationError):
            await messages.messages.create(
                model="m", max_tokens=9, messages=[{"role": "user", "content": "Hi"}]
            )
    async with (
        shelf.play(tmp_path) as stage,
        openai.AsyncOpenAI(base_url=f"{stage.url}/v1", api_key="sk-test") as chat,
        anthropic.AsyncAnthropic(base_url=stage.url, api_key="sk-test") as messages,
    ):
        with pytest.raises(openai.NotFoundError, match="is not served"):
            await chat.fine_tuning.jobs.list()
        with pytest.raises(openai.PermissionDeniedError, match="is refused"):
            await chat.batches.list()
        with pytest.raises(anthropic.PermissionDeniedError, match="is refused"):
            await messages.messages.batches.list()
        assert [seen.path for seen in stage.provider.seen] == []


async def test_models_are_listed_and_tokens_counted_as_without_callgate(shelf: Shelf, tmp_path: Path) -> None:
    """F1: routes without calls pass through."""
    async with (
        shelf.play(tmp_path) as stage,
        openai.AsyncOpenAI(base_url=f"{stage.url}/v1", api_key="sk-test") as chat,
        anthropic.AsyncAnthropic(base_url=stage.url, api_key="sk-test") as messages,
    ):
        assert [model.id async for model in chat.models.list()] == ["scripted-large", "scripted-small"]
        assert [model.id async for model in messages.models.list()] == ["scripted-large", "scripted-small"]
        said: Any = [{"role": "user", "content": "Hi"}]
        counted = await messages.messages.count_tokens(model="scripted-large", messages=said)
        assert counted.input_tokens > 0
