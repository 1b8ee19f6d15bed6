"""What changed policies would have made of recorded calls (F2)."""

from __future__ import annotations

import io
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from rich.console import Console

from proxy.engines import Engine, Policies
from proxy.engines.samples import sample_inputs
from proxy.policy_comparison import Comparison, compared, print_comparison
from proxy.policy_results import Result
from proxy.redaction import Redactor
from proxy.seen_calls import SeenAnswer
from tests.asked import GOOD, ScriptedEngine, shipped


def policies(**said: object) -> Policies:
    engine: Engine = ScriptedEngine(GOOD | said)
    return Policies(engine, shipped())


def denied(call: int | None = 0, code: str = "closed") -> dict[str, Any]:
    return {"code": code, "call": call, "message": "No.", "action": "reask", "layer": "org", "rule": "r"}


def asked_for(call: int = 0) -> dict[str, Any]:
    return {"code": "approval_required", "call": call, "message": "Ask.", "layer": "team.a", "rule": "p"}


def answer(*tools: str, run: str = "one", arguments: Mapping[str, Any] | None = None) -> SeenAnswer:
    document = next(each for each in sample_inputs(shipped()) if each["phase"] == "calls")
    said = {"id": "A1"} if arguments is None else arguments
    calls = [{"index": place, "name": tool, "arguments": said} for place, tool in enumerate(tools)]
    return SeenAnswer(run, 1, tuple((tool, said) for tool in tools), document | {"calls": calls})


async def of(now: Policies, changed: Policies, *answers: SeenAnswer) -> Comparison:
    return await compared(answers, now, changed, Redactor())


async def test_a_call_that_becomes_refused_is_told_with_the_rule() -> None:
    found = await of(policies(), policies(deny=[denied(1)]), answer("read", "write"))

    assert (found.calls, dict(found.unchanged), found.laxer) == (2, {Result.ALLOWED: 1}, [])
    (difference,) = found.stricter
    assert (difference.run, difference.answer, difference.tool) == ("one", 1, "write")
    assert (difference.before, difference.after) == (Result.ALLOWED, Result.REFUSED)
    assert difference.why == ("org: r (closed)",)
    assert difference.arguments == '{"id":"A1"}'


async def test_a_call_that_becomes_allowed_is_told_with_what_refused_it() -> None:
    found = await of(policies(deny=[denied(None)]), policies(), answer("read"))

    assert found.stricter == []
    assert [(each.before, each.after, each.why) for each in found.laxer] == [
        (Result.REFUSED, Result.ALLOWED, ("org: r (closed)",))
    ]


async def test_the_approval_of_a_person_stands_between() -> None:
    """D4."""
    stricter = await of(policies(), policies(approvals=[asked_for()]), answer("write"))
    laxer = await of(policies(deny=[denied()]), policies(approvals=[asked_for()]), answer("write"))

    assert [each.after for each in stricter.stricter] == [Result.APPROVAL]
    assert [each.after for each in laxer.laxer] == [Result.APPROVAL]


async def test_shadow_changes_nothing() -> None:
    found = await of(policies(), policies(shadow=[denied()]), answer("read"))

    assert (found.stricter, found.laxer, found.unchanged[Result.ALLOWED]) == ([], [], 1)


async def test_policies_that_do_not_decide_refuse() -> None:
    """C033."""
    found = await of(policies(), policies(deny="yes"), answer("read"))

    assert [each.after for each in found.stricter] == [Result.REFUSED]
    assert found.stricter[0].why[0].startswith("no decision: ")


async def test_what_was_not_recorded_whole_is_not_compared() -> None:
    """A redacted argument cannot be judged again."""
    redacted = answer("read", arguments={"token": "[redacted]"})
    claims = answer("read")
    assert claims.document is not None
    identity = {"identity": {"claims": {"api_key": "[redacted]"}}}
    unknown = replace(claims, document={**claims.document, **identity})
    found = await of(
        policies(), policies(deny=[denied()]), redacted, replace(redacted, document=None), unknown
    )

    assert (found.calls, found.not_comparable, found.stricter) == (3, 3, [])


async def test_answers_are_numbered_by_run() -> None:
    found = await of(
        policies(), policies(deny=[denied()]), answer("a"), answer("b", run="two"), answer("c"), answer("d")
    )

    assert [(each.run, each.answer) for each in found.stricter] == [
        ("one", 1),
        ("two", 1),
        ("one", 2),
        ("one", 3),
    ]


async def test_it_is_printed_without_markup_or_secrets() -> None:
    """Recorded text is hostile."""
    hostile = answer("[bold]x[/bold]\x1b[31m", run="[red]", arguments={"password": "hunter2"})
    found = await of(policies(), policies(deny=[denied()]), hostile)
    written = io.StringIO()
    print_comparison(Console(file=written, width=200), found)

    text = written.getvalue()
    assert "[bold]x[/bold]" in text
    assert "\x1b[31m" not in text
    assert "hunter2" not in text + str(found.as_json())
    assert "1 stricter, 0 laxer, 0 not comparable" in text
    assert found.as_json()["stricter"][0]["after"] == "refused"


async def test_a_long_list_is_cut() -> None:
    found = await of(policies(), policies(deny=[denied()]), *(answer("read") for _ in range(60)))
    written = io.StringIO()
    print_comparison(Console(file=written, width=120), found)

    assert "10 more" in written.getvalue()
    assert len(found.as_json()["stricter"]) == 60
