"""Telemetry with exporters in memory, and its spans as a tree to read."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from opentelemetry.sdk._logs.export import InMemoryLogRecordExporter
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from proxy.telemetry import Telemetry
from proxy.traces import RequestTrace

from . import sample_run as sample


class Settings(NamedTuple):
    """What telemetry reads of the settings."""

    service_name: str = "callgate"
    capture_content: bool = False
    run_trace: bool = True
    tool_spans: Any = "auto"
    semconv: str = "latest"
    metrics_compat: bool = True


class Told:
    """What was exported so far."""

    def __init__(self, settings: Settings | None = None) -> None:
        self._spans = InMemorySpanExporter()
        self._logs = InMemoryLogRecordExporter()  # type: ignore[no-untyped-call]  # the SDK leaves it untyped
        self._metrics = InMemoryMetricReader()
        self.telemetry = Telemetry.from_environment(
            settings or Settings(),
            environment={},
            span_exporter=self._spans,
            metric_reader=self._metrics,
            log_exporter=self._logs,
        )

    def request(self, headers: dict[str, str] | None = None, path: str = "/v1/chat") -> RequestTrace:
        return self.telemetry.request(sample.arrival(headers, path))

    @property
    def spans(self) -> Sequence[ReadableSpan]:
        return self._spans.get_finished_spans()

    def span(self, name: str) -> ReadableSpan:
        (found,) = [span for span in self.spans if span.name == name]
        return found

    def facts(self, name: str) -> dict[str, Any]:
        return dict(self.span(name).attributes or {})

    def events(self, name: str) -> list[Any]:
        return [
            each.log_record for each in self._logs.get_finished_logs() if each.log_record.event_name == name
        ]

    def tree(self) -> list[str]:
        """Names in order of their beginning, indented below their parents; `^` marks a remote parent."""
        spans = sorted(self.spans, key=lambda span: span.start_time or 0)
        known = {span.context.span_id for span in spans if span.context}

        def below(parent: int | None, depth: int) -> Iterator[str]:
            for span in spans:
                above = span.parent.span_id if span.parent else None
                remote = above is not None and above not in known
                if (above if not remote else None) == parent and span.context:
                    yield "  " * depth + ("^" if remote else "") + span.name
                    yield from below(span.context.span_id, depth + 1)

        return list(below(None, 0))

    def metrics(self) -> dict[str, list[Any]]:
        read = self._metrics.get_metrics_data()
        return {
            metric.name: list(metric.data.data_points)
            for resource in (read.resource_metrics if read else [])
            for scope in resource.scope_metrics
            for metric in scope.metrics
        }

    def everything(self) -> str:
        """All that left, as text: to look for what must not be in it."""
        records = "".join(each.to_json() for each in self._logs.get_finished_logs())
        read = self._metrics.get_metrics_data()
        return "".join(span.to_json() for span in self.spans) + records + (read.to_json() if read else "")


@contextmanager
def told(settings: Settings | None = None) -> Iterator[Told]:
    """Telemetry that is shut down at the end."""
    whole = Told(settings)
    try:
        yield whole
    finally:
        providers = whole.telemetry._providers
        assert providers is not None
        assert providers.stop(60)


def ticking(start_ns: int = 1_790_000_000_000_000_000, step_ns: int = 1_000_000_000) -> Callable[[], int]:
    """A clock that moves a second each time somebody looks."""
    now = start_ns

    def look() -> int:
        nonlocal now
        now += step_ns
        return now

    return look
