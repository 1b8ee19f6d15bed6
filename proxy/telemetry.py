"""The only importer of OpenTelemetry: its SDK, as its own OTEL_* variables configure it, behind the seam of `tracing`.

Laws: without a variable that says where telemetry goes nothing is recorded; a collector never blocks a request
(spans leave in batches from a thread); stopping is bounded; nothing raises into a request. An agent's trace context
is read and passed on even where nothing is recorded.
"""

from __future__ import annotations

import asyncio
import atexit
import logging
import sys
import uuid
from collections.abc import Callable, Mapping, MutableMapping
from typing import Protocol

from opentelemetry import _logs as logs, metrics, propagate, trace
from opentelemetry._logs import NoOpLogger, SeverityNumber
from opentelemetry.context import Context
from opentelemetry.metrics import Meter
from opentelemetry.sdk._configuration import _OTelSDKConfigurator
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import (
    BatchLogRecordProcessor,
    LogRecordExporter,
    SimpleLogRecordProcessor,
)
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import MetricReader
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SimpleSpanProcessor, SpanExporter
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import NoOpTracer, Span, SpanKind as OtelKind, StatusCode, Tracer
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from . import __version__, bounded_stop, config, otel_environment
from .figures import Figures
from .model_spans import ModelSpan
from .redaction import Redactor
from .semconv import COMPAT_INSTRUMENTS, INSTRUMENTS, Instrument, Kind
from .trace_facts import Attributes
from .traces import Arrival, RequestTrace
from .tracing import LiveSpan, SpanKind, Spans, ToolSpans, complain, harmless
from .untold import UntoldRequest

__all__ = ["ModelSpan", "RequestTrace", "Telemetry", "span_memory"]

SCOPE = "callgate"
SWITCH_SECONDS = 0.0005
"""The exporter's thread holds the interpreter for slices of 5 ms by default; measured, this keeps the loop's own
lateness as if nothing was exported."""

log = logging.getLogger(__name__)

_W3C = TraceContextTextMapPropagator()
_KINDS = {"server": OtelKind.SERVER, "client": OtelKind.CLIENT, "internal": OtelKind.INTERNAL}


class TelemetrySettings(Protocol):
    """What of the settings tree is read here."""

    @property
    def service_name(self) -> str:
        """`service.name`, where no OTEL variable names it."""

    @property
    def capture_content(self) -> bool:
        """Messages, arguments and results stand in spans, redacted."""

    @property
    def run_trace(self) -> bool:
        """Requests of a run without a trace of the agent's own hang below the run's first span."""

    @property
    def tool_spans(self) -> ToolSpans:
        """When `execute_tool` spans are made up from release and result."""

    @property
    def semconv(self) -> str:
        """`latest`, or `1.41` for the older names on spans."""

    @property
    def metrics_compat(self) -> bool:
        """Whether metrics come under their older names too."""


class OtelSpan:
    """A `LiveSpan` on OpenTelemetry's span."""

    def __init__(self, span: Span) -> None:
        self.span = span

    @property
    def recording(self) -> bool:
        """Whether anybody will see it."""
        return self.span.is_recording()

    def set(self, attributes: Attributes) -> None:
        """Adds attributes."""
        self.span.set_attributes(attributes)

    def link(self, other: LiveSpan, attributes: Attributes) -> None:
        """Points to another span."""
        if isinstance(other, OtelSpan):
            self.span.add_link(other.span.get_span_context(), attributes)

    def fail(self) -> None:
        """Sets the status to ERROR."""
        self.span.set_status(StatusCode.ERROR)

    def carrier(self) -> dict[str, str]:
        """Its W3C headers."""
        headers: dict[str, str] = {}
        _W3C.inject(headers, self.within())
        return headers

    def anchor(self) -> OtelSpan:
        """A light stand-in with the same place in the trace."""
        return OtelSpan(trace.NonRecordingSpan(self.span.get_span_context()))

    def end(self, end_ns: int | None = None) -> None:
        """Ends it."""
        self.span.end(end_ns)

    def within(self) -> Context:
        """The context in which it is the current span."""
        return trace.set_span_in_context(self.span, Context())


