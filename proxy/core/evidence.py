"""What a final answer cites, held against what its run has read and what it was told (E15)."""

from __future__ import annotations

import re
import unicodedata
from typing import TYPE_CHECKING

from .messages import Role
from .recognition import POLICY_TEXT_BYTES
from .results import StepStatus

if TYPE_CHECKING:
    from collections.abc import Iterable

    from .messages import Request
    from .runs import Run
    from .verdicts import Cited

_DECORATION = frozenset("*`")
_TOLD = frozenset({Role.USER, Role.SYSTEM})
_READ = frozenset(StepStatus) - {StepStatus.PENDING, StepStatus.REFUSED}


def plain(text: str) -> str:
    """A text as it is read: compatibility forms are one, characters without a shape and marks of emphasis are gone."""
    normal = unicodedata.normalize("NFKC", text)
    return "".join(each for each in normal if each not in _DECORATION and unicodedata.category(each) != "Cf")


def unsupported(cited: Cited, run: Run, request: Request) -> tuple[str, ...]:
    """The cited values that stand nowhere they could have come from. Empty where that cannot be known: something was
    longer than what is kept of it, or the provider keeps what was said before."""
    steps = [step for step in run.steps if step.status in _READ and _may_show(step.tool, cited)]
    if request.previous or any(len(step.result) >= POLICY_TEXT_BYTES for step in steps):
        return ()
    texts = [step.result for step in steps]
    if not cited.tools:
        texts += [message.text for message in request.messages if message.role in _TOLD]
    known = _folded("\n".join(texts))
    return tuple(value for value in dict.fromkeys(cited.values) if not _stands_in(known, _folded(value)))


def _may_show(tool: str, cited: Cited) -> bool:
    return not cited.tools or tool in cited.tools


def _folded(text: str) -> str:
    return " ".join(plain(text).casefold().split())


def _stands_in(text: str, value: str) -> bool:
    """As a whole word: A12 does not stand in A123."""
    if not value:
        return True
    return any(
        not _joined(text[found.start() - 1 : found.start()], value[0])
        and not _joined(text[found.end() : found.end() + 1], value[-1])
        for found in _places(text, value)
    )


def _places(text: str, value: str) -> Iterable[re.Match[str]]:
    return re.finditer(re.escape(value), text)


def _joined(neighbour: str, edge: str) -> bool:
    return edge.isalnum() and (neighbour.isalnum() or neighbour == "_")
