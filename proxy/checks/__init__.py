"""Only here is a verdict made. `CHECKS` is the list, in the order in which they run and are recorded."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from proxy.core.verdicts import with_modes

from .approval import ApprovalCheck
from .arguments import ArgumentsCheck
from .budget import BudgetCheck
from .evidence import EvidenceCheck
from .history import HistoryCheck
from .policy import PolicyCheck
from .progress import ProgressCheck, insisted
from .tools import ToolsCheck

if TYPE_CHECKING:
    from collections.abc import Iterable

    from proxy.core.verdicts import Facts, Verdict


class Check(Protocol):
    """One concern. No hook raises, waits, reads a clock or changes anything."""

    @property
    def name(self) -> str:
        """Dotted name for settings, spans and documentation; verdicts carry it or a longer one below it."""

    def on_request(self, facts: Facts) -> Iterable[Verdict]:
        """Before the request goes to the provider."""

    def on_calls(self, facts: Facts) -> Iterable[Verdict]:
        """When the calls of an answer are whole, before any of them is released."""

    def on_answer(self, facts: Facts) -> Iterable[Verdict]:
        """When a final answer without calls has come."""


CHECKS: tuple[Check, ...] = (
    HistoryCheck(),
    ToolsCheck(),
    ArgumentsCheck(),
    PolicyCheck(),
    ProgressCheck(),
    ApprovalCheck(),
    BudgetCheck(),
    EvidenceCheck(),
)


def judge_request(facts: Facts) -> tuple[Verdict, ...]:
    """What all checks say before the request goes out, with the configured modes."""
    return with_modes((verdict for check in CHECKS for verdict in check.on_request(facts)), facts.settings)


def judge_calls(facts: Facts) -> tuple[Verdict, ...]:
    """What all checks say of the proposed calls, and what their refusals add up to, with the configured modes."""
    said = with_modes((verdict for check in CHECKS for verdict in check.on_calls(facts)), facts.settings)
    return said + with_modes(insisted(facts, said), facts.settings)


def judge_answer(facts: Facts) -> tuple[Verdict, ...]:
    """What all checks say of the final answer, with the configured modes."""
    return with_modes((verdict for check in CHECKS for verdict in check.on_answer(facts)), facts.settings)
