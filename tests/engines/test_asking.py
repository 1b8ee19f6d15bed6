"""One question to an engine: it is answered with a decision, and nothing is raised."""

import logging
from dataclasses import replace
from typing import Any

import pytest

from proxy.core.messages import ToolCall, Turn
from proxy.core.results import StepStatus
from proxy.core.runs import Identity, Run, Step
from proxy.engines.asking import Question, decided
from proxy.errors import EngineFault
from tests.asked import GOOD, IDENTITY, REQUEST, RUN, ScriptedEngine, shipped


def _question(**changes: Any) -> Question:
    call = ToolCall("c", "read", "{}")
    return replace(Question("calls", IDENTITY, REQUEST, RUN, 2.0, [call], [{}]), **changes)


@pytest.mark.parametrize(
    "answer",
    [
        EngineFault("took too long"),
        RuntimeError("a mistake"),
        {},
        GOOD | {"deny": "yes"},
        None,
        "<undefined>",
    ],
)
async def test_whatever_breaks_is_a_decision_that_refuses(
    answer: object, caplog: pytest.LogCaptureFixture
) -> None:
    """C033. C4: what the model cannot mend goes to people."""
    decision = await decided(ScriptedEngine(answer), shipped(), _question())

    assert decision.fault
    assert not decision.unjudged
    assert decision.revision == "r1"
    assert [record.levelno for record in caplog.records][-1] == logging.ERROR


@pytest.mark.parametrize("value", [float("nan"), "a\0b", "x" * 300_000])
async def test_arguments_that_cannot_be_judged_refuse(
    value: object, caplog: pytest.LogCaptureFixture
) -> None:
    """C4: whoever made them can mend them. A model can make them, so they are no error of this system."""
    engine = ScriptedEngine(GOOD)
    decision = await decided(engine, shipped(), _question(parsed=[{"x": value}]))

    assert decision.fault
    assert decision.unjudged
    assert engine.asked == []
    assert [record.levelno for record in caplog.records] == [logging.WARNING]


async def test_results_are_in_the_document_only_for_layers_that_read_them() -> None:
    step = Step(1, 1, 1, "c", "read", "{}", "f", StepStatus.FOUND, result="secret")
    run = Run("r", "k", 1.0, steps=(step,))
    engine = ScriptedEngine(GOOD)
    for team in ("blue", "payments"):
        await decided(engine, shipped(), _question(phase="request", identity=Identity(team=team), run=run))

    assert ["secret" in str(document) for document in engine.asked] == [False, True]


async def test_an_answer_is_asked_about_too() -> None:
    engine = ScriptedEngine(GOOD)
    await decided(engine, shipped(), _question(phase="answer", answer=Turn(text="Done.")))

    assert engine.asked[0]["answer"] == {"text": "Done.", "plain": "Done.", "truncated": False}
