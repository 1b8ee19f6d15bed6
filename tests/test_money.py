"""Money: put aside before a request, settled after, never passed (E4, E5, D12, C012, C015, C017)."""

from __future__ import annotations

import asyncio
import itertools
import json
from pathlib import Path
from typing import Any

import pytest

from proxy.audit import read_journal
from proxy.demo import Answer, Seen
from tests.playbook import CHAT, MESSAGES, Play, play

PRICES = [
    {"model": "maple-large", "input": 3, "output": 15, "cache_read": 0.3, "cache_write": 3.75},
    {"model": "maple-1", "input": 2, "output": 8, "cache_read": 0.5},
]
RUN = {"x-callgate-run": "one"}


def ping(path: str = CHAT, model: str = "maple-1", **more: Any) -> tuple[str, dict[str, Any]]:
    return path, {"model": model, "max_tokens": 100, "messages": [{"role": "user", "content": "ping"}]} | more


async def spent(stage: Play) -> list[tuple[object, object]]:
    """What each ended turn's run had cost in all, and the part that is an estimate, in dollars."""
    ends = await stage.records("run_end")
    return [(end["spent"]["usd"], end["spent"]["unverified_usd"]) for end in ends if end["kind"] == "run_end"]


@pytest.mark.parametrize("stream", [False, True])
async def test_what_a_request_costs_is_in_the_record(tmp_path: Path, *, stream: bool) -> None:
    """E4, A7: the tokens that the provider reported, at the model's price."""
    async with play(tmp_path, prices__models=PRICES) as stage:
        stage.provider.script(Answer("pong", usage=(10_000, 100)))
        answer = await stage.post(*ping(stream=stream))

        assert answer.status == 200
        assert await spent(stage) == [(0.0208, 0.0)]


async def test_usage_that_never_came_is_an_estimate_and_not_zero(tmp_path: Path) -> None:
    """E4: to be verified."""
    async with play(tmp_path, prices__models=PRICES) as stage:
        stage.provider.script(Answer("pong", usage=None))
        await stage.post(*ping())
        ((dollars, unverified),) = await spent(stage)

        assert dollars == unverified
        assert isinstance(dollars, float)
        assert dollars > 0


async def test_a_request_that_may_cost_more_than_is_left_does_not_go_out(tmp_path: Path) -> None:
    """C012: room is put aside before the request is sent, for all that are under way."""
    begun, going = asyncio.Event(), asyncio.Event()
    settings: dict[str, Any] = {"prices__models": PRICES, "prices__fit_output": "refuse"}
    async with play(
        tmp_path, **settings, limits__run__usd=1.0, limits__run__rounds=100, limits__exhausted="refuse"
    ) as stage:

        async def slowly(_: Seen) -> Answer:
            begun.set()
            await going.wait()
            return Answer("pong", usage=(200, 30))

        stage.provider.respond(slowly)
        # 50,000 tokens at 8 dollars a million: 0.40.
        path, body = ping(max_tokens=50_000)
        async with asyncio.TaskGroup() as tasks:
            asking = [tasks.create_task(stage.post(path, body, RUN))]
            await begun.wait()
            asking += [tasks.create_task(stage.post(path, body, RUN)) for _ in range(9)]
            # Those that are refused do not wait for the others.
            refused = [await answered for answered in itertools.islice(asyncio.as_completed(asking), 8)]
            assert len(stage.provider.seen) == 2
            going.set()
        answers = [task.result() for task in asking]

    assert [answer.status for answer in refused] == [403] * 8
    statuses = sorted(answer.status for answer in answers)
    assert statuses == [200, 200, *[403] * 8]
    error = refused[0].json["error"]
    assert (error["budget"], error["scope"], error["limit"]) == ("usd", "run", 1.0)


