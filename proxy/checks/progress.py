"""Check `progress`: calls that learn nothing new are braked, in degrees (A4, D9, D11, E9, E11, C008 to C011).

| check | code | action | says |
|---|---|---|---|
| `progress.nudge` | `nudge` | NUDGE | request: the newest result came before, for the same call: a note to the model |
| `progress.same_call` | `same_call` | FINISH | the same call had the same result too often |
| `progress.same_call` | `same_call` | REASK | the same call stands too often in one answer |
| `progress.same_result` | `same_result` | FINISH | ever new arguments, always the same empty or failing result |
| `progress.cycle` | `cycle` | FINISH | a cycle of 2 to 8 calls went round with unchanged results |
| `progress.retries` | `retries` | FINISH | the same call failed in passing more often than retries are allowed |
| `progress.insisted` | `insisted` | FINISH | a tool refused with one code is asked for again and again (D5) |
| `progress.insisted` | `refusals` | FINISH | too many refused calls of any kind |

Laws: only steps since the user last spoke count; a changed result starts the count anew (polling); a new result
of another call, or an act that changed the world, does so too: what was tried in vain may work now. The numbers
are `Brakes`; None there switches a brake off. Tools declared as polling are left to their limits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from proxy.core.fingerprint import call_fingerprint
from proxy.core.results import FRUITLESS, NO_TRAITS, StepStatus, ToolTraits
from proxy.core.verdicts import Action, Verdict, refused_calls

from .names import spelled

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from proxy.core.messages import ToolCall
    from proxy.core.runs import Step
    from proxy.core.verdicts import Facts

LONGEST_CYCLE = 8
LOOPS = frozenset({"nudge", "same_call", "cycle"})
PASSING = StepStatus.TEMPORARILY_UNAVAILABLE
STOP_HINT = "Work with what you have, or say what is missing."


class ProgressCheck:
    """Repetition without anything new."""

    name = "progress"

    def on_request(self, facts: Facts) -> Iterator[Verdict]:
        """A note to the model where the newest results were all there before."""
        turn = _Turn(facts)
        newest = max((step.result_at or 0.0 for step in turn.done), default=0.0)
        fresh = {step.fingerprint: step for step in turn.done if step.result_at == newest}
        for step in fresh.values():
            message = _note(turn, facts, step)
            if message:
                yield _verdict("nudge", Action.NUDGE, message, fields={"tool": step.tool})

    def on_calls(self, facts: Facts) -> Iterator[Verdict]:
        """Refuses calls that only repeat."""
        turn = _Turn(facts)
        fingerprints = [turn.fingerprint(call) for call in facts.calls]
        for place, (call, fingerprint) in enumerate(zip(facts.calls, fingerprints, strict=True)):
            if turn.traits(call.name).polling:
                continue
            ahead = fingerprints[:place].count(fingerprint) + turn.open_now(fingerprint)
            yield from _same_call(turn, place, call, fingerprint, ahead)
            yield from _retries(turn, place, call, fingerprint)
            yield from _same_result(turn, place, call)
            yield from _cycle(turn, place, call, fingerprint)

    def on_answer(self, facts: Facts) -> Iterator[Verdict]:  # noqa: ARG002 - the seam's signature
        """Nothing to say."""
        yield from ()


def insisted(facts: Facts, verdicts: Sequence[Verdict]) -> Iterator[Verdict]:
    """What the other checks' refusals add up to in this turn; `verdicts` are theirs, modes applied (D5, C011).

    A refusal counts whatever the arguments were. Several in one answer are one try: the model had not yet been
    told. Refusals of a kind that ends the turn anyway are not looked at.
    """
    brakes = facts.limits.brakes
    refused = [step for step in facts.run.turn_steps if step.status is StepStatus.REFUSED]
    for place, verdict in sorted(refused_calls(verdicts, len(facts.calls)).items()):
        tool = facts.calls[place].name
        same = [step for step in refused if step.tool == tool and step.refused_as == verdict.code]
        tries = len({_round(step) for step in same})
        if verdict.action is not Action.REASK:
            continue
        if brakes.insisted_refusals is not None and tries >= brakes.insisted_refusals:
            message = (
                f"The call to {spelled(tool)} was refused {tries} times before for the same reason "
                f"({verdict.code}) and is refused again. {STOP_HINT}"
            )
            fields: dict[str, str | int | float | None] = {
                "tool": tool,
                "count": tries,
                "refused_as": verdict.code,
            }
            yield _verdict("insisted", Action.FINISH, message, place, fields=fields)
        elif brakes.refusals is not None and len(refused) >= brakes.refusals:
            message = (
                f"{len(refused)} calls were refused in this turn, and now one to {spelled(tool)}. {STOP_HINT}"
            )
            fields = {"tool": tool, "count": len(refused)}
            yield _verdict("insisted", Action.FINISH, message, place, code="refusals", fields=fields)


class _Turn:
    """The steps since the user last spoke, and what was new in them."""

    def __init__(self, facts: Facts) -> None:
        self._facts = facts
        self.brakes = facts.limits.brakes
        steps = facts.run.turn_steps
        self.open = [step for step in steps if step.status is StepStatus.PENDING]
        self.done = [step for step in steps if step.status not in {StepStatus.PENDING, StepStatus.REFUSED}]
        self._new = self._what_was_new()

    def traits(self, tool: str) -> ToolTraits:
        """What policy declares about the tool."""
        return self._facts.decision.traits.get(tool) or self._facts.run.traits.get(tool) or NO_TRAITS

    def fingerprint(self, call: ToolCall) -> str:
        """The identity of a proposed call."""
        return call_fingerprint(call.name, call.arguments, self.traits(call.name).volatile_arguments)

    def open_now(self, fingerprint: str) -> int:
        """How many equal calls of the very answer under judgement were released already."""
        now = self._facts.run.spent.rounds
        return sum(1 for step in self.open if step.fingerprint == fingerprint and step.round == now)

    def _what_was_new(self) -> frozenset[int]:
        """Numbers of the steps that brought something: an unseen result, or a change of the world."""
        seen: set[str] = set()
        new = set()
        for step in self.done:
            is_unseen = step.result_identity not in seen
            seen.add(step.result_identity)
            if step.status is StepStatus.FOUND and (is_unseen or self.traits(step.tool).effect == "write"):
                new.add(step.number)
        return frozenset(new)

    def streak(self, fingerprint: str) -> list[Step]:
        """The steps in which this call gave its latest result, since that changed or anything else was learnt."""
        same: list[Step] = []
        for step in self.done:
            if step.fingerprint == fingerprint:
                if same and same[-1].result_identity != step.result_identity:
                    same = []
                same.append(step)
            elif step.number in self._new:
                same = []
        return same

    def has_changed(self, fingerprint: str) -> bool:
        """Whether this call's result was ever another one: then it may change again."""
        return len({step.result_identity for step in self.done if step.fingerprint == fingerprint}) > 1

    def fruitless(self, tool: str) -> tuple[int, Step | None]:
        """In how many rounds running the tool gave the same empty or failing result, nothing else being learnt."""
        rounds: set[int] = set()
        last: Step | None = None
        for step in self.done:
            if step.tool == tool:
                if last is not None and _outcome(step) != _outcome(last):
                    rounds = set()
                if step.status in FRUITLESS:
                    rounds.add(_round(step))
                last = step
            elif step.number in self._new:
                rounds = set()
        return len(rounds), last

    def period(self, fingerprint: str) -> int:
        """The length of the cycle that the proposed call would take up once more, or 0."""
        times = self.brakes.cycle_rounds
        if times is None:
            return 0
        steps = [step for step in self.done if not self.traits(step.tool).polling]
        marks = [(step.fingerprint, step.result_identity) for step in steps]
        for period in range(2, LONGEST_CYCLE + 1):
            tail = marks[-period * times :]
            if len(tail) < period * times or tail[0][0] != fingerprint:
                continue
            block = tail[:period]
            if len(set(block)) > 1 and tail == block * times:
                return period
        return 0


