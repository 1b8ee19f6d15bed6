"""Streamed tool-call deltas: C001 to C004."""

from pathlib import Path
from typing import Any

import pytest

from proxy.core.results import StepStatus
from proxy.demo import Answer, Call
from tests.cases.clients import CHAT, MESSAGES, Json, Read
from tests.cases.harness import compact, staged
from tests.dialects.agents import value_of

BYTEWISE = range(1, 10_000)


def shown(decisions: list[Json], *names: str) -> list[Json]:
    """These members of the decisions, arguments as values."""
    entries = [entry | {"arguments": value_of(entry["arguments"])} for entry in decisions]
    return [{name: entry[name] for name in names} for entry in entries]


def first_delta(found: Read) -> Any:
    """The first entry of `tool_calls` in a stream."""
    deltas = [choice["delta"] for event in found.events for choice in event["choices"]]
    return next(delta["tool_calls"][0] for delta in deltas if delta.get("tool_calls"))


async def test_two_calls_under_one_index_are_two_calls(tmp_path: Path) -> None:
    """C001. C1, C10, D1, D5."""
    async with staged("c001", tmp_path) as stage:
        case = stage.case
        calls = Call("read_note", {"id": 4}, "call_a1"), Call("delete_note", {"id": 9}, "call_b2")
        stage.tell(case.upstream[0])
        stage.tell(case.upstream[0], cuts=BYTEWISE)
        stage.provider.script(Answer(calls=calls))
        for stream in (True, True, False):
            found = await stage.send(case.requests[0], stage.fresh(), stream=stream)

            case.holds("decisions", shown(await stage.decisions(found), "tool", "outcome"))
            case.holds("client.tool_calls", found.tool_calls)
            case.holds("client.bytes", found.raw.decode())
            case.holds("client.finish", found.finish)
            case.holds("counters.tool_calls", stage.run(found).spent.calls)


async def test_interleaved_fragments_are_joined_by_index(tmp_path: Path) -> None:
    """C002. C1, C10, D2."""
    async with staged("c002", tmp_path) as stage:
        case = stage.case
        for stream, cuts in ((True, None), (True, BYTEWISE), (False, None)):
            stage.tell(case.upstream[0], stream=stream, cuts=cuts)
            found = await stage.send(case.requests[0], stage.fresh(), stream=stream)

            case.holds("decisions", shown(await stage.decisions(found), "tool", "arguments", "outcome"))
            case.holds("client.tool_calls", found.tool_calls)
            if stream:
                first = first_delta(found)
                whole = first["index"] == 0 and {"id", "type"} <= first.keys()
                case.holds("client.stream", says=whole and first["function"]["name"] == "set_lamp")
            # The reason names what may be used, and does not quote what was.
            case.holds("client.bytes", found.raw.decode())
            assert "hall, attic" in found.text


@pytest.mark.parametrize("stream", [True, False])
async def test_a_call_without_an_id_gets_one_that_the_next_request_may_carry(
    tmp_path: Path, *, stream: bool
) -> None:
    """C003. A3, C1."""
    async with staged("c003", tmp_path) as stage:
        case, (asked,) = stage.case, stage.case.requests
        stage.tell(case.upstream[0], stream=stream)
        first = await stage.send(asked, stage.fresh(), stream=stream)
        case.holds("run1.client.tool_calls", first.tool_calls)

        again = stage.fresh()
        if stream:
            stage.tell(case.upstream[1])
        else:
            stage.provider.script(Answer(calls=(Call("fetch_invoice", {"number": "INV-20"}, ""),)))
        second = await stage.send(asked, again, stream=stream)
        (call,) = second.calls
        case.holds("run2.client.tool_calls[0].name", call.name)
        case.holds("run2.client.tool_calls[0].id", says=bool(call.id) and call.id != "call_inv")
        case.holds("client.stream", says=not stream or isinstance(first_delta(second)["id"], str))

        stage.provider.script(Answer("It is paid."))
        result = {"role": "tool", "tool_call_id": call.id, "content": '{"paid":true}'}
        history = [*asked["body"]["messages"], second.message, result]
        third = await stage.send(
            asked | {"body": asked["body"] | {"messages": history}}, again, stream=stream
        )
        assert third.text == "It is paid."
        assert third.run == second.run
        assert [step.status for step in stage.run(third).steps] == [StepStatus.FOUND]
        assert compact(call.id) in stage.seen[-1].body


@pytest.mark.parametrize("stream", [True, False])
async def test_no_arguments_at_all_are_an_empty_object(tmp_path: Path, *, stream: bool) -> None:
    """C004. C1, C3."""
    async with staged("c004", tmp_path) as stage:
        case = stage.case
        found = []
        for asked, answer, dialect in zip(case.requests, case.upstream, (CHAT, MESSAGES), strict=True):
            stage.tell(answer, stream=stream, dialect=dialect)
            found.append(await stage.send(asked, stage.fresh(), stream=stream))

        case.holds("decisions", shown(await stage.decisions(), "tool", "arguments", "outcome"))
        blocks = [
            event["content_block"] for event in found[1].events if event["type"] == "content_block_start"
        ]
        inputs = [block["input"] for block in (blocks if stream else found[1].message)]
        case.holds("run2.client.stream", says=inputs == [{}] and found[1].finish == ["tool_use"])
        for each in found:
            case.holds("client.tool_calls.count", len(each.tool_calls))
            assert each.calls[0].raw in {"", "{}"}
