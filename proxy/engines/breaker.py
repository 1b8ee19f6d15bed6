"""Sparing what does not answer: after some faults in a row everybody is refused at once, until one trial has worked.

Laws:
1. Closed: everybody may ask. `failures` faults in a row open it.
2. Open: nobody may ask for `seconds`; then one asks, alone. It works: closed. It fails: open for as long again.
3. What was asked under an earlier state says nothing about this one, and who gives up asking says nothing at all.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from proxy.errors import EngineFault

_LOG = logging.getLogger(__name__)


class Breaker:
    """Stands in front of one server. For one event loop."""

    def __init__(
        self, what: str, failures: int, seconds: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """`what` is spared, e.g. `the OPA server`; `clock` in seconds."""
        self._what = what
        self._failures = failures
        self._seconds = seconds
        self._clock = clock
        self._in_a_row = 0
        self._open_until: float | None = None
        self._trying = False
        self._era = 0
        self._reason = ""

    @property
    def trouble(self) -> str:
        """Why nobody may ask; empty: everybody may."""
        return "" if self._open_until is None else f"{self._what} is not asked: {self._reason}"

    @contextmanager
    def asking(self, counted: type[EngineFault]) -> Iterator[None]:
        """Around one question. `counted`: the fault that says that the server does not work; any other comes from one
        that does. Raises EngineFault (code `opa_refusing`) where nobody may ask."""
        era, alone = self._admit()
        try:
            yield
        except counted as fault:
            self._failed(era, fault.message)
            raise
        except EngineFault:
            self._worked(era)
            raise
        except BaseException:
            if alone and era == self._era:
                self._trying = False
            raise
        self._worked(era)

    def _admit(self) -> tuple[int, bool]:
        if self._open_until is None:
            return self._era, False
        if self._trying or self._clock() < self._open_until:
            raise EngineFault(self.trouble, code="opa_refusing")
        self._trying = True
        return self._era, True

    def _worked(self, era: int) -> None:
        if era != self._era:
            return
        self._in_a_row = 0
        if self._open_until is not None:
            _LOG.warning("%s answers again", self._what)
            self._change(None)

    def _failed(self, era: int, reason: str) -> None:
        if era != self._era:
            return
        self._in_a_row += 1
        if self._open_until is not None or self._in_a_row >= self._failures:
            if self._open_until is None:
                _LOG.error("%s is not asked for %g s after %d faults in a row, the last: %s",
                           self._what, self._seconds, self._in_a_row, reason)  # fmt: skip
            self._reason = reason
            self._change(self._clock() + self._seconds)

    def _change(self, open_until: float | None) -> None:
        self._open_until = open_until
        self._trying = False
        self._era += 1
