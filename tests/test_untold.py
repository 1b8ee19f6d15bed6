"""Nothing is recorded, nothing is forgotten to be left out."""

import inspect

from proxy.model_spans import ModelSpan
from proxy.telemetry import Telemetry
from proxy.traces import RequestTrace
from proxy.untold import UntoldModel, UntoldRequest

from . import sample_run as sample
from .span_tree import Settings

AGENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
INHERITED = {"trace_id", "headers", "begin"}


def test_every_way_to_tell_something_is_left_out() -> None:
    for told, untold in ((RequestTrace, UntoldRequest), (ModelSpan, UntoldModel)):
        public = {name for name, _ in inspect.getmembers(told) if not name.startswith("_")}

        assert public - set(vars(untold)) <= INHERITED


def test_the_agents_place_in_its_trace_goes_upstream_as_it_came() -> None:
    telemetry = Telemetry.from_environment(Settings(), environment={})
    trace = telemetry.request(sample.arrival({"Traceparent": AGENT, "tracestate": "a=b"}))
    span = trace.model_call(dialect=sample.dialect(), request=sample.request(), round_number=1, attempt=1)

    assert isinstance(trace, UntoldRequest)
    assert trace.trace_id == AGENT.split("-")[1]
    assert trace.belongs_to(sample.run(), is_new=True) == {}
    assert span.headers() == {"traceparent": AGENT}


def test_headers_that_name_no_trace_are_no_trace() -> None:
    telemetry = Telemetry.from_environment(Settings(), environment={})
    for headers in ({}, {"traceparent": "x"}):
        trace = telemetry.request(sample.arrival(headers))
        span = trace.model_call(dialect=sample.dialect(), request=sample.request(), round_number=1, attempt=1)

        assert trace.trace_id == ""
        assert span.headers() == {}
