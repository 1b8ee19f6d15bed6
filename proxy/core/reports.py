"""What is said by program: refusals to the model, and the report of a stopped run to the user (E7, E10).

Nothing here quotes an argument or a result: the report names tools and how their results were classed.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from .results import StepStatus, wording

if TYPE_CHECKING:
    from .runs import Run
    from .verdicts import Verdict

NEXT_STEP = {
    "budget": "A new message starts a new count; the operator of this system can raise the limit.",
    "loop": "Say what to do differently, or give what is missing; a new message starts afresh.",
    "no_progress": "Say what to do differently, or give what is missing; a new message starts afresh.",
    "policy_error": "This is a fault of the system, not of the request: tell its operator, then try again.",
    "state_unavailable": "This is a fault of the system, not of the request: tell its operator, then try again.",
}
SAME_RUN = (
    "This conversation cannot go on: start a new one, or ask the operator of this system to raise the limit."
)
"""A new message resets the counts of a turn, not those of the whole run."""
FOR_PEOPLE = {
    "allow_list": "it asks for a tool that may not be used here.",
    "arguments_invalid": "a tool was called in a form that cannot be read.",
    "schema": "a tool was called in a form that it does not accept.",
}
"""Reasons whose own message is an instruction to the model (C4): people get these words instead (D5)."""
ALLOWED_ONLY = (
    "Ask for something that the allowed tools can do, or ask the operator of this system for permission."
)

NAME_LENGTH = 80
ENTRIES_LISTED = 12
"""A model may invent any number of names, of any length."""


def refusal_text(verdict: Verdict) -> str:
    """The result that the model gets for a refused call: an explicit error with what to do instead (A11, C4)."""
    return f"[callgate] This call was not run ({verdict.code}). {verdict.message}"


def stop_report(run: Run, verdict: Verdict) -> str:
    """A short status from recorded facts: why it stopped, what was found, what is missing, what would change it."""
    found = Counter(step.tool for step in run.turn_steps if step.status is StepStatus.FOUND)
    missing = dict.fromkeys(
        (step.tool, step.status) for step in run.turn_steps if step.status is not StepStatus.FOUND
    )
    there = [
        f"{shown_name(name)} ({count} result{'s' if count > 1 else ''})" for name, count in found.items()
    ]
    lacking = [f"{shown_name(name)} ({wording(status)})" for name, status in missing]
    lines = [f"[callgate] This task was stopped: {FOR_PEOPLE.get(verdict.reason_class, verdict.message)}"]
    lines.append("Found: " + (_listed(there) if there else "nothing so far") + ".")
    if lacking:
        lines.append("Missing: " + _listed(lacking) + ".")
    lines.append("To go on: " + _next_step(verdict))
    return "\n".join(lines)


def shown_name(name: str) -> str:
    """A tool's name as people may see it: what is not printable ASCII is escaped, what is too long is cut."""
    head = name[: NAME_LENGTH + 1]
    shown = head if head.isascii() and head.isprintable() else head.encode("unicode_escape").decode("ascii")
    return shown if len(shown) <= NAME_LENGTH else shown[:NAME_LENGTH] + "…"


def _next_step(verdict: Verdict) -> str:
    if verdict.reason_class == "budget" and verdict.fields.get("scope") == "run":
        return SAME_RUN
    return NEXT_STEP.get(verdict.reason_class, ALLOWED_ONLY)


def _listed(entries: list[str]) -> str:
    more = len(entries) - ENTRIES_LISTED
    return ", ".join(entries[:ENTRIES_LISTED]) + (f" and {more} more" if more > 0 else "")