class OtelTracing:
    """The other side of the seam."""

    def __init__(self, tracer: Tracer, logger: logs.Logger) -> None:
        self._tracer = tracer
        self._logger = logger

    def remote(self, headers: Mapping[str, str]) -> OtelSpan | None:
        """The span that these headers name, by the propagators that OTEL_PROPAGATORS chooses."""
        propagator = propagate.get_global_textmap()
        carrier = {field: headers[field] for field in propagator.fields if field in headers}
        if not carrier:
            return None
        span = trace.get_current_span(propagator.extract(carrier, Context()))
        return OtelSpan(span) if span.get_span_context().is_valid else None

    def start(
        self,
        title: str,
        kind: SpanKind,
        *,
        below: LiveSpan | None,
        attributes: Attributes,
        start_ns: int | None = None,
    ) -> OtelSpan:
        """A new span."""
        parent = below.within() if isinstance(below, OtelSpan) else Context()
        return OtelSpan(
            self._tracer.start_span(
                title, context=parent, kind=_KINDS[kind], attributes=attributes, start_time=start_ns
            )
        )

    def event(self, title: str, within: LiveSpan, attributes: Attributes, *, warns: bool = False) -> None:
        """A log record with this event name."""
        place = within.within() if isinstance(within, OtelSpan) else Context()
        if self._logger.enabled(context=place, event_name=title):
            severity = SeverityNumber.WARN if warns else SeverityNumber.INFO
            self._logger.emit(
                context=place, event_name=title, severity_number=severity, attributes=attributes
            )


class Providers:
    """The three providers and what has to be let go of when they stop."""

    def __init__(
        self, tracers: TracerProvider, meters: MeterProvider, loggers: LoggerProvider, metered: bool
    ) -> None:
        self.tracers = tracers
        self.meters = meters
        self.loggers = loggers
        self.metered = metered
        """Whether anybody reads metrics."""
        self.exporters: list[SpanExporter | LogRecordExporter] = []

    def stop(self, seconds: float) -> bool:
        """Sends what is left and stops, within this time; whether all was sent."""
        parts = (self.tracers, self.meters, self.loggers)
        for part in parts:  # at exit they would wait again, without a bound
            atexit.unregister(part.shutdown)
        return bounded_stop.stop(
            [part.force_flush for part in parts],
            [exporter.shutdown for exporter in self.exporters],
            [part.shutdown for part in parts],
            seconds,
        )


class _Configurator(_OTelSDKConfigurator):
    """The SDK asks for a subclass of its own configurator."""


def _configured(environment: MutableMapping[str, str], service_name: str) -> Providers:
    """What the variables ask for. Raises what the SDK raises for values that it cannot use."""
    for variable, value in otel_environment.defaults(environment, service_name).items():
        environment[variable] = value
    exporters: list[SpanExporter | LogRecordExporter] = []

    def spans_to(span_exporter: SpanExporter, *_: object, **__: object) -> BatchSpanProcessor:
        exporters.append(span_exporter)
        return BatchSpanProcessor(span_exporter)

    def records_to(exporter: LogRecordExporter, *_: object, **__: object) -> BatchLogRecordProcessor:
        exporters.append(exporter)
        return BatchLogRecordProcessor(exporter)

    if environment.get("OTEL_CONFIG_FILE"):
        _Configurator().configure()  # type: ignore[no-untyped-call]  # the SDK leaves it untyped
    else:
        _Configurator().configure(  # type: ignore[no-untyped-call]  # as above
            resource_attributes=_about_us(environment),
            export_span_processor=spans_to,
            export_log_record_processor=records_to,
        )
    tracers, meters, loggers = (
        trace.get_tracer_provider(),
        metrics.get_meter_provider(),
        logs.get_logger_provider(),
    )
    if not (
        isinstance(tracers, TracerProvider)
        and isinstance(meters, MeterProvider)
        and isinstance(loggers, LoggerProvider)
    ):
        raise TypeError("another part of this process has set up OpenTelemetry in its own way")
    metered = bool(environment.get("OTEL_CONFIG_FILE")) or (
        environment.get("OTEL_METRICS_EXPORTER", "none").strip().lower() != "none"
    )
    providers = Providers(tracers, meters, loggers, metered)
    providers.exporters = exporters
    return providers


def _about_us(environment: Mapping[str, str]) -> dict[str, str]:
    """Resource attributes that the operator has not given; the instance keeps the series of processes apart."""
    given = environment.get("OTEL_RESOURCE_ATTRIBUTES", "")
    ours = {"service.version": __version__, "service.instance.id": str(uuid.uuid4())}
    return {key: value for key, value in ours.items() if key not in given}


def span_memory() -> InMemorySpanExporter:
    """An exporter that keeps spans in memory: `get_finished_spans()` gives them."""
    return InMemorySpanExporter()


def _injected(
    span_exporter: SpanExporter | None,
    metric_reader: MetricReader | None,
    log_exporter: LogRecordExporter | None,
    service_name: str,
) -> Providers:
    resource = Resource({"service.name": service_name})
    tracers = TracerProvider(resource=resource, shutdown_on_exit=False)
    loggers = LoggerProvider(resource=resource, shutdown_on_exit=False)
    readers = [metric_reader] if metric_reader is not None else []
    meters = MeterProvider(metric_readers=readers, resource=resource, shutdown_on_exit=False)
    if span_exporter is not None:
        tracers.add_span_processor(SimpleSpanProcessor(span_exporter))
    if log_exporter is not None:
        loggers.add_log_record_processor(SimpleLogRecordProcessor(log_exporter))
    return Providers(tracers, meters, loggers, metric_reader is not None)


