"""Side effects are not repeated blindly: the part of check `approval` that needs nobody's answer (D4).

Only tools that policy declares with `effect: write` are looked at, over all steps of the run, so also after a loss of
state. The same act is the same call: the same tool and the same arguments, less volatile ones and the idempotency key.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from proxy.core.fingerprint import call_fingerprint, canonical
from proxy.core.json_text import NotOneObject, read_object
from proxy.core.results import NO_TRAITS, StepStatus
from proxy.core.verdicts import Action, Verdict

from .names import spelled

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from proxy.core.results import ToolTraits
    from proxy.core.runs import Step
    from proxy.core.verdicts import Facts

UNKNOWN = frozenset({StepStatus.PENDING, StepStatus.FAILED, StepStatus.TEMPORARILY_UNAVAILABLE})
"""After these nobody knows whether the act took effect."""
LOOKED = frozenset({StepStatus.FOUND, StepStatus.NOT_FOUND})
"""A reading call with such a result has shown the state."""
REASON = "side_effect"


@dataclass(frozen=True, slots=True)
class _Act:
    """What a call does: equal meanings are one act."""

    meaning: str
    key: bytes
    """The idempotency key in one spelling; empty: none was given."""


def repeated_acts(facts: Facts) -> Iterator[Verdict]:
    """Verdicts about calls with side effects that are repeated, or that lack what makes a repeat safe."""
    looks = _Looks(facts)
    ahead: dict[str, list[_Act]] = {}
    for place, call in enumerate(facts.calls):
        traits = _traits(facts, call.name)
        if traits.effect != "write":
            continue
        act = _act(call.name, call.arguments, traits)
        steps = [step for step in facts.run.steps if step.tool == call.name]
        past = [
            (step, _act(step.tool, step.arguments, traits, step.fingerprint))
            for step in steps
            if step.status is not StepStatus.REFUSED
        ]
        others = ahead.setdefault(call.name, [])
        yield from _keyed(place, traits, act, [known for _, known in past] + others)
        if not (traits.repeatable or traits.polling):
            same = [(step, known.key) for step, known in past if known.meaning == act.meaning]
            twice = any(other.meaning == act.meaning for other in others)
            yield from _repeated(looks, place, call.name, act.key, same, twice=twice)
        others.append(act)


def _traits(facts: Facts, tool: str) -> ToolTraits:
    return facts.decision.traits.get(tool) or facts.run.traits.get(tool) or NO_TRAITS


def _act(tool: str, arguments: str, traits: ToolTraits, fingerprint: str = "") -> _Act:
    """The act of a call; a past one whose arguments were cut is known by its fingerprint alone."""
    if not traits.idempotency_argument:
        return _Act(fingerprint or call_fingerprint(tool, arguments, traits.volatile_arguments), b"")
    try:
        known = read_object(arguments)
    except NotOneObject:
        return _Act(fingerprint or call_fingerprint(tool, arguments), b"")
    for name in traits.volatile_arguments:
        known.pop(name, None)
    *above, last = traits.idempotency_argument.split(".")
    part: object = known
    for name in above:
        part = part.get(name) if isinstance(part, dict) else None
    key = part.pop(last, None) if isinstance(part, dict) else None
    is_key = isinstance(key, str | int | float) and not isinstance(key, bool) and str(key).strip() != ""
    return _Act(canonical(known).decode("ascii"), canonical(key) if is_key else b"")


def _keyed(place: int, traits: ToolTraits, act: _Act, others: Sequence[_Act]) -> Iterator[Verdict]:
    path = traits.idempotency_argument
    if not path:
        return
    if not act.key:
        message = (
            f"Give {spelled(path)} a text that stands for this one act: a new one for each new act, the one of before "
            "where you try the same act again."
        )
        yield _refused("key", "idempotency_key_missing", message, place)
    elif any(other.key == act.key and other.meaning != act.meaning for other in others):
        message = (
            f"The value of {spelled(path)} was used before with other arguments. Another act needs a new one."
        )
        yield _refused("key", "idempotency_key_reused", message, place)


def _repeated(
    looks: _Looks, place: int, tool: str, key: bytes, same: Sequence[tuple[Step, bytes]], *, twice: bool
) -> Iterator[Verdict]:
    """`same`: earlier steps that were this act, with their keys. `twice`: it stands in this answer before."""
    shown = spelled(tool)
    open_now = any(step.status is StepStatus.PENDING and step.round == looks.now for step, _ in same)
    if any(step.status is StepStatus.FOUND for step, _ in same):
        message = (
            f"This call to {shown} was made before in this conversation and succeeded: it is done. Do not make it "
            "again; go on with its result."
        )
        yield _refused("repeated", "side_effect_done", message, place)
    elif twice or open_now:
        message = (
            f"The same call to {shown} stands twice in one answer. It has an effect each time: make it once."
        )
        yield _refused("repeated", "side_effect_twice", message, place)
    elif same and same[-1][0].status in UNKNOWN:
        step, before = same[-1]
        if (key and key == before) or looks.since(step):
            return
        safe = (
            "Try again with the idempotency key of before"
            if before
            else "Look at the state first with a call that reads it"
        )
        message = (
            f"This call to {shown} was made before, and it is not known whether it took effect. {safe}, or tell the "
            "user that it is not known."
        )
        yield _refused("unknown", "side_effect_unknown", message, place)


class _Looks:
    """Which steps have looked at the state of things."""

    def __init__(self, facts: Facts) -> None:
        self._facts = facts
        self.now = facts.run.spent.rounds
        """The round of the answer under judgement."""
        offered = (_traits(facts, name).effect for name in facts.request.tool_names)
        # Where nobody declared what reads, whatever is not declared to write may have.
        self._effects = {"read"} if "read" in offered else {"read", "unknown"}

    def since(self, step: Step) -> bool:
        """Whether a call of a later answer has read something; one beside the act may have been there before it."""
        return any(
            later.number > step.number
            and later.round > step.round
            and later.status in LOOKED
            and _traits(self._facts, later.tool).effect in self._effects
            for later in self._facts.run.steps
        )


def _refused(part: str, code: str, message: str, place: int) -> Verdict:
    return Verdict(f"approval.{part}", code, Action.REASK, message, place, reason_class=REASON)
