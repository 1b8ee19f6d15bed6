"""Which run is this? And: what does this request's history add to it? (design §5)

A run is recognised from evidence, not from names that the agent chose: the ids of calls that this proxy let
through, then the conversation's prefix with the answer that followed it; a label only tells equals apart.
Ids can repeat across turns (some servers number from zero), so a call counts as evidence with its arguments.
"""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import TYPE_CHECKING

from .fingerprint import folded, result_identity
from .limits import Amounts
from .matching import fingerprint_of, matched_steps
from .messages import Role
from .results import NO_TRAITS, StepStatus, ToolTraits, classify
from .runs import Outcome, Run, RunChange, Step, applied

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from .messages import Message, Request, ToolCall, ToolResult

POLICY_TEXT_BYTES = 16_384
"""Characters of arguments and of a result that are kept with a step, for policies and reports."""
ASSISTANTS_TRIED = 3


def prefix_chain(messages: Sequence[Message], previous: str = "") -> list[bytes]:
    """Entry k identifies the first k messages behind what the provider keeps as `previous`; where that is nothing,
    entry 0 is empty."""
    chain = [sha256(previous.encode("utf-8", "surrogatepass")).digest()[:16] if previous else b""]
    for message in messages:
        chain.append(sha256(chain[-1] + message.digest).digest()[:16])
    return chain


def text_digest(text: str) -> bytes:
    """Identifies an answer's visible text; agents may trim it, wrap it anew, or join its parts in their own way."""
    return sha256("".join(folded(text).split()).encode("utf-8", "surrogatepass")).digest()[:16]


@dataclass(frozen=True, slots=True)
class Evidence:
    """What a request shows about its run, as keys of a store (all within the caller's identity)."""

    calls: tuple[str, ...]
    """Keys of call ids in the newest assistant messages; of the results, where the provider keeps the history."""
    prefix: str
    """Key of the request that the newest answer answered; empty: no assistant has spoken yet."""
    answer: str
    """Key of that request and the text of its answer together; empty: it has no text."""
    whole: str
    """Key of this very request, by which its follow-up and its retry will be found."""
    kept: str
    """Key of the answer or conversation at the provider that is gone on from; empty: none."""
    label: str
    """Key of the explicit run header; empty: none."""
    chain: tuple[bytes, ...]


def evidence(identity_key: str, request: Request, run_header: str) -> Evidence:
    """The evidence in a request."""
    messages = request.messages
    chain = prefix_chain(messages, request.previous)
    newest = _newest_answer(messages)
    text = _text(messages[place] for place in newest)
    with_calls = [message for message in messages if message.role is Role.ASSISTANT and message.calls]
    ids = [call.id for message in reversed(with_calls[-ASSISTANTS_TRIED:]) for call in message.calls]
    ids = ids or list(_results_alone(messages))
    return Evidence(
        calls=tuple(dict.fromkeys(call_key(identity_key, call_id) for call_id in ids)),
        prefix=prefix_key(identity_key, chain[newest.start]) if newest else "",
        answer=answer_key(identity_key, chain[newest.start], text_digest(text)) if text else "",
        whole=prefix_key(identity_key, chain[-1]),
        kept=kept_key(identity_key, request.previous) if request.previous else "",
        label=f"l:{identity_key}:{_hidden(run_header)}" if run_header else "",
        chain=tuple(chain),
    )


def _newest_answer(messages: Sequence[Message]) -> range:
    """The places of the newest answer: the assistant messages in a row (some dialects have a message a call)."""
    end = next(
        (place for place in range(len(messages), 0, -1) if messages[place - 1].role is Role.ASSISTANT), 0
    )
    start = end
    while start and messages[start - 1].role is Role.ASSISTANT:
        start -= 1
    return range(start, end)


def _text(messages: Iterable[Message]) -> str:
    return " ".join(message.text for message in messages if message.text.strip())


def _results_alone(messages: Sequence[Message]) -> frozenset[str]:
    """The ids of results in a request without any call: the provider itself keeps the history."""
    if any(message.calls for message in messages):
        return frozenset()
    return frozenset(result.call_id for message in messages for result in message.results)


def call_key(identity_key: str, call_id: str) -> str:
    """The key by which a released call leads back to its run."""
    return f"c:{identity_key}:{_hidden(call_id)}"


def prefix_key(identity_key: str, digest: bytes) -> str:
    """The key by which a conversation's prefix leads back to its run."""
    return f"p:{identity_key}:{digest.hex()}"