@pytest.mark.parametrize(("path", "model"), [(CHAT, "maple-1"), (MESSAGES, "maple-large")])
async def test_the_answer_may_be_as_long_as_there_is_money_for(tmp_path: Path, path: str, model: str) -> None:
    """E4, A7: the cap on output is lowered to what is left."""
    async with play(tmp_path, prices__models=PRICES, limits__run__usd=0.01) as stage:
        stage.provider.script(Answer("pong", usage=(10, 5)))
        answer = await stage.post(*ping(path, model, max_tokens=50_000))
        sent = json.loads(stage.provider.seen[-1].body)

        assert answer.status == 200
        price = 8 if model == "maple-1" else 15
        assert 0.009 / price * 1_000_000 < sent["max_tokens"] <= 0.01 / price * 1_000_000
        (edit,) = await stage.records("request_edit")
        assert edit["kind"] == "request_edit"
        assert edit["changed"]["max_output"] == sent["max_tokens"]


@pytest.mark.parametrize("stream", [False, True])
async def test_at_the_limit_the_run_is_told_why_by_program(tmp_path: Path, *, stream: bool) -> None:
    """B3, E7, E10: no model is paid for the last answer."""
    async with play(tmp_path, prices__models=PRICES, limits__run__usd=0.02) as stage:
        stage.provider.script(Answer("pong", usage=(9_000, 240)))
        await stage.post(*ping(), RUN)
        asked = len(stage.provider.seen)
        answer = await stage.post(*ping(stream=stream), RUN)

        assert answer.status == 200
        assert len(stage.provider.seen) == asked
        assert "$0.02" in answer.body.decode()
        assert answer.headers["x-callgate-outcome"] == "limit_reached"


async def test_a_model_without_a_price_is_refused_where_money_is_limited(tmp_path: Path) -> None:
    """E4: never silently zero."""
    async with play(tmp_path, limits__run__usd=1.0) as stage:
        answer = await stage.post(*ping())
        (decision,) = await stage.records("decision")

        assert stage.provider.seen == []
        assert decision["kind"] == "decision"
        assert [verdict["code"] for verdict in decision["verdicts"]] == ["price_unknown"]
        assert "maple-1" in answer.body.decode()


@pytest.mark.parametrize(
    ("settings", "dollars"),
    [
        ({"prices__unknown": "untracked", "limits__run__usd": 1.0}, (0.0, 0.0)),
        ({"prices__unknown": "count", "limits__run__usd": 1.0}, (0.0025, 0.0025)),
        ({}, (0.0, 0.0)),
    ],
)
async def test_a_model_without_a_price_elsewhere_goes_on(
    tmp_path: Path, settings: dict[str, Any], dollars: tuple[float, float]
) -> None:
    async with play(tmp_path, **settings) as stage:
        stage.provider.script(Answer("pong", usage=(200, 10)))

        assert (await stage.post(*ping())).status == 200
        assert await spent(stage) == [dollars]


async def test_a_layer_limits_money_too(tmp_path: Path) -> None:
    """F2: the smallest counts, and a policy reads what was spent."""
    rules = {"org": {"limits": {"run": {"usd": 0.0001}}}}
    async with play(tmp_path, rules=rules, prices__models=PRICES, limits__run__usd=5.0) as stage:
        answer = await stage.post(*ping())

        assert stage.provider.seen == []
        assert "$0.0001" in answer.body.decode()


async def test_a_stream_that_the_agent_leaves_is_paid_for(tmp_path: Path) -> None:
    """C018: a fair charge for what was streamed."""
    async with play(tmp_path, prices__models=PRICES) as stage:
        stage.provider.script(Answer("word " * 50, pieces=50, delay=0.02))
        path, body = ping(stream=True, max_tokens=2000)
        async with stage.http.post(stage.url + path, json=body) as answer:
            await answer.content.readany()
            answer.close()
    (end,) = [record for record in read_journal(stage.journal) if record["kind"] == "run_end"]
    assert end["kind"] == "run_end"
    dollars, unverified = end["spent"]["usd"], end["spent"]["unverified_usd"]
    assert isinstance(dollars, float)
    assert isinstance(unverified, float)
    assert 0 < unverified <= dollars < 2000 * 8 / 1_000_000
