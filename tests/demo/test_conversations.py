"""Recorded conversations through a running Callgate: what went in comes out, or it is said where it did not."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from proxy.config import load_settings
from proxy.demo.conversations import (
    BadRecording,
    Caller,
    Conversation,
    Played,
    play_conversations,
    read_conversations,
)
from tests.conftest import need
from tests.playbook import SHARED

if TYPE_CHECKING:
    from pathlib import Path

CALL = {"id": "c1", "type": "function", "function": {"name": "find", "arguments": '{"q":"a"}'}}
TOOLS = [{"type": "function", "function": {"name": "find", "parameters": {"type": "object"}}}]


def _searching(times: int) -> Conversation:
    messages: list[dict[str, Any]] = [{"role": "user", "content": "Find a."}]
    for number in range(times):
        messages.append({"role": "assistant", "content": None, "tool_calls": [CALL | {"id": f"c{number}"}]})
        messages.append({"role": "tool", "tool_call_id": f"c{number}", "content": '{"hits":[]}'})
    return Conversation("looping", [*messages, {"role": "assistant", "content": "There is nothing."}], 0.0)


async def test_a_run_that_gets_on_passes_untouched_and_unflagged() -> None:
    """A7: not one byte is another one, in neither direction."""
    heard: list[Played] = []

    played = await play_conversations(
        [_searching(1)], TOOLS, load_settings(environment={}), progress=heard.append
    )

    assert [(each.rounds, each.altered, dict(each.verdicts)) for each in played] == [(2, [], {})]
    assert heard == played


async def test_a_run_that_repeats_itself_is_flagged_with_the_round_and_the_check() -> None:
    """A4: the brake shows in the table, with what it did."""
    (played,) = await play_conversations([_searching(5)], TOOLS, load_settings(environment={}))

    assert played.altered[0] == 3
    assert played.verdicts["progress.same_call", "finish"] >= 1


async def test_the_recorded_run_goes_on_after_a_refusal_and_each_call_is_judged_by_the_recorded_history(
    tmp_path: Path,
) -> None:
    """D2: the second call is refused, the third is judged as if it had been made; ids may repeat."""
    rules = tmp_path / "rules.yaml"
    rules.write_text(
        "agents:\n  finder:\n    tools:\n      find:\n        arguments: {q: {not_one_of: [b]}}\n"
    )
    messages: list[dict[str, Any]] = [{"role": "user", "content": "Find a, b and c."}]
    for letter in "abc":
        call = CALL | {"function": {"name": "find", "arguments": json.dumps({"q": letter})}}
        messages.append({"role": "assistant", "content": None, "tool_calls": [call]})
        messages.append({"role": "tool", "tool_call_id": "c1", "content": json.dumps({"found": letter})})
    messages.append({"role": "assistant", "content": "Done."})
    settings = load_settings(environment={"CALLGATE_POLICY__DATA": str(rules)})

    (played,) = await play_conversations(
        [Conversation("run", messages)], TOOLS, settings, caller=Caller(agent="finder")
    )

    told = [(call.arguments, call.result, call.released, call.refused_by) for call in played.calls]
    assert told == [
        ({"q": "a"}, '{"found": "a"}', True, ()),
        ({"q": "b"}, '{"found": "b"}', False, ("argument_rule",)),
        ({"q": "c"}, '{"found": "c"}', True, ()),
    ]
    assert (played.rounds, played.altered) == (4, [2])


async def test_all_recorded_runs_that_ended_well_pass_untouched() -> None:
    """A4, D9: the default brakes harm none of 49 good runs of a public benchmark; one of the others gets a nudge."""
    folder = SHARED / "trajectories"
    need(folder.is_dir(), "the recorded runs are not beside this checkout")
    tools = json.loads((folder / "airline_tools.json").read_text())

    played = await play_conversations(
        read_conversations(folder / "airline.jsonl"), tools, load_settings(environment={})
    )

    assert len(played) == 100
    good = [each for each in played if each.conversation.reward == 1.0]
    assert (len(good), [each.conversation.id for each in good if each.is_flagged]) == (49, [])
    flagged = {each.conversation.id: dict(each.verdicts) for each in played if each.is_flagged}
    assert flagged == {"airline-08-1": {("progress.nudge", "nudge"): 1}}


@pytest.mark.parametrize(
    "line",
    [
        "{",
        "[]",
        "{}",
        '{"messages": [{}]}',
        '{"messages": [{"role": 1}]}',
        '{"messages": 1}',
        '{"messages": [], "expected_actions": [{"name": "pay"}]}',
    ],
)
def test_a_line_that_is_no_conversation_is_named(tmp_path: Path, line: str) -> None:
    """The file and the line number lead to the mistake."""
    file = tmp_path / "runs.jsonl"
    file.write_text('\n{"messages": []}\n' + line + "\n")

    with pytest.raises(BadRecording, match="line 3"):
        read_conversations(file)
