"""Only here is a verdict made. `CHECKS` is the list, in the order in which they run and are recorded."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

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
