"""The book of approvals: what persons were asked, and what they said. Every method but `decided` is atomic.

Times are epoch seconds and come as arguments. A store that does not answer in time raises StoreFault.
"""

from __future__ import annotations

import asyncio
from collections import Counter, OrderedDict
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

from proxy.core.approvals import Approval, ApprovalStatus, Word, as_of, decided, still_answers

if TYPE_CHECKING:
    from collections.abc import Iterator

KEPT_A_WAITING_ONE = 10
"""Room for approvals that are decided or gone, as a multiple of those that may wait."""


class ApprovalBook(Protocol):
    """What approvals need of a store."""

    async def ask(self, asked: Approval, now: float) -> Approval:
        """What is known of this call by its binding, where that still answers; else `asked`, which is entered now.

        Status `full`, and nothing entered, where too many wait, of this caller or in all.
        """

    async def take(self, approval_id: str, now: float) -> Approval | None:
        """Uses an approval that was given: status `used`. None: it is not approved (any more). One of several that take
        it at once gets it."""

    async def give_back(self, approval_id: str) -> None:
        """What was taken did not leave after all: approved again, as long as before."""

    async def decide(self, approval_id: str, word: Word, now: float) -> Approval | None:
        """The approval as it stands after this word, which counts if it is the first one and in time. None: unknown."""

    async def decided(self, approval_id: str, seconds: float) -> None:
        """Returns when somebody has decided, at the latest after so many seconds."""

    async def get(self, approval_id: str, now: float) -> Approval | None:
        """The approval as it stands now."""

    async def listed(self, now: float) -> list[Approval]:
        """All that are kept, the newest first."""

    async def lapsed(self, now: float) -> list[Approval]:
        """Those that have expired undecided, each told of once."""

    async def close(self) -> None:
        """Frees connections."""


class MemoryApprovals:
    """The book of one process: bounded. Every method but `decided` is one step of the event loop, hence atomic."""

    def __init__(self, max_waiting: int, max_waiting_per_caller: int) -> None:
        """How many may wait undecided, in all and of one caller."""
        self._most = max_waiting
        self._most_each = max_waiting_per_caller
        self._kept: OrderedDict[str, Approval] = OrderedDict()
        self._by_binding: dict[str, str] = {}
        self._waiting: dict[str, str] = {}
        """Undecided approvals and whose they are: what is counted, and looked through for lapsed ones."""
        self._callers: Counter[str] = Counter()
        self._words: dict[str, asyncio.Event] = {}

    async def ask(self, asked: Approval, now: float) -> Approval:
        """See ApprovalBook."""
        before = self._kept.get(self._by_binding.get(asked.binding, ""))
        if before is not None:
            before = as_of(before, now)
            if still_answers(before, asked):
                return before
        key = asked.identity.key
        if len(self._waiting) >= self._most or self._callers[key] >= self._most_each or not self._room(now):
            return replace(asked, status=ApprovalStatus.FULL)
        self._kept[asked.id] = asked
        self._by_binding[asked.binding] = asked.id
        self._waiting[asked.id] = key
        self._callers[key] += 1
        return asked

    async def take(self, approval_id: str, now: float) -> Approval | None:
        """See ApprovalBook."""
        known = await self.get(approval_id, now)
        if known is None or known.status is not ApprovalStatus.APPROVED:
            return None
        used = replace(known, status=ApprovalStatus.USED, used_at=now)
        self._kept[approval_id] = used
        return used

    async def give_back(self, approval_id: str) -> None:
        """See ApprovalBook."""
        known = self._kept.get(approval_id)
        if known is not None and known.status is ApprovalStatus.USED:
            self._kept[approval_id] = replace(known, status=ApprovalStatus.APPROVED, used_at=None)
            self._by_binding[known.binding] = approval_id

    async def decide(self, approval_id: str, word: Word, now: float) -> Approval | None:
        """See ApprovalBook."""
        known = await self.get(approval_id, now)
        if known is None or known.status is not ApprovalStatus.PENDING:
            return known
        known = decided(known, word, now)
        self._kept[approval_id] = known
        self._waits_no_more(approval_id)
        return known

    async def decided(self, approval_id: str, seconds: float) -> None:
        """See ApprovalBook."""
        if approval_id not in self._waiting:
            return
        word = self._words.setdefault(approval_id, asyncio.Event())
        try:
            async with asyncio.timeout(seconds):
                await word.wait()
        except TimeoutError:
            return

    async def get(self, approval_id: str, now: float) -> Approval | None:
        """See ApprovalBook."""
        known = self._kept.get(approval_id)
        return None if known is None else as_of(known, now)

    async def listed(self, now: float) -> list[Approval]:
        """See ApprovalBook."""
        return [as_of(known, now) for known in reversed(self._kept.values())]

    async def lapsed(self, now: float) -> list[Approval]:
        """See ApprovalBook."""
        return list(self._lapsed(now))

    async def close(self) -> None:
        """See ApprovalBook."""

    def _lapsed(self, now: float) -> Iterator[Approval]:
        for approval_id in list(self._waiting):
            known = as_of(self._kept[approval_id], now)
            if known.status is ApprovalStatus.EXPIRED:
                self._kept[approval_id] = known
                self._waits_no_more(approval_id)
                yield known

    def _waits_no_more(self, approval_id: str) -> None:
        key = self._waiting.pop(approval_id)
        self._callers[key] -= 1
        if not self._callers[key]:
            del self._callers[key]
        word = self._words.pop(approval_id, None)
        if word is not None:
            word.set()

    def _room(self, now: float) -> bool:
        """Makes room for one more: the oldest that is neither waited for nor to be used goes. Rejections go last."""
        if len(self._kept) < self._most * KEPT_A_WAITING_ONE:
            return True
        for status in (ApprovalStatus.USED, ApprovalStatus.EXPIRED, ApprovalStatus.REJECTED):
            for approval_id, known in self._kept.items():
                if as_of(known, now).status is status:
                    del self._kept[approval_id]
                    if self._by_binding.get(known.binding) == approval_id:
                        del self._by_binding[known.binding]
                    return True
        return False
