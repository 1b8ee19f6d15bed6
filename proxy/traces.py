"""The spans of one proxied request: which there are, when they begin, what they hang below.

    SERVER    POST /v1/…                     below the agent's span, else below the first span of the run
    ├─ INTERNAL  guard request               only if something acted on the request
    ├─ CLIENT    chat {model}                one a try; its traceparent goes upstream
    ├─ INTERNAL  guard tool_call {tool}      one a judged call, refused ones included
    └─ INTERNAL  execute_tool {tool}         made up from release and result, where the agent traces nothing itself

Laws: nothing here raises into the gate or waits; every span ends once. The SERVER span begins when the request
arrived but is made late, because what it hangs below is known only when its run is.
"""

from __future__ import annotations

import functools
import re
import weakref
from collections.abc import Collection, Mapping, Sequence
from typing import Protocol

from proxy.core.limits import Limits
from proxy.core.messages import Request, ToolCall
from proxy.core.runs import STOPPED, Identity, Run, Step
from proxy.core.verdicts import Action, Verdict
from proxy.dialects import Dialect, Route

from . import printable, semconv as name, trace_content, trace_facts
from .model_spans import CLIENT_GONE, ModelSpan
from .trace_facts import Attributes
from .tracing import NANO, JudgedCall, LiveSpan, Spans, complain, harmless

_SERVER_FAULT = 500
_HUNG_UP = 499
"""What proxies write for a request whose client did not wait; never sent to anybody."""


class Arrival(Protocol):
    """What of an incoming request is read here."""

    @property
    def dialect(self) -> Dialect:
        """Its routes name the paths that may stand in span names."""

    @property
    def method(self) -> str:
        """HTTP method."""

    @property
    def path(self) -> str:
        """Path, perhaps with a query, which is left out."""

    @property
    def headers(self) -> Mapping[str, str]:
        """As received."""

    @property
    def peer(self) -> str:
        """Address of the other end."""


