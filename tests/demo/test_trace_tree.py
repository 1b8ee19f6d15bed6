"""Spans as a tree: real ones of OpenTelemetry, and lines that tell what matters."""

import io
import re
from typing import Any

from rich.console import Console

from proxy import semconv as name
from proxy.demo.trace_tree import TracedSpan, traced, trees
from tests.span_tree import told


def span(title: str, number: int, parent: int | None = None, **attributes: Any) -> TracedSpan:
    facts = {key.replace("_", "."): value for key, value in attributes.items()}
    return TracedSpan(
        title, number, parent, number * 1_000_000, number * 1_000_000 + 2_500_000, facts, failed=False
    )


def drawn(*spans: TracedSpan) -> str:
    out = Console(file=io.StringIO(), width=100)
    for tree in trees(spans):
        out.print(tree)
    assert isinstance(out.file, io.StringIO)
    return out.file.getvalue()


def test_spans_hang_below_their_parents_in_the_order_in_which_they_began() -> None:
    text = drawn(span("b", 3, 1), span("c", 4, 3), span("a", 2, 1), span("root", 1))

    lines = [re.split(r"  \d", line)[0].strip("│├└─ ") for line in text.splitlines()]
    assert lines == ["root", "a", "b", "c"]
    assert "2.5 ms" in text


def test_a_span_below_a_foreign_one_begins_a_tree() -> None:
    assert len(list(trees([span("root", 1, 99), span("other", 2)]))) == 2


def test_a_line_tells_what_was_decided_what_it_cost_and_how_the_run_ended() -> None:
    text = drawn(
        TracedSpan(
            "guard",
            1,
            None,
            0,
            1,
            {name.DECISION: "deny", name.REASON: "argument_rule", name.RULE_ID: "org:x"},
            failed=False,
        ),
        TracedSpan(
            "chat",
            2,
            None,
            0,
            1,
            {name.REQUEST_MODEL: "m", name.USAGE_INPUT: 7, name.USAGE_OUTPUT: 3},
            failed=True,
        ),
        TracedSpan("tool", 3, None, 0, 1, {name.TOOL_STATUS: "found"}, failed=False),
        TracedSpan(
            "POST",
            4,
            None,
            0,
            1,
            {name.OUTCOME: "no_progress", name.OUTCOME_DETAIL: "same_call"},
            failed=False,
        ),
    )

    assert "deny  reason=argument_rule  rule=org:x" in text
    assert "tokens=7+3" in text
    assert "status=found" in text
    assert "outcome=no_progress (same_call)" in text


def test_a_title_is_text_and_no_markup() -> None:
    assert drawn(span("[red]x", 1)).startswith("[red]x  2.5 ms")


def test_a_span_of_the_sdk_becomes_a_plain_value() -> None:
    with told() as telling:
        trace = telling.request()
        trace.finish(500, "boom")
        plain = traced(telling.spans[0])

    assert plain.parent is None
    assert plain.failed
    assert plain.attributes[name.HTTP_STATUS] == 500
    assert plain.end_ns >= plain.start_ns
