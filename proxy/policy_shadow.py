"""A second set of policies that is asked the same beside those in force, and only recorded where it differs (F2).

Laws:
1. It never acts, and no turn waits for it: what it is to be asked goes into a bounded queue, and what does not fit is
   dropped and counted.
2. Whatever breaks in it stays in it.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .policy_records import Difference
from .policy_results import reasons_of, result_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from .audit import AuditJournal
    from .core.messages import ToolCall
    from .core.runs import Run
    from .core.verdicts import Decision
    from .engines import Held, Policies

MOST_WAITING = 256
CLOSING_SECONDS = 2.0
log = logging.getLogger("callgate.policies")


@dataclass(frozen=True, slots=True)
class _Asked:
    run: Run
    request_id: str
    document: Mapping[str, object]
    calls: tuple[ToolCall, ...]
    decision: Decision
    policies: Held


class PolicyShadow:
    """Asks policies that are tried out what those in force were asked."""

    def __init__(self, policies: Policies, audit: AuditJournal, count: Callable[[str], None]) -> None:
        """`count` hears what came of each call: same, stricter, laxer, fault or dropped. Closing closes the policies."""
        self.policies = policies
        self._audit = audit
        self._count = count
        self._waiting: asyncio.Queue[_Asked] = asyncio.Queue(MOST_WAITING)
        self._work: asyncio.Task[None] | None = None

    def asked(
        self,
        run: Run,
        request_id: str,
        document: Mapping[str, object],
        calls: Sequence[ToolCall],
        decision: Decision,
    ) -> None:
        """Those in force were asked about these calls with this document, and decided so. Does not wait."""
        if self._waiting.full():
            for _ in calls:
                self._count("dropped")
            return
        held = self.policies.hold()
        self._waiting.put_nowait(_Asked(run, request_id, document, tuple(calls), decision, held))
        if self._work is None:
            self._work = asyncio.get_running_loop().create_task(self._decide())

    async def _decide(self) -> None:
        while True:
            asked = await self._waiting.get()
            try:
                self._compare(asked, await asked.policies.decide_again(asked.document))
            except Exception:
                log.exception("policies in shadow could not be compared")
            finally:
                asked.policies.let_go()
                self._waiting.task_done()

    def _compare(self, asked: _Asked, decision: Decision) -> None:
        for place, call in enumerate(asked.calls):
            if decision.fault:
                self._count("fault")
                continue
            was, would = result_of(asked.decision, place), result_of(decision, place)
            if was == would:
                self._count("same")
                continue
            is_stricter = would > was
            self._count("stricter" if is_stricter else "laxer")
            difference = Difference(
                policy=asked.decision.revision,
                shadow=decision.revision,
                was=was.word,
                would=would.word,
                by=reasons_of(decision if is_stricter else asked.decision, place),
            )
            self._audit.shadow_differs(asked.run, call, difference, request_id=asked.request_id)

    async def close(self) -> None:
        """Finishes what waits, for a short time, then ends the policies."""
        if self._work is not None:
            try:
                async with asyncio.timeout(CLOSING_SECONDS):
                    await self._waiting.join()
            except TimeoutError:
                log.warning("policies in shadow: %d questions were not asked any more", self._waiting.qsize())
            self._work.cancel()
            await asyncio.gather(self._work, return_exceptions=True)
        while not self._waiting.empty():
            self._waiting.get_nowait().policies.let_go()
        await self.policies.close()
