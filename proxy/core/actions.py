"""From verdicts to the next move. What the gate does next is a value; the gate only carries it out."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from .approvals import PENDING_CODE
from .hygiene import rendered_results
from .limits import Amounts, shortage
from .messages import ChoiceMode, Problem, RequestEdit, ToolChoice
from .reports import refusal_text, shown_name, stop_report
from .runs import Outcome
from .verdicts import Action, Mode, refused_calls, strongest

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from .limits import Shortage
    from .messages import MissingResult
    from .verdicts import Facts, Verdict

NO_TOOLS = ToolChoice(ChoiceMode.NONE)


@dataclass(frozen=True, slots=True)
class Forward:
    """Send the request, changed by `edit` (empty: byte for byte). `last`: no calls are accepted in its answer."""

    edit: RequestEdit
    last: Verdict | None = None


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer made by program ends the turn. `problem`: say it as an error instead (bad history, exhausted
    budget where so configured)."""

    text: str
    outcome: Outcome
    detail: str
    problem: Problem | None = None

    @classmethod
    def of(cls, text: str, detail: str, outcome: Outcome = Outcome.FAILED) -> Answer:
        """An answer about something that went wrong."""
        return cls(text, outcome, detail)


@dataclass(frozen=True, slots=True)
class Release:
    """The held calls leave, but for the refused ones (index into the calls -> why). `note` tells the model."""

    refused: Mapping[int, Verdict] = field(default_factory=dict)
    note: str = ""


@dataclass(frozen=True, slots=True)
class AskAgain:
    """No call leaves; the model gets the refusals as results and answers again. `last`: without tools (FINISH)."""

    refusals: tuple[str, ...]
    edit: RequestEdit
    last: Verdict | None = None


CallsMove = Release | AskAgain | Answer
MOST_CALLS = 256
"""More calls in one answer are not looked at one by one: judging them would hold up everybody else."""
BUDGET = "budget"
NARROWING = "tools.narrowed"
"""The part of the tools check by whose mode tools are hidden from the model: shadow never acts (D1)."""
LOOPS = frozenset({"loop", "no_progress"})


def outcome_of(verdict: Verdict) -> Outcome:
    """The outcome of a run that this verdict ends. One that insists on what waits for a person waits for the person."""
    if PENDING_CODE in {verdict.code, verdict.fields.get("refused_as")}:
        return Outcome.NEEDS_INPUT
    if verdict.reason_class == BUDGET:
        return Outcome.LIMIT_REACHED
    if verdict.reason_class in LOOPS:
        return Outcome.NO_PROGRESS
    return Outcome.DENIED


def closing_note(reason: str = "") -> str:
    """The instruction of the last request (B3), with the reason unless refusals before it have said it."""
    return (
        f"[callgate] {reason}{' ' if reason else ''}No further tool calls are possible in this turn. Answer the user now from what "
        "you have; say plainly what is missing, and that the limit on tool use was reached if the answer is incomplete."
    )


def base_edit(facts: Facts) -> RequestEdit:
    """The changes that every request gets: hidden tools, usage in streams, results for interrupted calls."""
    keep = None
    allowed = facts.decision.allowed_tools
    narrows = facts.settings.mode(NARROWING) is Mode.ENFORCE
    if narrows and allowed is not None and not set(facts.request.tool_names) <= allowed:
        keep = allowed
    kept = facts.run.kept_as(facts.request.previous)
    return RequestEdit(
        keep_tools=keep,
        ask_usage=facts.request.stream and not facts.request.asks_usage,
        owed=tuple(owed for owed in kept.owed if not owed[0].channel) if kept else (),
        previous=kept.actual if kept and kept.actual != kept.shown else None,
        results=rendered_results(
            facts.request.messages,
            facts.decision.traits,
            facts.settings.results,
            facts.settings.defused,
        ),
    )


def request_move(
    facts: Facts, verdicts: Sequence[Verdict], *, refuse_exhausted: bool = False
) -> Forward | Answer:
    """What happens to the request. `refuse_exhausted`: a spent budget is an error, not a last answer (C015)."""
    if facts.run.is_stopped:
        text = facts.run.stop_report
        return Answer(
            text,
            facts.run.outcome,
            facts.run.outcome_detail,
            _stopped_problem(facts, refuse=refuse_exhausted),
        )
    edit = base_edit(facts)
    # Before an answer there is no call that could be refused and asked again: what is not allowed is denied.
    enforced = [
        replace(verdict, action=Action.DENY) if verdict.action is Action.REASK else verdict
        for verdict in verdicts
        if verdict.mode is Mode.ENFORCE
    ]
    edit = _repaired(edit, [repair for verdict in enforced for repair in verdict.repairs])
    worst = strongest(enforced)
    if worst is None:
        return Forward(edit)
    if worst.action is Action.NUDGE:
        notes = dict.fromkeys(verdict.message for verdict in enforced if verdict.action is Action.NUDGE)
        return Forward(replace(edit, note="[callgate] " + " ".join(notes)))
    reason = _why_by_program(enforced, worst, refuse_exhausted=refuse_exhausted)
    if reason is not None:
        return _answer(facts, reason, refuse_exhausted=refuse_exhausted)
    return Forward(
        replace(edit, tool_choice=NO_TOOLS, note=closing_note(worst.message)),
        last=worst,
    )


def _repaired(edit: RequestEdit, repairs: Sequence[MissingResult]) -> RequestEdit:
    """With the results that are missing; those of calls in what the provider keeps are owed to it."""
    there = tuple(repair for repair in repairs if not repair.is_owed)
    owed = tuple((repair.call, repair.text) for repair in repairs if repair.is_owed)
    return replace(edit, missing_results=there, owed=edit.owed + owed)