class RequestTrace:
    """What is told about one request of an agent."""

    def __init__(self, spans: Spans, arrival: Arrival) -> None:
        self._spans = spans
        self._arrival = arrival
        self._started_ns = spans.now_ns()
        self._route = ""
        self._agent: LiveSpan | None = None
        self._server: LiveSpan | None = None
        self._run: Run | None = None
        self._offered: Collection[str] = ()
        self._open_models = 0
        self._told: list[Verdict] = []
        self._outcome_told = False
        self._status: int | None = None
        self._error = ""
        self._arrived()

    @harmless
    def _arrived(self) -> None:
        arrival = self._arrival
        self._route = route_of(arrival.dialect.routes, arrival.method, arrival.path)
        self._agent = agents_span(self._spans, arrival)

    @property
    def trace_id(self) -> str:
        """The trace id that the agent sent (32 hex digits); empty where it sent none."""
        try:
            return self._agent.carrier()["traceparent"].split("-")[1] if self._agent else ""
        except Exception as fault:  # noqa: BLE001 - telemetry never breaks a request
            complain("trace_id", fault)
            return ""

    def _span(self, below: LiveSpan | None = None) -> LiveSpan:
        """The SERVER span; made now if it is not there yet."""
        if self._server is None:
            arrival = self._arrival
            method = printable.name(arrival.method, 16)
            self._server = self._spans.tracing.start(
                f"{method} {self._route}".rstrip(),
                "server",
                below=self._agent or below,
                attributes=trace_facts.arrived(
                    arrival.method,
                    arrival.path,
                    self._route,
                    arrival.peer,
                    arrival.headers.get("user-agent", ""),
                ),
                start_ns=self._started_ns,
            )
            # Whoever lets go of a request without an end (the agent hung up) ends its span by that.
            self._left = weakref.finalize(
                self, _left, self._spans, self._server, self._started_ns, arrival.method, self._route
            )
            self._left.atexit = False
        return self._server

    # --- whose request this is ------------------------------------------------------------------------------

    def belongs_to(self, run: Run, *, is_new: bool) -> Mapping[str, str]:
        """The run is known: the SERVER span takes its place below the agent's span, else below the run's first one.

        Returns the W3C headers to be kept in `Run.trace`.
        """
        try:
            return self._belongs_to(run, is_new=is_new)
        except Exception as fault:  # noqa: BLE001 - telemetry never breaks a request
            complain("belongs_to", fault)
            return {}

    def _belongs_to(self, run: Run, *, is_new: bool) -> Mapping[str, str]:
        self._run = run
        first = self._spans.tracing.remote(run.trace) if run.trace and not is_new else None
        span = self._span(first if self._spans.run_trace else None)
        if first is not None and (self._agent is not None or not self._spans.run_trace):
            span.link(first, {name.LINK: "first_request"})
        if span.recording:
            span.set(trace_facts.run(run))
        if is_new:
            self._spans.figures.run_started()
        return span.carrier() if is_new else dict(run.trace)

    @harmless
    def identified(self, identity: Identity) -> None:
        """The caller is known: organisation, team and agent are told, the person is not."""
        self._span().set(trace_facts.identity(identity))

    # --- the model ------------------------------------------------------------------------------------------

    def model_call(
        self,
        *,
        dialect: Dialect,
        request: Request,
        round_number: int,
        attempt: int,
        base_url: str = "",
    ) -> ModelSpan:
        """A try of a model request leaves. `base_url` is where to; empty: the dialect's own."""
        server = _server_of(base_url or dialect.base_url)
        model = ModelSpan(self._spans, dialect.provider, request, server, self._model_ended)
        self._offered = request.tool_names
        try:
            title = f"{trace_facts.operation(dialect.provider)} {printable.name(request.model)}".rstrip()
            attributes = trace_facts.model_request(dialect.provider, request) | server | self._whose()
            attributes |= {name.DIALECT: dialect.name, name.ROUND: round_number}
            if attempt > 1:
                attributes |= {name.ATTEMPT: attempt, name.HTTP_RESEND: attempt - 1}
            model.begin(self._spans.tracing.start(title, "client", below=self._span(), attributes=attributes))
            self._open_models += 1
        except Exception as fault:  # noqa: BLE001 - telemetry never breaks a request
            complain("model_call", fault)
        return model

    # --- decisions ------------------------------------------------------------------------------------------

    @harmless
    def decision(  # noqa: PLR0913 - a decision has this many sides, all named at the call
        self,
        call: ToolCall,
        verdicts: Sequence[Verdict],
        action: Action,
        *,
        enforced: bool,
        started_ns: int,
        policy_revision: str = "",
        step_number: int = 0,
    ) -> None:
        """A proposed call was judged: these verdicts were about it. `enforced`: it does not leave."""
        spans, server, now_ns = self._spans, self._span(), self._spans.now_ns()
        denied = enforced or action > Action.NUDGE
        if server.recording or denied:
            facts = trace_facts.decision(
                verdicts, action, phase="calls", refused=enforced, policy=policy_revision
            )
            facts |= trace_facts.call(call) | {name.STEP: step_number}
            if denied:  # not left to sampling
                spans.tracing.event(name.EVENT_DECISION, server, facts | self._whose(), warns=True)
        if server.recording:
            if spans.redactor is not None:
                facts[name.TOOL_ARGUMENTS] = trace_content.arguments(call.arguments, spans.redactor)
            span = self._internal(f"guard tool_call {printable.name(call.name)}", facts, started_ns)
            span.end(now_ns)
            if self._run is not None and not enforced:
                judged = JudgedCall(span.anchor(), server.anchor(), call.made_id)
                spans.judged.keep(self._run.id, call.id, judged)
        seconds = max(0, now_ns - started_ns) / NANO
        spans.figures.call_judged(call, verdicts, refused=enforced, seconds=seconds, offered=self._offered)
        # A verdict about the whole turn comes with each of its calls and counts once.
        fresh = [verdict for verdict in verdicts if not any(verdict is told for told in self._told)]
        self._told += [verdict for verdict in fresh if verdict.call is None]
        self._spans.figures.said(fresh, "calls")

    @harmless
    def request_decision(
        self, verdicts: Sequence[Verdict], action: Action, policy_revision: str = ""
    ) -> None:
        """The request was judged; a span tells of it only if something acted."""
        self._judged("request", verdicts, action, policy_revision)

    @harmless
    def answer_decision(self, verdicts: Sequence[Verdict], action: Action, policy_revision: str = "") -> None:
        """A final answer was judged; a span tells of it only if something was objected to (E15)."""
        self._judged("answer", verdicts, action, policy_revision)

    def _judged(self, phase: str, verdicts: Sequence[Verdict], action: Action, policy_revision: str) -> None:
        self._spans.figures.said(verdicts, phase)
        if action is Action.PASS or not self._span().recording:
            return
        refused = action > Action.NUDGE
        attributes = trace_facts.decision(
            verdicts, action, phase=phase, refused=refused, policy=policy_revision
        )
        self._internal(f"guard {phase}", attributes, self._spans.now_ns()).end()

    def _internal(self, title: str, attributes: Attributes, start_ns: int) -> LiveSpan:
        return self._spans.tracing.start(
            title, "internal", below=self._span(), attributes=attributes | self._whose(), start_ns=start_ns
        )

    def _whose(self) -> Attributes:
        return trace_facts.run(self._run) if self._run is not None else {}

    @harmless
    def calls_held(self, seconds: float) -> None:
        """Calls of a stream were held back so long."""
        self._spans.figures.calls_held(seconds)

    # --- results and ends -----------------------------------------------------------------------------------

    @harmless
    def tool_result(self, step: Step, run: Run) -> None:
        """The result of a released call came with this request."""
        spans, server = self._spans, self._span()
        judged = spans.judged.take(run.id, step.call_id)
        attributes = trace_facts.result(step, made_id=judged is not None and judged.made_id)
        if judged is not None:
            server.link(judged.decision, {name.LINK: "tool_result", **attributes})
        if spans.tool_spans == "always" or (spans.tool_spans == "auto" and self._agent is None):
            self._tool_span(step, run, attributes, judged.request if judged else server)
        spans.tracing.event(name.EVENT_TOOL_RESULT, server, attributes | trace_facts.run(run))
        spans.figures.tool_returned(step)

    def _tool_span(self, step: Step, run: Run, facts: Attributes, below: LiveSpan) -> None:
        if step.result_at is None or not step.released_at:
            return
        attributes: Attributes = {
            name.OPERATION: "execute_tool",
            name.TOOL_TYPE: "function",
            name.TOOL_TIMING: name.OBSERVED,
            **facts,
            **trace_facts.run(run),
            name.TURN: step.turn,
        }
        if self._spans.redactor is not None:
            attributes[name.TOOL_ARGUMENTS] = trace_content.arguments(step.arguments, self._spans.redactor)
            attributes[name.TOOL_RESULT] = trace_content.arguments(step.result, self._spans.redactor)
        span = self._spans.tracing.start(
            f"execute_tool {printable.name(step.tool)}",
            "internal",
            below=below,
            attributes=attributes,
            start_ns=_nanoseconds(step.released_at),
        )
        if name.ERROR_TYPE in attributes:
            span.fail()
        span.end(_nanoseconds(max(step.released_at, step.result_at)))

    @harmless
    def run_ended(self, run: Run, limits: Limits | None = None) -> None:
        """The run has got its outcome; told once a request. `limits` are those that were in force."""
        if self._outcome_told:
            return
        self._outcome_told = True
        attributes = trace_facts.outcome(run)
        span = self._span()
        span.set(attributes)
        stopped = run.outcome in STOPPED
        self._spans.tracing.event(
            name.EVENT_RUN_ENDED, span, attributes | trace_facts.run(run), warns=stopped
        )
        self._spans.figures.run_ended(run, limits, max(0.0, self._spans.now_ns() / NANO - run.started_at))

    @harmless
    def finish(self, status: int, error_type: str = "") -> None:
        """The reply's status is known: the SERVER span ends, or does so with the last model request still open.

        A refusal by policy is no fault of the server: only a status of 500 and more is an error.
        """
        if self._status is None:
            self._status = status
            self._error = printable.name(error_type or str(status)) if status >= _SERVER_FAULT else ""
            self._end_if_over()

    def _model_ended(self) -> None:
        self._open_models -= 1
        self._end_if_over()

    def _end_if_over(self) -> None:
        if self._status is None or self._open_models > 0:
            return
        span = self._span()
        self._left.detach()
        if self._error:
            span.set({name.ERROR_TYPE: self._error})
            span.fail()
        span.set({name.HTTP_STATUS: self._status})
        _end(
            self._spans,
            span,
            self._started_ns,
            (self._arrival.method, self._route, self._status, self._error),
        )


