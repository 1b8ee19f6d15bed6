"""What has happened: the run of one task, its steps, and how each thing that happens changes it.

Laws: a run is a frozen value; `applied` is the only way to change one, and a run that has ended changes no more
until the user speaks again (C12). Nothing here reads a clock: the time comes as an argument (epoch seconds).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING

from .limits import Amounts
from .results import StepStatus, ToolTraits

if TYPE_CHECKING:
    from collections.abc import Mapping

    from .messages import ToolCall


class Outcome(StrEnum):
    """Why a run stopped (E8). Ended is not the same as right."""

    RUNNING = "running"
    COMPLETED = "completed"
    NEEDS_INPUT = "needs_input"
    NOT_FOUND = "not_found"
    FORBIDDEN = "forbidden"
    TEMPORARILY_UNAVAILABLE = "temporarily_unavailable"
    LIMIT_REACHED = "limit_reached"
    NO_PROGRESS = "no_progress"
    DENIED = "denied"
    CANCELLED = "cancelled"
    FAILED = "failed"


STOPPED = frozenset({Outcome.LIMIT_REACHED, Outcome.NO_PROGRESS, Outcome.DENIED})
"""Outcomes that this proxy imposes."""


@dataclass(frozen=True, slots=True)
class Identity:
    """Who calls. `key` tells callers apart in stores and never holds a secret."""

    key: str = "anonymous"
    organisation: str = ""
    team: str = ""
    agent: str = ""
    user: str = ""
    roles: tuple[str, ...] = ()
    claims: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Step:
    """The record of one call (A9)."""

    number: int
    turn: int
    round: int
    call_id: str
    tool: str
    arguments: str
    """The exact text, cut at the size that policies may read."""
    fingerprint: str
    status: StepStatus = StepStatus.PENDING
    released_at: float = 0.0
    result_at: float | None = None
    result: str = ""
    """Text of the result, cut at the size that policies may read."""
    result_identity: str = ""
    refused_as: str = ""
    """The code of the refusal, where the status is `refused`."""
    seen_only: bool = False
    """Read from a history that the agent sent: this proxy did not release it (or no longer knows that it did)."""


@dataclass(frozen=True, slots=True)
class KeptAnswer:
    """An answer, or a conversation, that the provider keeps: the agent goes on from it by its id alone."""

    shown: str
    """The id by which the agent knows it."""
    actual: str
    """The id by which the provider knows it; empty: it knows nothing of it (the answer was made by program)."""
    owed: tuple[tuple[ToolCall, str], ...] = ()
    """Calls in it that were refused, with their refusals: the provider waits for results that no agent will send."""
    open: tuple[ToolCall, ...] = ()
    """Calls in it that were released."""
    provider: str = ""
    """Name of the provider that keeps it; empty: the dialect's own."""


@dataclass(frozen=True, slots=True)
class Run:
    """One task's whole conversation, as far as it has come."""

    id: str
    identity_key: str
    started_at: float
    dialect: str = ""
    label: str = ""
    """What the agent sent to tell its runs apart (run header, conversation, trace id): never lets escape (design §5)."""
    turn: int = 1
    turn_started_at: float = 0.0
    last_seen_at: float = 0.0
    steps: tuple[Step, ...] = ()
    spent: Amounts = Amounts()
    """In the whole run, open reservations included."""
    turn_spent: Amounts = Amounts()
    outcome: Outcome = Outcome.RUNNING
    outcome_detail: str = ""
    """Which limit, which brake, which rule: a short code."""
    stop_report: str = ""
    state_lost: bool = False
    """Rebuilt from its own history: what a history cannot show (money, refusals, start time) is unknown."""
    seen_messages: int = 0
    """How many messages of the history are already in `steps`."""
    prefix: bytes = b""
    """Chain digest of these messages."""
    answers: tuple[bytes, ...] = ()
    """Digests of the visible text of the answers given (newest last, a few)."""
    kept: tuple[KeptAnswer, ...] = ()
    """What the provider keeps of this run, newest last, a few."""
    traits: Mapping[str, ToolTraits] = field(default_factory=dict)
    """What policy last declared about the tools of this run."""
    trace: Mapping[str, str] = field(default_factory=dict)
    """Trace context of the run's first request (W3C header names), so that later ones hang below it."""

    @property
    def is_stopped(self) -> bool:
        """This proxy ended the turn: until the user speaks, every further request gets the stop report again."""
        return bool(self.stop_report)

    def kept_as(self, shown: str) -> KeptAnswer | None:
        """What the agent knows by this id, if the provider keeps it."""
        return next((kept for kept in reversed(self.kept) if kept.shown == shown), None) if shown else None

    @property
    def turn_steps(self) -> tuple[Step, ...]:
        """The steps since the user last spoke."""
        return tuple(step for step in self.steps if step.turn == self.turn)

    @property
    def open_steps(self) -> tuple[Step, ...]:
        """Calls that were released and have no result yet."""
        return tuple(step for step in self.steps if step.status is StepStatus.PENDING)


