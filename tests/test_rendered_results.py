"""Results as the model reads them, through a running Callgate: truncated, fenced, marked, and the same every time."""

import itertools
import json
from pathlib import Path
from typing import Any

import pytest

from proxy.demo import Answer, Call
from tests.playbook import CHAT, MESSAGES, play

RESPONSES = "/v1/responses"
LONG = "order A1: " + "x" * 500


def asked(path: str, results: list[str], *, stream: bool) -> dict[str, Any]:
    """A conversation with so many calls and results."""
    schema = {"type": "object", "properties": {}}
    ids = [f"call_{place}" for place in range(len(results))]
    body: dict[str, Any] = {"model": "m", "stream": stream}
    if path == CHAT:
        messages: list[Any] = [{"role": "user", "content": "Look."}]
        for id_, text in zip(ids, results, strict=True):
            call = {"id": id_, "type": "function", "function": {"name": "look", "arguments": "{}"}}
            messages += [
                {"role": "assistant", "content": None, "tool_calls": [call]},
                {"role": "tool", "tool_call_id": id_, "content": text},
            ]
        tools: list[Any] = [{"type": "function", "function": {"name": "look", "parameters": schema}}]
        return body | {"messages": messages, "tools": tools}
    if path == MESSAGES:
        messages = [{"role": "user", "content": "Look."}]
        for id_, text in zip(ids, results, strict=True):
            use = {"type": "tool_use", "id": id_, "name": "look", "input": {}}
            result = {"type": "tool_result", "tool_use_id": id_, "content": text}
            messages += [{"role": "assistant", "content": [use]}, {"role": "user", "content": [result]}]
        return body | {
            "max_tokens": 99,
            "messages": messages,
            "tools": [{"name": "look", "input_schema": schema}],
        }
    items: list[Any] = [{"role": "user", "content": "Look."}]
    for id_, text in zip(ids, results, strict=True):
        items += [
            {"type": "function_call", "call_id": id_, "name": "look", "arguments": "{}"},
            {"type": "function_call_output", "call_id": id_, "output": text},
        ]
    return body | {
        "input": items,
        "store": False,
        "tools": [{"type": "function", "name": "look", "parameters": schema}],
    }


each_path = pytest.mark.parametrize("path", [CHAT, MESSAGES, RESPONSES])
each_way = pytest.mark.parametrize(
    "stream", [pytest.param(False, id="whole"), pytest.param(True, id="streamed")]
)


@each_path
@each_way
async def test_the_same_result_reads_the_same_in_every_request(
    path: str, stream: bool, tmp_path: Path
) -> None:
    """A7, B5, C8, C9: what the provider has cached stays as it was."""
    settings: dict[str, Any] = {
        "results__truncate": 100,
        "results__fence": True,
        "results__mark_errors": True,
    }
    async with play(tmp_path, **settings) as stage:
        results = [LONG, '{"error":"DB_TIMEOUT"}', "short"]
        for count in (1, 2, 3):
            stage.provider.script(Answer(calls=(Call("look", "{}"),)))
            await stage.post(path, asked(path, results[:count], stream=stream))
        bodies = [seen.body for seen in stage.provider.seen]
        assert len(bodies) == 3
        edits: list[Any] = await stage.records("request_edit")
        assert [edit["changed"]["results"] for edit in edits] == [1, 2, 3]
    for earlier, later in itertools.pairwise(bodies):
        same = next(
            place for place, pair in enumerate(zip(earlier, later, strict=False)) if pair[0] != pair[1]
        )
        assert same > earlier.rindex(b"[/callgate ")
    assert b"Truncated: 410 of 510 characters" in bodies[2]
    assert b"error: temporarily_unavailable" in bodies[2]
    assert bodies[2].count(b"it is data") == 3


async def test_policy_says_it_for_single_tools_and_everybody_else_sees_the_whole(tmp_path: Path) -> None:
    """B5, C8: policies and records read the result as it came."""
    rules = {
        "org": {"tools": {"look": {"truncate": 20}}},
        "teams": {"blue": {"tools": {"look": {"fence": True}}}},
    }
    async with play(tmp_path, rules) as stage:
        stage.provider.script(Answer("Done."))
        await stage.post(CHAT, asked(CHAT, [LONG], stream=False))
        sent = json.loads(stage.provider.seen[0].body)["messages"][2]["content"]
        assert sent.startswith(LONG[:20] + "\n[callgate] Truncated: 490 of 510")
        steps: list[Any] = await stage.records("step")
        (step,) = [record for record in steps if record["tool"] == "look"]
        assert step["ok"] is True


async def test_nothing_configured_nothing_changed(tmp_path: Path) -> None:
    """Promise 1: a request that nobody edits goes upstream as it came."""
    async with play(tmp_path) as stage:
        stage.provider.script(Answer("Done."))
        body = json.dumps(asked(CHAT, [LONG], stream=False)).encode()
        await stage.post(CHAT, body)
        assert stage.provider.seen[0].body == body
