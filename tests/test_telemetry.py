"""OpenTelemetry as its own variables configure it: on the wire, off, and with a collector that is down or hangs (F4)."""

import asyncio
import json
import os
import socket
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from opentelemetry.metrics import get_meter_provider
from opentelemetry.trace import get_tracer_provider

from proxy import settings
from proxy.telemetry import Telemetry

from . import sample_run as sample
from .otlp_receiver import collector, values
from .span_tree import Settings, told
from .telling_process import tell_a_run

ROOT = Path(__file__).parent.parent
FAR_TOO_LONG = 10.0
"""Seconds. The SDK's own stop takes 20 to 31 when a collector is down."""
AGENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def tell(**variables: str) -> tuple[dict[str, Any], str]:
    """A run told in a process with these variables: what it measured, and what it logged."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith("OTEL_")}
    done = subprocess.run(
        [sys.executable, "-W", "error", "-m", "tests.telling_process"],
        cwd=ROOT,
        env=kept | variables,
        capture_output=True,
        text=True,
        timeout=2 * FAR_TOO_LONG,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1]), done.stderr


def test_a_whole_run_arrives_at_a_collector_as_one_tree() -> None:
    """F4: any OTLP backend. B6, D13."""
    with collector() as there:
        tell(OTEL_EXPORTER_OTLP_ENDPOINT=there.url, OTEL_EXPORTER_OTLP_COMPRESSION="gzip")

    by_id = {span.span_id: span for span in there.spans}

    def path(span: Any) -> str:
        above = path(by_id[span.parent_span_id]) + " / " if span.parent_span_id else ""
        return f"{above}{span.name}"

    assert len({span.trace_id for span in there.spans}) == 1
    assert Counter(path(span) for span in there.spans) == Counter(
        [
            "POST /v1/chat",
            "POST /v1/chat / chat maple-1",
            "POST /v1/chat / guard tool_call get_order",
            "POST /v1/chat / guard tool_call delete_all",
            "POST /v1/chat / execute_tool get_order",
            "POST /v1/chat / POST /v1/chat",
            "POST /v1/chat / POST /v1/chat / chat maple-1",
        ]
    )
    (guard,) = [span for span in there.spans if span.name == "guard tool_call delete_all"]
    assert values(guard.attributes)["callgate.decision"] == "deny"
    assert there.resource["service.name"] == "callgate"
    assert there.resource["service.version"]
    assert there.resource["service.instance.id"]
    assert {event.event_name for event in there.events} == {
        "callgate.decision",
        "callgate.tool.result",
        "callgate.run.ended",
    }
    assert {
        "callgate.decisions",
        "callgate.runs.ended",
        "gen_ai.client.inference.duration",
        "gen_ai.client.token.usage",
        "otel.sdk.processor.span.processed",
    } <= there.metric_names
    assert "CANARY" not in repr((there.traces, there.metrics, there.logs))


def test_the_sdks_own_variables_all_count() -> None:
    with collector() as there:
        measured, _ = tell(
            OTEL_TRACES_EXPORTER="otlp",
            OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=f"{there.url}/v1/traces",
            OTEL_EXPORTER_OTLP_HEADERS="x-team=a",
            OTEL_SERVICE_NAME="guard",
            OTEL_RESOURCE_ATTRIBUTES="deployment.environment.name=test,service.instance.id=me",
            OTEL_SPAN_ATTRIBUTE_VALUE_LENGTH_LIMIT="8",
        )

    assert there.resource["service.name"] == "guard"
    assert there.resource["deployment.environment.name"] == "test"
    assert there.resource["service.instance.id"] == "me"
    assert {headers["x-team"] for headers in there.headers} == {"a"}
    guard = next(span for span in there.spans if span.name == "guard tool_call delete_all")
    assert values(guard.attributes)["security_rule.name"] == "allow_li"
    assert not there.metrics
    assert not measured["on"], "nobody reads metrics, so none are recorded"


def test_what_is_sampled_out_does_not_leave_but_refusals_and_figures_do() -> None:
    with collector() as there:
        tell(OTEL_EXPORTER_OTLP_ENDPOINT=there.url, OTEL_TRACES_SAMPLER="always_off")

    assert not there.spans
    assert "callgate.decision" in {event.event_name for event in there.events}
    assert "callgate.decisions" in there.metric_names


def test_without_a_variable_that_says_where_to_nothing_is_recorded_or_sent() -> None:
    before = get_tracer_provider(), get_meter_provider()
    telemetry = Telemetry.from_environment(Settings(), environment={"OTEL_SERVICE_NAME": "x"})
    tell_a_run(telemetry)
    trace = telemetry.request(sample.arrival())
    assert trace.belongs_to(sample.run(), is_new=True) == {}
    asyncio.run(telemetry.close())

    assert telemetry._providers is None
    assert not telemetry._spans.figures.on
    assert (get_tracer_provider(), get_meter_provider()) == before


def test_an_agents_trace_goes_upstream_even_where_nothing_is_recorded() -> None:
    telemetry = Telemetry.from_environment(Settings(), environment={})
    trace = telemetry.request(sample.arrival({"traceparent": AGENT, "tracestate": "a=b"}))
    trace.belongs_to(sample.run(), is_new=True)
    span = trace.model_call(dialect=sample.dialect(), request=sample.request(), round_number=1, attempt=1)

    assert span.headers() == {"traceparent": AGENT}
    assert trace.trace_id == AGENT.split("-")[1]


def test_the_sdk_can_be_switched_off_by_its_own_variable() -> None:
    with collector() as there:
        measured, _ = tell(OTEL_EXPORTER_OTLP_ENDPOINT=there.url, OTEL_SDK_DISABLED="true")

    assert not measured["on"]
    assert not there.headers


def test_variables_that_cannot_be_used_leave_telemetry_off_and_say_so() -> None:
    measured, logged = tell(OTEL_TRACES_EXPORTER="no_such_exporter")

    assert not measured["on"]
    assert "telemetry is off: the OTEL_* variables cannot be used" in logged
    assert "no_such_exporter" in logged


def test_a_collector_that_is_down_costs_requests_nothing_and_the_end_little() -> None:
    """C035: refused connections."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    measured, _ = tell(OTEL_EXPORTER_OTLP_ENDPOINT=f"http://127.0.0.1:{port}", RUNS="300")

    assert measured["telling"] < FAR_TOO_LONG
    assert measured["closing"] < FAR_TOO_LONG


