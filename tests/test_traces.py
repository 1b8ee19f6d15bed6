"""The tree of one request and of one run: what hangs below what, what is told, what never is (F4)."""

import logging
from collections.abc import Iterator
from typing import Any

import pytest
from opentelemetry.trace import SpanKind, StatusCode

from proxy import semconv as name
from proxy.core.limits import Bounds, Limits
from proxy.core.results import StepStatus
from proxy.core.runs import Identity, Outcome, Run
from proxy.core.verdicts import Action, Mode
from proxy.dialects import Route
from proxy.traces import RequestTrace, route_of

from . import sample_run as sample
from .span_tree import Settings, Told, told

AGENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
AGENT_TRACE = "0af7651916cd43dd8448eb211c80319c"


@pytest.fixture
def whole() -> Iterator[Told]:
    with told() as whole:
        yield whole


def model_answers(trace: RequestTrace, **changes: Any) -> None:
    span = trace.model_call(dialect=sample.dialect(), request=sample.request(), round_number=1, attempt=1)
    span.finished(sample.turn(**changes), 200)


def judged(trace: RequestTrace, whole: Told, call: Any, *verdicts: Any, enforced: bool = False) -> None:
    action = verdicts[0].action if verdicts and verdicts[0].mode is Mode.ENFORCE else Action.PASS
    trace.decision(
        call,
        verdicts,
        action,
        enforced=enforced,
        started_ns=whole.telemetry._spans.now_ns(),
        policy_revision="rev1",
        step_number=4,
    )


def first_request(whole: Told, run: Run, headers: dict[str, str] | None = None) -> Run:
    """A request in which one call is released and one refused; the run as it is kept afterwards."""
    trace = whole.request(headers)
    carrier = trace.belongs_to(run, is_new=True)
    model_answers(trace, calls=(sample.call(), sample.call("delete_all", id="call_2")))
    judged(trace, whole, sample.call())
    judged(trace, whole, sample.call("delete_all", id="call_2"), sample.verdict(call=1), enforced=True)
    trace.finish(200)
    return sample.run(trace=carrier)


def second_request(whole: Told, run: Run, headers: dict[str, str] | None = None) -> None:
    """The result of the released call comes; the run ends."""
    trace = whole.request(headers)
    trace.belongs_to(run, is_new=False)
    trace.tool_result(sample.step(), run)
    model_answers(trace)
    trace.run_ended(sample.run(outcome=Outcome.COMPLETED))
    trace.finish(200)


def trace_ids(whole: Told) -> set[str]:
    return {f"{span.context.trace_id:032x}" for span in whole.spans if span.context}


def test_a_run_of_an_agent_that_traces_nothing_is_one_trace_below_its_first_request(whole: Told) -> None:
    """B6: the whole run can be read from one trace, refused calls included."""
    second_request(whole, first_request(whole, sample.run()))

    assert len(trace_ids(whole)) == 1
    tree = whole.tree()
    assert tree[0] == "POST /v1/chat"
    assert sorted(tree[1:]) == sorted(
        [
            "  chat maple-1",
            "  guard tool_call get_order",
            "  guard tool_call delete_all",
            "  execute_tool get_order",
            "  POST /v1/chat",
            "    chat maple-1",
        ]
    )
    first = next(span for span in whole.spans if span.name == "POST /v1/chat" and span.parent is None)
    assert first.kind is SpanKind.SERVER


def test_an_agent_that_traces_itself_keeps_its_trace_and_its_own_tool_spans(whole: Told) -> None:
    """F4: the agent's trace context is continued."""
    run = first_request(whole, sample.run(), {"Traceparent": AGENT})
    second_request(whole, run, {"traceparent": AGENT})

    assert trace_ids(whole) == {AGENT_TRACE}
    assert [line for line in whole.tree() if line.startswith("^")] == ["^POST /v1/chat"] * 2
    assert not [span for span in whole.spans if span.name.startswith("execute_tool")]


