"""The CLIENT span of a model request: names, ends, tokens, content only on request (F4)."""

from typing import Any

import pytest
from opentelemetry.trace import SpanKind, StatusCode

from proxy import semconv as name
from proxy.core.messages import Problem
from proxy.model_spans import ModelSpan

from . import sample_run as sample
from .span_tree import Settings, Told, ticking, told


def model_call(whole: Told, **changes: Any) -> ModelSpan:
    trace = whole.request()
    trace.belongs_to(sample.run(), is_new=True)
    fields: dict[str, Any] = {
        "dialect": sample.dialect(),
        "request": sample.request(),
        "round_number": 2,
        "attempt": 1,
        "base_url": "http://127.0.0.1:9/v1",
    }
    return trace.model_call(**fields | changes)


def test_a_model_request_is_one_client_span_that_ends_with_the_answer() -> None:
    """A7: tokens per step."""
    with told() as whole:
        whole.telemetry._spans.now_ns = ticking()
        span = model_call(whole)
        span.first_chunk()
        span.first_chunk()
        span.finished(sample.turn(), 200)
        span.finished(None, 500)

        found = whole.span("chat maple-1")
        assert found.kind is SpanKind.CLIENT
        assert found.status.status_code is StatusCode.UNSET
        assert dict(found.attributes or {}) == {
            name.OPERATION: "chat",
            name.PROVIDER: "openai",
            name.REQUEST_MODEL: "maple-1",
            name.REQUEST_MAX_TOKENS: 100,
            name.REQUEST_STREAM: True,
            name.TOOL_DEFINITION_BYTES: 300,
            name.SERVER_ADDRESS: "127.0.0.1",
            name.SERVER_PORT: 9,
            name.DIALECT: "sample-chat",
            name.ROUND: 2,
            name.RUN: "run_1",
            name.SESSION: "run_1",
            name.TURN: 1,
            name.RESPONSE_ID: "chatcmpl-1",
            name.RESPONSE_MODEL: "maple-1-2026",
            name.RESPONSE_FINISH: ("stop",),
            name.RESPONSE_FIRST_CHUNK: 1.0,
            name.HTTP_STATUS: 200,
            name.USAGE_INPUT: 200,
            name.USAGE_OUTPUT: 30,
            name.USAGE_CACHE_READ: 150,
            name.USAGE_CACHE_WRITE: 10,
            name.USAGE_REASONING: 5,
        }


def test_a_further_try_says_so() -> None:
    with told() as whole:
        model_call(whole, attempt=3).finished(sample.turn(), 200)

        facts = whole.facts("chat maple-1")
        assert (facts[name.ATTEMPT], facts[name.HTTP_RESEND]) == (3, 2)


@pytest.mark.parametrize(
    ("turn", "status", "error", "told_as"),
    [
        (None, 0, "upstream_unreachable", "upstream_unreachable"),
        (None, 429, "", "429"),
        (sample.turn(error=Problem(529, "overloaded_error", "busy")), 200, "", "overloaded_error"),
        (sample.turn(finish=()), 200, "upstream_broke_off", "upstream_broke_off"),
    ],
)
def test_a_failure_is_an_error_with_its_type(turn: Any, status: int, error: str, told_as: str) -> None:
    with told() as whole:
        model_call(whole).finished(turn, status, error)

        span = whole.span("chat maple-1")
        assert span.status.status_code is StatusCode.ERROR
        assert whole.facts("chat maple-1")[name.ERROR_TYPE] == told_as
        (fault,) = whole.metrics()["callgate.upstream.faults"]
        assert fault.attributes == {name.PROVIDER: "openai", name.ERROR_TYPE: told_as}


def test_an_answer_that_nobody_waited_for_is_no_error_but_has_no_finish() -> None:
    """The client hung up."""
    with told() as whole:
        model_call(whole).abandoned(sample.turn(finish=("stop",)))

        span = whole.span("chat maple-1")
        assert span.status.status_code is StatusCode.UNSET
        facts = whole.facts("chat maple-1")
        assert facts[name.RESPONSE_FINISH] == ("error",)
        assert facts[name.USAGE_INPUT] == 200
        assert name.ERROR_TYPE not in facts
        (point,) = whole.metrics()["gen_ai.client.inference.duration"]
        assert point.attributes[name.ERROR_TYPE] == "cancelled"


def test_the_time_to_the_first_chunk_is_a_matter_of_streams() -> None:
    with told() as whole:
        span = model_call(whole, request=sample.request(stream=False))
        span.first_chunk()
        span.finished(sample.turn(), 200)

        assert name.RESPONSE_FIRST_CHUNK not in whole.facts("chat maple-1")


def test_its_own_place_in_the_trace_goes_upstream_and_nothing_else_of_the_agent() -> None:
    with told() as whole:
        trace = whole.request(
            {
                "traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
                "tracestate": "vendor=CANARY",
                "baggage": "user=CANARY",
            }
        )
        trace.belongs_to(sample.run(), is_new=True)
        span = trace.model_call(dialect=sample.dialect(), request=sample.request(), round_number=1, attempt=1)
        headers = span.headers()
        span.finished(sample.turn(), 200)

        context = whole.span("chat maple-1").context
        assert context is not None
        assert headers == {"traceparent": f"00-0af7651916cd43dd8448eb211c80319c-{context.span_id:016x}-01"}


def test_content_is_on_spans_only_where_it_was_asked_for() -> None:
    for capture in (False, True):
        with told(Settings(capture_content=capture)) as whole:
            model_call(whole).finished(sample.turn(), 200)

            facts = whole.facts("chat maple-1")
            assert ("CANARY-QUESTION" in str(facts.get(name.INPUT_MESSAGES))) is capture
            assert ("CANARY-ANSWER" in str(facts.get(name.OUTPUT_MESSAGES))) is capture


def test_older_names_are_used_where_viewers_need_them() -> None:
    with told(Settings(semconv="1.41")) as whole:
        model_call(whole).finished(sample.turn(), 200)

        facts = whole.facts("chat maple-1")
        assert facts[name.USAGE_CACHE_WRITE_OLDER] == 10
        assert name.USAGE_CACHE_WRITE not in facts
