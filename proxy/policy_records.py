"""Records of the journal about policies themselves: what they were asked, and where those that are tried out differ."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from .audit_records import stamp

if TYPE_CHECKING:
    from collections.abc import Mapping

    from .audit_records import InputRecord, ShadowRecord
    from .core.messages import ToolCall
    from .core.runs import Run
    from .redaction import Redactor


@dataclass(frozen=True, slots=True)
class Difference:
    """What policies in force and those in shadow make of one call."""

    policy: str
    """Revision of those in force."""
    shadow: str
    """Revision of those in shadow."""
    was: str
    would: str
    by: tuple[str, ...]
    """What the stricter of the two says."""


def shadow_record(
    redactor: Redactor, run: Run, call: ToolCall, difference: Difference, *, request_id: str, at: float
) -> ShadowRecord:
    """One line for a call that policies in shadow would have treated otherwise."""
    return {
        **stamp(run, request_id, at),
        "kind": "shadow",
        "call_id": call.id,
        "tool": call.name,
        "arguments": redactor.summary(call.arguments),
        "policy": difference.policy,
        "shadow": difference.shadow,
        "was": difference.was,
        "would": difference.would,
        "by": [redactor.text(each) for each in difference.by],
    }


def input_record(
    redactor: Redactor, run: Run, document: Mapping[str, object], *, request_id: str, policy: str, at: float
) -> InputRecord:
    """One line for what policies were asked."""
    return {
        **stamp(run, request_id, at),
        "kind": "input",
        "policy": policy,
        "input": redactor.value(dict(document)),
    }