def answer_key(identity_key: str, prefix: bytes, answer: bytes) -> str:
    """The key by which an answer's text behind a conversation's prefix leads back to its run."""
    return f"a:{identity_key}:{prefix.hex()}:{answer.hex()}"


def kept_key(identity_key: str, shown: str) -> str:
    """The key by which an answer or conversation at the provider leads back to its run."""
    return f"k:{identity_key}:{_hidden(shown)}"


def owner_key(shown: str) -> str:
    """The key by which it leads back to its run for whoever asks: to be told apart from nobody's."""
    return f"o:{_hidden(shown)}"


def _hidden(text: str) -> str:
    """Ids are hostile: only their digest is part of a key, so that none can look like another caller's."""
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def chosen(by_call: Sequence[Run], by_prefix: Sequence[Run], request: Request, label: str) -> Run | None:
    """The run that this request continues, or None if the evidence shows none for sure.

    Among runs with equal evidence the label decides, then that the calls still wait for their results, then time.
    """
    if not by_call and not by_prefix:
        return None
    spoken = [message for message in request.messages if message.role is Role.ASSISTANT]
    calls = next((message.calls for message in reversed(spoken) if message.calls), ())
    results = _results_alone(request.messages)
    text = _text(request.messages[place] for place in _newest_answer(request.messages))
    answer = text_digest(text) if text else None
    in_prefix = {run.id for run in by_prefix}
    best: tuple[tuple[int, bool, bool, float], Run] | None = None
    for run in {run.id: run for run in (*by_call, *by_prefix)}.values():
        matched, known, is_open = _calls_known(run, calls, results)
        said = answer in run.answers
        strength = 4 * matched + (2 if run.id in in_prefix else 0) + (2 if said else 0) + known
        sure = matched or (run.id in in_prefix and (said or known or len(by_prefix) == 1))
        rank = (strength, bool(label) and run.label == label, is_open, run.last_seen_at)
        if sure and (best is None or rank > best[0]):
            best = (rank, run)
    return best[1] if best else None


def _calls_known(run: Run, calls: Sequence[ToolCall], results: frozenset[str]) -> tuple[bool, bool, bool]:
    """Whether the run released (all of) these calls as they stand, some of their ids, and has one still open.
    Where there are only results: whether it released all calls that they answer."""
    ids = {call.id for call in calls} or results
    about = [step for step in run.steps if step.call_id in ids and step.status is not StepStatus.REFUSED]
    if not about:
        return False, False, False
    meanings = {(step.call_id, step.fingerprint) for step in about}
    same = all((call.id, fingerprint_of(call, run.traits)) in meanings for call in calls)
    is_open = any(step.status is StepStatus.PENDING for step in about)
    return same and ids <= {step.call_id for step in about}, True, is_open


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
        result="" if result.is_hearsay else result.text[:POLICY_TEXT_BYTES],
        result_identity=result_identity(result.text, declared),
        result_at=at,
    )


def turn_openings(messages: Sequence[Message]) -> list[bool]:
    """For each message whether it opens a turn scope: somebody speaks first, or after the assistant.

    A message of the user right behind results is an agent's reminder, not a person: were it to open a turn, a limit
    per turn would hold for nobody who sends one with every step.
    """
    openings = []
    before: Message | None = None
    for message in messages:
        openings.append(message.is_user_turn and (before is None or before.role is Role.ASSISTANT))
        if message.role is not Role.SYSTEM:
            before = message
    return openings


def absorbed(run: Run, request: Request, chain: Sequence[bytes], at: float) -> RunChange:
    """What this request's history adds to the run: results that came, calls that it did not know, a new turn.

    Only messages behind the known prefix are read; a history that was rewritten (compaction, another branch) is
    matched anew, call by call, against what the run already holds. How far the history was read never goes back:
    a shorter one that comes late would make what follows look new.
    """
    seen, count = run.seen_messages, len(request.messages)
    if request.previous:
        # All of it is new, unless it is sent once more.
        known, start = seen > 0, count if chain[-1] == run.prefix else 0
        seen = min(seen, count)
    else:
        known = 0 < seen < len(chain) and chain[seen] == run.prefix
        start = seen if known else 0
    openings = turn_openings(request.messages)[start:]
    walk = _Walk(run, request.messages[start:], openings, known=known, at=at)
    ended = run.outcome is not Outcome.RUNNING
    last_is_user = count > start and request.messages[-1].is_user_turn
    # Whoever speaks to a run that has ended speaks to it anew, wherever the agent put the message.
    new_turn = ((known and any(openings)) or (ended and last_is_user)) and seen > 0
    last_turn = run.turn + new_turn if seen else count
    return RunChange(
        at=at,
        new_turn=new_turn,
        add_steps=tuple(replace(step, turn=min(step.turn, last_turn)) for step in walk.added),
        set_steps=tuple(walk.changed.values()),
        seen_messages=max(seen, count),
        prefix=chain[-1] if count >= seen else run.prefix,
        spend=_counted(walk.added, 0) if seen > 0 else Amounts(),
    )


