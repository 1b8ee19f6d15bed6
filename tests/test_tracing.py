"""The seam: nothing of it raises, what it remembers is bounded."""

import logging

import pytest

from proxy import tracing
from proxy.tracing import CallMemory, JudgedCall, harmless

from .span_tree import told


def test_what_fails_is_logged_once_and_swallowed(caplog: pytest.LogCaptureFixture) -> None:
    @harmless
    def failing(number: int) -> None:
        raise ValueError(number)

    for number in range(3):
        failing(number)

    (record,) = caplog.records
    assert record.levelno == logging.ERROR
    assert "requests are not affected" in record.message
    assert record.exc_info


def test_what_does_not_fail_is_done() -> None:
    done: list[int] = []

    @harmless
    def fine(number: int, *, more: int) -> None:
        done.append(number + more)

    fine(1, more=2)

    assert done == [3]


def test_only_the_newest_judged_calls_are_remembered_and_each_is_taken_once() -> None:
    with told() as whole:
        span = whole.telemetry._spans.tracing.start("x", "internal", below=None, attributes={})
        span.end()
    judged = JudgedCall(span.anchor(), span.anchor(), made_id=False)
    memory = CallMemory(limit=2)
    for number in range(3):
        memory.keep("run", f"call_{number}", judged)

    assert memory.take("run", "call_0") is None
    assert memory.take("other", "call_1") is None
    assert memory.take("run", "call_1") is judged
    assert memory.take("run", "call_1") is None
    assert tracing.CALLS_REMEMBERED > 1000
