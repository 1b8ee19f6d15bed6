"""The figures to watch (D13): which values, under which labels, and labels that stay few."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from proxy import semconv as name
from proxy.core.limits import Bounds, Limits
from proxy.core.runs import Outcome
from proxy.core.verdicts import Action, Mode
from proxy.figures import FewNames, Figures, budgets_left

from . import sample_run as sample


class Book:
    """What was recorded."""

    def __init__(self) -> None:
        self.lines: list[tuple[str, float, dict[str, Any]]] = []

    def __call__(self, instrument: str, value: float, labels: Mapping[str, object]) -> None:
        self.lines.append((instrument, value, dict(labels)))

    def of(self, instrument: str) -> list[tuple[float, dict[str, Any]]]:
        return [(value, labels) for name, value, labels in self.lines if name == instrument]


def answered(figures: Figures, **changes: Any) -> None:
    fields: dict[str, Any] = {"server": {}, "seconds": 1.5, "first_chunk": 0.25, "error": ""}
    turn = changes.pop("turn", sample.turn())
    figures.model_answered("openai", changes.pop("request", sample.request()), turn, **fields | changes)


def test_a_model_request_is_timed_and_its_tokens_counted_by_class() -> None:
    book = Book()
    answered(Figures(book), server={name.SERVER_ADDRESS: "models.example", name.SERVER_PORT: 443})

    labels = {
        name.OPERATION: "chat",
        name.PROVIDER: "openai",
        name.REQUEST_MODEL: "maple-1",
        name.RESPONSE_MODEL: "maple-1-2026",
        name.SERVER_ADDRESS: "models.example",
        name.SERVER_PORT: 443,
    }
    counted = labels | {name.TOKEN_MODALITY: "unknown"}
    assert book.lines == [
        ("gen_ai.client.inference.duration", 1.5, labels),
        ("gen_ai.client.operation.duration", 1.5, labels),
        ("gen_ai.client.inference.time_to_first_chunk", 0.25, labels),
        ("gen_ai.client.inference.usage.input_tokens", 200, counted),
        ("gen_ai.client.inference.usage.output_tokens", 30, counted),
        ("gen_ai.client.inference.usage.cache_read.input_tokens", 150, counted),
        ("gen_ai.client.inference.usage.cache_write.input_tokens", 10, counted),
        ("gen_ai.client.inference.usage.reasoning.output_tokens", 5, counted),
        ("gen_ai.client.inference.operation.input_tokens", 200, labels),
        ("gen_ai.client.inference.operation.output_tokens", 30, labels),
        ("gen_ai.client.token.usage", 200, labels | {name.TOKEN_TYPE: "input"}),
        ("gen_ai.client.token.usage", 30, labels | {name.TOKEN_TYPE: "output"}),
    ]


def test_older_names_can_be_left_out() -> None:
    book = Book()
    answered(Figures(book, compat=False))

    assert not book.of("gen_ai.client.operation.duration")
    assert not book.of("gen_ai.client.token.usage")


def test_a_request_whose_usage_never_came_counts_zero_tokens_of_unknown_kind() -> None:
    book = Book()
    answered(Figures(book), turn=sample.turn(usage=None))

    assert [value for value, _ in book.of("gen_ai.client.inference.usage.input_tokens")] == [0]
    assert not book.of("gen_ai.client.inference.operation.input_tokens")


def test_a_failed_request_is_timed_too() -> None:
    book = Book()
    answered(Figures(book), turn=None, error="429", first_chunk=None)

    ((seconds, labels),) = book.of("gen_ai.client.inference.duration")
    assert seconds == 1.5
    assert labels[name.ERROR_TYPE] == "429"


def test_a_model_that_no_provider_answered_for_never_becomes_a_label() -> None:
    book = Book()
    figures = Figures(book)
    answered(figures, request=sample.request(model="invented"), turn=None, error="404")
    answered(figures)
    answered(figures, turn=None, error="500")

    models = [labels[name.REQUEST_MODEL] for _, labels in book.of("gen_ai.client.inference.duration")]
    assert models == ["_OTHER", "maple-1", "maple-1"]


def test_labels_stay_few_whatever_names_come() -> None:
    book = Book()
    figures = Figures(book)
    for number in range(500):
        answered(figures, request=sample.request(model=f"m{number}"), turn=sample.turn(model=f"a{number}"))
        tool = f"tool{number}"
        figures.call_judged(sample.call(tool), [], refused=False, seconds=0, offered=[tool])
        figures.said([sample.verdict(f"code{number}", layer=f"l{number}", rule=f"r{number}")], "calls")
        figures.tool_returned(sample.step(tool=f"other{number}"))

    for label in (name.REQUEST_MODEL, name.TOOL_NAME, name.REASON, name.LAYER, name.RULE_ID):
        seen = {labels[label] for _, _, labels in book.lines if label in labels}
        assert len(seen) <= 201
        assert "_OTHER" in seen


def test_no_id_ever_becomes_a_label() -> None:
    book = Book()
    figures = Figures(book)
    run = sample.run(
        id="ID-run", label="ID-label", outcome=Outcome.DENIED, steps=(sample.step(call_id="ID-call"),)
    )
    call = sample.call(id="ID-call", arguments='{"id":"ID-argument"}')
    figures.request_ended("POST", "/v1/chat", 200, 1.0, "")
    answered(figures, request=sample.request(conversation="ID-c"), turn=sample.turn(id="ID-answer"))
    figures.call_judged(call, [sample.verdict()], refused=True, seconds=0.1, offered=["get_order"])
    figures.said([sample.verdict(message="ID-m", fields={"object": "ID-object"})], "calls")
    figures.run_started()
    figures.run_ended(run, Limits(), 1.0)
    figures.tool_returned(sample.step(call_id="ID-call", result="ID-result"))

    assert "ID-" not in repr(book.lines)


def test_a_tool_that_the_model_made_up_is_no_label() -> None:
    book = Book()
    Figures(book).call_judged(
        sample.call("made_up"), [sample.verdict()], refused=True, seconds=0, offered=["search"]
    )

    ((_, labels),) = book.of("callgate.decisions")
    assert labels == {
        name.DECISION: "deny",
        name.TOOL_NAME: "_OTHER",
        name.CHECK: "policy.tools",
        name.MODE: "enforce",
    }


def test_every_verdict_is_counted_with_check_rule_action_and_mode() -> None:
    """D13: wrong tools stopped, repeats."""
    book = Book()
    shadow = sample.verdict(
        "loop", check="progress.same_call", action=Action.FINISH, mode=Mode.SHADOW, layer="", rule=""
    )
    Figures(book).said([sample.verdict(), shadow], "calls")

    assert [labels for _, labels in book.of("callgate.verdicts")] == [
        {
            name.PHASE: "calls",
            name.CHECK: "policy.tools",
            name.REASON: "tool_not_allowed",
            name.ACTION: "reask",
            name.MODE: "enforce",
            name.LAYER: "org",
            name.RULE_ID: "allow_list",
        },
        {
            name.PHASE: "calls",
            name.CHECK: "progress.same_call",
            name.REASON: "loop",
            name.ACTION: "finish",
            name.MODE: "shadow",
        },
    ]


def test_ended_runs_show_what_they_took_and_what_was_left() -> None:
    """D13: runs ended within budget."""
    book = Book()
    limits = Limits(turn=Bounds(rounds=8), run=Bounds(calls=1, total_tokens=3400))
    Figures(book).run_ended(
        sample.run(outcome=Outcome.LIMIT_REACHED, outcome_detail="per_tool.x"), limits, 9.5
    )

    outcome = {name.OUTCOME: "limit_reached"}
    assert book.of("callgate.runs.ended") == [(1, outcome | {name.OUTCOME_DETAIL: "per_tool"})]
    assert book.of("callgate.run.rounds") == [(2, outcome)]
    assert book.of("callgate.run.calls") == [(1, outcome)]
    assert book.of("callgate.run.tokens") == [(340, outcome)]
    assert book.of("callgate.run.duration") == [(9.5, outcome)]
    assert [(value, *labels.values()) for value, labels in book.of("callgate.run.budget.left")] == [
        (0.75, "turn", "rounds"),
        (0.0, "run", "calls"),
        (0.9, "run", "total_tokens"),
    ]


def test_an_overdrawn_budget_has_nothing_left() -> None:
    run = sample.run()
    run = replace(run, turn_spent=replace(run.turn_spent, rounds=9))

    assert budgets_left(run, Limits(turn=Bounds(rounds=3))) == [("turn", "rounds", 0.0)]


def test_the_proxys_own_cost_is_timed() -> None:
    book = Book()
    figures = Figures(book)
    figures.calls_held(0.02)
    figures.engine_decided("calls", 0.001, "")
    figures.engine_decided("calls", 1.0, "policy_error")
    figures.store_answered("reserve", 0.002, "")
    figures.upstream_fault("openai", "upstream_timeout")
    figures.request_ended("BREW", "", 500, 1.0, "fault")

    assert [(instrument, labels) for instrument, _, labels in book.lines] == [
        ("callgate.gate.hold", {}),
        ("callgate.engine.duration", {name.PHASE: "calls"}),
        ("callgate.engine.duration", {name.PHASE: "calls", name.ERROR_TYPE: "policy_error"}),
        ("callgate.store.duration", {name.STORE_OPERATION: "reserve"}),
        ("callgate.upstream.faults", {name.PROVIDER: "openai", name.ERROR_TYPE: "upstream_timeout"}),
        (
            "http.server.request.duration",
            {
                name.HTTP_METHOD: "_OTHER",
                name.URL_SCHEME: "http",
                name.HTTP_STATUS: 500,
                name.ERROR_TYPE: "fault",
            },
        ),
    ]


def test_what_people_were_asked_is_counted_and_what_they_decided_is_timed() -> None:
    """D4, D13."""
    book = Book()
    figures = Figures(book)
    figures.approval_stands("pending", None)
    figures.approval_stands("approved", 90.0)

    assert book.lines == [
        ("callgate.approvals", 1, {name.APPROVAL_STATUS: "pending"}),
        ("callgate.approvals", 1, {name.APPROVAL_STATUS: "approved"}),
        ("callgate.approval.wait", 90.0, {name.APPROVAL_STATUS: "approved"}),
    ]


def test_without_a_reader_nothing_is_counted() -> None:
    figures = Figures(None)
    answered(figures)
    figures.call_judged(sample.call(), [], refused=False, seconds=0, offered=[])
    figures.run_ended(sample.run(), None, 1)

    assert not figures.on


def test_few_names_are_known_once_admitted() -> None:
    few = FewNames(2)

    assert few.label("a") == "_OTHER"
    assert [few.admit(text) for text in ("a", "b\u200b", "c", "a", "x" * 65)] == [
        *("a", r"b\u200b", "_OTHER", "a", "_OTHER")
    ]
    assert few.label("a") == "a"