def _outcome(step: Step) -> tuple[StepStatus, str]:
    # Nothing found is nothing found, in whatever words, which often repeat the question.
    return step.status, "" if step.status is StepStatus.NOT_FOUND else step.result_identity


def _round(step: Step) -> int:
    return step.round or -step.number


def _same_call(turn: _Turn, place: int, call: ToolCall, fingerprint: str, ahead: int) -> Iterator[Verdict]:
    stop = turn.brakes.same_call_stop
    same = turn.streak(fingerprint)
    count = len(same)
    if stop is None or (same and same[-1].status is PASSING):
        return
    shown = spelled(call.name)
    fields: dict[str, str | int | float | None] = {"tool": call.name, "count": count, "limit": stop}
    if count >= stop:
        message = (
            f"The same call to {shown} gave the same result {count} times and is not made again. {STOP_HINT}"
        )
        yield _verdict("same_call", Action.FINISH, message, place, fields=fields)
    elif count + ahead >= stop:
        message = f"The same call to {shown} stands more than {ahead} times in one answer; once is enough."
        yield _verdict("same_call", Action.REASK, message, place, fields=fields | {"count": count + ahead})


def _retries(turn: _Turn, place: int, call: ToolCall, fingerprint: str) -> Iterator[Verdict]:
    most = turn.brakes.transient_retries
    tries = 0
    for step in turn.done:
        if step.fingerprint == fingerprint:
            tries = tries + 1 if step.status is PASSING else 0
    if most is not None and tries > most:
        message = (
            f"The call to {spelled(call.name)} was temporarily unavailable {tries} times in a row. Do not try "
            f"again now. {STOP_HINT}"
        )
        fields: dict[str, str | int | float | None] = {"tool": call.name, "count": tries, "limit": most + 1}
        yield _verdict("retries", Action.FINISH, message, place, fields=fields)


