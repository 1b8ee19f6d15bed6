"""Calls in code fences: JSON that names a tool, and whole code actions that an agent would run (CodeAct, smolagents)."""

from __future__ import annotations

import ast
import json
import re
import warnings
from typing import TYPE_CHECKING

from .plain import PlainChannel
from .proposals import marked, proposed
from .scanner import Rule, Whole

if TYPE_CHECKING:
    from collections.abc import Sequence

    from . import ChannelOptions
    from .scanner import Proposed

_CODE = ("python", "py", "tool_code", "execute", "bash", "sh")
_LONGEST_BARE = 20_000
"""Characters: a longer text without a fence is no code that anybody runs as it is."""
_CLOSE = ("\n```",)
_OPEN = re.compile(r"was never closed|unterminated|unexpected EOF|expected an indented block|unindent")


def may_be_python(text: str) -> bool:
    """Whether a text reads as Python, or may be the beginning of it."""
    if len(text) > _LONGEST_BARE or "\0" in text:
        return False
    try:
        with warnings.catch_warnings(action="ignore"):
            ast.parse(text)
    except SyntaxError as error:
        return _is_at_end(error, text)
    except (ValueError, RecursionError, MemoryError):
        return False
    return True


def _is_at_end(error: SyntaxError, text: str) -> bool:
    """Whether the parser was stopped by the end of the text, so that more of it may mend the error."""
    if _OPEN.search(error.msg or ""):
        return True
    lines = text.split("\n")
    last = max(error.end_lineno or 0, error.lineno or 0)
    end = max(error.end_offset or 0, error.offset or 0)
    return last >= len(lines) and end > len(lines[-1].rstrip())


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
            *(Rule(f"```{language}", _CLOSE, self._code) for language in _CODE),
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

    @property
    def whole(self) -> Whole:
        """Some agents run an answer without any fence, if it reads as Python."""
        return Whole(may_be_python, self._bare)

    def _bare(self, text: str) -> list[Proposed] | None:
        """The whole text, if it is Python in the end."""
        try:
            with warnings.catch_warnings(action="ignore"):
                runs = bool(ast.parse(text).body)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return None
        return self._code(text) if runs else None

    def _code(self, text: str) -> list[Proposed]:
        return [(self.options.code_tool, json.dumps({"code": text.strip()}, ensure_ascii=False))]
