"""What a final answer cites, held against what its run has read and what it was told (E15)."""

from __future__ import annotations

import re
import unicodedata
from itertools import islice
from typing import TYPE_CHECKING

from .messages import Role
from .recognition import POLICY_TEXT_BYTES
from .results import StepStatus

if TYPE_CHECKING:
    from .messages import Request
    from .runs import Run
    from .verdicts import Cited

MOST_MISSING = 100
"""So many unsupported values are enough to object to; looking for more would only take time."""
_WORD = re.compile(r"\w+")
_DECORATION = frozenset("*`")
_TOLD = frozenset({Role.USER, Role.SYSTEM})
_READ = frozenset(StepStatus) - {StepStatus.PENDING, StepStatus.REFUSED}


def plain(text: str) -> str:
    """A text as it is read: compatibility forms are one, characters without a shape and marks of emphasis are gone."""
    normal = unicodedata.normalize("NFKC", text)
    return "".join(each for each in normal if each not in _DECORATION and unicodedata.category(each) != "Cf")


def unsupported(cited: Cited, run: Run, request: Request) -> tuple[str, ...]:
    """The cited values that stand nowhere they could have come from, `MOST_MISSING` at most. Empty where that cannot be known: something was
    longer than what is kept of it, or the provider keeps what was said before."""
    steps = [step for step in run.steps if step.status in _READ and _may_show(step.tool, cited)]
    if request.previous or any(len(step.result) >= POLICY_TEXT_BYTES for step in steps):
        return ()
    texts = [step.result for step in steps]
    if not cited.tools:
        texts += [message.text for message in request.messages if message.role in _TOLD]
    known = _Words(_folded("\n".join(texts)))
    missing = (value for value in dict.fromkeys(cited.values) if _folded(value) not in known)
    return tuple(islice(missing, MOST_MISSING))


def _may_show(tool: str, cited: Cited) -> bool:
    return not cited.tools or tool in cited.tools


def _folded(text: str) -> str:
    return " ".join(plain(text).casefold().split())


class _Words:
    """A text in which values are looked for as whole words: A12 does not stand in A123. A model may cite very many values,
    so the text is gone through once."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._places: dict[str, list[int]] = {}
        for found in _WORD.finditer(text):
            self._places.setdefault(found[0], []).append(found.start())

    def __contains__(self, value: str) -> bool:
        if not value:
            return True
        # A word at an edge with `_` may go on in the text; any other word of the value is a whole word there too.
        words = [found for found in _WORD.finditer(value) if "_" not in (found[0][0], found[0][-1])]
        if not words:
            return value in self._text
        rarest = min(words, key=lambda found: len(self._places.get(found[0], ())))
        starts = (place - rarest.start() for place in self._places.get(rarest[0], ()))
        return any(start >= 0 and self._stands_at(start, value) for start in starts)

    def _stands_at(self, start: int, value: str) -> bool:
        end = start + len(value)
        return (
            self._text.startswith(value, start)
            and not _joined(self._text[max(start - 1, 0) : start], value[0])
            and not _joined(self._text[end : end + 1], value[-1])
        )


def _joined(neighbour: str, edge: str) -> bool:
    return edge.isalnum() and (neighbour.isalnum() or neighbour == "_")