@dataclass(frozen=True, slots=True)
class RunChange:
    """What one request or one answer does to a run. Applied as a whole or not at all."""

    at: float
    new_turn: bool = False
    add_steps: tuple[Step, ...] = ()
    """Their numbers are given when they are applied."""
    set_steps: tuple[Step, ...] = ()
    """Steps that replace the one with the same number (a result came, a status changed)."""
    seen_messages: int | None = None
    prefix: bytes | None = None
    answer: bytes | None = None
    kept: tuple[KeptAnswer, ...] = ()
    """Takes the place of what was known by the same id."""
    outcome: Outcome | None = None
    outcome_detail: str = ""
    stop_report: str = ""
    traits: Mapping[str, ToolTraits] | None = None
    trace: Mapping[str, str] | None = None
    spend: Amounts = Amounts()
    spend_turn: int | None = None
    """The turn scope that the spending belongs to; None: the present one."""


ANSWERS_KEPT = 8
KEPT = 32
"""Answers at the provider that are remembered with a run: agents branch off from earlier ones, but seldom from old ones."""


def applied(run: Run, change: RunChange) -> Run:
    """The run after the change.

    The first reason why this proxy stopped a run is the reason until the user opens a new turn (C12). Any other
    outcome (an agent may try again after a failure) gives way to what comes later.
    """
    if change.new_turn:
        run = replace(
            run,
            turn=run.turn + 1,
            turn_started_at=change.at,
            turn_spent=Amounts(),
            outcome=Outcome.RUNNING,
            outcome_detail="",
            stop_report="",
        )
    steps = _steps_after(run, change)
    if change.outcome is not None and not run.is_stopped:
        run = replace(
            run, outcome=change.outcome, outcome_detail=change.outcome_detail, stop_report=change.stop_report
        )
    answers = run.answers if change.answer is None else (*run.answers, change.answer)[-ANSWERS_KEPT:]
    return replace(
        run,
        steps=steps,
        answers=answers,
        kept=_kept_after(run, change) if change.kept else run.kept,
        last_seen_at=max(run.last_seen_at, change.at),
        seen_messages=run.seen_messages if change.seen_messages is None else change.seen_messages,
        prefix=run.prefix if change.prefix is None else change.prefix,
        traits=run.traits if change.traits is None else change.traits,
        trace=run.trace or change.trace or {},
        spent=run.spent + change.spend,
        turn_spent=run.turn_spent
        if change.spend_turn not in {None, run.turn}
        else run.turn_spent + change.spend,
    )


def _kept_after(run: Run, change: RunChange) -> tuple[KeptAnswer, ...]:
    fresh = {kept.shown for kept in change.kept}
    return (*(kept for kept in run.kept if kept.shown not in fresh), *change.kept)[-KEPT:]


def _steps_after(run: Run, change: RunChange) -> tuple[Step, ...]:
    steps = list(run.steps)
    places = {step.number: place for place, step in enumerate(steps)}
    for step in change.set_steps:
        steps[places[step.number]] = step
    number = steps[-1].number if steps else 0
    for step in change.add_steps:
        number += 1
        steps.append(replace(step, number=number, turn=step.turn or run.turn))
    return tuple(steps)
