"""One try of a model request as a CLIENT span, its duration and its tokens."""

from __future__ import annotations

from collections.abc import Callable

from proxy.core.messages import Request, Turn

from . import printable, semconv as name, trace_content, trace_facts
from .trace_facts import Attributes
from .tracing import NANO, LiveSpan, Spans, complain, harmless

CLIENT_GONE = "cancelled"
"""`error.type` of the duration of a model request that nobody waited for."""
_ANY_FAULT = 400


class ModelSpan:
    """One try of a model request: a CLIENT span that ends when the answer has ended or nobody waits for it."""

    def __init__(
        self, spans: Spans, provider: str, request: Request, server: Attributes, on_end: Callable[[], None]
    ) -> None:
        self._spans = spans
        self._on_end = on_end
        self._provider = provider
        self._request = request
        self._server = server
        self._started_ns = spans.now_ns()
        self._first_ns: int | None = None
        self._span: LiveSpan | None = None
        self._ended = False

    def begin(self, span: LiveSpan) -> None:
        """This span has begun."""
        self._span = span

    def headers(self) -> dict[str, str]:
        """What goes upstream: this span as `traceparent`. State and baggage of the agent stay here."""
        try:
            carrier = self._span.carrier() if self._span else {}
        except Exception as fault:  # noqa: BLE001 - telemetry never breaks a request
            complain("headers", fault)
            return {}
        return {key: value for key, value in carrier.items() if key == "traceparent"}

    def first_chunk(self) -> None:
        """Something of the answer arrived; only the first call counts."""
        if self._first_ns is None:
            self._first_ns = self._spans.now_ns()

    def abandoned(self, turn: Turn | None = None) -> None:
        """Nobody waits for the answer any more; `turn` is what was read of it."""
        self._end(turn, {name.RESPONSE_FINISH: ["error"]}, CLIENT_GONE, failed=False)

    def finished(self, turn: Turn | None, status: int, error_type: str = "") -> None:
        """The answer has ended. `status` is 0 where there was none; `error_type` says why there was none, or no more."""
        error = error_type or (str(status) if status >= _ANY_FAULT else "")
        if not error and turn is not None and turn.error is not None:
            error = turn.error.code
        extra: Attributes = {name.HTTP_STATUS: status} if status else {}
        self._end(turn, extra, printable.name(error), failed=bool(error))

    @harmless
    def _end(self, turn: Turn | None, extra: Attributes, error: str, *, failed: bool) -> None:
        if self._ended:
            return
        self._ended = True
        now_ns = self._spans.now_ns()
        first = None if self._first_ns is None else max(0, self._first_ns - self._started_ns) / NANO
        if not self._request.stream:
            first = None
        if self._span is not None:
            if self._span.recording:
                self._span.set(self._known(turn, first) | extra)
            if failed:
                self._span.set({name.ERROR_TYPE: error})
                self._span.fail()
            self._span.end(now_ns)
        seconds = max(0, now_ns - self._started_ns) / NANO
        figures = self._spans.figures
        figures.model_answered(
            self._provider,
            self._request,
            turn,
            server=self._server,
            seconds=seconds,
            first_chunk=first,
            error=error,
        )
        if failed:
            figures.upstream_fault(self._provider, error)
        self._on_end()

    def _known(self, turn: Turn | None, first: float | None) -> Attributes:
        attributes = (
            trace_facts.model_answer(turn, older_names=self._spans.older_names) if turn is not None else {}
        )
        if first is not None:
            attributes[name.RESPONSE_FIRST_CHUNK] = first
        redactor = self._spans.redactor
        if redactor is not None:
            attributes[name.INPUT_MESSAGES] = trace_content.input_messages(self._request.messages, redactor)
            if turn is not None:
                attributes[name.OUTPUT_MESSAGES] = trace_content.output_messages(turn, redactor)
        return attributes
