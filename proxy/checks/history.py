"""Check `history`: the history that an agent sends back is the one that happened (A2, A3, C7, E1).

Verdicts, all about the request:

| check | code | action | says |
|---|---|---|---|
| `history.foreign_result` | `foreign_result` | DENY | a result whose id no call has |
| `history.unseen_call` | `unseen_call` | PASS | as above, where the calls are not in the request: kept by the provider |
| `history.duplicate_result` | `duplicate_result` | DENY | a second, different result for a call (PASS: the same one again) |
| `history.missing_result` | `missing_result` | PASS, repaired | a call without a result (DENY where repair is off) |
| `history.altered_call` | `altered_call` | DENY | a call that was released with another name or other values |
| `history.reshaped_call` | `reshaped_call` | PASS | as released, less or plus whole members (defaults, validation) |
| `history.refused_call` | `refused_call` | DENY | a call that was refused comes back as if it had been released |
| `history.missing_turn` | `missing_turn` | PASS | the newest released calls are not in the history |
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from proxy.core.fingerprint import call_fingerprint, canonical
from proxy.core.json_text import NotOneObject, read_object
from proxy.core.messages import MissingResult, Role, ToolKind
from proxy.core.pairing import paired
from proxy.core.results import StepStatus
from proxy.core.verdicts import Action, Verdict

from .names import spelled

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from proxy.core.messages import ToolCall
    from proxy.core.pairing import Pairing
    from proxy.core.runs import Step
    from proxy.core.verdicts import Facts

NO_RESULT = (
    "[callgate] error: interrupted. This call has no result: it was broken off before one came, and it is not known "
    "whether it took effect. Check before you repeat it."
)
CALLS_COMPARED = 64
"""So many of the newest calls are held against what was released; older ones were when they were new."""
EXACT_INTEGERS = 2**53
"""Beyond this, agents that hold numbers as floating point give back a rounded one."""


class HistoryCheck:
    """Results belong to calls, calls have results, and both are those that were released."""

    name = "history"

    def on_request(self, facts: Facts) -> Iterator[Verdict]:
        """Judges the whole history that came."""
        pairing = paired(facts.request.messages)
        yield from _foreign(facts, pairing)
        yield from _duplicates(pairing)
        yield from _missing(facts, pairing)
        yield from _changed(facts, pairing)

    def on_calls(self, facts: Facts) -> Iterator[Verdict]:  # noqa: ARG002 - the seam's signature
        """Nothing to say."""
        yield from ()

    def on_answer(self, facts: Facts) -> Iterator[Verdict]:  # noqa: ARG002 - the seam's signature
        """Nothing to say."""
        yield from ()


def _verdict(code: str, action: Action, message: str, **more: str | int) -> Verdict:
    return Verdict(f"history.{code}", code, action, message, reason_class="protocol_mismatch", fields=more)


def _foreign(facts: Facts, pairing: Pairing) -> Iterator[Verdict]:
    released = {step.call_id for step in facts.run.steps if step.status is not StepStatus.REFUSED}
    is_whole = any(message.role is Role.ASSISTANT for message in facts.request.messages)
    for loose in pairing.foreign:
        call_id = loose.result.call_id
        if call_id in released:
            continue
        shown = spelled(call_id)
        if not is_whole and not facts.run.steps:
            yield _verdict(
                "unseen_call", Action.PASS, f"The call {shown} is not in the request.", call_id=call_id
            )
            continue
        message = (
            f"Message {loose.message_index} brings a result for the call {shown}, but no call before it has this id. "
            "Send each result with the id of the call that it answers, after the message with that call."
        )
        yield _verdict("foreign_result", Action.DENY, message, call_id=call_id)


def _duplicates(pairing: Pairing) -> Iterator[Verdict]:
    for loose in pairing.duplicates:
        is_same = loose.before is not None and loose.before.text == loose.result.text
        message = (
            f"Message {loose.message_index} brings a second result for the call {spelled(loose.result.call_id)}. "
            "Send exactly one result for each call."
        )
        action = Action.PASS if is_same else Action.DENY
        yield _verdict("duplicate_result", action, message, call_id=loose.result.call_id)


def _missing(facts: Facts, pairing: Pairing) -> Iterator[Verdict]:
    missing = [MissingResult(pair.message_index, pair.call, NO_RESULT) for pair in pairing.missing]
    missing += _left_open(facts)
    if not missing:
        return
    ids = ", ".join(spelled(one.call.id) for one in missing[:8])
    message = f"{len(missing)} call(s) in the history have no result: {ids}. "
    if not facts.settings.repair_history:
        yield _verdict("missing_result", Action.DENY, message + "Send a result for each call.")
        return
    yield Verdict(
        "history.missing_result",
        "missing_result",
        Action.PASS,
        message + "Each got a result that says so.",
        reason_class="protocol_mismatch",
        fields={"missing": len(missing)},
        repairs=tuple(missing),
    )


def _left_open(facts: Facts) -> Iterator[MissingResult]:
    """Released calls of the answer that the provider keeps and this request goes on from without their results."""
    kept = facts.run.kept_as(facts.request.previous)
    if kept is None:
        return
    there = {result.call_id for message in facts.request.messages for result in message.results}
    for call in kept.open:
        if call.id not in there and not call.channel:
            yield MissingResult(-1, call, NO_RESULT)


def _changed(facts: Facts, pairing: Pairing) -> Iterator[Verdict]:
    """Compares the calls of the history with those of the run, id by id. Calls that the run never saw are left
    alone: agents put examples and older conversations there."""
    steps: dict[str, list[Step]] = defaultdict(list)
    for step in facts.run.steps:
        steps[step.call_id].append(step)
    calls: dict[str, list[ToolCall]] = defaultdict(list)
    for pair in pairing.pairs[-CALLS_COMPARED:]:
        if pair.call.id in steps and pair.call.kind is not ToolKind.HOSTED:
            calls[pair.call.id].append(pair.call)
    for call_id, sent_back in calls.items():
        yield from _compared(facts, steps[call_id], sent_back)
    yield from _missing_turn(facts, pairing)


def _compared(facts: Facts, steps: list[Step], calls: list[ToolCall]) -> Iterator[Verdict]:
    own = [step for step in steps if not step.seen_only]
    released = [step for step in own if step.status is not StepStatus.REFUSED]
    refused = [step for step in own if step.status is StepStatus.REFUSED]
    strange = [call for call in calls if not any(_is_same(facts, step, call) for step in released)]
    came_back = [step for step in released if any(_is_same(facts, step, call) for call in calls)]
    # A released call that is not there, and one that was never released with its id in its place: it was altered.
    lost = [step for step in released if step not in came_back]
    for call in strange:
        shown = f"call {spelled(call.id)} to {spelled(call.name)}"
        if any(_is_same(facts, step, call) for step in refused):
            message = f"The history holds the {shown} as if it had been made. It was refused; take it out."
            yield _verdict("refused_call", Action.DENY, message, call_id=call.id)
        elif any(_is_reshaped(step, call) for step in lost):
            message = f"The {shown} came back with other members than it was released with, none changed."
            yield _verdict("reshaped_call", Action.PASS, message, call_id=call.id)
        elif lost:
            message = (
                f"The {shown} is not the call that was released under this id: its name or its arguments differ. "
                "Send the assistant's message back unchanged."
            )
            yield _verdict("altered_call", Action.DENY, message, call_id=call.id)


def _missing_turn(facts: Facts, pairing: Pairing) -> Iterator[Verdict]:
    own = [step for step in facts.run.steps if not step.seen_only]
    is_whole = any(message.role is Role.ASSISTANT for message in facts.request.messages)
    if not own or not is_whole:
        return
    there = pairing.call_ids
    lost = [
        step
        for step in own
        if step.round == own[-1].round and step.status is StepStatus.PENDING and step.call_id not in there
    ]
    if lost:
        ids = ", ".join(spelled(step.call_id) for step in lost[:8])
        yield _verdict("missing_turn", Action.PASS, f"The history lacks calls that were released: {ids}.")


def _is_same(facts: Facts, step: Step, call: ToolCall) -> bool:
    if step.tool != call.name:
        return False
    if step.arguments == call.arguments:
        return True
    traits = facts.run.traits.get(call.name)
    volatile = traits.volatile_arguments if traits else ()
    if step.fingerprint == call_fingerprint(call.name, call.arguments, volatile):
        return True
    sent, back = _read(step.arguments), _read(call.arguments)
    return sent is not None and back is not None and _meaning(sent) == _meaning(back)


def _is_reshaped(step: Step, call: ToolCall) -> bool:
    """Whether what came back differs only in top-level members left out or added. Agents drop members that their
    own validation does not know, and fill in defaults; a changed value is something else."""
    sent, back = _read(step.arguments), _read(call.arguments)
    if step.tool != call.name or sent is None or back is None:
        return False
    if not (sent.keys() <= back.keys() or back.keys() <= sent.keys()):
        return False
    return all(_meaning(sent[name]) == _meaning(back[name]) for name in sent.keys() & back.keys())


def _read(arguments: str) -> Mapping[str, object] | None:
    try:
        return read_object(arguments)
    except NotOneObject:
        return None


def _meaning(value: object) -> bytes:
    return canonical(_rounded(value))


def _rounded(value: object) -> object:
    """Whole numbers that floating point cannot hold, as an agent in JavaScript gives them back."""
    if isinstance(value, dict):
        return {name: _rounded(part) for name, part in value.items()}
    if isinstance(value, list):
        return [_rounded(part) for part in value]
    if isinstance(value, int) and abs(value) > EXACT_INTEGERS:
        try:
            return float(value)
        except OverflowError:
            return value
    return value