def agents_span(spans: Spans, arrival: Arrival) -> LiveSpan | None:
    """The span that the agent's headers name."""
    return spans.tracing.remote({key.lower(): value for key, value in arrival.headers.items()})


def _end(spans: Spans, span: LiveSpan, started_ns: int, labels: tuple[str, str, int, str]) -> None:
    now_ns = spans.now_ns()
    span.end(now_ns)
    method, route, status, error = labels
    spans.figures.request_ended(method, route, status, max(0, now_ns - started_ns) / NANO, error)


@harmless
def _left(spans: Spans, span: LiveSpan, started_ns: int, method: str, route: str) -> None:
    span.set({name.ERROR_TYPE: CLIENT_GONE})
    _end(spans, span, started_ns, (method, route, _HUNG_UP, CLIENT_GONE))


def _nanoseconds(at: float) -> int:
    return round(at * 1_000_000) * 1_000  # a float of epoch seconds is good for microseconds


def route_of(routes: Sequence[Route], method: str, path: str) -> str:
    """The route that this path belongs to, as it is written in the dialect; empty where it is none of them."""
    bare = path.partition("?")[0]
    for route in routes:
        if route.method == method and (route.path == bare or _pattern(route.path).fullmatch(bare)):
            return route.path
    return ""


@functools.lru_cache(maxsize=64)
def _server_of(base_url: str) -> Attributes:
    return trace_facts.server(base_url)


@functools.lru_cache(maxsize=256)
def _pattern(template: str) -> re.Pattern[str]:
    parts = re.split(r"\{[^{}]*\}", template)
    return re.compile("[^/]+".join(re.escape(part) for part in parts))
