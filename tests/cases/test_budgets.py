"""Budgets, and what a broken or unreported answer costs: C014, C015, C018, C019.

There is no budget of money: where a case has one, the tokens that it stands for are limited instead, in one run that
the header `x-callgate-run` names.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import anthropic
import httpx2
import openai
import pytest

from proxy.core.runs import Outcome
from proxy.demo import Answer, Raw
from tests.cases.clients import Json
from tests.cases.harness import Stage, compact, raw_of, staged
from tests.playbook import MESSAGES, RESPONSES

RUN = {"x-callgate-run": "one"}


def spent_before(counters: Json) -> list[Json]:
    """A history with so many calls."""
    tools = dict(counters["per_tool"])
    tools["read_list"] = counters["tool_calls"] - sum(tools.values())
    names = [name for name, count in tools.items() for _ in range(count)]
    calls = [
        {
            "id": f"before_{at}",
            "type": "function",
            "function": {"name": name, "arguments": f'{{"to":"{at}"}}'},
        }
        for at, name in enumerate(names)
    ]
    results = [
        {"role": "tool", "tool_call_id": call["id"], "content": f"sent {call['id']}"} for call in calls
    ]
    return [
        {"role": "user", "content": "Send the first cards."},
        {"role": "assistant", "content": None, "tool_calls": calls},
        *results,
        {"role": "assistant", "content": "They are sent."},
    ]


@pytest.mark.parametrize("stream", [True, False])
async def test_of_five_calls_only_those_leave_for_which_there_is_room(
    tmp_path: Path, *, stream: bool
) -> None:
    """C014. B3, C10, D12, E2, E5."""
    async with staged("c014", tmp_path) as stage:
        case, (asked,) = stage.case, stage.case.requests
        before = spent_before(case.config["counters_before"])
        body = asked["body"] | {"messages": [*before, *asked["body"]["messages"]]}
        stage.tell(case.upstream[0], stream=stream)
        found = await stage.send(asked | {"body": body}, stream=stream)

        case.holds("client.tool_calls", found.tool_calls)
        assert len(found.calls) == 2
        spent = stage.run(found).spent
        case.holds("counters.tool_calls", spent.calls)
        case.holds("counters.per_tool.send_card", spent.per_tool["send_card"])
        withheld = [(entry["outcome"], entry["reason_class"]) for entry in (await stage.decisions())[2:]]
        case.holds("decisions[2..4]", says=withheld == [("block", "budget")] * 3)
        case.holds("client.status", found.status)
        assert '"send_card" was not run: The limit of 10 calls per run is reached' in found.text


@asynccontextmanager
async def counting(sent: list[str]) -> AsyncIterator[httpx2.AsyncClient]:
    """An HTTP client for an SDK, which notes every request that it makes."""

    async def note(request: httpx2.Request) -> None:
        sent.append(request.url.path)

    async with httpx2.AsyncClient(event_hooks={"request": [note]}) as http:
        yield http


async def asked_by_sdk(stage: Stage, asked: Json, http: httpx2.AsyncClient, headers: dict[str, str]) -> Any:
    """The error that the official SDK raises for a case's request, its own retries included."""
    url = stage.play.url
    more: Any = {"api_key": "k", "http_client": http, "default_headers": headers}
    made: Any
    if asked["path"] == MESSAGES:
        made = anthropic.AsyncAnthropic(base_url=url, **more).messages
    else:
        client = openai.AsyncOpenAI(base_url=f"{url}/v1", **more)
        made = client.responses if asked["path"] == RESPONSES else client.chat.completions
    with pytest.raises((openai.APIStatusError, anthropic.APIStatusError)) as raised:
        await made.create(**asked["body"])
    return raised.value


@pytest.mark.parametrize("again", [False, True])
async def test_an_exhausted_budget_is_not_retried_by_the_official_sdks(
    tmp_path: Path, *, again: bool
) -> None:
    """C015. E5, E7, F1. Tokens stand for money. `again`: the run was refused before, and is refused in the same words."""
    async with staged("c015", tmp_path, limits__run__total_tokens=230, limits__exhausted="refuse") as stage:
        case = stage.case
        for place, asked in enumerate(case.requests):
            headers = {"x-callgate-run": f"run-{place}"}
            # What was spent before, in this very run.
            stage.provider.script(Answer("pong", usage=(200, 30)))
            first = asked | {"body": {key: value for key, value in asked["body"].items() if key != "stream"}}
            key = {"authorization": "Bearer k"} if asked["path"] != MESSAGES else {"x-api-key": "k"}
            assert (await stage.send(first, headers | key)).status == 200
            sent: list[str] = []
            seen = len(stage.seen)
            async with counting(sent) as http:
                error = await asked_by_sdk(stage, asked, http, headers)
                if again:
                    sent.clear()
                    error = await asked_by_sdk(stage, asked, http, headers)
            case.holds("upstream.requests", len(stage.seen) - seen)
            case.holds("client.http_attempts", len(sent))
            lasting = 400 <= error.status_code < 500 and error.status_code not in {408, 409, 429}
            case.holds("client.status", says=lasting and error.response.headers["x-should-retry"] == "false")
            case.holds("client.headers", error.response.headers)
            body = error.response.json()
            shaped = isinstance(body["error"]["type"], str) and isinstance(body["error"]["message"], str)
            if asked["path"] == MESSAGES:
                shaped = shaped and body["type"] == "error"
            case.holds("client.error.shape", says=shaped)
            case.holds("client.error.fields", body["error"])
            assert (body["error"]["budget"], body["error"]["limit"]) == ("total_tokens", 230)
            assert (body["error"]["scope"], body["error"]["used"]) == ("run", 230)