def test_requests_of_a_run_can_have_a_trace_each_and_are_linked() -> None:
    with told(Settings(run_trace=False)) as whole:
        second_request(whole, first_request(whole, sample.run()))

        assert len(trace_ids(whole)) == 2
        links = [dict(link.attributes or {}) for span in whole.spans for link in span.links]
        assert {name.LINK: "first_request"} in links


def test_a_request_of_another_trace_is_linked_to_the_run(whole: Told) -> None:
    run = first_request(whole, sample.run())
    second_request(whole, run, {"traceparent": AGENT})

    later = next(
        span for span in whole.spans if span.context and span.context.trace_id == int(AGENT_TRACE, 16)
    )
    assert len(trace_ids(whole)) == 2
    assert {f"{link.context.trace_id:032x}" for span in whole.spans for link in span.links} <= trace_ids(
        whole
    )
    assert later.context is not None


def test_a_run_that_another_replica_began_goes_on_in_its_trace(whole: Told) -> None:
    with told() as other:
        run = first_request(other, sample.run())
    second_request(whole, run)

    assert trace_ids(whole) == {run.trace["traceparent"].split("-")[1]}
    assert "  execute_tool get_order" in whole.tree()


def test_the_server_span_begins_when_the_request_arrived(whole: Told) -> None:
    trace = whole.request({"user-agent": "agent/1"})
    model = trace.model_call(dialect=sample.dialect(), request=sample.request(), round_number=1, attempt=1)
    model.finished(sample.turn(), 200)
    trace.finish(200)

    server, client = whole.span("POST /v1/chat"), whole.span("chat maple-1")
    assert server.start_time is not None
    assert client.start_time is not None
    assert server.end_time is not None
    assert client.end_time is not None
    assert server.start_time <= client.start_time
    assert client.end_time <= server.end_time
    assert whole.facts("POST /v1/chat") == {
        name.HTTP_METHOD: "POST",
        name.URL_PATH: "/v1/chat",
        name.URL_SCHEME: "http",
        name.HTTP_ROUTE: "/v1/chat",
        name.PEER: "127.0.0.1",
        name.USER_AGENT: "agent/1",
        name.HTTP_STATUS: 200,
    }


def test_the_agents_trace_id_can_tell_runs_apart(whole: Told) -> None:
    assert whole.request({"traceparent": AGENT}).trace_id == AGENT_TRACE
    assert whole.request().trace_id == ""
    assert whole.request({"traceparent": "00-zz-zz-01"}).trace_id == ""
    assert whole.request({"traceparent": "00-" + "0" * 32 + "-" + "0" * 16 + "-01"}).trace_id == ""


def test_a_call_that_was_allowed_or_refused_is_a_guardrail_to_viewers(whole: Told) -> None:
    """D5: refused calls are on record."""
    first_request(whole, sample.run())

    allowed, refused = whole.facts("guard tool_call get_order"), whole.facts("guard tool_call delete_all")
    assert allowed[name.SPAN_KIND] == refused[name.SPAN_KIND] == "GUARDRAIL"
    assert (allowed[name.DECISION], refused[name.DECISION]) == ("allow", "deny")
    assert (refused[name.REASON], refused[name.RULE_NAME], refused[name.RULE_SET]) == (
        "tool_not_allowed",
        "allow_list",
        "org",
    )
    assert refused[name.STEP] == 4
    assert refused[name.TOOL_CALL_ID] == "call_2"
    assert refused[name.RUN] == refused[name.SESSION] == "run_1"
    assert name.OPERATION not in refused, "a denied call must not look like an executed tool"
    assert whole.span("guard tool_call delete_all").status.status_code is StatusCode.UNSET


def test_refusals_are_events_even_where_the_agent_switched_its_trace_off(whole: Told) -> None:
    """What was refused does not depend on sampling."""
    first_request(whole, sample.run(), {"traceparent": AGENT[:-2] + "00"})

    assert not whole.spans
    (event,) = whole.events("callgate.decision")
    assert event.attributes[name.TOOL_NAME] == "delete_all"
    assert f"{event.trace_id:032x}" == AGENT_TRACE
    decisions = whole.metrics()["callgate.decisions"]
    assert sorted(point.attributes[name.DECISION] for point in decisions) == ["allow", "deny"]


