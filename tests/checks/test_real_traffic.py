"""What providers accepted and models really said passes the checks; so do runs that ended well (F1).

The recordings are no part of the project: without the folder beside the checkout these tests are skipped.
"""

import json
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from proxy.checks import judge_calls, judge_request
from proxy.core.fingerprint import call_fingerprint, result_identity
from proxy.core.limits import Amounts
from proxy.core.messages import Malformed, Message, Request, Role, Tool, ToolCall, ToolResult, Turn
from proxy.core.recognition import absorbed, prefix_chain, rebuilt, step_of
from proxy.core.results import StepStatus, ToolTraits, classify
from proxy.core.runs import Run, RunChange, Step, applied
from proxy.core.verdicts import Action, Decision, Facts
from proxy.dialects import DIALECTS, Dialect
from tests.checks.build import NOW, enforced, facts
from tests.conftest import need
from tests.dialects.wire import FOLDERS

SHARED = Path(__file__).resolve().parents[3] / "shared"
# These recordings hold a result under an id that no call has: noticing that is what E1 asks for.
MISMATCHED = "history-result-without-call"
# The same call failed the same way twice, and the agent's own reminder between them is no person speaking.
NUDGED = {"oc-10eb84c8"}
# A model that asked for the double of the same number again and again: a loop, and stopped as one.
LOOPS = {"ge-0c17657c", "ge-0fe112f8", "ge-10b67a5a", "ge-1f1c95bb", "ge-49863113"}
# Calls of tools that were never offered, and of arguments that the tool does not have: one recorder tried files.
MADE_UP = {"gemini": 13}
WRITING = (
    "book_reservation",
    "cancel_reservation",
    "update_reservation_flights",
    "update_reservation_passengers",
    "update_reservation_baggages",
    "send_certificate",
)


@cache
def exchanges(dialect: str) -> list[dict[str, Any]]:
    """All recorded exchanges of a dialect that a provider answered well and that can be read."""
    files = sorted((SHARED / "wire" / FOLDERS.get(dialect, dialect)).glob("*.json"))
    need(files, f"no recordings of {dialect} beside the checkout")
    found = [json.loads(file.read_text(encoding="utf-8")) for file in files]
    return [
        each
        for each in found
        if each["response"]["status"] == 200 and isinstance(each["request"].get("body"), dict)
    ]


def asked(dialect: Dialect, exchange: dict[str, Any]) -> Facts | None:
    try:
        request = dialect.parse_request(
            json.dumps(exchange["request"]["body"]).encode(), exchange["request"]["path"]
        )
    except Malformed:
        return None
    run = rebuilt(Run("run_1", "someone", NOW), request, prefix_chain(request.messages), NOW)
    return facts(request=request, run=run)


def answered(dialect: Dialect, exchange: dict[str, Any]) -> Turn | None:
    body = (exchange["response"].get("body") or "").encode()
    try:
        if "stream" in exchange["tags"]:
            reader = dialect.reader(lambda: "made")
            reader.feed(body)
            reader.end()
            return reader.turn()
        return dialect.parse_response(body, lambda: "made")
    except Malformed:
        return None


@pytest.mark.parametrize("dialect", DIALECTS, ids=lambda dialect: dialect.name)
def test_no_request_that_a_provider_accepted_is_touched(dialect: Dialect) -> None:
    """F1, A7: nothing refused, no note, no repair, but where an id has no call (E1) or no progress is made (D9)."""
    seen = 0
    for exchange in exchanges(dialect.name):
        told = asked(dialect, exchange)
        if told is None or MISMATCHED in exchange["tags"] or exchange["id"] in LOOPS:
            continue
        verdicts = judge_request(told)
        notes = [("nudge", Action.NUDGE)] if exchange["id"] in NUDGED else []
        assert enforced(verdicts) == notes, exchange["id"]
        assert not [each for each in verdicts if each.repairs], exchange["id"]
        seen += 1
    assert seen


@pytest.mark.parametrize("dialect", DIALECTS, ids=lambda dialect: dialect.name)
def test_hardly_a_call_that_a_model_really_made_is_refused(dialect: Dialect) -> None:
    """F1: refused are only calls of tools that were never offered, and arguments that break their schema."""
    calls = refused = 0
    for exchange in exchanges(dialect.name):
        told, turn = asked(dialect, exchange), answered(dialect, exchange)
        if told is None or turn is None or not turn.calls or exchange["id"] in LOOPS:
            continue
        codes = {code for code, _ in enforced(judge_calls(replace(told, calls=turn.calls)))}
        assert codes <= {"tool_unknown", "arguments_schema"}, exchange["id"]
        calls += 1
        refused += bool(codes)
    assert calls
    assert refused <= 1 + calls // 100 + MADE_UP.get(dialect.name, 0)


def links(dialect: Dialect) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """Pairs of exchanges of which the second carries the first one on."""
    by_id = {each["id"]: each for each in exchanges(dialect.name)}
    for sequence in json.loads((SHARED / "wire" / "sequences.json").read_text(encoding="utf-8")):
        for before, after, how in sequence["links"]:
            ids = sequence["exchanges"][before], sequence["exchanges"][after]
            if how in {"tool-result", "history"} and all(each in by_id for each in ids):
                yield by_id[ids[0]], by_id[ids[1]]


