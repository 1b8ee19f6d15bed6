"""Tells spans, metrics and the audit journal what happened in one request, so that the gate says it once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .core.actions import Answer, Forward
from .core.runs import Outcome
from .core.verdicts import Action, strongest

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from .audit import AuditJournal
    from .core.limits import Limits
    from .core.messages import RequestEdit, Usage
    from .core.runs import Run, Step
    from .core.verdicts import Facts, Verdict
    from .telemetry import RequestTrace


class Recorder:
    """One request's witness."""

    def __init__(self, request_id: str, trace: RequestTrace, audit: AuditJournal) -> None:
        """`trace` is the request's server span."""
        self._id = request_id
        self._audit = audit
        self._limits: Limits | None = None
        self._concluded = Outcome.RUNNING
        self.trace = trace

    def results(self, run: Run, steps: Sequence[Step]) -> None:
        """Results of earlier calls came with this request."""
        for step in steps:
            self.trace.tool_result(step, run)
            self._audit.step(run, step, request_id=self._id)

    def request_judged(self, facts: Facts, verdicts: Sequence[Verdict], move: Forward | Answer) -> None:
        """The request was judged."""
        action = _action(verdicts)
        self._limits = facts.limits
        self.trace.identified(facts.identity)
        self.trace.request_decision(verdicts, action, facts.decision.revision)
        self._audit.decision(
            facts.run,
            request_id=self._id,
            phase="request",
            verdicts=verdicts,
            action=action,
            policy=facts.decision.revision,
        )
        if isinstance(move, Forward):
            self.edited(facts.run, move.edit)

    def edited(self, run: Run, edit: RequestEdit) -> None:
        """The request leaves with these changes (C15)."""
        self._audit.request_edited(run, edit, request_id=self._id)

    def policy_asked(self, run: Run, document: Mapping[str, object], policy: str) -> None:
        """Policies of this revision were asked about calls with this input document."""
        self._audit.policy_input(run, document, request_id=self._id, policy=policy)

    def calls_judged(
        self, facts: Facts, run: Run, verdicts: Sequence[Verdict], refused: Mapping[int, str], started_ns: int
    ) -> None:
        """The calls of a turn were judged; `refused` are those that do not leave, by index, with the reason's code.
        `run` already holds a step for each."""
        steps = run.steps[-len(facts.calls) :]
        for place, (call, step) in enumerate(zip(facts.calls, steps, strict=True)):
            about = [verdict for verdict in verdicts if verdict.call in {place, None}]
            self.trace.decision(
                call,
                about,
                _action(about),
                enforced=place in refused,
                started_ns=started_ns,
                policy_revision=facts.decision.revision,
                step_number=step.number,
            )
            if place in refused:
                self._audit.step(run, step, request_id=self._id)
        self._audit.decision(
            run,
            request_id=self._id,
            phase="calls",
            verdicts=verdicts,
            action=_action(verdicts),
            calls=facts.calls,
            refused=refused,
            policy=facts.decision.revision,
        )

    def answered(self, run: Run, usage: Usage) -> None:
        """A model request was answered and took this much."""
        self._audit.answered(run, run.spent.rounds, usage.input_tokens)

    def answer_judged(self, facts: Facts, verdicts: Sequence[Verdict]) -> None:
        """A final answer was judged, or the provider ran calls of its own in it (recorded as not inspected)."""
        hosted = facts.answer.hosted_calls if facts.answer else ()
        if verdicts:
            self.trace.answer_decision(verdicts, _action(verdicts), facts.decision.revision)
        if verdicts or hosted:
            self._audit.decision(
                facts.run,
                request_id=self._id,
                phase="answer",
                verdicts=verdicts,
                action=_action(verdicts),
                calls=hosted,
                policy=facts.decision.revision,
            )

    def concluded(self, run: Run) -> None:
        """The turn is over; `run` holds its outcome, which is told once."""
        if run.outcome not in {Outcome.RUNNING, self._concluded}:
            self._concluded = run.outcome
            self.trace.run_ended(run, self._limits)
            self._audit.run_ended(run, request_id=self._id)

    def finish(self, status: int, error: str = "") -> None:
        """The reply's status is known and nothing more will happen."""
        self.trace.finish(status, error)


def _action(verdicts: Sequence[Verdict]) -> Action:
    worst = strongest(verdicts)
    return worst.action if worst else Action.PASS
