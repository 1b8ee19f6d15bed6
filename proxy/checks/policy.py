"""Check `policy`: what Rego denies, and that it could not be asked (D1 to D6, D8, D16, F2, C4).

Each denial becomes a verdict `policy.<layer>.<rule or code>` with the denial's own code, action and message; one
said in shadow is recorded and never acts. A denial that names no call, or one that is not there, is about all of
them. A fault of the engine is `policy.fault` (code `policy_error`, DENY): everything is refused, and the message
is for people, since the model cannot mend it. What no engine can judge is `policy.input` (code `not_judgeable`,
REASK): the model can mend it, and where faults of the engine are let pass, this is not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from proxy.core.results import summary
from proxy.core.verdicts import Action, Mode, Verdict

if TYPE_CHECKING:
    from collections.abc import Iterator

    from proxy.core.verdicts import Denial, Facts

FAULT = (
    "The policy that has to decide about this could not be evaluated, so nothing was let through. "
    "The operator of this system has to look into it."
)
FAULT_LENGTH = 200


class PolicyCheck:
    """Denials of policy as verdicts."""

    name = "policy"

    def on_request(self, facts: Facts) -> Iterator[Verdict]:
        """What policy says of the request."""
        yield from _verdicts(facts)

    def on_calls(self, facts: Facts) -> Iterator[Verdict]:
        """What policy says of the calls."""
        yield from _verdicts(facts)

    def on_answer(self, facts: Facts) -> Iterator[Verdict]:
        """What policy says of the final answer."""
        yield from _verdicts(facts)


def _verdicts(facts: Facts) -> Iterator[Verdict]:
    fault = facts.decision.fault
    if fault and facts.decision.unjudged:
        yield _unjudged(facts)
    elif fault:
        fields = {"fault": summary(fault, FAULT_LENGTH)}
        yield Verdict(
            "policy.fault", "policy_error", Action.DENY, FAULT, reason_class="policy_error", fields=fields
        )
    for denial in facts.decision.denials:
        yield _verdict(denial, len(facts.calls))


def _unjudged(facts: Facts) -> Verdict:
    message = f"No policy can judge this: {facts.decision.fault}."
    if not facts.calls:
        return Verdict("policy.input", "not_judgeable", Action.DENY, message, reason_class="policy_error")
    message += " Make the calls again: smaller, fewer at once, and with ordinary characters only."
    return Verdict("policy.input", "not_judgeable", Action.REASK, message, reason_class="arguments_invalid")


def _verdict(denial: Denial, calls: int) -> Verdict:
    is_about_one = denial.call is not None and 0 <= denial.call < calls
    parts = ("policy", denial.layer, denial.rule or denial.code)
    return Verdict(
        check=".".join(part for part in parts if part),
        code=denial.code,
        action=denial.action,
        message=denial.message,
        call=denial.call if is_about_one else None,
        reason_class=_reason_class(denial, is_about_calls=calls > 0),
        layer=denial.layer,
        rule=denial.rule,
        mode=Mode.SHADOW if denial.shadow else Mode.ENFORCE,
    )


def _reason_class(denial: Denial, *, is_about_calls: bool) -> str:
    if denial.code.startswith("tool_"):
        return "allow_list"
    return "argument_rule" if is_about_calls else "policy_rule"