def test_a_collector_that_never_answers_costs_requests_nothing_and_the_end_little() -> None:
    """C035: it accepts and hangs."""
    with socket.create_server(("127.0.0.1", 0), backlog=64) as silent:
        port = silent.getsockname()[1]
        measured, _ = tell(OTEL_EXPORTER_OTLP_ENDPOINT=f"http://127.0.0.1:{port}", RUNS="300")

    assert measured["telling"] < FAR_TOO_LONG
    assert measured["closing"] < FAR_TOO_LONG


def test_the_settings_fit_and_say_what_is_captured() -> None:
    with told() as whole:
        assert whole.telemetry._spans.redactor is None
    capturing = {"OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT": "SPAN_ONLY"}

    plain = Telemetry.from_environment(settings.Telemetry(), environment={})
    asked = Telemetry.from_environment(settings.Telemetry(), environment=capturing)
    configured = Telemetry.from_environment(settings.Telemetry(capture_content=True), environment={})

    assert plain._spans.redactor is None
    assert asked._spans.redactor is not None
    assert configured._spans.redactor is not None


def test_older_metric_names_can_be_left_out() -> None:
    for compat in (True, False):
        with told(Settings(metrics_compat=compat)) as whole:
            tell_a_run(whole.telemetry)

            assert ("gen_ai.client.operation.duration" in whole.metrics()) is compat


def test_approvals_are_counted() -> None:
    with told() as whole:
        whole.telemetry.approval_stands("rejected", 30.0)

        metrics = whole.metrics()
        assert [point.value for point in metrics["callgate.approvals"]] == [1]
        assert [point.sum for point in metrics["callgate.approval.wait"]] == [30.0]


def test_engine_and_store_are_timed() -> None:
    with told() as whole:
        whole.telemetry.engine_decided("calls", 0.25)
        whole.telemetry.store_answered("reserve", 0.5, "state_unavailable")

        metrics = whole.metrics()
        assert [point.sum for point in metrics["callgate.engine.duration"]] == [0.25]
        assert [point.sum for point in metrics["callgate.store.duration"]] == [0.5]


def test_closing_twice_is_fine() -> None:
    with told() as whole:
        kept = whole.telemetry._providers
        asyncio.run(whole.telemetry.close(60))
        asyncio.run(whole.telemetry.close(60))
        whole.telemetry._providers = kept
