"""What a scene looks like in a terminal: every decision as a row, the words that went with it, and what came out wrong.

Plain words and ASCII only, so that it reads the same in a pipe and without colours.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rich import box
from rich.table import Table
from rich.text import Text

from proxy.audit_records import CallRecord, DecisionRecord, VerdictRecord
from proxy.demo.expectations import Mismatch
from proxy.demo.stage import Performance

STYLES = {"allowed": "green", "refused": "bold red"}
OTHERWISE = "yellow"
ENDS = frozenset({"deny", "finish"})
CLOSING = "No further tool calls"
"""Where the closing instruction goes on from the reason, which the row above it shows."""
LONGEST = 300


@dataclass(frozen=True, slots=True)
class Row:
    """One thing that was decided."""

    round: int
    about: str
    """The call, or in brackets the request."""
    verdict: str
    checks: tuple[str, ...] = ()
    """Check and rule; the first one acted, the others said the same."""
    words: str = ""
    """Why, as it was said."""
    told: str = "the model"
    """Whom it was said to."""
    agent: str = ""
    """What the agent saw of it."""


def rows(performance: Performance) -> list[Row]:
    """Every judged call, every note to the model and the last request without tools, in order."""
    found: list[Row] = []
    for record in performance.records:
        if record["kind"] == "decision" and record["phase"] == "calls":
            found += [_call_row(performance, record, place) for place in range(len(record["calls"]))]
        elif record["kind"] == "decision" and record["phase"] == "request" and record["action"] == "nudge":
            checks = tuple(_named(each) for each in record["verdicts"] if each["action"] == "nudge")
            words = _note(performance, record["round"])
            found.append(Row(record["round"], "(the request)", "note", checks, words, agent="nothing"))
        elif record["kind"] == "request_edit" and "tool_choice" in record["changed"]:
            words = _note(performance, record["round"] + 1)
            words = words[max(0, words.find(CLOSING)) :]
            found.append(
                Row(record["round"] + 1, "(the last request)", "no tools", (), words, agent="answer")
            )
    return found


def decision_table(found: Sequence[Row]) -> Table:
    """The rows in short."""
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1), pad_edge=False)
    table.add_column("Round", justify="right", no_wrap=True)
    table.add_column("The model called", overflow="fold")
    table.add_column("Verdict", no_wrap=True)
    table.add_column("Check and rule", overflow="fold")
    table.add_column("The agent got")
    for row in found:
        style = STYLES.get(row.verdict, OTHERWISE)
        check = row.checks[0] if row.checks else ""
        table.add_row(str(row.round), Text(row.about), Text(row.verdict, style), Text(check), Text(row.agent))
    return table


def words_table(found: Sequence[Row]) -> Table:
    """Why, in the words that the model was told; and which other checks said so."""
    table = Table.grid(padding=(0, 1))
    table.add_column(style="dim", justify="right", no_wrap=True, min_width=5)
    table.add_column(overflow="fold")
    for row in found:
        if row.words:
            told = Text.assemble((f"told {row.told}: ", "dim"), row.words)
            if row.checks[1:]:
                told.append(f"\nsaid also by: {_together(row.checks[1:])}", "dim")
            table.add_row(f"{row.round}", told)
    return table


def mismatch_lines(sdk: str, found: Sequence[Mismatch]) -> Iterator[Text]:
    """What came out wrong, in red."""
    for each in found:
        came = " ".join(each.came.split())
        came = came if len(came) <= LONGEST else f"{came[:LONGEST]} ..."
        lines = f"WRONG with {sdk}: {each.what}\n  expected: {each.expected}\n  came:     {came}"
        yield Text(lines, "bold red")


# --- rows -------------------------------------------------------------------------------------------------------------


def _call_row(performance: Performance, record: DecisionRecord, place: int) -> Row:
    call = record["calls"][place]
    about = f"{call['tool']}({_short(call)})"
    if call["released"]:
        status = {each["call_id"]: each["status"] for each in performance.records if each["kind"] == "step"}
        came = status.get(call["call_id"], "no result").replace("temporarily_", "").replace("_", " ")
        return Row(record["round"], about, "allowed", agent=f"call: {came}")
    acting = [
        each for each in record["verdicts"] if each["call"] in {place, None} and each["mode"] == "enforce"
    ]
    acting.sort(key=lambda each: each["action"] not in ENDS)
    checks = tuple(dict.fromkeys(map(_named, acting)))
    words = _refusal(performance, call)
    if words:
        return Row(record["round"], about, "refused", checks, words, agent="nothing")
    words = _in_an_answer(performance, call)
    return Row(record["round"], about, "refused", checks, words, "model and user, in the answer", "note")


def _named(verdict: VerdictRecord) -> str:
    """The check; of policy the layer and the rule, which is without what the call says already."""
    if not verdict["layer"]:
        return verdict["check"]
    rule = verdict["rule"]
    if ".arguments." in rule:
        rule = rule.partition(".arguments.")[2]
    return f"{verdict['layer']}: {rule}"


def _short(call: CallRecord) -> str:
    try:
        return ", ".join(str(value) for value in json.loads(call["arguments"]).values())
    except (ValueError, AttributeError):
        return call["arguments"]


def _together(checks: Sequence[str]) -> str:
    """The checks, with those of one layer of policy put together."""
    layers: dict[str, list[str]] = {}
    for check in checks:
        layer, _, rule = check.partition(": ")
        layers.setdefault(layer, []).append(rule)
    return "; ".join(
        f"{layer}: {', '.join(rules)}" if any(rules) else layer for layer, rules in layers.items()
    )


def _refusal(performance: Performance, call: CallRecord) -> str:
    """What the model was told as the result of the refused call; nothing where it was not asked again."""
    for talk in performance.talks:
        for made in talk.made:
            if made.id == call["call_id"] and made.was_refused:
                first = made.result.split("\n\n")[0]
                return first.partition("). ")[2] or first
    return ""


def _in_an_answer(performance: Performance, call: CallRecord) -> str:
    """What was said about it in a text that the agent got."""
    mark = f'The call to "{call["tool"]}" was not run: '
    for said in performance.played.said:
        if mark in said:
            return said.partition(mark)[2].splitlines()[0]
    return ""


def _note(performance: Performance, number: int) -> str:
    """The newest note in the request of this round."""
    notes = performance.talks[number - 1].notes if number <= len(performance.talks) else ()
    return notes[-1] if notes else ""
