"""The figures to watch (D13): what is counted and timed, under which labels.

Labels never hold ids, and names from outside only while there are few of them: whatever comes later is `_OTHER`.
`record` is where values go; without one nothing is counted.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence

from proxy.core.limits import NANO, Limits
from proxy.core.messages import Request, ToolCall, Turn, Usage
from proxy.core.runs import Run, Step
from proxy.core.verdicts import Verdict

from . import printable, semconv as name
from .trace_facts import Attributes, deciding, operation

Record = Callable[[str, float, Mapping[str, object]], None]

MOST_NAMES = 100


class FewNames:
    """A label's values: the first `limit` that were admitted, everything else is `_OTHER`."""

    def __init__(self, limit: int = MOST_NAMES) -> None:
        self._limit = limit
        self._known: dict[str, str] = {}
        self._lock = threading.Lock()

    def admit(self, text: str) -> str:
        """The label for this name, which may become a known one."""
        known = self._known.get(text)
        if known is not None:
            return known
        with self._lock:
            if len(self._known) >= self._limit or len(text) > printable.NAME_LENGTH:
                return name.OTHER
            return self._known.setdefault(text, printable.name(text))

    def label(self, text: str) -> str:
        """The label for this name, which does not become known by being asked for."""
        return self._known.get(text, name.OTHER)


