"""Which calls of a history are which steps of a run: by id and by what they say, whatever agents do to either."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .fingerprint import call_fingerprint
from .results import NO_TRAITS, StepStatus

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from .messages import ToolCall
    from .results import ToolTraits
    from .runs import Run, Step


def fingerprint_of(call: ToolCall, traits: Mapping[str, ToolTraits]) -> str:
    """The call's fingerprint, less the arguments that policy declares volatile."""
    return call_fingerprint(call.name, call.arguments, traits.get(call.name, NO_TRAITS).volatile_arguments)


def matched_steps(run: Run, calls: Sequence[ToolCall], *, known: bool) -> list[Step | None]:
    """For each call of a history the step that it is; None for a call that the run does not hold yet.

    Where an id comes more than once, the newest calls are the newest steps. A call that came back altered is still
    the one that was released under its id: it must not count twice. `known`: the calls stand behind all that was read
    before, so they can only be such as still wait for their result.
    """
    found: list[Step | None] = [None] * len(calls)
    candidates = [
        step
        for step in run.steps
        if step.status is StepStatus.PENDING or (step.status is not StepStatus.REFUSED and not known)
    ]
    steps: dict[tuple[str, str], list[Step]] = {}
    for step in candidates:
        steps.setdefault((step.call_id, step.fingerprint), []).append(step)
    places: dict[tuple[str, str], list[int]] = {}
    for place, call in enumerate(calls):
        places.setdefault((call.id, fingerprint_of(call, run.traits)), []).append(place)
    for meaning, group in places.items():
        for place, step in zip(reversed(group), reversed(steps.get(meaning, ())), strict=False):
            found[place] = step
    taken = {step.number for step in found if step is not None}
    left: dict[str, list[Step]] = {}
    for step in candidates:
        if step.number not in taken:
            left.setdefault(step.call_id, []).append(step)
    for place in reversed(range(len(calls))):
        if found[place] is None and left.get(calls[place].id):
            found[place] = left[calls[place].id].pop()
    _match_renamed(run, calls, found, [step for steps in left.values() for step in steps])
    return found


def _match_renamed(
    run: Run, calls: Sequence[ToolCall], found: list[Step | None], left: Sequence[Step]
) -> None:
    """Some agents give a call another id than it came with (that of its item, where there are two): what it says is
    what it is."""
    by_meaning: dict[str, list[Step]] = {}
    for step in sorted(left, key=lambda step: step.number):
        by_meaning.setdefault(step.fingerprint, []).append(step)
    for place in reversed(range(len(calls))):
        if found[place] is None and (same := by_meaning.get(fingerprint_of(calls[place], run.traits))):
            found[place] = same.pop()