def rebuilt(run: Run, request: Request, chain: Sequence[bytes], at: float) -> Run:
    """A fresh run with all that a request's history shows: steps, turns, and counts of calls and rounds."""
    openings = turn_openings(request.messages)
    turns = sum(openings) or 1
    run = applied(replace(run, turn=1), absorbed(run, request, chain, at))
    run = replace(run, turn=turns)
    rounds = [0] * (turns + 1)
    turn = 0
    is_answer = False
    for message, opens in zip(request.messages, openings, strict=True):
        turn += opens
        # Some dialects have a message a call: assistant messages in a row are one answer.
        begins = message.role is Role.ASSISTANT and not is_answer
        is_answer = message.role is Role.ASSISTANT
        rounds[max(turn, 1)] += begins
    return replace(
        run,
        spent=_counted(run.steps, sum(rounds)),
        turn_spent=_counted(run.turn_steps, rounds[turns]),
        state_lost=sum(rounds) > 0,
    )


def _counted(steps: Iterable[Step], rounds: int) -> Amounts:
    per_tool = Counter(step.tool for step in steps)
    return Amounts(rounds=rounds, calls=per_tool.total(), per_tool=dict(per_tool))


class _Walk:
    """Reads messages in order and notes what is new to the run."""

    def __init__(
        self, run: Run, messages: Sequence[Message], openings: Sequence[bool], *, known: bool, at: float
    ) -> None:
        self._run = run
        self._at = at
        self._steps = iter(
            matched_steps(run, [call for message in messages for call in message.calls], known=known)
        )
        self._open: dict[str, list[tuple[tuple[int, int], deque[Step]]]] = {}
        """By id a stack of places with the calls there that wait for a result: the last place is the nearest."""
        self._places: dict[int, tuple[int, int]] = {}
        """Where a step stands, by its number; elsewhere in `_open` it is no more."""
        self._place = 0
        self._turn = 0 if run.seen_messages == 0 else run.turn
        self._round = 0 if run.seen_messages == 0 else run.spent.rounds
        self.added: list[Step] = []
        self.changed: dict[int, Step] = {}
        for step in sorted(run.open_steps, key=lambda step: step.round):
            self._opens(step, (0, step.round), step.call_id)  # before all messages; one answer, one place
        for message, opens in zip(messages, openings, strict=True):
            self._turn += opens
            self._read(message)

    def _read(self, message: Message) -> None:
        self._place += 1
        if message.role is Role.ASSISTANT and self._run.seen_messages == 0:
            self._round += 1
        for call in message.calls:
            step = next(self._steps)
            self._opens(step if step is not None else self._new(call), (1, self._place), call.id)
        for result in message.results:
            self._read_result(result)

    def _new(self, call: ToolCall) -> Step:
        step = replace(
            step_of(call, self._run, self._at),
            turn=max(self._turn, 1),
            round=self._round,
            number=-1 - len(self.added),
            seen_only=True,
        )
        self.added.append(step)
        return step

    def _opens(self, step: Step, place: tuple[int, int], call_id: str) -> None:
        self._places[step.number] = place
        places = self._open.setdefault(call_id, [])
        if not places or places[-1][0] != place:
            places.append((place, deque()))
        places[-1][1].append(step)

    def _nearest(self, call_id: str) -> Step | None:
        """Takes the call that a result with this id answers."""
        places = self._open.get(call_id, [])
        while places:
            place, waiting = places[-1]
            while waiting:
                step = waiting.popleft()
                if self._places[step.number] == place:
                    return step
            places.pop()
        return None

    def _read_result(self, result: ToolResult) -> None:
        step = self._nearest(result.call_id)
        if step is None:
            return
        if step.number < 0:
            place = -1 - step.number
            self.added[place] = with_result(self.added[place], result, self._run.traits, self._at)
        elif step.status is StepStatus.PENDING:
            self.changed[step.number] = with_result(step, result, self._run.traits, self._at)