@pytest.mark.parametrize("dialect", DIALECTS, ids=lambda dialect: dialect.name)
def test_what_agents_send_back_is_recognised_as_what_was_released(dialect: Dialect) -> None:
    """A2: SDKs and frameworks write calls anew in their own way; none of that is an alteration."""
    compared = 0
    pairs = [(before, after) for before, after in links(dialect) if after["id"] not in LOOPS]
    for before, after in pairs:
        first, turn, second = asked(dialect, before), answered(dialect, before), asked(dialect, after)
        if first is None or turn is None or second is None:
            continue
        released = tuple(step_of(each, first.run, NOW) for each in turn.calls)
        run = applied(first.run, RunChange(at=NOW, add_steps=released))
        chain = prefix_chain(second.request.messages)
        run = applied(run, absorbed(run, second.request, chain, NOW + 1))
        assert not enforced(judge_request(replace(second, run=run))), (before["id"], after["id"])
        compared += len(turn.calls)
    assert compared or not pairs


# --- whole runs ------------------------------------------------------------------------------------------------


def airline_runs() -> Iterator[dict[str, Any]]:
    path = SHARED / "trajectories" / "airline.jsonl"
    need(path.exists(), "no recorded runs beside the checkout")
    for line in path.read_text(encoding="utf-8").splitlines():
        yield json.loads(line)


def airline_tools() -> tuple[Tool, ...]:
    declared = json.loads((SHARED / "trajectories" / "airline_tools.json").read_text(encoding="utf-8"))
    return tuple(Tool(each["function"]["name"], schema=each["function"]["parameters"]) for each in declared)


class Replay:
    """Walks a recorded conversation as the gate would have seen it and keeps what acted."""

    def __init__(self, tools: tuple[Tool, ...], traits: dict[str, ToolTraits]) -> None:
        self.tools, self.traits = tools, traits
        self.turn = self.round = 0
        self.messages: list[Message] = []
        self.steps: list[Step] = []
        self.acted: list[str] = []

    def facts(self, calls: tuple[ToolCall, ...] = ()) -> Facts:
        spent = Amounts(rounds=self.round)
        run = Run("run_1", "someone", NOW, steps=tuple(self.steps), turn=max(self.turn, 1), spent=spent)
        request = Request("plain", "model-1", tuple(self.messages), tools=self.tools)
        return facts(*calls, request=request, run=run, decision=Decision(traits=self.traits))

    def read(self, message: dict[str, Any]) -> None:
        role = Role(message["role"])
        self.turn += role is Role.USER
        calls = tuple(
            ToolCall(each["id"], each["function"]["name"], each["function"]["arguments"])
            for each in message.get("tool_calls") or ()
        )
        if role is Role.ASSISTANT:
            self.round += 1
            self.acted += [code for code, _ in enforced(judge_request(self.facts()))]
            self.acted += [code for code, _ in enforced(judge_calls(self.facts(calls)))]
        for call in calls:
            fingerprint = call_fingerprint(call.name, call.arguments)
            place = (len(self.steps) + 1, max(self.turn, 1), self.round)
            self.steps.append(Step(*place, call.id, call.name, call.arguments, fingerprint))
        results: tuple[ToolResult, ...] = ()
        if role is Role.TOOL:
            self._answer(message["tool_call_id"], message["content"])
            results = (ToolResult(message["tool_call_id"], message["content"]),)
        self.messages.append(Message(role, "" if results else message.get("content") or "", calls, results))

    def _answer(self, call_id: str, text: str) -> None:
        place = max(
            at
            for at, step in enumerate(self.steps)
            if step.call_id == call_id and step.status is StepStatus.PENDING
        )
        step = self.steps[place]
        traits = self.traits.get(step.tool, ToolTraits())
        self.steps[place] = replace(
            step,
            status=classify(ToolResult(call_id, text), traits),
            result=text,
            result_identity=result_identity(text, traits),
            result_at=NOW + self.round,
        )


@pytest.mark.parametrize("declared", [False, True], ids=["nothing declared", "effects declared"])
def test_runs_that_ended_well_pass_untouched(declared: bool) -> None:
    """D4, D9, E9, F1: with the default brakes. Of the others one is braked, which looks up the same thing twice, and
    one is refused to book the same seats a second time, which the recorded airline did."""
    tools = airline_tools()
    effects = {tool.name: ToolTraits(effect="write" if tool.name in WRITING else "read") for tool in tools}
    well: list[list[str]] = []
    badly: list[list[str]] = []
    for run in airline_runs():
        replay = Replay(tools, effects if declared else {})
        for message in run["messages"]:
            replay.read(message)
        (well if run["reward"] == 1.0 else badly).append(replay.acted)

    assert len(well) == 49
    assert not any(well)
    booked_twice = [["side_effect_done"]] if declared else []
    assert [acted for acted in badly if acted] == [["nudge"] * (1 + declared), *booked_twice]
