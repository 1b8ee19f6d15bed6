"""What is said by program: refusals to the model, and the report of a stopped run to the user (E7, E10).

Nothing here quotes an argument or a result: the report names tools and how their results were classed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .results import StepStatus

if TYPE_CHECKING:
    from collections.abc import Iterable

    from .runs import Run, Step
    from .verdicts import Verdict

NEXT_STEP = {
    "budget": "A new message starts a new count; the operator of this system can raise the limit.",
    "loop": "Say what to do differently, or give what is missing; a new message starts afresh.",
    "no_progress": "Say what to do differently, or give what is missing; a new message starts afresh.",
    "policy_error": "This is a fault of the system, not of the request: tell its operator, then try again.",
    "state_unavailable": "This is a fault of the system, not of the request: tell its operator, then try again.",
}
ALLOWED_ONLY = (
    "Ask for something that the allowed tools can do, or ask the operator of this system for permission."
)

MISSING_WORDS = {
    StepStatus.NOT_FOUND: "nothing found",
    StepStatus.FORBIDDEN: "access refused",
    StepStatus.TEMPORARILY_UNAVAILABLE: "temporarily unavailable",
    StepStatus.FAILED: "failed",
    StepStatus.PENDING: "no result yet",
    StepStatus.REFUSED: "not allowed",
}


def refusal_text(verdict: Verdict) -> str:
    """The result that the model gets for a refused call: an explicit error with what to do instead (A11, C4)."""
    return f"[callgate] This call was not run ({verdict.code}). {verdict.message}"


def stop_report(run: Run, verdict: Verdict) -> str:
    """A short status from recorded facts: why it stopped, what was found, what is missing, what would change it."""
    found = _counted(step for step in run.turn_steps if step.status is StepStatus.FOUND)
    missing = [
        f"{name} ({MISSING_WORDS[status]})"
        for (name, status) in dict.fromkeys(
            (step.tool, step.status) for step in run.turn_steps if step.status is not StepStatus.FOUND
        )
    ]
    lines = [f"[callgate] This task was stopped: {verdict.message}"]
    lines.append("Found: " + (", ".join(found) if found else "nothing so far") + ".")
    if missing:
        lines.append("Missing: " + ", ".join(_printable(name) for name in missing) + ".")
    lines.append("To go on: " + NEXT_STEP.get(verdict.reason_class, ALLOWED_ONLY))
    return "\n".join(lines)


def _counted(steps: Iterable[Step]) -> list[str]:
    counts: dict[str, int] = {}
    for step in steps:
        counts[step.tool] = counts.get(step.tool, 0) + 1
    return [
        f"{_printable(name)} ({count} result{'s' if count > 1 else ''})" for name, count in counts.items()
    ]


def _printable(name: str) -> str:
    return name if name.isascii() and name.isprintable() else ascii(name)[1:-1]