def test_a_shadow_verdict_is_told_as_what_would_have_been(whole: Told) -> None:
    trace = whole.request()
    trace.belongs_to(sample.run(), is_new=True)
    judged(trace, whole, sample.call(), sample.verdict(mode=Mode.SHADOW))

    facts = whole.facts("guard tool_call get_order")
    assert (facts[name.DECISION], facts[name.ENFORCED], facts[name.MODE]) == ("deny", False, "shadow")
    assert not whole.events("callgate.decision")


def test_a_verdict_about_the_whole_turn_is_counted_once(whole: Told) -> None:
    trace = whole.request()
    about_all = sample.verdict(call=None)
    judged(trace, whole, sample.call(), about_all, enforced=True)
    judged(trace, whole, sample.call(id="call_2"), about_all, sample.verdict("other", call=1), enforced=True)

    points = whole.metrics()["callgate.verdicts"]
    assert {point.attributes[name.REASON]: point.value for point in points} == {
        "tool_not_allowed": 1,
        "other": 1,
    }


def test_a_request_decision_is_a_span_only_if_something_acted(whole: Told) -> None:
    """B6: the over-limit path can be read from the trace."""
    trace = whole.request()
    trace.request_decision([], Action.PASS)
    trace.request_decision([sample.verdict(mode=Mode.SHADOW, call=None)], Action.PASS)
    assert not whole.spans

    limit = sample.verdict(
        "rounds", check="budget.rounds", action=Action.FINISH, call=None, reason_class="budget"
    )
    trace.request_decision([limit], Action.FINISH, "rev1")

    facts = whole.facts("guard request")
    assert (facts[name.ACTION], facts[name.CHECK], facts[name.PHASE]) == (
        "finish",
        "budget.rounds",
        "request",
    )
    assert sum(point.value for point in whole.metrics()["callgate.verdicts"]) == 2


def test_a_result_is_a_link_to_its_decision_and_an_event(whole: Told) -> None:
    """B4: each execution is an event with round, name and time."""
    run = first_request(whole, sample.run(), {"traceparent": AGENT})
    second_request(whole, run, {"traceparent": AGENT})

    decision = whole.span("guard tool_call get_order").context
    (link,) = [
        link
        for span in whole.spans
        for link in span.links
        if link.attributes and link.attributes[name.LINK] == "tool_result"
    ]
    assert decision is not None
    assert link.context.span_id == decision.span_id
    assert link.attributes is not None
    assert link.attributes[name.TOOL_STATUS] == "found"
    (event,) = whole.events("callgate.tool.result")
    assert event.attributes[name.TOOL_WAIT] == 2.5
    assert (event.attributes[name.TOOL_NAME], event.attributes[name.ROUND]) == ("get_order", 1)
    (trip,) = whole.metrics()["callgate.tool.round_trip.duration"]
    assert trip.sum == 2.5


def test_a_made_up_tool_span_says_that_it_was_seen_from_the_proxy(whole: Told) -> None:
    """Its tool timed out."""
    run = first_request(whole, sample.run())
    trace = whole.request()
    trace.belongs_to(run, is_new=False)
    trace.tool_result(sample.step(status=StepStatus.TEMPORARILY_UNAVAILABLE), run)
    trace.finish(200)

    span, facts = whole.span("execute_tool get_order"), whole.facts("execute_tool get_order")
    assert facts[name.TOOL_TIMING] == "observed_by_proxy"
    assert facts[name.OPERATION] == "execute_tool"
    assert facts[name.ERROR_TYPE] == "temporarily_unavailable"
    assert span.status.status_code is StatusCode.ERROR
    assert span.end_time is not None
    assert span.start_time is not None
    assert span.end_time - span.start_time == 2_500_000_000


@pytest.mark.parametrize(
    ("tool_spans", "headers", "made"), [("always", {"traceparent": AGENT}, 1), ("never", {}, 0)]
)
def test_tool_spans_can_be_asked_for_or_left_out(tool_spans: str, headers: dict[str, str], made: int) -> None:
    with told(Settings(tool_spans=tool_spans)) as whole:
        second_request(whole, first_request(whole, sample.run(), headers), headers)

        assert sum(span.name.startswith("execute_tool") for span in whole.spans) == made


