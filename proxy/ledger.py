"""The ledger: opens runs, reserves before each act, settles after it, records what happened. Arithmetic is in core.

Nothing here decides: a refused reservation is a `Shortage` that the budget check turns into a verdict.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from .core.limits import Amounts, Limits, Reservation, Shortage, money_left
from .core.matching import fingerprint_of
from .core.messages import ToolCall
from .core.recognition import (
    POLICY_TEXT_BYTES,
    Evidence,
    absorbed,
    answer_key,
    call_key,
    chosen,
    evidence,
    kept_key,
    owner_key,
    rebuilt,
    step_of,
    text_digest,
)
from .core.results import StepStatus
from .core.runs import KeptAnswer, Outcome, Run, RunChange, Step, applied
from .core.spending import Meter, booked, lowered_output, round_ask, unmetered

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from .core.messages import Request, Usage
    from .core.results import ToolTraits
    from .core.runs import Identity
    from .stores import Store


@dataclass(frozen=True, slots=True)
class Opened:
    """A run at the start of one of its requests."""

    run: Run
    evidence: Evidence
    is_new: bool
    results: tuple[Step, ...]
    """Steps whose result came with this request."""


class Ledger:
    """Keeps the books of all runs on one store."""

    def __init__(self, store: Store, clock: Callable[[], float]) -> None:
        """`clock` gives epoch seconds."""
        self._store = store
        self._clock = clock

    async def open(
        self,
        identity: Identity,
        request: Request,
        *,
        run_header: str = "",
        hint: str = "",
        is_retry: bool = False,
    ) -> Opened:
        """Finds the run that this request continues, or opens one; reads what is new in its history.

        `run_header` is an explicit run id, `hint` anything else that tells runs apart (a trace id).
        `is_retry`: the SDK says that it sends the same request again.
        """
        now = self._clock()
        seen = evidence(identity.key, request, run_header)
        label = run_header or request.conversation or hint
        run = await self._recognised(seen, request, label, is_retry=is_retry)
        keys = [seen.whole, *([seen.label] if seen.label else [])]
        if run is None:
            run = Run(
                id=f"run_{secrets.token_hex(12)}",
                identity_key=identity.key,
                started_at=now,
                turn_started_at=now,
                last_seen_at=now,
                dialect=request.dialect,
                label=label,
            )
            run = rebuilt(run, request, seen.chain, now)
            # What the provider keeps of it, this proxy has not seen.
            run = replace(run, state_lost=run.state_lost or bool(request.previous))
            await self._store.create(run, keys)
            return Opened(run, seen, is_new=True, results=tuple(step for step in run.steps if step.result_at))
        change = absorbed(run, request, seen.chain, now)
        run = await self._store.commit(run.id, change, keys)
        added = run.steps[len(run.steps) - len(change.add_steps) :]
        results = (*change.set_steps, *(step for step in added if step.result_at))
        return Opened(run, seen, is_new=False, results=results)

    async def _recognised(
        self, seen: Evidence, request: Request, label: str, *, is_retry: bool
    ) -> Run | None:
        if seen.kept and (by_kept := await self._store.find([seen.kept])):
            return by_kept[0]
        by_call = await self._store.find(seen.calls) if seen.calls else []
        behind = [key for key in (seen.answer, seen.prefix) if key]
        by_prefix = await self._store.find(behind) if behind else []
        run = chosen(by_call, by_prefix, request, label)
        if run is None and is_retry:
            again = await self._store.find([seen.whole])
            run = next((run for run in again if label and run.label == label), again[0] if again else None)
        if run is None and seen.label:
            same_label = await self._store.find([seen.label])
            run = same_label[0] if same_label else None
        return run

    async def declare(self, run: Run, request: Request, traits: Mapping[str, ToolTraits]) -> Run:
        """Remembers what policy declares about tools; where that changed, steps so far are read anew with it."""
        if dict(run.traits) == dict(traits):
            return run
        now = self._clock()
        bare = replace(run, traits=traits, seen_messages=0, steps=(), prefix=b"")
        chain = (b"",) * (len(request.messages) + 1)
        request = replace(request, previous="")
        fresh = applied(bare, absorbed(bare, request, chain, now)).steps
        by_call: dict[tuple[str, str, str], list[Step]] = {}
        for step in fresh:
            by_call.setdefault((step.call_id, step.tool, step.arguments), []).append(step)
        changed = []
        for step in reversed(run.steps):
            if step.status is StepStatus.REFUSED:
                continue
            again = by_call.get((step.call_id, step.tool, step.arguments))
            if again:
                changed.append(_read_anew(step, again.pop()))
            elif len(step.arguments) < POLICY_TEXT_BYTES:
                call = ToolCall(step.call_id, step.tool, step.arguments)
                changed.append(replace(step, fingerprint=fingerprint_of(call, traits)))
        return await self._store.commit(
            run.id, RunChange(at=now, traits=dict(traits), set_steps=tuple(changed))
        )

    async def reserve_round(
        self,
        run: Run,
        request: Request,
        limits: Limits,
        meter: Meter = unmetered,
        *,
        lowers: bool = True,
    ) -> tuple[Run, Reservation | Shortage]:
        """Puts one round and what it may cost aside (E2: before the request, retries and re-asks included). `lowers`: where
        money is short, the answer is allowed less (`Reservation.max_output`)."""
        left = money_left(limits, run.turn_spent, run.spent)
        most = lowered_output(request, meter, left) if lowers and left is not None else None
        ask = round_ask(request, meter, most)
        run, (answer,) = await self._store.reserve(run.id, [ask], limits, self._clock())
        if isinstance(answer, Reservation):
            answer = replace(answer, max_output=most)
        return run, answer

    async def reserve_attempt(self, run: Run, limits: Limits) -> tuple[Run, Reservation | Shortage]:
        """Puts a further try of the same request aside."""
        run, (answer,) = await self._store.reserve(run.id, [Amounts(rounds=1)], limits, self._clock())
        return run, answer

    async def reserve_calls(
        self, run: Run, calls: Sequence[ToolCall], limits: Limits
    ) -> tuple[Run, list[Reservation | Shortage]]:
        """Reserves each call in the order of the answer (C014): those that do not fit get their shortage."""
        asks = [Amounts(calls=1, per_tool={call.name: 1}) for call in calls]
        return await self._store.reserve(run.id, asks, limits, self._clock())

    async def settle_round(  # noqa: PLR0913 - what is known of a round that is over
        self,
        reservation: Reservation,
        usage: Usage | None,
        meter: Meter = unmetered,
        *,
        text_bytes: int = 0,
        sent: bool = True,
        ended: bool = True,
        cost_nothing: bool = False,
    ) -> Run:
        """Books what a round cost. No usage reported: what was put aside for the input and what streamed, marked
        unverified, never zero (E4); `ended` False: the same where usage so far says less. `cost_nothing`: the provider
        refused before it began; only the round is booked (C013). `sent` False: the request never left, nothing is."""
        if not sent:
            spent = Amounts()
        elif cost_nothing:
            spent = Amounts(rounds=1)
        else:
            spent = booked(reservation, usage, text_bytes, meter, ended=ended)
        return await self._store.settle(reservation, spent, self._clock())

    async def keep(self, reservation: Reservation) -> Run:
        """What was reserved is what was spent: a released call, a further try."""
        return await self._store.settle(reservation, reservation.amounts, self._clock())

    async def give_back(self, reservation: Reservation) -> Run:
        """A call that was reserved is not released after all."""
        return await self._store.settle(reservation, Amounts(), self._clock())

    async def record_calls(self, run: Run, calls: Sequence[ToolCall], refused: Mapping[int, str]) -> Run:
        """Writes a step for each judged call: released, or refused with this code (A9, D5). Released ids lead back
        to the run from now on, and the run goes on, whatever became of it before (a try that failed, say)."""
        now = self._clock()
        steps = []
        for place, call in enumerate(calls):
            step = step_of(call, run, now, run.turn)
            if place in refused:
                step = replace(step, status=StepStatus.REFUSED, refused_as=refused[place])
            steps.append(step)
        keys = [
            call_key(run.identity_key, call.id)
            for place, call in enumerate(calls)
            if place not in refused and call.id
        ]
        goes_on = Outcome.RUNNING if len(refused) < len(calls) else None
        return await self._store.commit(
            run.id, RunChange(at=now, add_steps=tuple(steps), outcome=goes_on), keys
        )

    async def record_answer(
        self, run: Run, text: str, outcome: Outcome | None, detail: str = "", report: str = ""
    ) -> Run:
        """Writes that an answer went out, and how the run stands now."""
        change = RunChange(
            at=self._clock(),
            answer=text_digest(text) if text.strip() else None,
            outcome=outcome,
            outcome_detail=detail,
            stop_report=report,
        )
        keys = [answer_key(run.identity_key, run.prefix, text_digest(text))] if text.strip() else []
        return await self._store.commit(run.id, change, keys)

    async def keeper(self, shown: str) -> Run | None:
        """The run, of whatever caller, whose answer the provider keeps under what its agent knows by this id."""
        found = await self._store.find([owner_key(shown)])
        # Of old answers the run remembers no more than whose they are.
        return next((run for run in found if run.kept_as(shown)), found[0] if found else None)

    async def own(self, identity: Identity, kept: KeptAnswer, dialect: str) -> None:
        """What was made at the provider, and has no answer in it yet, is this caller's; nothing where it has an owner."""
        if await self.keeper(kept.shown) is not None:
            return
        now = self._clock()
        run = Run(
            id=f"run_{secrets.token_hex(12)}",
            identity_key=identity.key,
            started_at=now,
            turn_started_at=now,
            last_seen_at=now,
            dialect=dialect,
            kept=(kept,),
            # Things may be put into it that this proxy does not see.
            state_lost=True,
        )
        await self._store.create(run, [kept_key(identity.key, kept.shown), owner_key(kept.shown)])

    async def keep_answers(self, run: Run, kept: Sequence[KeptAnswer]) -> Run:
        """Remembers what the provider keeps, and that it belongs to this run."""
        keys = [
            key(answer.shown) for answer in kept for key in (partial(kept_key, run.identity_key), owner_key)
        ]
        return await self._store.commit(run.id, RunChange(at=self._clock(), kept=tuple(kept)), keys)

    async def newest(self, run: Run) -> Run:
        """The run as it is now: other requests of it may have gone on meanwhile."""
        return await self._store.commit(run.id, RunChange(at=self._clock()))

    async def trace(self, run: Run, carrier: Mapping[str, str]) -> Run:
        """Remembers the trace context of the run's first request."""
        return await self._store.commit(run.id, RunChange(at=self._clock(), trace=dict(carrier)))


def _read_anew(step: Step, again: Step) -> Step:
    """The step as it is read with other traits. A result that is not in the history any more stays as it was read."""
    if again.status is StepStatus.PENDING:
        return replace(step, fingerprint=again.fingerprint)
    return replace(
        step,
        fingerprint=again.fingerprint,
        status=again.status,
        result_identity=again.result_identity,
    )
