"""Puts calls before people, waits for their word as configured, and writes down who said what (D4).

Laws: an approval is taken before its call leaves and given back where it does not; whoever stops waiting (a hang-up)
leaves the question open for the next try.
"""

from __future__ import annotations

import asyncio
import secrets
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .checks.approval import demands_on
from .core.approvals import ApprovalStatus, Word, asked_for
from .core.limits import seconds_left

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from .approval_settings import ApprovalSettings
    from .audit import AuditJournal
    from .core.approvals import Approval
    from .core.verdicts import Facts
    from .stores.approvals import ApprovalBook


@dataclass(frozen=True, slots=True)
class Asked:
    """What came of asking."""

    approvals: Mapping[int, Approval]
    """By place of the call. Status `used`: taken for this call."""
    waited: bool
    """Time may have passed, so that other things may have changed."""


class Approvals:
    """Asks and listens. One a process, on a book that may be shared."""

    def __init__(
        self,
        settings: ApprovalSettings,
        book: ApprovalBook,
        clock: Callable[[], float],
        audit: AuditJournal,
        tell: Callable[[Approval], None],
        count: Callable[[str, float | None], None] = lambda _status, _waited: None,
    ) -> None:
        """`clock` gives epoch seconds. `tell` is called with each new request and does not wait; `count` with each new
        status, and the seconds that a decision took."""
        self._settings = settings
        self._book = book
        self._clock = clock
        self._audit = audit
        self._tell = tell
        self._count = count

    # --- for the gate ---------------------------------------------------------------------------------------

    async def asked(self, facts: Facts, places: Sequence[int]) -> Asked:
        """What people say of these calls of `facts`. Raises StoreFault."""
        if not places:
            return Asked({}, waited=False)
        await self._note_lapsed()
        found = {place: await self._ask(facts, place) for place in places}
        hold = self._hold(facts)
        until = asyncio.get_running_loop().time() + hold
        taken: list[Approval] = []
        try:
            for place in places:
                found[place] = await self._word(facts, place, found[place], until)
                taken += [found[place]] if found[place].status is ApprovalStatus.USED else []
        except BaseException:
            await self.give_back(taken)
            raise
        await self._note_lapsed()
        return Asked(found, waited=hold > 0)

    def _hold(self, facts: Facts) -> float:
        """How long an answer may be held: waits count to the time of turn and run (E3)."""
        if self._settings.when_needed != "hold":
            return 0.0
        now, run = self._clock(), facts.run
        left = seconds_left(facts.limits, now - run.turn_started_at, now - run.started_at)
        return self._settings.hold_seconds if left is None else min(self._settings.hold_seconds, left)

    async def _ask(self, facts: Facts, place: int) -> Approval:
        now = self._clock()
        fresh = asked_for(
            f"apr_{secrets.token_hex(16)}",
            facts.identity,
            facts.run,
            facts.calls[place],
            demands_on(facts, place),
            now=now,
            expires_at=now + self._settings.timeout_seconds,
        )
        known = await self._book.ask(fresh, now)
        if known.id == fresh.id and known.status is ApprovalStatus.PENDING:
            self._note(known, now)
            self._tell(known)
        return known

    async def _word(self, facts: Facts, place: int, approval: Approval, until: float) -> Approval:
        """What is said in the end, or by the time until which the answer may be held (of the loop)."""
        while True:
            if approval.status is ApprovalStatus.PENDING:
                approval = await self._held(approval, until)
            if approval.status not in {ApprovalStatus.APPROVED, ApprovalStatus.USED}:
                return approval
            # Only what is taken here is used for this call: what is found used was used for another.
            taken = await self._book.take(approval.id, self._clock())
            if taken is not None:
                return taken
            # Another call was quicker.
            approval = await self._ask(facts, place)

    async def _held(self, approval: Approval, until: float) -> Approval:
        loop = asyncio.get_running_loop()
        while approval.status is ApprovalStatus.PENDING and (left := until - loop.time()) > 0:
            await self._book.decided(approval.id, min(left, max(approval.expires_at - self._clock(), 0.0)))
            known = await self._book.get(approval.id, self._clock())
            if known is None:
                break
            approval = known
        return approval

    async def give_back(self, taken: Iterable[Approval]) -> None:
        """The calls of these approvals do not leave after all."""
        for approval in taken:
            await self._book.give_back(approval.id)

    def used(self, approvals: Iterable[Approval]) -> None:
        """The calls of these approvals leave."""
        for approval in approvals:
            self._note(approval, self._clock())

    # --- for people -----------------------------------------------------------------------------------------

    async def decide(self, approval_id: str, *, approve: bool, by: str, reason: str) -> Approval | None:
        """The approval after this word, which counts only if it is the first one and in time; None: there is no such
        approval. Raises StoreFault."""
        await self._note_lapsed()
        now = self._clock()
        word = Word(approve, by, reason, now + self._settings.use_seconds)
        before = await self._book.get(approval_id, now)
        after = await self._book.decide(approval_id, word, now)
        if before is not None and after is not None and before.status is not after.status:
            self._note(after, now)
        return after

    async def find(self, approval_id: str) -> Approval | None:
        """One approval as it stands. Raises StoreFault."""
        await self._note_lapsed()
        return await self._book.get(approval_id, self._clock())

    async def listed(self) -> list[Approval]:
        """All that are kept, the newest first. Raises StoreFault."""
        await self._note_lapsed()
        return await self._book.listed(self._clock())

    async def _note_lapsed(self) -> None:
        now = self._clock()
        for approval in await self._book.lapsed(now):
            self._note(approval, now)

    def _note(self, approval: Approval, now: float) -> None:
        """It has come to stand so."""
        self._audit.approval(approval, at=now)
        decides = approval.status in {ApprovalStatus.APPROVED, ApprovalStatus.REJECTED}
        self._count(approval.status.value, now - approval.asked_at if decides else None)