def test_a_result_without_times_makes_no_tool_span(whole: Told) -> None:
    trace = whole.request()
    trace.tool_result(sample.step(released_at=0.0), sample.run())

    assert not whole.spans
    assert whole.events("callgate.tool.result")


def test_the_end_of_a_run_is_on_its_last_request_and_an_event(whole: Told) -> None:
    """B6, E8: rounds and outcome can be verified from the trace."""
    trace = whole.request()
    run = sample.run(outcome=Outcome.LIMIT_REACHED, outcome_detail="turn.rounds")
    trace.belongs_to(run, is_new=True)
    trace.run_ended(run, Limits(turn=Bounds(rounds=2)))
    trace.run_ended(run)
    trace.finish(200)

    facts = whole.facts("POST /v1/chat")
    assert (facts[name.OUTCOME], facts[name.OUTCOME_DETAIL], facts[name.RUN_ROUNDS]) == (
        "limit_reached",
        "turn.rounds",
        2,
    )
    (event,) = whole.events("callgate.run.ended")
    assert event.severity_number is not None
    assert event.severity_number.name == "WARN"
    metrics = whole.metrics()
    assert [point.value for point in metrics["callgate.runs.ended"]] == [1]
    assert [point.value for point in metrics["callgate.runs.started"]] == [1]
    assert [point.sum for point in metrics["callgate.run.budget.left"]] == [0]


def test_a_refusal_is_no_fault_of_the_server_and_a_fault_is(whole: Told) -> None:
    for path, status, error in (
        ("/v1/chat", 403, "budget_exhausted"),
        ("/x", 503, "policy_error"),
        ("/y", 500, ""),
    ):
        trace = whole.request(path=path)
        trace.finish(status, error)
        trace.finish(200)

    refused, down, unknown = whole.spans
    assert refused.status.status_code is StatusCode.UNSET
    assert name.ERROR_TYPE not in (refused.attributes or {})
    assert down.status.status_code is unknown.status.status_code is StatusCode.ERROR
    assert (down.attributes or {})[name.ERROR_TYPE] == "policy_error"
    assert (unknown.attributes or {})[name.ERROR_TYPE] == "500"
    assert down.name == "POST", "a path that is no route is no span name"


def test_a_request_ends_no_sooner_than_its_last_model_request(whole: Told) -> None:
    trace = whole.request()
    model = trace.model_call(dialect=sample.dialect(), request=sample.request(), round_number=1, attempt=1)
    trace.finish(200)
    assert not whole.spans

    model.finished(sample.turn(), 200)

    assert [span.name for span in whole.spans] == ["chat maple-1", "POST /v1/chat"]


def test_a_request_that_was_let_go_of_without_an_end_has_ended(whole: Told) -> None:
    """The client hung up."""
    trace = whole.request()
    model = trace.model_call(dialect=sample.dialect(), request=sample.request(), round_number=1, attempt=1)
    model.abandoned()
    del trace, model

    assert [span.name for span in whole.spans] == ["chat maple-1", "POST /v1/chat"]
    assert whole.facts("POST /v1/chat")[name.ERROR_TYPE] == "cancelled"
    (point,) = whole.metrics()["http.server.request.duration"]
    assert (point.attributes[name.HTTP_STATUS], point.attributes[name.ERROR_TYPE]) == (499, "cancelled")


def test_organisation_team_and_agent_are_told_and_hold_time_is_counted(whole: Told) -> None:
    trace = whole.request()
    trace.identified(Identity("k", "acme", "support", "helper", user="CANARY"))
    trace.calls_held(0.5)
    trace.finish(200)

    assert whole.facts("POST /v1/chat")[name.TEAM] == "support"
    assert [point.sum for point in whole.metrics()["callgate.gate.hold"]] == [0.5]


