"""ReAct: thought, action, observation, finish (arXiv 2210.03629), as agents prompt for it. Some keep the conversation so
far in one message of the user: it is read as what it is.

Law: whatever a usual parser would run is found here: `Action` anywhere in a line, with or without a number, quoted or in
bold. Where parsers differ (two actions at once, an action beside a final answer), the call is unreadable and refused.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from . import Past
from .plain import OBSERVATION, PlainChannel
from .proposals import UNREADABLE, one_input, proposed
from .scanner import Rule

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .scanner import Proposed

_HEAD = re.compile(r"\s*\d*\s*:[\s*]*")
_INPUT = re.compile(r"\**Action\s*\d*\s*Input\s*\d*\s*:[ \t*]*", re.IGNORECASE)
_SECOND = re.compile(r"(?:^|\n)[\s*]*(?:Action\s*\d*\s*:|Final Answer\s*:)", re.IGNORECASE)
_BRACKETS = re.compile(r"([\w.-]+)\[(.*)\]", re.DOTALL)
_NAME = re.compile(r"[\w./-]+")
_FENCE = re.compile(r"\A```\w*\s*(.*?)\s*```\Z", re.DOTALL)
_AROUND = " \t\r\n\"'`*"
_STEP = re.compile(
    r"(?P<said>(?:^|\n)[ \t]*Action[ \t]*\d*[ \t]*(?P<action>:(?:(?!\n[ \t]*Observation[ \t]*\d*[ \t]*:).)*?))"
    r"\n[ \t]*Observation[ \t]*\d*[ \t]*:(?P<result>(?:(?!\n[ \t]*(?:Thought|Action|Final Answer|Question)[ \t]*\d*[ \t]*:).)*)",
    re.DOTALL,
)
_FINISH = frozenset({"finish", "final answer", "final_answer", "none", "n/a", ""})


def _action(text: str, *, at_line: bool = True) -> list[Proposed] | None:
    """The call behind `Action`; None: it is a finish, or plain words."""
    head = _HEAD.match(text)
    if head is None:
        return None
    body = text[head.end() :]
    found = _INPUT.search(body)
    if found is None:
        return _without_input(body.strip(_AROUND)) if at_line else None
    name, given = body[: found.start()].strip(_AROUND), body[found.end() :]
    if name.lower() in _FINISH:
        return None
    if _INPUT.search(given) or _SECOND.search(given):
        return [(UNREADABLE, text.strip())]
    return [one_input(name, given)]


def _without_input(body: str) -> list[Proposed] | None:
    brackets = _BRACKETS.fullmatch(body)
    if brackets is not None:
        return None if brackets[1].lower() in _FINISH else [one_input(brackets[1], brackets[2])]
    fenced = _FENCE.match(f"```{body}```" if body.startswith("json") else body)
    calls = proposed(fenced[1] if fenced else body)
    if calls:
        return [call for call in calls if call[0].lower() not in _FINISH] or None
    named = _NAME.fullmatch(body)
    return [one_input(body, "")] if named is not None and body.lower() not in _FINISH else None


def _anywhere(text: str) -> list[Proposed] | None:
    return _action(text, at_line=False)


class ReAct(PlainChannel):
    """See the file's head."""

    name = "react"
    rules: Sequence[Rule] = (
        Rule("Action", ("\nObservation",), _action, at_line=True, keeps_closer=False, then=":"),
        Rule("Action", ("\nObservation",), _anywhere, keeps_closer=False, then=":"),
        Rule("Observation", at_line=True, then=":"),
    )

    def written(self, calls: Sequence[Proposed]) -> str:
        """One action each."""
        return "\n".join(f"Action: {name}\nAction Input: {arguments}" for name, arguments in calls)

    def answer(self, text: str) -> str:
        """As a final answer, which ends the agent's loop."""
        return f"Thought: I cannot go on.\nFinal Answer: {text}"

    def past(self, text: str) -> tuple[str, list[Past]]:
        """The steps in a message, each with its observation. What describes the form names no tool."""
        parts: list[Past] = []
        before, at = "", 0
        for found in _STEP.finditer(text):
            calls = _action(found["action"])
            if not calls or not all(_NAME.fullmatch(name) for name, _ in calls):
                continue
            thought = text.rfind("Thought:", at, found.start() + 1)
            start = thought + len("Thought:") if thought >= 0 else found.start()
            if not parts:
                before = text[:start]
            parts.append(Past(text[start : found.end("said")], tuple(calls), found["result"].strip()))
            at = found.end()
        return (before, parts) if parts else (text, [])

    def refusal(self, refusals: Sequence[tuple[str, str]]) -> str:
        """As observations."""
        return "\n".join(f"{OBSERVATION} {said}" for _, said in refusals)
