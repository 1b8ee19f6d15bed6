"""Check `approval`: calls with side effects wait for a person, carry a key, and are not repeated blindly (D4, C4).

| check | code | action | says |
|---|---|---|---|
| `approval.person` | `approval_given` | PASS | a person approved exactly this call |
| `approval.person` | `approval_pending` | REASK | the call waits for a person; nobody has decided yet |
| `approval.person` | `approval_rejected` | REASK | a person said no |
| `approval.person` | `approval_expired` | REASK | nobody decided in time, which counts as a refusal |
| `approval.person` | `approval_full` | REASK | so many calls wait that nobody can be asked |
| `approval.key` | `idempotency_key_missing` | REASK | the tool needs an idempotency key, and the call has none |
| `approval.key` | `idempotency_key_reused` | REASK | the key stood for other arguments before |
| `approval.repeated` | `side_effect_done` | REASK | the same call of a writing tool succeeded before |
| `approval.repeated` | `side_effect_twice` | REASK | it stands twice in one answer |
| `approval.unknown` | `side_effect_unknown` | REASK | whether it took effect is unknown, and nothing has looked since |

Who is asked, and when, is policy; what was said comes with the facts. Everything is worded for the model, which can
tell the user or go on with something else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from proxy.core.approvals import PENDING_CODE, ApprovalStatus
from proxy.core.verdicts import Action, Verdict

from .names import spelled
from .side_effects import repeated_acts

if TYPE_CHECKING:
    from collections.abc import Iterator

    from proxy.core.approvals import Approval
    from proxy.core.verdicts import Demand, Facts

PERSON = "approval.person"
"""The part of the check that a person's word is about."""
REASON = "approval"
OTHERWISE = "Do without it, or tell the user."


class ApprovalCheck:
    """Side effects."""

    name = "approval"

    def on_request(self, facts: Facts) -> Iterator[Verdict]:  # noqa: ARG002 - the seam's signature
        """Nothing to say."""
        yield from ()

    def on_calls(self, facts: Facts) -> Iterator[Verdict]:
        """Refuses blind repeats, and calls that a person has not approved."""
        yield from repeated_acts(facts)
        if facts.approvals is None:
            return
        for place in range(len(facts.calls)):
            for demand in demands_on(facts, place):
                yield _word(facts, place, demand, facts.approvals.get(place))

    def on_answer(self, facts: Facts) -> Iterator[Verdict]:  # noqa: ARG002 - the seam's signature
        """Nothing to say."""
        yield from ()


def demands_on(facts: Facts, place: int) -> tuple[Demand, ...]:
    """Why policy wants a person to approve this call. A demand that names no call of the answer is about all."""
    count = len(facts.calls)
    return tuple(
        demand
        for demand in facts.decision.demands
        if demand.call == place or demand.call is None or demand.call >= count
    )


def _word(facts: Facts, place: int, demand: Demand, approval: Approval | None) -> Verdict:
    code, action, message = _said(facts.calls[place].name, approval)
    if action is not Action.PASS:
        message = f"{demand.message} {message}"
    fields: dict[str, str | int | float | None] = {"demand": demand.code}
    if approval is not None:
        fields |= {"approval": approval.id, "status": approval.status.value}
        if approval.decided_by:
            fields |= {"by": approval.decided_by, "reason": approval.reason}
    return Verdict(
        PERSON,
        code,
        action,
        message,
        place,
        reason_class=REASON,
        layer=demand.layer,
        rule=demand.rule,
        fields=fields,
    )


def _said(tool: str, approval: Approval | None) -> tuple[str, Action, str]:
    """Code, action and wording; None: nobody was asked, since the call is refused anyway."""
    if approval is None:
        return PENDING_CODE, Action.REASK, f"Nobody was asked about this call. {OTHERWISE}"
    shown = spelled(tool)
    match approval.status:
        # Taken for this very call: any other has found it gone.
        case ApprovalStatus.USED:
            return "approval_given", Action.PASS, f"This call to {shown} was approved."
        case ApprovalStatus.REJECTED:
            why = f" and said: {approval.reason.rstrip('.')}." if approval.reason else "."
            message = f"A person rejected this call to {shown}{why} Do not make it again. {OTHERWISE}"
            return "approval_rejected", Action.REASK, message
        case ApprovalStatus.EXPIRED:
            message = f"Nobody approved this call to {shown} in time, so it is refused. Do not make it again now. {OTHERWISE}"
            return "approval_expired", Action.REASK, message
        case ApprovalStatus.FULL:
            message = f"So many calls wait for approval that this one to {shown} cannot be put before anybody. {OTHERWISE}"
            return "approval_full", Action.REASK, message
        case _:
            message = (
                f"This call to {shown} waits for a person as {approval.id}. Do not make it again now: tell the user "
                "that it waits, and go on with what does not depend on it. Once it is approved, exactly this call passes."
            )
            return PENDING_CODE, Action.REASK, message
