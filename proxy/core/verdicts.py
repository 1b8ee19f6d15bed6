"""What checks read and what they say.

A check reads `Facts` and returns verdicts. All checks run, every verdict is recorded, the strongest that is
enforced acts. What the model can mend is worded as an instruction to the model (C4); what it cannot mend ends
the turn and reaches people.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import IntEnum, StrEnum
from typing import TYPE_CHECKING

from .hygiene import Rendering
from .limits import Limits, Shortage
from .runs import Identity, Run

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from .approvals import Approval
    from .messages import MissingResult, Request, ToolCall, Turn
    from .results import ToolTraits


class Action(IntEnum):
    """What follows from a verdict, weakest to strongest."""

    PASS = 0
    NUDGE = 1
    """A note at the tail of the newest message of the request; nothing is refused."""
    REASK = 2
    """The call is refused; the model is told why and answers again, inside the proxy."""
    FINISH = 3
    """One last request without tool calls, so that an answer comes."""
    DENY = 4
    """The answer is made by program."""


class Mode(StrEnum):
    """How far a check goes."""

    ENFORCE = "enforce"
    SHADOW = "shadow"
    """Recorded and traced, never acts."""
    OFF = "off"


@dataclass(frozen=True, slots=True)
class Verdict:
    """What one check says about one call, or about the whole request where `call` is None."""

    check: str
    """Dotted name, e.g. `budget.rounds`: what is switched, counted and documented."""
    code: str
    """Stable machine word, e.g. `tool_not_allowed`."""
    action: Action
    message: str
    """For the model or the user. Never quotes a secret value."""
    call: int | None = None
    """Index into `Facts.calls`."""
    reason_class: str = ""
    """allow_list, argument_rule, policy_rule, schema, arguments_invalid, loop, no_progress, budget, policy_error,
    protocol_mismatch, state_unavailable, state_lost, approval, side_effect."""
    layer: str = ""
    """The policy layer that said it: `org`, `team.<name>`, `agent.<name>`."""
    rule: str = ""
    """The rule within the layer, where policy said it."""
    mode: Mode = Mode.ENFORCE
    fields: Mapping[str, str | int | float | None] = field(default_factory=dict)
    """For programs: budget, scope, limit, used …"""
    repairs: tuple[MissingResult, ...] = ()
    """Results to be added to the history, where the check repairs instead of refusing."""


@dataclass(frozen=True, slots=True)
class Denial:
    """One thing that policy denies."""

    code: str
    message: str
    call: int | None = None
    action: Action = Action.REASK
    layer: str = ""
    rule: str = ""
    shadow: bool = False
    """Said by a layer or rule in shadow: recorded, never acts."""


@dataclass(frozen=True, slots=True)
class Demand:
    """Policy demands that a person approves a call, or (`call` None) all calls of the answer (D4)."""

    code: str
    message: str
    call: int | None = None
    layer: str = ""
    rule: str = ""


@dataclass(frozen=True, slots=True)
class Cited:
    """What a final answer names and must have from somewhere (E15)."""

    values: tuple[str, ...]
    tools: frozenset[str] = frozenset()
    """The tools whose results count; empty: those of all tools, and what the user or the agent's instructions said."""
    message: str = ""
    """What to say instead of the usual words."""
    layer: str = ""
    rule: str = ""
    shadow: bool = False


@dataclass(frozen=True, slots=True)
class Decision:
    """What policy says in one phase, already checked for shape."""

    denials: tuple[Denial, ...] = ()
    cited: tuple[Cited, ...] = ()
    """Phase answer: what has to be supported."""
    demands: tuple[Demand, ...] = ()
    """Which calls need a person."""
    allowed_tools: frozenset[str] | None = None
    """The offered tools that may be used; None: no layer restricts them."""
    limits: Limits = Limits()
    """Only what policy sets; merged with the configured defaults, the smallest wins."""
    traits: Mapping[str, ToolTraits] = field(default_factory=dict)
    revision: str = ""
    fault: str = ""
    """The engine gave no decision (error, undefined, wrong shape, time-out): everything is refused."""
    unjudged: bool = False
    """The fault is in what was to be judged (too large, an unusable character), and whoever made it can mend it. No
    setting lets such a thing pass: a model could switch policy off with it."""


@dataclass(frozen=True, slots=True)
class CheckSettings:
    """What the operator configured for the checks."""

    modes: Mapping[str, Mode] = field(default_factory=dict)
    """By dotted name; the longest prefix that matches counts. Not named: enforce."""
    repair_history: bool = True
    """Calls without a result get one that says so; False: the request is refused (C7)."""
    max_argument_depth: int = 64
    max_argument_bytes: int = 262_144
    results: Rendering = field(default_factory=Rendering)
    """How the model reads what tools returned."""
    defused: Callable[[str], str] | None = None
    """Breaks marks in results that would read as calls; None: there are none."""

    def mode(self, name: str) -> Mode:
        """The mode of the check (or part of a check) with this dotted name."""
        while name:
            if name in self.modes:
                return self.modes[name]
            name = name.rpartition(".")[0]
        return Mode.ENFORCE


@dataclass(frozen=True, slots=True)
class Facts:
    """All that a check may read, in any phase. Unused parts are empty."""

    identity: Identity
    request: Request
    run: Run
    decision: Decision
    limits: Limits
    """The limits in force: configuration and policy merged."""
    now: float
    """Epoch seconds."""
    settings: CheckSettings = CheckSettings()
    shortage: Shortage | None = None
    """Request phase: what the store refused to reserve for this round."""
    unpriced: bool = False
    """Request phase: nobody knows what this model costs, which must not be where money is limited."""
    calls: tuple[ToolCall, ...] = ()
    """Calls phase: the proposed calls in order."""
    parsed: tuple[Mapping[str, object] | None, ...] = ()
    """Calls phase: their arguments as strictly read JSON objects; None where they are not exactly one."""
    call_shortages: tuple[Shortage | None, ...] = ()
    """Calls phase: for each call, what the store refused to reserve."""
    approvals: Mapping[int, Approval] | None = field(default_factory=dict)
    """Calls phase: what the book says of the calls that a person was asked about, by place. None: nobody was asked yet,
    and what else there is to say is to be known first."""
    answer: Turn | None = None
    """Answer phase: the final answer."""


def with_modes(verdicts: Iterable[Verdict], settings: CheckSettings) -> tuple[Verdict, ...]:
    """The verdicts with the configured mode of their check; those of checks that are off are left out."""
    marked = []
    for verdict in verdicts:
        mode = settings.mode(verdict.check)
        if mode is Mode.OFF:
            continue
        keeps = verdict.mode is Mode.SHADOW or mode is Mode.ENFORCE
        marked.append(verdict if keeps else replace(verdict, mode=mode))
    return tuple(marked)


def strongest(verdicts: Iterable[Verdict]) -> Verdict | None:
    """The enforced verdict with the strongest action; of equals the first. None: nothing stands in the way."""
    acting = [
        verdict for verdict in verdicts if verdict.mode is Mode.ENFORCE and verdict.action > Action.PASS
    ]
    return max(acting, key=lambda verdict: verdict.action, default=None)


def refused_calls(verdicts: Iterable[Verdict], count: int) -> dict[int, Verdict]:
    """For each refused call the verdict that refuses it: its own strongest one, or one about the whole turn."""
    verdicts = tuple(verdicts)
    refused = {}
    for place in range(count):
        about = [verdict for verdict in verdicts if verdict.call in {place, None}]
        reason = strongest(verdict for verdict in about if verdict.action > Action.NUDGE)
        if reason is not None:
            refused[place] = reason
    return refused