class Figures:
    """Turns what happened into values of the instruments in `semconv`."""

    def __init__(self, record: Record | None, *, compat: bool = True) -> None:
        """`compat`: also under the names of older conventions."""
        self._record = record
        self._compat = compat
        self._models = FewNames()
        self._tools = FewNames()
        self._words = FewNames(200)
        """Codes, rules and layers: named by policies."""

    @property
    def on(self) -> bool:
        """Whether anything is counted."""
        return self._record is not None

    def _put(self, instrument: str, value: float, labels: Attributes) -> None:
        if self._record is not None:
            self._record(instrument, value, labels)

    # --- requests and answers -------------------------------------------------------------------------------

    def request_ended(self, method: str, route: str, status: int, seconds: float, error: str) -> None:
        """A request of an agent was answered."""
        labels: Attributes = {
            name.HTTP_METHOD: method if method in {"GET", "POST", "DELETE"} else name.OTHER,
            name.URL_SCHEME: "http",
            name.HTTP_STATUS: status,
        }
        if route:
            labels[name.HTTP_ROUTE] = route
        if error:
            labels[name.ERROR_TYPE] = self._words.admit(error)
        self._put(name.HTTP_DURATION, seconds, labels)

    def model_answered(  # noqa: PLR0913 - all named at the call
        self,
        provider: str,
        request: Request,
        turn: Turn | None,
        *,
        server: Attributes,
        seconds: float,
        first_chunk: float | None,
        error: str,
    ) -> None:
        """A model request ended, well or not. A model's name becomes a label once a provider has answered for it."""
        if not self.on:
            return
        works = turn is not None and not error
        labels: Attributes = {
            name.OPERATION: operation(provider),
            name.PROVIDER: provider,
            name.REQUEST_MODEL: self._models.admit(request.model)
            if works
            else self._models.label(request.model),
            **server,
        }
        if turn is not None and turn.model:
            labels[name.RESPONSE_MODEL] = (
                self._models.admit(turn.model) if works else self._models.label(turn.model)
            )
        if error:
            labels[name.ERROR_TYPE] = self._words.admit(error)
        self._put(name.INFERENCE_DURATION, seconds, labels)
        if self._compat:
            self._put(name.OPERATION_DURATION, seconds, labels)
        if first_chunk is not None:
            self._put(name.FIRST_CHUNK, first_chunk, labels)
        self._tokens(turn.usage if turn else None, labels)

    def _tokens(self, usage: Usage | None, labels: Attributes) -> None:
        spent = usage or Usage()
        modality = labels | {name.TOKEN_MODALITY: "unknown"}
        self._put(name.INPUT_TOKENS, spent.input_tokens, modality)
        self._put(name.OUTPUT_TOKENS, spent.output_tokens, modality)
        if usage is None:
            return
        for instrument, count in (
            (name.CACHE_READ_TOKENS, usage.cache_read_tokens),
            (name.CACHE_WRITE_TOKENS, usage.cache_write_tokens),
            (name.REASONING_TOKENS, usage.reasoning_tokens),
        ):
            if count:
                self._put(instrument, count, modality)
        self._put(name.INPUT_TOKENS_EACH, usage.input_tokens, labels)
        self._put(name.OUTPUT_TOKENS_EACH, usage.output_tokens, labels)
        if self._compat:
            self._put(name.TOKEN_USAGE, usage.input_tokens, labels | {name.TOKEN_TYPE: "input"})
            self._put(name.TOKEN_USAGE, usage.output_tokens, labels | {name.TOKEN_TYPE: "output"})

    def upstream_fault(self, provider: str, error: str) -> None:
        """A try of a model request failed."""
        self._put(
            name.UPSTREAM_FAULTS, 1, {name.PROVIDER: provider, name.ERROR_TYPE: self._words.admit(error)}
        )

    # --- decisions ------------------------------------------------------------------------------------------

    def call_judged(
        self,
        call: ToolCall,
        verdicts: Sequence[Verdict],
        *,
        refused: bool,
        seconds: float,
        offered: Iterable[str],
    ) -> None:
        """A proposed call was judged in this time; `refused` is what happened to it."""
        if not self.on:
            return
        chief = deciding(verdicts)
        labels: Attributes = {
            name.DECISION: "deny" if refused else "allow",
            name.TOOL_NAME: self._tools.admit(call.name) if call.name in offered else name.OTHER,
        }
        if chief is not None:
            labels |= {name.CHECK: chief.check, name.MODE: chief.mode.value}
        self._put(name.DECISIONS, 1, labels)
        self._put(name.DECISION_DURATION, seconds, {name.PHASE: "calls"})

    def said(self, verdicts: Iterable[Verdict], phase: str) -> None:
        """Checks said this."""
        for verdict in verdicts if self.on else ():
            labels: Attributes = {
                name.PHASE: phase,
                name.CHECK: verdict.check,
                name.REASON: self._words.admit(verdict.code),
                name.ACTION: verdict.action.name.lower(),
                name.MODE: verdict.mode.value,
            }
            if verdict.layer:
                labels[name.LAYER] = self._words.admit(verdict.layer)
            if verdict.rule:
                labels[name.RULE_ID] = self._words.admit(verdict.rule)
            self._put(name.VERDICT_COUNT, 1, labels)

    # --- runs and tools -------------------------------------------------------------------------------------

    def run_started(self) -> None:
        """A run was seen for the first time."""
        self._put(name.RUNS_STARTED, 1, {})

    def run_ended(self, run: Run, limits: Limits | None, seconds: float) -> None:
        """A run got its outcome; `limits` are those that were in force."""
        if not self.on:
            return
        labels: Attributes = {name.OUTCOME: run.outcome.value}
        self._put(name.RUN_ROUNDS_EACH, run.spent.rounds, labels)
        self._put(name.RUN_CALLS_EACH, run.spent.calls, labels)
        self._put(name.RUN_TOKENS_EACH, run.spent.total_tokens, labels)
        self._put(name.RUN_COST_EACH, run.spent.nano_usd / NANO, labels)
        self._put(name.RUN_SECONDS, seconds, labels)
        if run.outcome_detail:
            detail = "per_tool" if "per_tool" in run.outcome_detail else run.outcome_detail
            labels = labels | {name.OUTCOME_DETAIL: self._words.admit(detail)}
        self._put(name.RUNS_ENDED, 1, labels)
        for scope, unit, left in budgets_left(run, limits) if limits else ():
            self._put(name.BUDGET_LEFT_RATIO, left, {name.BUDGET_SCOPE: scope, name.BUDGET_UNIT: unit})

    def tool_returned(self, step: Step) -> None:
        """The result of a released call has come; a released call's tool was offered and allowed."""
        if self.on and step.result_at is not None and step.released_at:
            labels: Attributes = {
                name.TOOL_NAME: self._tools.admit(step.tool),
                name.TOOL_STATUS: step.status.value,
            }
            self._put(name.TOOL_ROUND_TRIP, max(0.0, step.result_at - step.released_at), labels)

    # --- what the proxy itself costs ------------------------------------------------------------------------

    def calls_held(self, seconds: float) -> None:
        """Calls were held back so long."""
        self._put(name.GATE_HOLD, seconds, {})

    def engine_decided(self, phase: str, seconds: float, fault: str) -> None:
        """The policy engine decided, or failed with this code."""
        labels: Attributes = {name.PHASE: phase}
        self._put(name.ENGINE_DURATION, seconds, self._with_fault(labels, fault))

    def policies_reloaded(self, result: str, revision: str) -> None:
        """Newer policies were put in force (`loaded`), or not; `revision` is that of those in force."""
        labels: Attributes = {name.POLICY_RESULT: result}
        if result == "loaded":
            labels[name.POLICY_VERSION] = revision[:12]
        self._put(name.POLICY_RELOADS, 1, labels)

    def shadow_decided(self, result: str) -> None:
        """Policies in shadow were asked about a call: same, stricter, laxer, fault or dropped."""
        self._put(name.POLICY_SHADOW, 1, {name.POLICY_RESULT: result})

    def store_answered(self, store_operation: str, seconds: float, fault: str) -> None:
        """The store answered, or failed with this code."""
        labels: Attributes = {name.STORE_OPERATION: store_operation}
        self._put(name.STORE_DURATION, seconds, self._with_fault(labels, fault))

    def approval_stands(self, approval_status: str, waited: float | None) -> None:
        """A call was put before a person, or its approval changed; `waited`: a person decided after so many seconds."""
        labels: Attributes = {name.APPROVAL_STATUS: approval_status}
        self._put(name.APPROVALS, 1, labels)
        if waited is not None:
            self._put(name.APPROVAL_WAIT, waited, labels)

    def _with_fault(self, labels: Attributes, fault: str) -> Attributes:
        return labels | {name.ERROR_TYPE: self._words.admit(fault)} if fault else labels


def budgets_left(run: Run, limits: Limits) -> list[tuple[str, str, float]]:
    """For each limit of a count: scope, unit, and which part of it is unused, 0 to 1."""
    left = []
    for scope, bounds, spent in (("turn", limits.turn, run.turn_spent), ("run", limits.run, run.spent)):
        for unit in ("rounds", "calls", "input_tokens", "output_tokens", "total_tokens", "nano_usd"):
            limit = getattr(bounds, unit)
            if limit:
                left.append((scope, unit.removeprefix("nano_"), max(0.0, 1 - getattr(spent, unit) / limit)))
    return left
