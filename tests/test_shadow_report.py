"""Where shadow differs from what is enforced (F2)."""

from __future__ import annotations

import io
from typing import Any, cast

from rich.console import Console

from proxy.audit_records import Record
from proxy.shadow_report import Report, print_report, reported

STAMP = {"request_id": "q", "run": "r", "turn": 1, "round": 1}


def decision(
    *verdicts: dict[str, Any], released: tuple[bool, ...] = (True,), ts: str = "2026-01-02"
) -> Record:
    calls = [
        {
            "call_id": "c",
            "tool": "refund",
            "args_hash": "h",
            "arguments": f'{{"n":{place}}}',
            "released": left,
        }
        for place, left in enumerate(released)
    ]
    whole = {
        **STAMP,
        "ts": ts,
        "kind": "decision",
        "phase": "calls",
        "verdicts": list(verdicts),
        "calls": calls,
    }
    return cast("Record", whole)


def verdict(mode: str = "shadow", action: str = "reask", call: int | None = 0) -> dict[str, Any]:
    return {"check": "progress.same_call", "code": "loop", "action": action, "mode": mode, "call": call}


def differs(would: str = "allowed", ts: str = "2026-01-03") -> Record:
    said = {"tool": "mail", "arguments": "{}", "was": "refused", "would": would, "by": ["org: r (no)"]}
    return cast("Record", {**STAMP, "ts": ts, "kind": "shadow", **said})


def test_a_check_in_shadow_is_counted_where_its_call_was_let_through() -> None:
    report = reported(
        [
            decision(verdict(), ts="2026-01-05"),
            decision(verdict(call=None), released=(True, False), ts="2026-01-01"),
            decision(verdict(mode="enforce")),
            decision(verdict(action="nudge")),
        ]
    )

    (group,) = report.groups.values()
    assert (report.calls, report.released, report.newly_refused) == (5, 4, 2)
    assert (group.tool, group.by, group.would) == ("refund", "progress.same_call (loop)", "refused")
    assert (group.calls, group.first, group.last) == (2, "2026-01-01", "2026-01-05")
    assert group.examples == ['{"n":0}']


def test_a_second_set_of_policies_is_counted_by_its_rule() -> None:
    report = reported([differs(), differs(), differs("refused")])

    assert [(each.calls, each.would) for each in report.sorted()] == [(2, "allowed"), (1, "refused")]
    assert report.newly_refused == 1
    assert report.as_json()["differences"][0]["by"] == "policy.shadow: org: r (no)"


def test_it_is_printed_for_people() -> None:
    written = io.StringIO()
    print_report(Console(file=written, width=200), reported([decision(verdict()), differs("refused")]))
    print_report(Console(file=written, width=200), Report())

    text = written.getvalue()
    assert "1 calls judged, 1 let through; shadow would refuse 2 of these" in text
    assert "progress.same_call (loop)" in text
    assert "Nothing in shadow differs" in text
