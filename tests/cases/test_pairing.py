"""Call ids, results and history: C005 to C007."""

from pathlib import Path
from typing import Any

import pytest

from tests.cases.clients import MESSAGES, Json
from tests.cases.harness import compact, staged


def is_paired(messages: list[Json]) -> bool:
    """Whether every call of a Messages history has exactly one result in the next message, and the other way round."""
    blocks = [message["content"] if isinstance(message["content"], list) else [] for message in messages]
    calls = [sorted(part["id"] for part in each if part["type"] == "tool_use") for each in blocks]
    results = [
        sorted(part["tool_use_id"] for part in each if part["type"] == "tool_result") for each in blocks
    ]
    return [*calls] == [*results[1:], []]


@pytest.mark.parametrize("reasks", [0, 1])
@pytest.mark.parametrize("stream", [True, False])
async def test_a_call_blocked_beside_another_leaves_no_orphan(
    tmp_path: Path, reasks: int, *, stream: bool
) -> None:
    """C005. A3, C1, C7, C10, D5."""
    async with staged("c005", tmp_path, reask__per_turn=reasks) as stage:
        case = stage.case
        for answer in case.upstream:
            stage.tell(answer, stream=stream, dialect=MESSAGES)
        first = await stage.send(case.requests[0], stream=stream)
        case.holds("response1.client.tool_calls", first.tool_calls)
        case.holds("response1.client.bytes", first.raw.decode())
        assert first.finish == ["tool_use"]
        assert '"purge_record" was not run' in first.text

        second = await stage.send(case.requests[1], filled=first.message, stream=stream)
        messages = stage.seen[1].json["messages"] if stage.seen[1].json else []
        case.holds("upstream.requests[1].body.messages", says=is_paired(messages) and len(messages) == 3)
        case.holds("response2.client.status", second.status)
        assert second.run == first.run


@pytest.mark.parametrize("stream", [True, False])
async def test_ids_that_come_again_are_matched_by_open_calls(tmp_path: Path, *, stream: bool) -> None:
    """C006. A3, D9, E1."""
    async with staged("c006", tmp_path) as stage:
        case = stage.case
        for answer in case.upstream:
            stage.tell(answer, stream=stream)
        found = [await stage.send(asked, stream=stream) for asked in case.requests]

        decisions = await stage.decisions(found[2])
        case.holds("decisions.count", len(decisions))
        case.holds("decisions", says=[entry["outcome"] for entry in decisions] == ["allow", "allow"])
        case.holds("loop.flagged", await stage.flagged(found[2]) != [])
        case.holds("counters.tool_calls", stage.run(found[2]).spent.calls)
        messages: Any = case.requests[2]["body"]["messages"]
        case.holds("upstream.requests[2].body.messages", says=compact(messages) in stage.seen[2].body)
        case.holds("response3.client.status", found[2].status)
        assert found[2].text == "B is dearer."
        assert [step.result for step in stage.run(found[2]).steps] == ["A=12", "B=15"]


async def test_what_is_not_changed_goes_upstream_byte_for_byte(tmp_path: Path) -> None:
    """C007. A7, C1."""
    async with staged("c007", tmp_path) as stage:
        case = stage.case
        for answer in case.upstream:
            stage.tell(answer)
        for asked in case.requests:
            assert (await stage.send(asked)).text == "Loaded."

        sent = [asked["body_raw"].encode() for asked in case.requests]
        assert sent[0] == stage.seen[0].body
        assert stage.seen[1].body == stage.seen[0].body
        case.holds("upstream.requests[0].body_bytes")
        case.holds("upstream.requests[1].body_bytes")
        case.holds("upstream.requests[0].headers.anthropic-beta", stage.seen[0].headers["anthropic-beta"])


async def test_where_a_tool_is_hidden_all_else_keeps_its_bytes(tmp_path: Path) -> None:
    """C007, its last sentence. A7, D1."""
    async with staged("c007", tmp_path, {"org": {"denied_tools": ["load_tool"]}}) as stage:
        stage.case.unseen.clear()
        stage.tell(stage.case.upstream[0])
        sent = stage.case.requests[0]["body_raw"]
        hidden = '{"name":"load_tool","input_schema":{"type":"object"}},'
        offered = sent.replace('"tools":[', '"tools":[' + hidden)
        await stage.send(stage.case.requests[0] | {"body_raw": offered})
        assert stage.seen[0].body == sent.encode()
