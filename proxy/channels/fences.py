"""Calls in code fences: JSON that names a tool, and whole code actions that an agent would run (CodeAct, smolagents)."""

from __future__ import annotations

import ast
import json
import re
import warnings
from typing import TYPE_CHECKING

from .plain import PlainChannel
from .proposals import in_fence, unreadable
from .scanner import Rule, Whole

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from . import ChannelOptions
    from .scanner import Proposed

_CODE = ("python", "py", "tool_code", "execute", "bash", "sh")
_LONGEST = 262_144
"""Characters: more of a text without a fence is not parsed; what begins as code is code then."""
_CLOSE = ("\n```",)
_OPEN = re.compile(
    r"was never closed|expected 'e|unterminated triple|unexpected EOF|expected an indented block|unindent"
)
_OTHER_VERSION = re.compile(r"f-string|multiple exception types")
"""What this version of Python finds wrong and a newer one, in which the agent may run, does not (PEP 701, 758)."""
_NEWER = (
    # What newer versions accept, in words of this one: PEP 695, 750.
    (re.compile(r"^([ \t]*+)type[ \t]++(\w++)[^=\n]*+(?:=|\Z)", re.MULTILINE), r"\1\2 ="),
    (re.compile(r"\b(def|class)([ \t]++\w++)\[[^\n]{0,200}?(?:\](?=[(:])|\Z)"), r"\1\2"),
    (re.compile(r"\bt(?=[\"'])"), "f"),
)
_LINE_OF_STRING = re.compile(r"unterminated string literal \(detected at line (\d+)\)")
_FORMATTED = re.compile(r"\b[ft]r?[\"'][^\n]*\{", re.IGNORECASE)
_LONGEST_WORD = 64


def may_be_python(text: str) -> bool:
    """Whether a text reads as Python, or may be the beginning of it. A word that is not over says nothing yet."""
    text = text[:_LONGEST]
    word = max(text.rfind(" "), text.rfind("\n")) + 1
    if len(text) - word < _LONGEST_WORD:
        text = text[:word]
    return any(_reads(version, ended=False) for version in _versions(text))


def is_python(text: str) -> bool:
    """Whether some version of Python would run a text. A very long one that may be is."""
    if len(text) > _LONGEST:
        return may_be_python(text)
    return any(_reads(version, ended=True) for version in _versions(text))


def _versions(text: str) -> Iterator[str]:
    yield text
    for pattern, instead in _NEWER:
        text = pattern.sub(instead, text)
    yield text


def _reads(text: str, *, ended: bool) -> bool:
    try:
        with warnings.catch_warnings(action="ignore"):
            return bool(ast.parse(text).body) or not ended
    except SyntaxError as error:
        return _is_newer(error, text) or (not ended and _is_at_end(error, text))
    except ValueError:
        return False
    except (RecursionError, MemoryError):
        return True  # Another parser may have more room.


def _is_newer(error: SyntaxError, text: str) -> bool:
    """Whether a newer parser may read on where this one stopped."""
    open_string = _LINE_OF_STRING.search(error.msg or "")
    if open_string is None:
        return _OTHER_VERSION.search(error.msg or "") is not None
    return _FORMATTED.search(text.split("\n")[int(open_string[1]) - 1]) is not None


def _is_at_end(error: SyntaxError, text: str) -> bool:
    """Whether the parser was stopped by the end of the text, so that more of it may mend the error."""
    if _OPEN.search(error.msg or ""):
        return True
    lines = text.rstrip().split("\n")
    open_string = _LINE_OF_STRING.search(error.msg or "")
    if open_string is not None:
        return text.count("\n", 0, len(text.rstrip("\\\n"))) < int(open_string[1])
    last = max(error.end_lineno or 0, error.lineno or 0)
    end = max(error.end_offset or 0, error.offset or 0)
    return last >= len(lines) and (last > len(lines) or not end or end > len(lines[-1]))


def _fenced_call(text: str) -> list[Proposed] | None:
    return in_fence(text) or unreadable(text) if not text[:1].isalnum() else None


class Fences(PlainChannel):
    """See the file's head."""

    name = "fences"

    def __init__(self, options: ChannelOptions) -> None:
        """`code_tool` names what code is judged as."""
        super().__init__(options)
        self.rules: Sequence[Rule] = (
            *self.json_fences(),
            Rule("```tool_call", _CLOSE, _fenced_call),
            *(Rule(f"```{language}", _CLOSE, self._fenced) for language in _CODE),
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
        return self._code(text) if is_python(text) else None

    def _fenced(self, text: str) -> list[Proposed]:
        # What else opens or ends code inside of it is taken by one parser and not by another.
        return unreadable(text) if "```" in text or "<code>" in text else self._code(text)

    def _code(self, text: str) -> list[Proposed]:
        return [(self.options.code_tool, json.dumps({"code": text.strip()}, ensure_ascii=False))]