@pytest.mark.parametrize("capture", [False, True])
def test_arguments_texts_and_results_never_leave_unless_asked_for(capture: bool) -> None:
    """B4: canaries in everything that a span could take along; secrets stay out even where content is captured."""
    with told(Settings(capture_content=capture)) as whole:
        call = sample.call(arguments='{"q":"CANARY-ARGUMENT","password":"HIDDEN"}')
        trace = whole.request(
            {"authorization": "Bearer HIDDEN", "baggage": "user=HIDDEN"}, "/v1/chat?key=HIDDEN"
        )
        run = sample.run(stop_report="HIDDEN")
        trace.belongs_to(run, is_new=True)
        trace.identified(Identity("k", user="HIDDEN", claims={"x": "HIDDEN"}))
        model_answers(trace, calls=(call,))
        verdict = sample.verdict(message="HIDDEN", fields={"object": "HIDDEN"}, call=0)
        judged(trace, whole, call, verdict, enforced=True)
        trace.request_decision([verdict], Action.FINISH)
        step = sample.step(arguments=call.arguments, result='{"text":"CANARY-RESULT","token":"HIDDEN"}')
        trace.tool_result(step, run)
        trace.run_ended(run)
        trace.finish(200)

        text = whole.everything()
        assert "HIDDEN" not in text
        for canary in ("CANARY-QUESTION", "CANARY-ANSWER", "CANARY-ARGUMENT", "CANARY-RESULT"):
            assert (canary in text) is capture


def test_hostile_names_leave_escaped(whole: Told) -> None:
    """C025."""
    trace = whole.request({"user-agent": "x\ud800"})
    trace.belongs_to(sample.run(), is_new=True)
    judged(trace, whole, sample.call("s\u0435arch\u200b\ud800\n" + "x" * 500), enforced=True)
    trace.finish(200)

    whole.everything().encode("utf-8")
    (title,) = [span.name for span in whole.spans if span.name.startswith("guard")]
    assert title.startswith(r"guard tool_call s\u0435arch\u200b\ud800\n")
    assert len(title) <= len("guard tool_call ") + 64


class Broken:
    """A tracer whose every call fails."""

    def __getattr__(self, called: str) -> Any:
        raise RuntimeError(called)


def test_whatever_fails_in_telemetry_the_request_goes_on(
    whole: Told, caplog: pytest.LogCaptureFixture
) -> None:
    """Design: telemetry never raises into the gate."""
    spans = whole.telemetry._spans
    working, spans.tracing, spans.figures = (spans.tracing, spans.figures), Broken(), Broken()  # type: ignore[assignment]  # that is the point
    trace = whole.request({"traceparent": AGENT})
    run = sample.run()

    assert trace.trace_id == ""
    assert trace.belongs_to(run, is_new=True) == {}
    trace.identified(Identity())
    model = trace.model_call(dialect=sample.dialect(), request=sample.request(), round_number=1, attempt=1)
    assert model.headers() == {}
    model.first_chunk()
    model.finished(sample.turn(), 200)
    judged(trace, whole, sample.call())
    trace.request_decision([sample.verdict()], Action.DENY)
    trace.calls_held(1)
    trace.tool_result(sample.step(), run)
    trace.run_ended(run)
    trace.finish(200)
    whole.telemetry.engine_decided("calls", 0.1)
    whole.telemetry.store_answered("find", 0.1)

    assert all(record.levelno == logging.ERROR for record in caplog.records)
    spans.tracing, spans.figures = working


@pytest.mark.parametrize(
    ("method", "path", "route"),
    [
        ("POST", "/v1/chat", "/v1/chat"),
        ("POST", "/v1/chat?x=/v1/other", "/v1/chat"),
        ("GET", "/v1/chat", ""),
        ("POST", "/v1/models/maple-1:generate", "/v1/models/{model}:generate"),
        ("POST", "/v1/models/a/b:generate", ""),
        ("POST", "/v1/models/maple-1:other", ""),
    ],
)
def test_the_route_is_the_dialects_own_template(method: str, path: str, route: str) -> None:
    routes = (Route("POST", "/v1/chat"), Route("POST", "/v1/models/{model}:generate"))

    assert route_of(routes, method, path) == route