def _same_result(turn: _Turn, place: int, call: ToolCall) -> Iterator[Verdict]:
    stop = turn.brakes.same_result_stop
    count, last = turn.fruitless(call.name)
    if stop is None or count < stop or last is None:
        return
    message = (
        f"{spelled(call.name)} was called in {count} rounds running, each time in other words, and always gave the "
        f"same: {last.status.replace('_', ' ')}. {STOP_HINT}"
    )
    fields: dict[str, str | int | float | None] = {"tool": call.name, "count": count, "limit": stop}
    yield _verdict("same_result", Action.FINISH, message, place, fields=fields)


def _cycle(turn: _Turn, place: int, call: ToolCall, fingerprint: str) -> Iterator[Verdict]:
    period = turn.period(fingerprint)
    if period:
        message = (
            f"The same {period} calls went round {turn.brakes.cycle_rounds} times with unchanged results; the call to "
            f"{spelled(call.name)} would start them again. {STOP_HINT}"
        )
        fields: dict[str, str | int | float | None] = {"tool": call.name, "period": period}
        yield _verdict("cycle", Action.FINISH, message, place, fields=fields)


def _note(turn: _Turn, facts: Facts, step: Step) -> str:
    """The note about the newest result of a call, or an empty text."""
    if turn.traits(step.tool).polling:
        return ""
    brakes = facts.limits.brakes
    shown = spelled(step.tool)
    # Equal calls of one answer are one try: agents that ask twice at once learn it from the first answers.
    count = len({_round(each) for each in turn.streak(step.fingerprint)})
    if step.status is PASSING or turn.has_changed(step.fingerprint):
        return ""
    if brakes.same_call_nudge is not None and count >= brakes.same_call_nudge:
        if step.status is StepStatus.NOT_FOUND:
            return (
                f"The same call to {shown} found nothing {count} times: this search has ended, do not repeat it. "
                f"{STOP_HINT}"
            )
        return f"The same call to {shown} gave the same result {count} times. Another one will not change it. {STOP_HINT}"
    return ""


def _verdict(
    check: str,
    action: Action,
    message: str,
    place: int | None = None,
    *,
    code: str = "",
    fields: dict[str, str | int | float | None] | None = None,
) -> Verdict:
    reason = "loop" if check in LOOPS else "no_progress"
    return Verdict(
        f"progress.{check}", code or check, action, message, place, reason_class=reason, fields=fields or {}
    )
