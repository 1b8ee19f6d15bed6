"""Which run is this? And: what does this request's history add to it? (design §5)

A run is recognised from evidence, not from names that the agent chose: the ids of calls that this proxy let
through, then the conversation's prefix with the answer that followed it; a label only tells equals apart.
Ids can repeat across turns (some servers number from zero), so a call counts as evidence with its arguments.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from hashlib import sha256
from typing import TYPE_CHECKING

from .fingerprint import call_fingerprint, folded, result_identity
from .limits import Amounts
from .messages import Role
from .results import StepStatus, ToolTraits, classify
from .runs import Outcome, Run, RunChange, Step, applied

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from .messages import Message, Request, ToolCall, ToolResult

POLICY_TEXT_BYTES = 16_384
"""Characters of arguments and of a result that are kept with a step, for policies and reports."""
ASSISTANTS_TRIED = 3
NO_TRAITS = ToolTraits()


def prefix_chain(messages: Sequence[Message]) -> list[bytes]:
    """Entry k identifies the first k messages; entry 0 is empty."""
    chain = [b""]
    for message in messages:
        chain.append(sha256(chain[-1] + message.digest).digest()[:16])
    return chain


def text_digest(text: str) -> bytes:
    """Identifies an answer's visible text; agents may trim or re-wrap it."""
    return sha256(folded(text).encode("utf-8", "surrogatepass")).digest()[:16]


@dataclass(frozen=True, slots=True)
class Evidence:
    """What a request shows about its run, as keys of a store (all within the caller's identity)."""

    calls: tuple[str, ...]
    """Keys of call ids in the newest assistant messages."""
    prefix: str
    """Key of the request that the newest assistant message answered; empty: no assistant has spoken yet."""
    whole: str
    """Key of this very request, by which its follow-up and its retry will be found."""
    label: str
    """Key of the explicit run header; empty: none."""
    chain: tuple[bytes, ...]


def evidence(identity_key: str, request: Request, run_header: str) -> Evidence:
    """The evidence in a request."""
    chain = prefix_chain(request.messages)
    spoken = [place for place, message in enumerate(request.messages) if message.role is Role.ASSISTANT]
    with_calls = [place for place in spoken if request.messages[place].calls][-ASSISTANTS_TRIED:]
    ids = (call.id for place in reversed(with_calls) for call in request.messages[place].calls)
    return Evidence(
        calls=tuple(dict.fromkeys(call_key(identity_key, call_id) for call_id in ids)),
        prefix=prefix_key(identity_key, chain[spoken[-1]]) if spoken else "",
        whole=prefix_key(identity_key, chain[-1]),
        label=f"l:{identity_key}:{run_header}" if run_header else "",
        chain=tuple(chain),
    )


def call_key(identity_key: str, call_id: str) -> str:
    """The key by which a released call leads back to its run. Ids are hostile: only their digest is a key."""
    return f"c:{identity_key}:{sha256(call_id.encode('utf-8', 'surrogatepass')).hexdigest()[:32]}"


def prefix_key(identity_key: str, digest: bytes) -> str:
    """The key by which a conversation's prefix leads back to its run."""
    return f"p:{identity_key}:{digest.hex()}"


def chosen(by_call: Sequence[Run], by_prefix: Sequence[Run], request: Request, label: str) -> Run | None:
    """The run that this request continues, or None if the evidence shows none for sure."""
    if not by_call and not by_prefix:
        return None
    spoken = [message for message in request.messages if message.role is Role.ASSISTANT]
    newest = next((message for message in reversed(spoken) if message.calls), None)
    answer = text_digest(spoken[-1].text) if spoken else b""
    in_prefix = {run.id for run in by_prefix}
    best: tuple[tuple[int, int, float], Run] | None = None
    for run in {run.id: run for run in (*by_call, *by_prefix)}.values():
        matched, known, is_open = _calls_known(run, newest.calls if newest else ())
        said = answer in run.answers
        strength = 4 * matched + (2 if run.id in in_prefix else 0) + (2 if said else 0) + known
        sure = matched or (run.id in in_prefix and (said or known or len(by_prefix) == 1))
        rank = (strength + is_open, int(bool(label) and run.label == label), run.last_seen_at)
        if sure and (best is None or rank > best[0]):
            best = (rank, run)
    return best[1] if best else None


def _calls_known(run: Run, calls: Sequence[ToolCall]) -> tuple[bool, bool, bool]:
    """Whether the run released (all of) these calls as they stand, some of their ids, and has one still open."""
    if not calls:
        return False, False, False
    by_id: dict[str, list[Step]] = {}
    for step in run.steps:
        by_id.setdefault(step.call_id, []).append(step)
    traits = run.traits
    same = [
        any(step.fingerprint == fingerprint_of(call, traits) for step in by_id.get(call.id, ()))
        for call in calls
    ]
    is_open = any(step.status is StepStatus.PENDING for call in calls for step in by_id.get(call.id, ()))
    return all(same), any(call.id in by_id for call in calls), is_open


def fingerprint_of(call: ToolCall, traits: Mapping[str, ToolTraits]) -> str:
    """The call's fingerprint, less the arguments that policy declares volatile."""
    return call_fingerprint(call.name, call.arguments, traits.get(call.name, NO_TRAITS).volatile_arguments)


