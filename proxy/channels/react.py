"""ReAct: thought, action, observation, finish (arXiv 2210.03629), as agents prompt for it. Some keep the conversation so
far in one message of the user: it is read as what it is."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from . import Past
from .plain import OBSERVATION, PlainChannel
from .proposals import one_input
from .scanner import Rule

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .scanner import Proposed

_INPUT = re.compile(r"^[ \t]*Action Input[ \t]*:", re.MULTILINE)
_BRACKETS = re.compile(r"\s*([\w.-]+)\[(.*)\]\s*", re.DOTALL)
_NAME = re.compile(r"[ \t]*[\"'`]?([\w./-]+)[\"'`]?[ \t]*")
_STEP = re.compile(
    r"(?P<said>(?:^|\n)[ \t]*Action[ \t]*:(?P<action>(?:(?!\n[ \t]*Observation[ \t]*:).)*?))\n[ \t]*Observation[ \t]*:"
    r"(?P<result>(?:(?!\n[ \t]*(?:Thought|Action|Final Answer|Question)[ \t]*:).)*)",
    re.DOTALL,
)
_FINISH = frozenset({"finish", "final answer", "final_answer", "none", "n/a"})


def _action(text: str) -> list[Proposed] | None:
    """The call behind `Action:`; None: it is a finish, or the words of a prompt that describe the form."""
    found = _INPUT.search(text)
    head = text[: found.start()] if found else text
    if found is None and (brackets := _BRACKETS.fullmatch(head)):
        if brackets[1].lower() in _FINISH:
            return None
        return [one_input(brackets[1], brackets[2])]
    named = _NAME.fullmatch(head.strip("\n "))
    if named is None or named[1].lower() in _FINISH:
        return None
    return [one_input(named[1], text[found.end() :] if found else "")]


class ReAct(PlainChannel):
    """See the file's head."""

    name = "react"
    rules: Sequence[Rule] = (
        Rule(
            "Action:",
            ("\nObservation:", "\nThought:", "\nFinal Answer:", "\nAction:"),
            _action,
            at_line=True,
            keeps_closer=False,
        ),
        Rule("Observation:", at_line=True),
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
            if not calls:
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
