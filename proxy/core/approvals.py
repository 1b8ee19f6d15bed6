"""An approval: a person's word about exactly one call of one run (D4).

Laws: it is bound to the caller, the run, the tool and the exact arguments, and fits nothing else; it is decided once
and used once; what is not decided in time counts as refused. Nothing here reads a clock.
"""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import dataclass, replace
from enum import StrEnum
from hashlib import sha256
from typing import TYPE_CHECKING

from .json_text import NotOneObject, read_object
from .messages import ToolKind
from .results import StepStatus

if TYPE_CHECKING:
    from .messages import ToolCall
    from .runs import Identity, Run
    from .verdicts import Demand


PENDING_CODE = "approval_pending"
"""As which a call is refused while nobody has decided."""


class ApprovalStatus(StrEnum):
    """How an approval stands."""

    PENDING = "pending"
    APPROVED = "approved"
    """Not used yet."""
    USED = "used"
    """Approved, and the call has left."""
    REJECTED = "rejected"
    EXPIRED = "expired"
    """Nobody decided in time, or what was approved was not used in time."""
    FULL = "full"
    """So many approvals are waited for that no further one is asked for."""


@dataclass(frozen=True, slots=True)
class Approval:
    """What a person is asked, and what was said."""

    id: str
    """Cannot be guessed."""
    binding: str
    """Digest of all that it is bound to."""
    identity: Identity
    run: str
    turn: int
    """The turn in which it was asked for."""
    tool: str
    arguments: str
    """The exact text of the first call that asked for it."""
    demands: tuple[Demand, ...]
    asked_at: float
    """Epoch seconds, like all times here."""
    expires_at: float
    status: ApprovalStatus = ApprovalStatus.PENDING
    decided_at: float | None = None
    decided_by: str = ""
    reason: str = ""
    used_at: float | None = None


@dataclass(frozen=True, slots=True)
class Word:
    """What a person says."""

    approve: bool
    by: str
    reason: str = ""
    use_by: float = 0.0
    """When an approved call has to have left."""


def binding_of(identity_key: str, run_id: str, call: ToolCall) -> str:
    """Identifies a call to be approved: caller, run, tool and exact arguments.

    The order of keys, white space between values and escapes make no difference. Any other difference does, white
    space inside texts included: a person has seen exactly these.
    """
    said = call.arguments
    if call.kind is ToolKind.FUNCTION:
        with suppress(NotOneObject):
            said = json.dumps(read_object(said), sort_keys=True, separators=(",", ":"))
    whole = json.dumps([identity_key, run_id, call.name, call.kind, said])
    return sha256(whole.encode("ascii")).hexdigest()


def asked_for(  # noqa: PLR0913 - what it is bound to, and how long
    approval_id: str,
    identity: Identity,
    run: Run,
    call: ToolCall,
    demands: tuple[Demand, ...],
    *,
    now: float,
    expires_at: float,
) -> Approval:
    """A new approval, undecided."""
    return Approval(
        id=approval_id,
        binding=binding_of(identity.key, run.id, call),
        identity=identity,
        run=run.id,
        turn=run.turn,
        tool=call.name,
        arguments=call.arguments,
        demands=demands,
        asked_at=now,
        expires_at=expires_at,
    )


def as_of(approval: Approval, now: float) -> Approval:
    """The approval as it stands at this time."""
    waits = approval.status in {ApprovalStatus.PENDING, ApprovalStatus.APPROVED}
    return (
        replace(approval, status=ApprovalStatus.EXPIRED) if waits and now >= approval.expires_at else approval
    )


def decided(approval: Approval, word: Word, now: float) -> Approval:
    """The approval after this decision; unchanged unless it was pending."""
    if as_of(approval, now).status is not ApprovalStatus.PENDING:
        return approval
    return replace(
        approval,
        status=ApprovalStatus.APPROVED if word.approve else ApprovalStatus.REJECTED,
        decided_at=now,
        decided_by=word.by,
        reason=word.reason,
        expires_at=word.use_by if word.approve else approval.expires_at,
    )


def agrees(approval: Approval, word: Word) -> bool:
    """Whether this was decided so, now or before."""
    yes = {ApprovalStatus.APPROVED, ApprovalStatus.USED}
    return approval.status in (yes if word.approve else {ApprovalStatus.REJECTED})


def still_answers(approval: Approval, asked: Approval) -> bool:
    """Whether an earlier approval of the same call answers what is asked now, so that nobody is asked again.

    One that was used does not; nor does one that nobody decided in time, once the user has spoken again. A rejection
    holds for the rest of the run.
    """
    if approval.status is ApprovalStatus.USED:
        return False
    if approval.status is ApprovalStatus.EXPIRED:
        return approval.decided_at is None and approval.turn >= asked.turn
    return True


def waits_for_person(run: Run) -> bool:
    """Whether a call of this turn was refused because nobody has decided about it, and that is the last of it: it has
    neither left since nor been refused for another reason."""
    waiting = set()
    for step in run.turn_steps:
        if step.status is StepStatus.REFUSED and step.refused_as == PENDING_CODE:
            waiting.add(step.fingerprint)
        else:
            waiting.discard(step.fingerprint)
    return bool(waiting)
