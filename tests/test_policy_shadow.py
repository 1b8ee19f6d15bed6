"""Policies in shadow are asked beside those in force, and never act (F2)."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from proxy.audit import AuditJournal
from proxy.core.messages import ToolCall
from proxy.core.runs import Run
from proxy.core.verdicts import Decision, Denial
from proxy.demo import Answer, Call
from proxy.engines import Policies
from proxy.engines.samples import sample_inputs
from proxy.errors import EngineFault
from proxy.policy_shadow import MOST_WAITING, PolicyShadow
from tests.asked import GOOD, ScriptedEngine, shipped
from tests.playbook import CHAT, Play, play

RUN = Run("r", "k", 1.0)
CALLS = [ToolCall("c1", "refund", '{"id": "A1"}'), ToolCall("c2", "look_up", "{}")]
DOCUMENT: Mapping[str, object] = next(each for each in sample_inputs(shipped()) if each["phase"] == "calls")
DENIAL = {"code": "no", "call": 0, "message": "m", "action": "deny", "layer": "org", "rule": "r"}


class Blocked(ScriptedEngine):
    """Answers when it may."""

    def __init__(self) -> None:
        super().__init__(GOOD)
        self.may = asyncio.Event()

    async def decide(self, document: Mapping[str, object]) -> Mapping[str, object]:
        """What it was told, later."""
        await self.may.wait()
        return await super().decide(document)


def shadow(engine: ScriptedEngine, counts: list[str]) -> PolicyShadow:
    return PolicyShadow(Policies(engine, shipped()), AuditJournal(None), counts.append)


@pytest.mark.parametrize(
    ("said", "decision", "counted"),
    [
        ({}, Decision(), ["same", "same"]),
        ({"deny": [DENIAL]}, Decision(), ["stricter", "same"]),
        ({"deny": [DENIAL]}, Decision(denials=(Denial("no", "m"),)), ["same", "laxer"]),
        ({"deny": "odd"}, Decision(), ["fault", "fault"]),
    ],
)
async def test_each_call_is_compared(said: dict[str, object], decision: Decision, counted: list[str]) -> None:
    counts: list[str] = []
    engine = ScriptedEngine(GOOD | said)
    it = shadow(engine, counts)
    it.asked(RUN, "req_1", DOCUMENT, CALLS, decision)
    await it.close()

    assert counts == counted
    assert engine.closed


async def test_what_breaks_in_it_stays_in_it() -> None:
    counts: list[str] = []
    it = shadow(ScriptedEngine(EngineFault("took too long")), counts)
    it.asked(RUN, "req_1", DOCUMENT, CALLS, Decision())
    it.asked(RUN, "req_2", DOCUMENT, CALLS, Decision())
    await it.close()

    assert counts == ["fault"] * 4


async def test_nobody_waits_for_it_and_what_is_too_much_is_dropped() -> None:
    """It holds back neither a turn nor the end of the process, and no memory grows."""
    counts: list[str] = []
    engine = Blocked()
    it = shadow(engine, counts)
    for _ in range(MOST_WAITING + 10):
        it.asked(RUN, "req_1", DOCUMENT, CALLS[:1], Decision())
    assert counts == ["dropped"] * 10
    engine.may.set()
    await it.close()

    assert counts.count("same") == MOST_WAITING
    assert engine.closed


# --- through a whole Callgate -----------------------------------------------------------------------------------------

BODY: dict[str, Any] = {
    "model": "m",
    "messages": [{"role": "user", "content": "Refund A1."}],
    "tools": [
        {"type": "function", "function": {"name": name, "parameters": {"type": "object"}}}
        for name in ("refund", "look_up")
    ],
}
MADE = Answer(calls=(Call("refund", {"id": "A1", "password": "hunter2"}), Call("look_up", {"id": "A1"})))


async def asked(
    tmp_path: Path, name: str, rules: Mapping[str, object] | None, **more: Any
) -> tuple[Play, Any]:
    folder = tmp_path / name
    folder.mkdir()
    settings = dict(more)
    if rules is not None:
        file = folder / "tried.yaml"
        file.write_text(yaml.safe_dump(dict(rules)))
        settings["policy__shadow"] = {"data": str(file)}
    async with play(folder, **settings) as stage:
        stage.provider.script(MADE)
        answer = await stage.post(CHAT, BODY)
    return stage, answer


async def test_a_second_set_of_policies_is_recorded_and_changes_nothing(tmp_path: Path) -> None:
    """F2: the agent and the provider see the same; what would have been otherwise is in the journal, redacted."""
    plain, without = await asked(tmp_path, "without", None)
    stage, with_it = await asked(tmp_path, "with", {"org": {"denied_tools": ["refund"]}})
    records = await stage.records("shadow")

    assert with_it.json["choices"] == without.json["choices"]
    assert [seen.body for seen in stage.provider.seen] == [seen.body for seen in plain.provider.seen]
    (record,) = records
    assert record["kind"] == "shadow"
    assert (record["tool"], record["was"], record["would"]) == ("refund", "allowed", "refused")
    assert record["by"] == ["org: denied_tools (tool_not_allowed)"]
    assert record["policy"] != record["shadow"]
    assert "hunter2" not in stage.journal.read_text()


async def test_policies_in_shadow_that_read_results_get_them(tmp_path: Path) -> None:
    """Though those in force read none."""
    constraint = {"id": {"in_results_of": ["look_up"]}}
    rules = {"org": {"tools": {"refund": {"arguments": constraint}}}}
    folder = tmp_path / "results"
    folder.mkdir()
    file = folder / "tried.yaml"
    file.write_text(yaml.safe_dump(rules))
    call = {"id": "c0", "type": "function", "function": {"name": "look_up", "arguments": '{"id": "A1"}'}}
    messages = [
        *BODY["messages"],
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c0", "content": '{"id": "A1"}'},
    ]
    async with play(folder, policy__shadow={"data": str(file)}) as stage:
        stage.provider.script(replace(MADE, calls=MADE.calls[:1]))
        await stage.post(CHAT, BODY | {"messages": messages})
    records = await stage.records("shadow")

    assert records == []


async def test_policies_in_shadow_that_do_not_load_are_a_fault_of_the_start(tmp_path: Path) -> None:
    """Whoever tries something out should know that it is not tried out."""
    with pytest.raises(EngineFault, match="allowed_tool"):
        await asked(tmp_path, "bad", {"org": {"allowed_tool": ["x"]}})
