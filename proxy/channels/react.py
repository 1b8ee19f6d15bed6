"""ReAct: thought, action, observation, finish (arXiv 2210.03629), as agents prompt for it. Some keep the conversation so
far in one message of the user: it is read as what it is.

Law: whatever a usual parser would run is found here: `Action` anywhere in a line, with or without a number, quoted or in
bold. Where parsers differ (two actions at once, an action beside a final answer), the call is unreadable and refused.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from proxy.core.messages import UNREADABLE

from . import Past
from .plain import OBSERVATION, PlainChannel
from .proposals import in_fence, one_input, unreadable
from .scanner import Rule

if TYPE_CHECKING:
    from collections.abc import Sequence

    from . import ChannelOptions
    from .scanner import Proposed

_HEAD = re.compile(r"\s*+\d*+\s*+:[\s*]*+")
_INPUT = re.compile(r"Action\s*+\d*+\s*+Input\s*+\d*+\s*+:[ \t*]*+", re.IGNORECASE)
_SECOND = re.compile(r"^[ \t\r*]*+(?:Action\s*+\d*+\s*+:|Final Answer\s*+:)", re.IGNORECASE | re.MULTILINE)
_BRACKETS = re.compile(r"([\w./-]++)\[")
_NAME = re.compile(r"[\w./:-]++")
_AROUND = " \t\r\n\"'`*"
_LABEL = re.compile(
    r"^[ \t]*+(Thought|Action|Observation|Final Answer|Question)[ \t]*+\d*+[ \t]*+(?=:)", re.MULTILINE
)
_RESULT = "Observation"
_FINISH = frozenset({"finish", "final answer", "final_answer", "none", "n/a", ""})


def _body(text: str) -> str:
    """What stands behind the colon."""
    head = _HEAD.match(text)
    return text[head.end() :].strip(_AROUND) if head is not None else ""


def _without_input(body: str) -> list[Proposed] | None:
    """The call in the words behind `Action:` that are followed by no input: `tool[input]`, JSON, or a tool alone."""
    found = _BRACKETS.match(body)
    if found is not None:
        return None if found[1].lower() in _FINISH else _in_brackets(found[1], body, found.end())
    if body[:1] in {"{", "["}:
        return in_fence(body)
    named = _NAME.fullmatch(body)
    return [one_input(body, "")] if named is not None and body.lower() not in _FINISH else None


def _in_brackets(name: str, body: str, begin: int) -> list[Proposed]:
    """Some parsers end the input at the first bracket, some at the last, some at the end of the line."""
    given = body[begin:].removesuffix("]")
    if not body.endswith("]") or "]" in given:
        return unreadable(body)
    return [one_input(name, given)]


class ReAct(PlainChannel):
    """See the file's head."""

    name = "react"

    def __init__(self, options: ChannelOptions) -> None:
        """`tools` may have names with spaces."""
        super().__init__(options)
        self.rules: Sequence[Rule] = (
            Rule("Action", ("\nObservation",), self._action, at_line=True, keeps_closer=False, then=":"),
            Rule("Action", ("\nObservation",), self._anywhere, keeps_closer=False, then=":"),
            *self.json_fences(),
            Rule("Observation", at_line=True, then=":"),
        )

    def _action(self, text: str) -> list[Proposed] | None:
        """The call behind `Action`; None: it is a finish, or plain words."""
        return self._call(text) or self.acting(_without_input(_body(text)))

    def _anywhere(self, text: str) -> list[Proposed] | None:
        return self._call(text)

    def _call(self, text: str) -> list[Proposed] | None:
        """A call with its input."""
        found = _INPUT.search(text)
        head = _HEAD.match(text)
        if found is None or head is None or found.start() < head.end():
            return None
        name, given = text[head.end() : found.start()].strip(_AROUND), text[found.end() :]
        if name.lower() in _FINISH:
            return None
        is_name = _NAME.fullmatch(name) is not None or name in self.options.tools
        if not is_name or _INPUT.search(given) or _SECOND.search(given):
            return unreadable(text)
        return [one_input(name, given)]

    def written(self, calls: Sequence[Proposed]) -> str:
        """One action each."""
        return "\n".join(f"Action: {name}\nAction Input: {arguments}" for name, arguments in calls)

    def answer(self, text: str) -> str:
        """As a final answer, which ends the agent's loop."""
        return f"Thought: I cannot go on.\nFinal Answer: {text}"

    def past(self, text: str) -> tuple[str, list[Past]]:
        """The steps in a message, each with its observation. What describes the form names no tool."""
        parts: list[Past] = []
        labels = list(_LABEL.finditer(text))
        ends = [len(text)] * (len(labels) + 1)
        for place in reversed(range(len(labels))):
            ends[place] = ends[place + 1] if labels[place][1] == _RESULT else labels[place].start()
        before, at = "", 0
        action: re.Match[str] | None = None
        for place, label in enumerate(labels):
            if label[1] == "Action":
                action = action or label
            if label[1] != _RESULT or action is None:
                continue
            first, action = action, None
            calls = self._action(text[first.end() : label.start() - 1])
            if not calls or any(name == UNREADABLE for name, _ in calls):
                continue
            thought = text.rfind("Thought:", at, first.start())
            start = thought + len("Thought:") if thought >= 0 else max(first.start() - 1, 0)
            if not parts:
                before = text[:start]
            at = ends[place]
            result = text[label.end() + 1 : at].strip()
            parts.append(Past(text[start : label.start() - 1], tuple(calls), result))
        return (before, parts) if parts else (text, [])

    def refusal(self, refusals: Sequence[tuple[str, str]]) -> str:
        """As observations."""
        return "\n".join(f"{OBSERVATION} {said}" for _, said in refusals)
