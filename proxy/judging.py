"""Gather and judge: what a request, and the calls of an answer, come to. Nothing here sends or writes anything.

All waiting is for the ledger and the policies; what follows from what they say is decided by pure functions of core.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from .checks import judge_answer, judge_calls, judge_request
from .checks.approval import PERSON, demands_on
from .core.actions import Answer, Forward, Release, answer_move, calls_move, request_move, too_many
from .core.approvals import ApprovalStatus
from .core.json_text import NotOneObject, read_object
from .core.limits import Reservation, Shortage, is_money_limited, smallest
from .core.messages import Malformed, ToolKind, Usage
from .core.spending import unmetered
from .core.verdicts import Action, Decision, Facts, Mode, refused_calls, strongest
from .errors import ClientFault
from .listening import listener_for
from .providers import routed
from .recorder import Recorder
from .turn_state import State

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from .approving import Approvals
    from .audit import AuditJournal
    from .core.actions import CallsMove
    from .core.approvals import Approval
    from .core.limits import Limits
    from .core.messages import Request, ToolCall, Turn
    from .core.runs import Identity, Run
    from .core.verdicts import Verdict
    from .engines import Held, Policies
    from .exchange import Incoming
    from .ledger import Ledger
    from .policy_shadow import PolicyShadow
    from .prices import PriceList
    from .settings import Settings
    from .telemetry import RequestTrace, Telemetry
    from .upstream import Upstream

RETRY_HEADER = "x-stainless-retry-count"
"""The official SDKs count their own retries of a request here."""
UNKNOWN_ANSWER = "No answer or conversation of this caller is known by this id. Start anew, with the whole conversation in the request."


@dataclass(frozen=True, slots=True)
class Parts:
    """What a gate is made of."""

    settings: Settings
    policies: Policies
    ledger: Ledger
    prices: PriceList
    upstream: Upstream
    telemetry: Telemetry
    audit: AuditJournal
    clock: Callable[[], float]
    """Gives epoch seconds."""
    approvals: Approvals
    shadow: PolicyShadow | None = None
    """Policies that are tried out beside those in force."""


class Judge:
    """Judges requests and calls."""

    def __init__(self, parts: Parts) -> None:
        """All parts are open; closing them is up to who made them."""
        self._parts = parts
        self._settings = parts.settings
        self._ledger = parts.ledger
        self._clock = parts.clock

    async def open(self, incoming: Incoming, trace: RequestTrace) -> State:
        """Reads the request, finds its run, asks policy. `State.policies` are to be let go of when the turn is over."""
        try:
            request = incoming.dialect.parse_request(incoming.body, incoming.path)
        except Malformed as fault:
            raise ClientFault(str(fault)) from None
        incoming = routed(incoming, request.model, self._settings)
        identity, settings = incoming.caller.identity, self._settings
        await self._may_go_on(identity, request)
        listener = listener_for(settings.channels, identity.agent)
        if listener.is_on and request.choices > 1:
            raise ClientFault("Calls in text are heard in one choice only. Ask for one (`n`).")
        request = listener.heard(request)
        opened = await self._ledger.open(
            identity,
            request,
            run_header=incoming.headers.get(settings.headers.run, "")[:200],
            hint=trace.trace_id,
            is_retry=incoming.headers.get(RETRY_HEADER, "0") != "0",
        )
        state = await self._state(incoming, trace, request, opened.run, is_new=opened.is_new)
        state.listener = listener
        if listener.defuses:
            checks = replace(state.facts.settings, defused=listener.defused)
            state.facts = replace(state.facts, settings=checks)
        state.recorder.results(state.run, opened.results)
        return state

    async def keeper(self, incoming: Incoming, shown: str, *, judged: bool) -> Run | None:
        """The caller's run whose answer the provider keeps under this id. None: nobody is known to own it, and what comes
        back is no answer. Raises ClientFault for anybody else's, and for answers that nobody is known to own."""
        run = await self._ledger.keeper(shown)
        if run is None and not judged and self._settings.kept.unknown == "allow":
            return None
        if run is None or run.identity_key != incoming.caller.identity.key:
            raise ClientFault(UNKNOWN_ANSWER, status=404, code="unknown_answer")
        return run

    async def kept(self, incoming: Incoming, trace: RequestTrace, run: Run, answer: bytes) -> State:
        """Where an answer stands that the provider kept, and that is now fetched. Raises Malformed."""
        request = incoming.dialect.parse_kept(answer)
        state = await self._state(incoming, trace, request, run, is_new=False)
        state.listener = listener_for(self._settings.channels, incoming.caller.identity.agent)
        return state

    async def _may_go_on(self, identity: Identity, request: Request) -> None:
        """Raises ClientFault where what is asked of the provider's memory is not allowed here."""
        kept = self._settings.kept
        if request.store and kept.store == "refuse":
            raise ClientFault(
                "Answers may not be kept by the provider here. Send `store: false`.",
                status=403,
                code="store_refused",
            )
        if request.background and kept.background == "refuse":
            raise ClientFault(
                "Answers may not be made in the background here. Leave `background` out.",
                status=403,
                code="background_refused",
            )
        if not request.previous:
            return
        owner = await self._ledger.keeper(request.previous)
        unknown = owner is None and kept.unknown == "refuse"
        if unknown or (owner is not None and owner.identity_key != identity.key):
            raise ClientFault(UNKNOWN_ANSWER, status=404, code="unknown_answer")

    async def _state(
        self, incoming: Incoming, trace: RequestTrace, request: Request, run: Run, *, is_new: bool
    ) -> State:
        policies = self._parts.policies.hold()
        try:
            return await self._judged_by(policies, incoming, trace, request, run, is_new=is_new)
        except BaseException:
            policies.let_go()
            raise

    async def _judged_by(
        self,
        policies: Held,
        incoming: Incoming,
        trace: RequestTrace,
        request: Request,
        run: Run,
        *,
        is_new: bool,
    ) -> State:
        identity, settings = incoming.caller.identity, self._settings
        decision = await policies.decide("request", identity, request, run, now=self._clock())
        run = await self._ledger.declare(run, request, decision.traits)
        carrier = trace.belongs_to(run, is_new=is_new)
        if is_new and carrier:
            run = await self._ledger.trace(run, carrier)
        limits = smallest(settings.limits.to_core(), decision.limits)
        now = self._clock()
        name = incoming.provider
        url = settings.upstream.provider(name).base_url or ""
        meter = self._parts.prices.meter(request.model, provider=name, base_url=url, at=now)
        facts = Facts(identity, request, run, decision, limits, now, settings.for_checks())
        if is_money_limited(limits) and settings.prices.unknown == "refuse":
            facts = replace(facts, unpriced=meter(Usage(1, 1)) is None)
        request_id = f"req_{secrets.token_hex(8)}"
        state = State(request_id, incoming, Recorder(request_id, trace, self._parts.audit), facts, policies)
        state.meter = meter
        state.answers_left = settings.answers.reask
        state.reasks_left, state.retries_left = settings.reask.per_turn, settings.upstream.retries
        return state

    async def request(self, state: State) -> Forward | Answer:
        """What happens to the request. What a round may cost is put aside where it goes out."""
        refuses = self._settings.limits.exhausted == "refuse"
        if state.run.is_stopped:
            return request_move(state.facts, (), refuse_exhausted=refuses)
        run, answer = await self.reserve_round(state, state.facts.limits)
        state.facts = replace(state.facts, run=run, shortage=answer if isinstance(answer, Shortage) else None)
        verdicts = judge_request(state.facts)
        move = request_move(state.facts, verdicts, refuse_exhausted=refuses)
        if isinstance(answer, Reservation):
            if isinstance(move, Forward):
                state.reservation = answer
            else:
                state.run = await self._ledger.give_back(answer)
        state.recorder.request_judged(state.facts, verdicts, move)
        return move

    async def reserve_round(self, state: State, limits: Limits) -> tuple[Run, Reservation | Shortage]:
        """Puts aside what one round of this turn may cost."""
        lowers = self._settings.prices.fit_output == "lower"
        # What nobody limits need not be known before it is spent.
        meter = state.meter if is_money_limited(limits) else unmetered
        return await self._ledger.reserve_round(state.run, state.request, limits, meter, lowers=lowers)

    async def calls(self, state: State, calls: Sequence[ToolCall], *, others_left: bool = False) -> CallsMove:
        """Decides about the held calls, reserves for those that leave, asks people where policy says so, and records
        every call."""
        if (refusal := too_many(len(calls))) is not None:
            return refusal
        state.facts = replace(state.facts, request=state.listener.offering(state.request, calls))
        state.facts = replace(state.facts, call_shortages=(), approvals=None)
        await self._asked_of_policy(state, calls)
        verdicts = judge_calls(state.facts)
        reserved = await self._reserve_calls(state, verdicts)
        if any(state.facts.call_shortages):
            verdicts = judge_calls(state.facts)
        try:
            verdicts = await self._asked_of_people(state, verdicts, others_left=others_left)
            move = self._calls_move(state, verdicts, others_left=others_left)
            leaves = [
                place
                for place in range(len(calls))
                if isinstance(move, Release) and place not in move.refused
            ]
        except BaseException:
            await self._settle_approvals(state, ())
            for reservation in reserved.values():
                state.run = await self._ledger.give_back(reservation)
            raise
        await self._settle_approvals(state, leaves)
        for place, reservation in reserved.items():
            keep = self._ledger.keep if place in leaves else self._ledger.give_back
            state.run = await keep(reservation)
        reasons = refused_calls(verdicts, len(calls))
        codes = {place: _code(reasons.get(place), move) for place in range(len(calls)) if place not in leaves}
        state.run = await self._ledger.record_calls(state.run, calls, codes)
        state.recorder.calls_judged(state.facts, state.run, verdicts, codes, int(state.facts.now * 1e9))
        return move

    async def _asked_of_policy(self, state: State, calls: Sequence[ToolCall]) -> None:
        """The facts about these calls, as policy and clock have it now."""
        now = self._clock()
        parsed = tuple(self._arguments(call) for call in calls)
        documents: list[Mapping[str, object]] = []
        decision = await state.policies.decide(
            "calls",
            state.facts.identity,
            state.request,
            state.run,
            calls,
            parsed,
            now=now,
            heard=documents.append if self._keeps_inputs else None,
        )
        for document in documents:
            self._told_of(state, document, calls, decision)
        state.facts = replace(
            state.facts,
            decision=decision,
            calls=tuple(calls),
            parsed=parsed,
            now=now,
        )

    def _calls_move(self, state: State, verdicts: Sequence[Verdict], *, others_left: bool) -> CallsMove:
        return calls_move(
            state.facts, verdicts, reasks_left=state.reasks_left, last=state.last, others_left=others_left
        )

    async def _asked_of_people(
        self, state: State, verdicts: tuple[Verdict, ...], *, others_left: bool
    ) -> tuple[Verdict, ...]:
        """All that is to be said, once people were asked about the calls that nothing else stands in the way of."""
        if not state.facts.decision.demands:
            return verdicts
        move = self._calls_move(state, verdicts, others_left=others_left)
        refused = set(refused_calls(verdicts, len(state.facts.calls)))
        asks = isinstance(move, Release) and state.facts.settings.mode(PERSON) is Mode.ENFORCE
        places = [
            place
            for place in range(len(state.facts.calls))
            if asks and place not in refused and demands_on(state.facts, place)
        ]
        state.holding = True
        asked = await self._parts.approvals.asked(state.facts, places)
        state.holding = False
        state.facts = replace(state.facts, approvals=asked.approvals)
        if asked.waited:
            # Meanwhile other requests of this run may have done things, and time has passed.
            state.run = await self._ledger.newest(state.run)
            await self._asked_of_policy(state, state.facts.calls)
        again = (verdict for verdict in judge_calls(state.facts) if verdict.call not in refused)
        # What was refused before stays so: nothing is put aside for it.
        return (*(verdict for verdict in verdicts if verdict.call in refused), *again)

    async def _settle_approvals(self, state: State, leaves: Sequence[int]) -> None:
        """What was taken for calls that leave is used; the rest is given back."""
        taken = _taken(state.facts)
        await self._parts.approvals.give_back(each for place, each in taken.items() if place not in leaves)
        self._parts.approvals.used(each for place, each in taken.items() if place in leaves)

    @property
    def _keeps_inputs(self) -> bool:
        """Somebody else is told what policies read about calls."""
        return self._parts.shadow is not None or self._settings.audit.inputs != "off"

    def _told_of(
        self, state: State, document: Mapping[str, object], calls: Sequence[ToolCall], decision: Decision
    ) -> None:
        """What policies were asked about these calls goes to the journal and to those in shadow, as configured."""
        if self._settings.audit.inputs != "off":
            state.recorder.policy_asked(state.run, document, decision.revision)
        if self._parts.shadow is not None:
            self._parts.shadow.asked(state.run, state.id, document, calls, decision)

    async def answer(self, state: State, turn: Turn) -> CallsMove:
        """Decides about a final answer, records what is objected to, and flags it where it leaves all the same."""
        identity, now = state.facts.identity, self._clock()
        decision = Decision(revision=state.policies.revision)
        if state.policies.judges_answers(identity):
            decision = await state.policies.decide(
                "answer", identity, state.request, state.run, now=now, answer=turn
            )
        facts = replace(state.facts, now=now, answer=turn, decision=decision, calls=(), parsed=())
        verdicts = judge_answer(facts)
        settings = self._settings.answers
        move = answer_move(
            state.facts,
            verdicts,
            holds=settings.hold,
            asks_left=state.answers_left,
            refuses=settings.after == "refuse",
            last=state.last is not None,
        )
        state.recorder.answer_judged(facts, verdicts)
        flag = strongest(verdict for verdict in verdicts if verdict.action > Action.NUDGE)
        state.flag = flag if isinstance(move, Release) else None
        state.answer_judged = isinstance(move, Release)
        return move

    def _arguments(self, call: ToolCall) -> dict[str, object] | None:
        if call.kind is ToolKind.CUSTOM or len(call.arguments) > self._settings.checks.max_argument_bytes:
            return None
        try:
            return read_object(call.arguments, self._settings.checks.max_argument_depth)
        except NotOneObject:
            return None

    async def _reserve_calls(self, state: State, verdicts: Sequence[Verdict]) -> dict[int, Reservation]:
        """Reserves for the calls that nothing else refuses, in order (C014)."""
        refused = refused_calls(verdicts, len(state.facts.calls))
        places = [place for place in range(len(state.facts.calls)) if place not in refused]
        if not places:
            return {}
        calls = [state.facts.calls[place] for place in places]
        run, answers = await self._ledger.reserve_calls(state.run, calls, state.facts.limits)
        found = dict(zip(places, answers, strict=True))
        shortages = tuple(
            short if isinstance(short := found.get(place), Shortage) else None
            for place in range(len(state.facts.calls))
        )
        state.facts = replace(state.facts, run=run, call_shortages=shortages)
        return {place: answer for place, answer in found.items() if isinstance(answer, Reservation)}


def _taken(facts: Facts) -> Mapping[int, Approval]:
    return {
        place: each for place, each in (facts.approvals or {}).items() if each.status is ApprovalStatus.USED
    }


def _code(verdict: Verdict | None, move: CallsMove) -> str:
    if verdict is not None:
        return verdict.code
    return move.detail if isinstance(move, Answer) else "turn_refused"