def calls_move(
    facts: Facts,
    verdicts: Sequence[Verdict],
    *,
    reasks_left: int,
    last: Verdict | None,
    others_left: bool = False,
) -> CallsMove:
    """What happens to the held calls. `last`: this answer was to have no calls, for this reason. Where the model may
    not be asked again, what it said beside refused calls stays. `others_left`: earlier calls of this very answer are
    with the agent, so no other answer can take its place."""
    if last is not None:
        return _answer(facts, last)
    refused = refused_calls(verdicts, len(facts.calls))
    if not refused:
        return Release()
    worst = max(refused.values(), key=lambda verdict: verdict.action)
    rest = Release(refused, note=_note(facts, refused))
    if others_left:
        return rest
    if worst.action is Action.DENY:
        return _answer(facts, worst)
    if len(refused) < len(facts.calls) or facts.request.choices > 1:
        return rest
    refusals = tuple(refusal_text(refused[place]) for place in range(len(facts.calls)))
    if worst.action is Action.FINISH:
        reason = _why_by_program(refused.values(), worst)
        if reason is not None:
            return _answer(facts, reason)
        return AskAgain(
            refusals, replace(base_edit(facts), tool_choice=NO_TOOLS, note=closing_note()), last=worst
        )
    return AskAgain(refusals, base_edit(facts)) if reasks_left > 0 else rest


def answer_move(
    facts: Facts, verdicts: Sequence[Verdict], *, holds: bool, asks_left: int, refuses: bool, last: bool
) -> CallsMove:
    """What happens to a final answer (E15). Unless it is held it has left, and what was objected to is a flag. `last`: the
    model may not be asked again in this turn; `refuses`: what is objected to in the end is not let out."""
    worst = strongest(verdict for verdict in verdicts if verdict.action > Action.NUDGE)
    if worst is None or not holds:
        return Release()
    if asks_left > 0 and not last and worst.action is Action.REASK:
        acting = [each for each in verdicts if each.mode is Mode.ENFORCE and each.action > Action.NUDGE]
        reasons = " ".join(dict.fromkeys(verdict.message for verdict in acting))
        said = f"[callgate] Your answer was not given to the user: {reasons} Answer again, for the user, without mentioning this."
        return AskAgain((said,), base_edit(facts))
    return _answer(facts, worst) if refuses or worst.action is Action.DENY else Release()


def too_many(count: int) -> Answer | None:
    """What an answer with so many calls becomes: an answer without any (D12); None: they are judged."""
    if count <= MOST_CALLS:
        return None
    said = f"[callgate] The model asked for more than {MOST_CALLS} tool calls at once. None of them was run."
    return Answer.of(said, "too_many_calls")


def _note(facts: Facts, refused: Mapping[int, Verdict]) -> str:
    lines = dict.fromkeys(
        f'[callgate] The call to "{shown_name(facts.calls[place].name)}" was not run: {verdict.message}'
        for place, verdict in sorted(refused.items())
    )
    return "\n".join(lines)


def _why_by_program(
    verdicts: Iterable[Verdict], worst: Verdict, *, refuse_exhausted: bool = False
) -> Verdict | None:
    """The reason why no model is asked any more; None: a last request may still be made.

    A denial; any budget of which nothing is left for a last request, whatever else was said (E7); a spent budget of
    any kind where that is to be an error.
    """
    if worst.action is Action.DENY:
        return worst
    for verdict in verdicts:
        spent = _needs_program(verdict) or (refuse_exhausted and verdict.reason_class == BUDGET)
        if verdict.action is Action.FINISH and spent:
            return verdict
    return None


def _needs_program(verdict: Verdict) -> bool:
    """Nothing is left to pay a last request with: time or tokens are gone (E7)."""
    return str(verdict.fields.get("budget", "")) in {
        "seconds",
        "input_tokens",
        "output_tokens",
        "total_tokens",
        "usd",
    }


def _answer(facts: Facts, verdict: Verdict, *, refuse_exhausted: bool = False) -> Answer:
    problem = None
    if verdict.reason_class == "protocol_mismatch":
        problem = Problem(400, verdict.code, verdict.message, verdict.fields)
    elif refuse_exhausted and verdict.reason_class == BUDGET:
        problem = Problem(403, "budget_exhausted", verdict.message, verdict.fields)
    outcome = outcome_of(verdict)
    if verdict.reason_class in {"policy_error", "state_unavailable", "protocol_mismatch"}:
        outcome = Outcome.FAILED
    return Answer(stop_report(facts.run, verdict), outcome, verdict.code, problem)


def _stopped_problem(facts: Facts, *, refuse: bool) -> Problem | None:
    if not refuse or facts.run.outcome is not Outcome.LIMIT_REACHED:
        return None
    short = _spent(facts)
    fields: dict[str, str | int | float | None] = {"budget": facts.run.outcome_detail}
    if short is not None:
        fields = {"budget": short.unit, "scope": short.scope, "limit": short.limit, "used": short.used}
    return Problem(403, "budget_exhausted", facts.run.stop_report, fields)


def _spent(facts: Facts) -> Shortage | None:
    """What keeps a stopped run from going on, for programs to read; a tool's own limit does not."""
    run, limits = facts.run, facts.limits
    scopes = (
        ("turn", limits.turn, run.turn_spent, run.turn_started_at),
        ("run", limits.run, run.spent, run.started_at),
    )
    found = (
        shortage(scope, bounds, spent, facts.now - since, ask)
        for ask in (Amounts(rounds=1), Amounts(calls=1))
        for scope, bounds, spent, since in scopes
    )
    return next(filter(None, found), None)
