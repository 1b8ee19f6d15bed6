"""Calls in code fences: JSON that names a tool, and whole code actions that an agent would run (CodeAct, smolagents)."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from .plain import PlainChannel
from .proposals import marked, proposed
from .scanner import Rule

if TYPE_CHECKING:
    from collections.abc import Sequence

    from . import ChannelOptions
    from .scanner import Proposed

_CODE = ("python", "py", "tool_code", "execute", "bash", "sh")
_CLOSE = ("\n```",)


def _fenced_json(text: str) -> list[Proposed] | None:
    """JSON in a fence is a call only if it reads as one."""
    return (proposed(text) or None) if text[:1].isspace() else None


def _fenced_call(text: str) -> list[Proposed] | None:
    return marked(text) if text[:1].isspace() else None


class Fences(PlainChannel):
    """See the file's head."""

    name = "fences"

    def __init__(self, options: ChannelOptions) -> None:
        """`code_tool` names what code is judged as."""
        super().__init__(options)
        self.rules: Sequence[Rule] = (
            Rule("```json", _CLOSE, _fenced_json),
            Rule("```tool_call", _CLOSE, _fenced_call),
            *(Rule(f"```{language}", _CLOSE, self._fenced_code) for language in _CODE),
            Rule("<code>", ("</code>",), self._code),
            Rule("Observation:", at_line=True),
        )

    def written(self, calls: Sequence[Proposed]) -> str:
        """As JSON in fences; code as code."""
        return "\n".join(
            f"```python\n{json.loads(arguments)['code']}\n```"
            if name == self.options.code_tool
            else f"```json\n{json.dumps({'name': name, 'arguments': json.loads(arguments)})}\n```"
            for name, arguments in calls
        )

    def answer(self, text: str) -> str:
        """As code that gives a final answer, which ends the agent's loop."""
        return f"Thought: I cannot go on.\n<code>\nfinal_answer({json.dumps(text)})\n</code>"

    def _fenced_code(self, text: str) -> list[Proposed] | None:
        return self._code(text) if text[:1].isspace() else None

    def _code(self, text: str) -> list[Proposed]:
        return [(self.options.code_tool, json.dumps({"code": text.strip()}, ensure_ascii=False))]