async def hung_up(stage: Stage, asked: Json, headers: dict[str, str]) -> aiohttp.ClientResponse:
    """Sends the request and closes the connection behind the third piece of text (or gives a refusal, whole)."""
    body, url = compact(asked["body"]), stage.play.url + asked["path"]
    given = {"content-type": "application/json", **stage.play.headers, **headers}
    async with stage.play.http.post(url, data=body, headers=given) as answer:
        got = b""
        while got.count(b"text_delta") < 3:
            piece = await answer.content.readany()
            if not piece:
                return answer
            got += piece
        answer.close()
    return answer


async def test_a_hang_up_stops_the_provider_and_is_paid_for(tmp_path: Path) -> None:
    """C018. B2, E4, E13. 33,333 tokens of input stand for ten cents."""
    async with staged("c018", tmp_path, limits__run__input_tokens=33_333) as stage:
        case, (asked,) = stage.case, stage.case.requests
        start = raw_of(case.upstream[0])
        delta = start.body[start.body.rindex(b"event: content_block_delta") :]
        slowly = Raw(steps=(start.body, *(0.1, delta) * 600), headers=start.headers)
        stage.provider.script(*[slowly] * 40)

        await hung_up(stage, asked, RUN)
        # No message of the agent's says how long a second is: the provider itself waits, and gives up after one.
        await stage.provider.until(lambda: stage.seen[0].hung_up, within=1.0)
        case.holds("upstream.cancelled.within_ms", 1000 if stage.seen[0].hung_up else 60_000)
        await stage.settled()
        (run,) = stage.runs()
        # In cents: 3 for a thousand tokens of input, 15 for a thousand of output, of which 2000 were asked for.
        cost = (run.spent.input_tokens * 3 + run.spent.output_tokens * 15) / 1_000_000
        case.holds("ledger[0].cost_usd", cost)
        case.holds("ledger[0].estimated", run.spent.unverified_tokens > 0)
        case.holds("counters.reserved", len(stage.store._reserved))
        assert run.spent.rounds == 1
        assert run.outcome is Outcome.CANCELLED

        for _ in range(39):
            await hung_up(stage, asked, RUN)
            await stage.provider.until(lambda: all(seen.hung_up for seen in stage.seen))
            await stage.settled()
        case.holds("repeated_40_times.upstream.requests", len(stage.seen))
        assert len(stage.seen) > 30
        assert len(stage.runs()) == 1


async def test_usage_is_asked_for_and_shown_to_who_asked(tmp_path: Path) -> None:
    """C019. E4, F1."""
    async with staged("c019", tmp_path) as stage:
        case, (answer,) = stage.case, stage.case.upstream
        for number, asked in enumerate(case.requests, 1):
            stage.tell(answer)
            found = await stage.send(asked)
            assert found.text == "hello"
            case.holds(f"client{number}.bytes", found.raw.decode())
            sent = stage.seen[-1].json
            assert sent is not None
            case.holds(
                "upstream.requests[*].body.stream_options.include_usage",
                sent["stream_options"]["include_usage"],
            )
        case.holds("counters.tokens", stage.spent().total_tokens)
        assert stage.spent().unverified_tokens == 0


async def test_usage_that_never_came_is_estimated(tmp_path: Path) -> None:
    """C019, its last sentence. E4."""
    async with staged("c019", tmp_path) as stage:
        stage.case.unseen.clear()
        silent = stage.case.upstream[0]
        silent = silent | {
            "sse": "\n\n".join(part for part in silent["sse"].split("\n\n") if "usage" not in part)
        }
        stage.tell(silent)
        await stage.send(stage.case.requests[0])
        spent = stage.spent()
        assert spent.total_tokens > 0
        assert spent.unverified_tokens == spent.total_tokens
