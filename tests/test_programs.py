"""A program of the model's that calls tools, and waits for them at the provider, through a running Callgate."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from proxy.demo import Answer, Raw
from tests.dialects.messages_agent import opening, sdk_reads, sdk_streams, sse
from tests.playbook import MESSAGES, play

each_way = pytest.mark.parametrize(
    "stream", [pytest.param(False, id="whole"), pytest.param(True, id="streamed")]
)
PROGRAM = {"type": "code_execution_20250825", "tool_id": "srv_1"}
CODE = {"type": "server_tool_use", "id": "srv_1", "name": "code_execution", "input": {"code": "roll()"}}
ROLL = {"type": "tool_use", "id": "t1", "name": "roll", "input": {"n": 7}, "caller": PROGRAM}
BOX = {"id": "container_1", "expires_at": "2026-09-01T10:00:00Z"}
RULES = {"org": {"tools": {"roll": {"arguments": {"n": {"one_of": ["1"]}}}}}}
EVENTS = {"content-type": "text/event-stream"}


def asked(*messages: dict[str, Any], stream: bool, **more: Any) -> dict[str, Any]:
    tools = [
        {"type": "code_execution_20250825", "name": "code_execution"},
        {"name": "roll", "input_schema": {"type": "object"}, "allowed_callers": ["code_execution_20250825"]},
    ]
    body = {"model": "m", "max_tokens": 99, "stream": stream, "tools": tools}
    return body | {"messages": [{"role": "user", "content": "Roll."}, *messages]} | more


def answered(*blocks: dict[str, Any], stream: bool, finish: str = "tool_use") -> Raw:
    """All in the opening, where it is streamed: so it comes when a program asks."""
    message = json.loads(opening(blocks, finish).partition(b"data: ")[2])
    message["message"]["container"] = BOX
    if stream:
        return Raw(sse(message) + sse({"type": "message_stop"}), headers=EVENTS)
    return Raw(json.dumps(message["message"]).encode())


@each_way
async def test_a_refused_call_goes_back_to_the_program_that_waits(tmp_path: Path, *, stream: bool) -> None:
    """C2, C7: in its container, and the provider, which is strict about it, takes it."""
    async with play(tmp_path, RULES) as stage:
        stage.provider.script(answered(CODE, ROLL, stream=stream), Answer("Seven it cannot be."))
        got = await stage.post(MESSAGES, asked(stream=stream))
        assert [one.refused for one in stage.provider.seen] == [None, None]
        again = json.loads(stage.provider.seen[1].body)
        (decision,) = await stage.decisions()
    assert (decision["tool"], decision["outcome"]) == ("roll", "block")
    assert again["container"] == "container_1"
    assert [block["type"] for block in again["messages"][-1]["content"]] == ["tool_result"]
    answer = sdk_streams(got.body) if stream else sdk_reads(got.body)
    assert [block.type for block in answer.content if block.type == "tool_use"] == []
    assert any(block.type == "text" and "Seven" in block.text for block in answer.content)


@each_way
async def test_the_last_answer_is_asked_for_inside_the_result(tmp_path: Path, *, stream: bool) -> None:
    """B3: where the rounds are used up, the instruction may not stand as a text beside the results."""
    result = {"type": "tool_result", "tool_use_id": "t1", "content": "7"}
    history = ({"role": "assistant", "content": [CODE, ROLL]}, {"role": "user", "content": [result]})
    async with play(tmp_path, limits__turn__rounds=1) as stage:
        stage.provider.script(answered(CODE, ROLL, stream=stream), Answer("It was 7."))
        await stage.post(MESSAGES, asked(stream=stream))
        await stage.post(MESSAGES, asked(*history, stream=stream, container="container_1"))
        assert [one.refused for one in stage.provider.seen] == [None, None]
        last = json.loads(stage.provider.seen[1].body)
    (only,) = last["messages"][-1]["content"]
    assert only["content"].startswith("7\n\n")
    assert last["tool_choice"] == {"type": "none"}


@each_way
async def test_a_pause_is_gone_on_from_as_one_run(tmp_path: Path, *, stream: bool) -> None:
    """C7, E2: what the provider runs itself is owed nothing, and the next request belongs to the same run."""
    said = {"type": "text", "text": "Searching."}
    async with play(tmp_path) as stage:
        stage.provider.script(answered(said, CODE, stream=stream, finish="pause_turn"), Answer("Done."))
        first = await stage.post(MESSAGES, asked(stream=stream))
        answer = sdk_streams(first.body) if stream else sdk_reads(first.body)
        assert answer.stop_reason == "pause_turn"
        paused = {"role": "assistant", "content": [said, CODE]}
        second = await stage.post(MESSAGES, asked(paused, stream=stream, container="container_1"))
        assert json.loads(stage.provider.seen[1].body)["messages"][1] == paused
    assert (first.status, second.status) == (200, 200)
    assert first.headers["x-callgate-run"] == second.headers["x-callgate-run"]
