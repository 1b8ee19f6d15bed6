"""What another policy would have made of recorded calls: newly refused, newly allowed, unchanged.

Each answer with calls is decided twice from the same input document, under the policies in force and under the changed ones.
Only policy is compared: schemas, repetition and budgets are other checks, and changing a policy changes nothing about them.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from .core.verdicts import Decision
from .engines import Policies
from .policy_results import Result, reasons_of, result_of
from .printable import clipped, escaped
from .redaction import REDACTED, Redactor
from .seen_calls import SeenAnswer

_SHOWN = 100
_MOST_LISTED = 50


@dataclass(frozen=True, slots=True)
class Difference:
    """A call of which the changed policies make something else."""

    run: str
    answer: int
    """Counts the answers with calls of the run, from 1."""
    tool: str
    arguments: str
    """Redacted and cut."""
    before: Result
    after: Result
    why: tuple[str, ...]
    """`layer: rule (code)` of all that makes the difference."""


@dataclass(slots=True)
class Comparison:
    """All calls, and those that came out differently."""

    calls: int = 0
    unchanged: Counter[Result] = field(default_factory=Counter)
    stricter: list[Difference] = field(default_factory=list)
    laxer: list[Difference] = field(default_factory=list)
    not_comparable: int = 0
    """Calls whose arguments or input were not recorded whole."""

    def as_json(self) -> dict[str, Any]:
        """For programs."""
        return {
            "calls": self.calls,
            "unchanged": {result.word: self.unchanged[result] for result in Result},
            "not_comparable": self.not_comparable,
            "stricter": [_entry(each) for each in self.stricter],
            "laxer": [_entry(each) for each in self.laxer],
        }


async def compared(
    answers: Iterable[SeenAnswer],
    now: Policies,
    changed: Policies,
    redactor: Redactor,
    progress: Callable[[], None] = lambda: None,
) -> Comparison:
    """Decides every answer under both. A policy that gives no decision refuses, as it does in force."""
    found = Comparison()
    numbers: Counter[str] = Counter()
    before, after = now.hold(), changed.hold()
    try:
        for answer in answers:
            numbers[answer.run] += 1
            found.calls += len(answer.calls)
            if answer.document is None or not _is_whole(answer.document):
                found.not_comparable += len(answer.calls)
            else:
                decisions = (
                    await before.decide_again(answer.document),
                    await after.decide_again(answer.document),
                )
                _compare(found, answer, numbers[answer.run], decisions, redactor)
            progress()
    finally:
        before.let_go()
        after.let_go()
    return found


def _is_whole(document: Mapping[str, Any]) -> bool:
    """What is redacted anywhere (in an argument, an earlier step, a claim) may be what decided."""
    return REDACTED not in str(document)


def _compare(
    found: Comparison,
    answer: SeenAnswer,
    number: int,
    decisions: tuple[Decision, Decision],
    redactor: Redactor,
) -> None:
    for place, (tool, arguments) in enumerate(answer.calls):
        before, after = (result_of(decision, place) for decision in decisions)
        if before == after:
            found.unchanged[before] += 1
            continue
        telling = decisions[1] if after > before else decisions[0]
        shown = redactor.summary(_text(arguments), _SHOWN)
        why = reasons_of(telling, place)
        difference = Difference(answer.run, number, tool, shown, before, after, why)
        (found.stricter if after > before else found.laxer).append(difference)


def _text(arguments: Mapping[str, Any] | None) -> str:
    return "" if arguments is None else json.dumps(dict(arguments), ensure_ascii=False)


def _entry(difference: Difference) -> dict[str, Any]:
    return {
        "run": difference.run,
        "answer": difference.answer,
        "tool": difference.tool,
        "arguments": difference.arguments,
        "before": difference.before.word,
        "after": difference.after.word,
        "why": list(difference.why),
    }


# --- for people ---------------------------------------------------------------------------------------------------


def print_comparison(console: Console, found: Comparison) -> None:
    """A summary, what makes the difference by rule, and the calls."""
    kept = ", ".join(f"{found.unchanged[result]} {result.word}" for result in Result)
    console.print(f"{found.calls} calls: unchanged {kept}", markup=False)
    console.print(
        f"{len(found.stricter)} stricter, {len(found.laxer)} laxer, {found.not_comparable} not comparable",
        markup=False,
    )
    for title, differences in (
        ("Stricter under the changed policies", found.stricter),
        ("Laxer under the changed policies", found.laxer),
    ):
        if differences:
            console.print(_by_rule(title, differences))
            console.print(_calls(differences))


def _by_rule(title: str, differences: Sequence[Difference]) -> Table:
    table = Table("calls", "tool", "becomes", "by", title=title, title_justify="left", box=box.SIMPLE)
    groups = Counter((each.tool, each.after.word, each.why) for each in differences)
    for (tool, after, why), count in groups.most_common():
        table.add_row(str(count), _safe(tool), after, _safe("; ".join(why)))
    return table


def _calls(differences: Sequence[Difference]) -> Table:
    table = Table("run", "answer", "call", "was", "becomes", box=box.SIMPLE)
    for each in differences[:_MOST_LISTED]:
        call = f"{clipped(each.tool, 60)} {each.arguments}"
        table.add_row(_safe(each.run), str(each.answer), _safe(call), each.before.word, each.after.word)
    if len(differences) > _MOST_LISTED:
        table.add_row(f"… {len(differences) - _MOST_LISTED} more", "", "", "", "")
    return table


def _safe(text: str) -> Text:
    """Recorded text is no markup, and steers no terminal."""
    return Text(escaped(text))
