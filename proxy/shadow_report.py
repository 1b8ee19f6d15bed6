"""Where what is only tried out differs from what is enforced, from audit journals: checks and rules in shadow, and a second
set of policies (F2).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from .audit_records import DecisionRecord, Record, ShadowRecord
from .printable import clipped, escaped

REFUSING = frozenset({"reask", "finish", "deny"})
MOST_EXAMPLES = 3
_SHADOW = "shadow"
_ALLOWED, _REFUSED = "allowed", "refused"


@dataclass(slots=True)
class Group:
    """Calls of one tool that one thing in shadow would treat otherwise."""

    tool: str
    by: str
    """The check with its code, or the rule with its layer and code."""
    would: str
    calls: int = 0
    first: str = ""
    """Time of the first one, as in the journal."""
    last: str = ""
    examples: list[str] = field(default_factory=list)
    """Arguments as the journal has them: redacted and cut."""

    def add(self, at: str, arguments: str) -> None:
        """One more."""
        self.calls += 1
        self.first, self.last = min(self.first or at, at), max(self.last, at)
        if arguments not in self.examples and len(self.examples) < MOST_EXAMPLES:
            self.examples.append(arguments)


@dataclass(slots=True)
class Report:
    """All calls that were judged, and where shadow differs."""

    calls: int = 0
    released: int = 0
    groups: dict[tuple[str, str, str], Group] = field(default_factory=dict)

    @property
    def newly_refused(self) -> int:
        """Cases in which something in shadow would refuse what was let through."""
        return sum(group.calls for group in self.groups.values() if group.would == _REFUSED)

    def as_json(self) -> dict[str, Any]:
        """For programs."""
        return {
            "calls": self.calls,
            "released": self.released,
            "newly_refused": self.newly_refused,
            "differences": [
                {
                    "tool": each.tool,
                    "by": each.by,
                    "would": each.would,
                    "calls": each.calls,
                    "first": each.first,
                    "last": each.last,
                    "examples": each.examples,
                }
                for each in self.sorted()
            ],
        }

    def sorted(self) -> list[Group]:
        """The most frequent first."""
        return sorted(self.groups.values(), key=lambda each: (-each.calls, each.tool, each.by))

    def note(self, at: str, tool: str, arguments: str, by: str, would: str) -> None:
        """One call that would be treated otherwise."""
        key = (tool, by, would)
        self.groups.setdefault(key, Group(tool, by, would)).add(at, arguments)


def reported(records: Iterable[Record]) -> Report:
    """The differences in these records."""
    report = Report()
    for record in records:
        if record["kind"] == "decision" and record.get("phase") == "calls":
            _of_checks(report, record)
        elif record["kind"] == "shadow":
            _of_policies(report, record)
    return report


def _of_checks(report: Report, record: DecisionRecord) -> None:
    """Verdicts in shadow about calls that were let through."""
    for place, call in enumerate(record["calls"]):
        report.calls += 1
        if not call["released"]:
            continue
        report.released += 1
        names = {
            f"{verdict['check']} ({verdict['code']})"
            for verdict in record["verdicts"]
            if verdict["mode"] == _SHADOW
            and verdict["action"] in REFUSING
            and verdict["call"] in {place, None}
        }
        for by in sorted(names):
            report.note(record["ts"], call["tool"], call["arguments"], by, _REFUSED)


def _of_policies(report: Report, record: ShadowRecord) -> None:
    by = "; ".join(record["by"]) or "policy.shadow"
    report.note(record["ts"], record["tool"], record["arguments"], f"policy.shadow: {by}", record["would"])


def print_report(console: Console, report: Report) -> None:
    """A summary and a line for each difference."""
    console.print(
        f"{report.calls} calls judged, {report.released} let through; shadow would refuse {report.newly_refused} of these",
        markup=False,
    )
    if not report.groups:
        console.print("Nothing in shadow differs from what is enforced.")
        return
    table = Table("calls", "tool", "would be", "by", "first", "last", "examples", box=box.SIMPLE)
    for each in report.sorted():
        examples = "\n".join(clipped(escaped(example), 60) for example in each.examples)
        cells = (each.tool, each.would, each.by, each.first, each.last)
        table.add_row(str(each.calls), *(Text(escaped(cell)) for cell in cells), Text(examples))
    console.print(table)
