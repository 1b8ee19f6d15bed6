"""A policy that breaks: C033."""

import logging
from dataclasses import replace
from pathlib import Path

import pytest

from proxy.demo import Answer, Call
from proxy.engines import load_bundle
from tests.cases.clients import Json
from tests.cases.harness import Stage, staged

POINTS = """package callgate.org

deny contains {
	"code": "too_many_points",
	"call": call.index,
	"message": "No more than 100 points at once.",
} if {
	some call in input.calls
	call.name == "move_points"
	to_number(call.arguments.amount) > 100
}
"""
"""The case's rule, in the words of this product: its place is said in the log."""

FURTHER = """package callgate.org

_asked(amount) if input.calls[_].arguments.amount == amount

deny contains word if {
	some word in ["yes"]
	_asked("no decision")
}

deny contains {"code": "x", "call": 0, "message": reason} if {
	some reason in [null]
	_asked("no message")
}

deny contains {"code": "x", "call": 0, "message": "Endless."} if {
	_asked("endless")
	some a in numbers.range(1, 4000)
	some b in numbers.range(1, 4000)
	some c in numbers.range(1, 4000)
	a + b + c < 0
}

deny contains {"code": "x", "call": 0, "message": "Vast."} if {
	_asked("vast")
	count(numbers.range(1, 1000000000)) < 0
}

limits := {"turn": {"calls": 1}} if _asked("two at once")

limits := {"turn": {"calls": 2}} if _asked("two at once")
"""
"""For each amount that is asked for, another way to break."""

MAIN = """package callgate.main

decision := {"deny": [], "allowed_tools": null, "limits": {}, "tools": {}, "shadow": [], "approvals": [], "cited": []} if {
	not input.calls[0].arguments.amount == "nothing at all"
}
"""
"""In place of the shipped entrypoint, whose default would refuse: sometimes no decision at all."""


def folder(tmp_path: Path, **files: str) -> Path:
    place = tmp_path / "policies" / "callgate" / "org"
    place.mkdir(parents=True)
    for name, text in files.items():
        (place / f"{name}.rego").write_text(text)
    return tmp_path / "policies"


async def asked_for(stage: Stage, amount: str, *, stream: bool) -> Json:
    """The decision about a call for so many points; nothing of it may reach the agent where it is blocked."""
    stage.provider.script(Answer("Moving.", calls=(Call("move_points", {"amount": amount}, "call_x"),)))
    found = await stage.send(stage.case.requests[0], stage.fresh(), stream=stream)
    (decision,) = await stage.decisions(found)
    assert (found.calls == []) is (decision["outcome"] == "block")
    if decision["reason_class"] == "policy_error":
        # What the model cannot mend goes to people, without the place in the policy.
        assert found.status == 200
        assert "could not be evaluated" in found.text
        assert ".rego" not in found.raw.decode()
        assert stage.run(found).outcome == "failed"
    return decision


@pytest.mark.parametrize("stream", [True, False])
async def test_a_rule_that_cannot_be_evaluated_objects(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, *, stream: bool
) -> None:
    """C033. C4, D2, F3: an error in a rule is no silence of that rule, and stands in the log with its place."""
    policies = (folder(tmp_path, points=POINTS),)
    async with staged("c033", tmp_path, policy__folders=policies) as stage:
        case, (asked,) = stage.case, stage.case.requests
        case.unseen.discard("further_runs.decisions[0].reason_class")
        found, decisions = [], []
        for answer in case.upstream:
            stage.tell(answer, stream=stream)
            found.append(await stage.send(asked, stage.fresh(), stream=stream))
            decisions += await stage.decisions(found[-1])

        case.holds("run1.client.tool_calls", found[0].tool_calls)
        case.holds("run1.decisions[0].reason_class", decisions[0]["reason_class"])
        case.holds("run2.decisions[0].reason_class", decisions[1]["reason_class"])
        case.holds("run3.client.tool_calls", found[2].tool_calls)
        assert [entry["outcome"] for entry in decisions] == ["block", "block", "allow"]
        assert "No more than 100 points at once." in found[1].text
        logged = [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR]
        assert len(logged) == 1
        assert "points.rego:10:" in logged[0]


async def test_whatever_else_breaks_in_a_policy_blocks(tmp_path: Path) -> None:
    """C033, its further runs. C4, F3: no denial, no message, two limits, no end, no room; and the proxy lives on."""
    policies = (folder(tmp_path, further=FURTHER),)
    async with staged("c033", tmp_path, policy__folders=policies) as stage:
        case = stage.case
        case.unseen &= {"further_runs.decisions[0].reason_class"}
        for amount in ("no decision", "no message", "two at once", "endless", "vast"):
            decision = await asked_for(stage, amount, stream=amount != "endless")
            case.holds("further_runs.decisions[0].reason_class", decision["reason_class"])
            assert (await asked_for(stage, "50", stream=False))["outcome"] == "allow"


async def test_no_decision_at_all_blocks(tmp_path: Path) -> None:
    """C033, its further runs: undefined. C4, F3. The shipped entrypoint has a default, so another one is put there."""
    async with staged("c033", tmp_path) as stage:
        case = stage.case
        case.unseen &= {"further_runs.decisions[0].reason_class"}
        bundle = load_bundle(())
        embedded = {
            name: replace(module, text=MAIN if name.endswith("main/main.rego") else module.text)
            for name, module in bundle.embedded.items()
            if not name.endswith(("main/tools.rego", "main/approvals.rego", "main/answers.rego"))
        }
        await stage.play.callgate.policies.reload(replace(bundle, embedded=embedded, revision="undefined"))
        decision = await asked_for(stage, "nothing at all", stream=True)
        case.holds("further_runs.decisions[0].reason_class", decision["reason_class"])
        assert (await asked_for(stage, "50", stream=True))["outcome"] == "allow"