def step_of(call: ToolCall, run: Run, at: float, turn: int = 0) -> Step:
    """A released call as a step; number and turn are given when it is applied."""
    return Step(
        number=0,
        turn=turn,
        round=run.spent.rounds,
        call_id=call.id,
        tool=call.name,
        arguments=call.arguments[:POLICY_TEXT_BYTES],
        fingerprint=fingerprint_of(call, run.traits),
        released_at=at,
    )


def with_result(step: Step, result: ToolResult, traits: Mapping[str, ToolTraits], at: float) -> Step:
    """The step with its result classified and identified."""
    declared = traits.get(step.tool, NO_TRAITS)
    return replace(
        step,
        status=classify(result, declared),
        result=result.text[:POLICY_TEXT_BYTES],
        result_identity=result_identity(result.text, declared),
        result_at=at,
    )


def absorbed(run: Run, request: Request, chain: Sequence[bytes], at: float) -> RunChange:
    """What this request's history adds to the run: results that came, calls that it did not know, a new turn.

    Only messages behind the known prefix are read; a history that was rewritten (compaction) is matched anew,
    call by call, against what the run already holds.
    """
    seen = run.seen_messages
    known = 0 < seen < len(chain) and chain[seen] == run.prefix
    walk = _Walk(run, known=known, at=at)
    for message in request.messages[seen if known else 0 :]:
        walk.read(message)
    ended = run.outcome is not Outcome.RUNNING
    last_is_user = bool(request.messages) and request.messages[-1].is_user_turn
    new_turn = walk.user_spoke and (known or (ended and last_is_user)) and seen > 0
    last_turn = run.turn + new_turn if seen else len(request.messages)
    return RunChange(
        at=at,
        new_turn=new_turn,
        add_steps=tuple(replace(step, turn=min(step.turn, last_turn)) for step in walk.added),
        set_steps=tuple(walk.changed),
        seen_messages=len(request.messages),
        prefix=chain[-1],
        spend=walk.spent() if seen > 0 else Amounts(),
    )


def rebuilt(run: Run, request: Request, chain: Sequence[bytes], at: float) -> Run:
    """A fresh run with all that a request's history shows: steps, turns, and counts of calls and rounds."""
    turns = sum(1 for message in request.messages if message.is_user_turn) or 1
    run = applied(replace(run, turn=1), absorbed(run, request, chain, at))
    run = replace(run, turn=turns)
    rounds = [0] * (turns + 1)
    turn = 0
    for message in request.messages:
        turn += message.is_user_turn
        rounds[max(turn, 1)] += message.role is Role.ASSISTANT
    return replace(
        run,
        spent=_counted(run.steps, sum(rounds)),
        turn_spent=_counted(run.turn_steps, rounds[turns]),
        state_lost=any(message.role is Role.ASSISTANT for message in request.messages),
    )


def _counted(steps: Iterable[Step], rounds: int) -> Amounts:
    names = [step.tool for step in steps]
    return Amounts(rounds=rounds, calls=len(names), per_tool={name: names.count(name) for name in set(names)})


class _Walk:
    """Reads messages in order and notes what is new to the run."""

    def __init__(self, run: Run, *, known: bool, at: float) -> None:
        self._run = run
        self._at = at
        self._unmatched: dict[str, list[Step]] = {}
        self._open: dict[str, list[tuple[int, Step]]] = {}
        self._place = 0
        self._turn = 0 if run.seen_messages == 0 else run.turn
        for step in run.steps:
            if step.status is StepStatus.REFUSED or (known and step.status is not StepStatus.PENDING):
                continue
            self._unmatched.setdefault(step.call_id, []).append(step)
            if known:
                self._open.setdefault(step.call_id, []).append((0, step))
        self._results: dict[int, Step] = {}
        self.added: list[Step] = []
        self.user_spoke = False

    @property
    def changed(self) -> list[Step]:
        return list(self._results.values())

    def spent(self) -> Amounts:
        return _counted(self.added, 0)

    def read(self, message: Message) -> None:
        self._place += 1
        if message.is_user_turn:
            self.user_spoke = True
            self._turn += 1
        for call in message.calls:
            self._read_call(call)
        for result in message.results:
            self._read_result(result)

    def _read_call(self, call: ToolCall) -> None:
        fingerprint = fingerprint_of(call, self._run.traits)
        waiting = self._unmatched.get(call.id, [])
        step = next((step for step in waiting if step.fingerprint == fingerprint), None)
        if step is None:
            step = replace(
                step_of(call, self._run, self._at),
                turn=max(self._turn, 1),
                number=-1 - len(self.added),
                seen_only=True,
            )
            self.added.append(step)
        else:
            waiting.remove(step)
        opened = self._open.setdefault(call.id, [])
        opened[:] = [entry for entry in opened if entry[1].number != step.number]
        opened.append((self._place, step))

    def _read_result(self, result: ToolResult) -> None:
        opened = self._open.get(result.call_id)
        if not opened:
            return
        nearest = max(place for place, _ in opened)
        entry = next(entry for entry in opened if entry[0] == nearest)
        opened.remove(entry)
        step = entry[1]
        if step.number < 0:
            place = -1 - step.number
            self.added[place] = with_result(self.added[place], result, self._run.traits, self._at)
        elif step.status is StepStatus.PENDING:
            self._results[step.number] = with_result(step, result, self._run.traits, self._at)
