"""Calls without progress: C008 to C011."""

from pathlib import Path

import pytest

from proxy.core.runs import Outcome
from proxy.demo import Answer
from tests.cases.clients import Json, Read
from tests.cases.harness import Stage, staged


async def played(stage: Stage, requests: list[Json], upstream: list[Json], *, stream: bool) -> list[Read]:
    """Sends the requests until one is answered without a call."""
    for answer in upstream:
        stage.tell(answer, stream=stream)
    headers = stage.fresh()
    found: list[Read] = []
    for asked in requests:
        found.append(await stage.send(asked, headers, stream=stream))
        if not found[-1].calls:
            break
    while stage.provider.left:
        stage.provider._script.popleft()
    return found


@pytest.mark.parametrize("last", [None, "Nothing about tokens was found."])
@pytest.mark.parametrize("stream", [True, False])
async def test_one_call_in_four_spellings_is_one_loop(
    tmp_path: Path, last: str | None, *, stream: bool
) -> None:
    """C008. A4, B3, C12, D9, D10, E11. `block_and_end`: one last request without calls ends the turn; where no answer
    to it can be had, the end is made by program."""
    async with staged("c008", tmp_path) as stage:
        case = stage.case
        for answer in case.upstream:
            stage.tell(answer, stream=stream)
        if last:
            stage.provider.script(Answer(last))
        found = [await stage.send(asked, stream=stream) for asked in case.requests]

        decisions = await stage.decisions(found[3])
        for decision in decisions[:3]:
            case.holds("decisions[0..2].outcome", decision["outcome"])
        case.holds("decisions[3].outcome", decisions[3]["outcome"])
        case.holds("decisions[3].reason_class", decisions[3]["reason_class"])
        case.holds("response4.client.status", found[3].status)
        case.holds("response4.client.tool_calls", found[3].tool_calls)
        case.holds("response4.client.finish", found[3].finish)
        case.holds("counters.tool_calls", stage.run(found[3]).spent.calls)

        assert (last or '"search_docs" gave the same result 3 times') in found[3].text
        told = stage.seen[4].json
        assert told is not None
        assert told["tool_choice"] == "none"
        assert '"search_docs" gave the same result 3 times' in told["messages"][-1]["content"]
        assert stage.run(found[3]).outcome is Outcome.NO_PROGRESS
        assert stage.run(found[3]).open_steps == ()


@pytest.mark.parametrize("stream", [True, False])
async def test_polling_is_progress_while_the_answer_changes(tmp_path: Path, *, stream: bool) -> None:
    """C009. D9, E9."""
    async with staged("c009", tmp_path) as stage:
        case = stage.case
        found = await played(stage, case.requests, case.upstream, stream=stream)

        outcomes = [entry["outcome"] for entry in await stage.decisions()]
        case.holds("decisions", says=outcomes == ["allow"] * 6)
        case.holds("loop.flagged", await stage.flagged(found[-1]) != [])
        case.holds("counters.tool_calls", stage.run(found[-1]).spent.calls)
        case.holds("response7.client.content", found[6].text)
        assert not any("[callgate]" in seen.body.decode() for seen in stage.seen)


@pytest.mark.parametrize("stream", [True, False])
async def test_pages_are_progress_and_new_wordings_are_not(tmp_path: Path, *, stream: bool) -> None:
    """C010. A4, D9, D12, E9, E11. The sixth search is refused, long before the budget of eight."""
    async with staged("c010", tmp_path) as stage:
        case = stage.case
        asked_a, asked_b = (each[f"script_{name}"] for name, each in zip("AB", case.requests, strict=True))
        told_a, told_b = (each[f"script_{name}"] for name, each in zip("AB", case.upstream, strict=True))
        pages = await played(stage, asked_a, told_a, stream=stream)
        case.holds("script_A.loop.flagged", await stage.flagged(pages[-1]) != [])
        case.holds("script_A.counters.tool_calls", stage.run(pages[-1]).spent.calls)

        searches = await played(stage, asked_b, told_b, stream=stream)
        last = searches[-1]
        delivered = stage.run(last).spent.per_tool["search_docs"]
        case.holds("script_B.counters.per_tool.search_docs", delivered)
        assert delivered == 5
        outcomes = [entry["outcome"] for entry in await stage.decisions(last)]
        assert outcomes[:6] == ["allow"] * 5 + ["block"]
        case.holds("script_B.decisions[8].outcome", "block" if len(outcomes) < 9 else outcomes[8])
        case.holds("script_B.client.last.status", last.status)
        case.holds("script_B.client.last.tool_calls", last.tool_calls)
        assert stage.run(last).outcome is Outcome.NO_PROGRESS


@pytest.mark.parametrize("reasks", [0, 1])
@pytest.mark.parametrize("stream", [True, False])
async def test_insisting_on_a_forbidden_tool_ends_the_run(
    tmp_path: Path, reasks: int, *, stream: bool
) -> None:
    """C011. C2, D5, D12, E2, E12."""
    async with staged("c011", tmp_path, reask__per_turn=reasks) as stage:
        case = stage.case
        for answer in case.upstream:
            stage.tell(answer, stream=stream)
        history: list[Json] = case.requests[0]["body"]["messages"]
        found = await stage.send(case.requests[0], stream=stream)
        for asked in case.requests[1:]:
            history = [*history, found.message]
            found = await stage.send(asked, filled=history, stream=stream)
            assert found.calls == []
            assert found.status == 200

        (run,) = stage.runs()
        decisions = await stage.decisions()
        refused = [entry["outcome"] == "block" and "allow_list" in entry["classes"] for entry in decisions]
        case.holds("decisions", says=len(refused) >= 3 and all(refused))
        case.holds("upstream.requests", len(stage.seen))
        case.holds("run.state", "running" if run.outcome is Outcome.RUNNING else "ended")
        case.holds("run.end_reason_class", run.outcome.value)
        case.holds("counters.tool_calls", run.spent.calls)
        case.holds("counters.model_requests", run.spent.rounds)
        assert run.spent.rounds == len(stage.seen)
