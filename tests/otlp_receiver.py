"""A collector for tests: OTLP over HTTP on loopback, decoded with the official protobuf messages."""

import gzip
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest


class Collector(ThreadingHTTPServer):
    """What arrived, decoded."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Call)
        self.traces: list[ExportTraceServiceRequest] = []
        self.metrics: list[ExportMetricsServiceRequest] = []
        self.logs: list[ExportLogsServiceRequest] = []
        self.headers: list[dict[str, str]] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    @property
    def spans(self) -> list[Any]:
        return [
            span
            for each in self.traces
            for part in each.resource_spans
            for scope in part.scope_spans
            for span in scope.spans
        ]

    @property
    def resource(self) -> dict[str, Any]:
        return values(self.traces[0].resource_spans[0].resource.attributes)

    @property
    def metric_names(self) -> set[str]:
        return {
            metric.name
            for each in self.metrics
            for part in each.resource_metrics
            for scope in part.scope_metrics
            for metric in scope.metrics
        }

    @property
    def events(self) -> list[Any]:
        return [
            record
            for each in self.logs
            for part in each.resource_logs
            for scope in part.scope_logs
            for record in scope.log_records
        ]


class _Call(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        if self.headers.get("content-encoding") == "gzip":
            body = gzip.decompress(body)
        collector = self.server
        assert isinstance(collector, Collector)
        collector.headers.append({key.lower(): value for key, value in self.headers.items()})
        kept: dict[str, tuple[Any, list[Any]]] = {
            "/v1/traces": (ExportTraceServiceRequest, collector.traces),
            "/v1/metrics": (ExportMetricsServiceRequest, collector.metrics),
            "/v1/logs": (ExportLogsServiceRequest, collector.logs),
        }
        message, where = kept[self.path]
        where.append(message.FromString(body))
        self.send_response(200)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class names it so
        pass


def values(attributes: Any) -> dict[str, Any]:
    """Attributes of a protobuf message as a dict."""
    return {
        each.key: getattr(each.value, each.value.WhichOneof("value") or "string_value") for each in attributes
    }


@contextmanager
def collector() -> Iterator[Collector]:
    """A collector that listens."""
    with Collector() as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()
