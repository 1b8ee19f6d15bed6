"""An approval as JSON, for people and for what they use."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from .audit_records import args_hash, timestamp

if TYPE_CHECKING:
    from .core.approvals import Approval
    from .redaction import Redactor


def shown(approval: Approval, redactor: Redactor | None, most: int | None = None) -> dict[str, object]:
    """The approval with its arguments redacted (at most so many characters of them); with the exact ones where no
    redactor is given."""
    whose = approval.identity
    arguments = approval.arguments
    if redactor is not None:
        arguments = redactor.json(arguments) if most is None else redactor.summary(arguments, most)
    return {
        "id": approval.id,
        "status": approval.status.value,
        "tool": approval.tool,
        "arguments": arguments,
        "args_hash": args_hash(approval.arguments),
        "redacted": redactor is not None,
        "run": approval.run,
        "turn": approval.turn,
        "identity": {
            "organisation": whose.organisation,
            "team": whose.team,
            "agent": whose.agent,
            "user": whose.user,
            "roles": list(whose.roles),
        },
        "demands": [
            {"code": each.code, "message": each.message, "layer": each.layer, "rule": each.rule}
            for each in approval.demands
        ],
        "asked_at": timestamp(approval.asked_at),
        "expires_at": timestamp(approval.expires_at),
        "decided_at": None if approval.decided_at is None else timestamp(approval.decided_at),
        "decided_by": approval.decided_by,
        "reason": approval.reason,
    }


def written(value: object) -> bytes:
    """The value as JSON in ASCII, which holds whatever models and agents make up."""
    return json.dumps(value, separators=(",", ":")).encode("ascii")