def _recorder(
    meter: Meter, instruments: tuple[Instrument, ...]
) -> Callable[[str, float, Mapping[str, object]], None]:
    put: dict[str, Callable[..., None]] = {}
    for each in instruments:
        if each.kind is Kind.COUNTER:
            put[each.name] = meter.create_counter(each.name, each.unit, each.description).add
        else:
            put[each.name] = meter.create_histogram(
                each.name, each.unit, each.description, explicit_bucket_boundaries_advisory=each.edges
            ).record

    def record(instrument: str, value: float, labels: Mapping[str, object]) -> None:
        put[instrument](value, labels)

    return record


class Telemetry:
    """Spans, metrics and events of this process."""

    def __init__(self, spans: Spans, providers: Providers | None = None) -> None:
        """`from_environment` is what makes one."""
        self._spans = spans
        self._providers = providers
        self._recording = providers is not None

    @classmethod
    def from_environment(
        cls,
        settings: TelemetrySettings,
        *,
        environment: MutableMapping[str, str] | None = None,
        redactor: Redactor | None = None,
        span_exporter: SpanExporter | None = None,
        metric_reader: MetricReader | None = None,
        log_exporter: LogRecordExporter | None = None,
    ) -> Telemetry:
        """As the OTEL_* variables say; with exporters given, those alone and at once (for tests).

        A value that the SDK cannot use is logged and leaves telemetry off: it must not keep the guard from starting.
        """
        variables = config.environment() if environment is None else environment
        providers: Providers | None = None
        if span_exporter or metric_reader or log_exporter:
            providers = _injected(span_exporter, metric_reader, log_exporter, settings.service_name)
        elif otel_environment.is_wanted(variables):
            try:
                providers = _configured(variables, settings.service_name)
                sys.setswitchinterval(SWITCH_SECONDS)
            except Exception as fault:  # noqa: BLE001 - the SDK raises whatever its parts raise
                log.error("telemetry is off: the OTEL_* variables cannot be used: %s", fault)  # noqa: TRY400 - said in full
        capture = settings.capture_content or otel_environment.captures_content(variables)
        tracing, figures = _seams(providers, compat=settings.metrics_compat)
        spans = Spans(
            tracing,
            figures,
            redactor=(redactor or Redactor()) if capture else None,
            run_trace=settings.run_trace,
            tool_spans=settings.tool_spans,
            older_names=settings.semconv != "latest",
        )
        return cls(spans, providers)

    def request(self, arrival: Arrival) -> RequestTrace:
        """A request of an agent has arrived."""
        return (RequestTrace if self._recording else UntoldRequest)(self._spans, arrival)

    @harmless
    def engine_decided(self, phase: str, seconds: float, fault: str = "") -> None:
        """The policy engine decided, or failed with this code."""
        self._spans.figures.engine_decided(phase, seconds, fault)

    @harmless
    def policies_reloaded(self, result: str, revision: str) -> None:
        """Newer policies were put in force, or not."""
        self._spans.figures.policies_reloaded(result, revision)

    @harmless
    def shadow_decided(self, result: str) -> None:
        """Policies in shadow were asked about a call."""
        self._spans.figures.shadow_decided(result)

    @harmless
    def store_answered(self, operation: str, seconds: float, fault: str = "") -> None:
        """The store answered, or failed with this code."""
        self._spans.figures.store_answered(operation, seconds, fault)

    @harmless
    def approval_stands(self, status: str, waited: float | None) -> None:
        """A call was put before a person, or its approval changed to this status, after so many seconds."""
        self._spans.figures.approval_stands(status, waited)

    async def close(self, seconds: float = 2.0) -> None:
        """Sends what is left and stops, within about this time whatever the collector does."""
        if self._providers is None:
            return
        providers, self._providers = self._providers, None
        try:
            if not await asyncio.to_thread(providers.stop, seconds):
                log.warning("telemetry: not everything could be sent before the end")
        except Exception as fault:  # noqa: BLE001 - telemetry never keeps the process from ending
            complain("close", fault)


def _seams(providers: Providers | None, *, compat: bool) -> tuple[OtelTracing, Figures]:
    if providers is None:
        return OtelTracing(NoOpTracer(), NoOpLogger(SCOPE)), Figures(None)
    tracing = OtelTracing(
        providers.tracers.get_tracer(SCOPE, __version__), providers.loggers.get_logger(SCOPE, __version__)
    )
    if not providers.metered:
        return tracing, Figures(None)
    meter = providers.meters.get_meter(SCOPE, __version__)
    instruments = INSTRUMENTS + COMPAT_INSTRUMENTS * compat
    return tracing, Figures(_recorder(meter, instruments), compat=compat)
