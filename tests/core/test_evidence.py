"""What an answer cites was read in the run, or said to it (E15)."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, strategies as st

from proxy.core.evidence import MOST_MISSING, plain, unsupported
from proxy.core.messages import Message, Request, Role
from proxy.core.recognition import POLICY_TEXT_BYTES
from proxy.core.results import StepStatus
from proxy.core.runs import Run, Step
from proxy.core.verdicts import Cited

WORDS = st.text(st.characters(codec="utf-8", exclude_characters="*`"), min_size=1, max_size=12)
REQUEST = Request("test", "m", (Message(Role.SYSTEM, "Plan P9."), Message(Role.USER, "Where is A123?")))


def step(result: str, tool: str = "get_order", status: StepStatus = StepStatus.FOUND) -> Step:
    return Step(1, 1, 1, "c", tool, '{"id": "X5"}', "f", status, result=result)


def missing(*values: str, steps: tuple[Step, ...] = (), tools: tuple[str, ...] = ()) -> tuple[str, ...]:
    return unsupported(Cited(values, frozenset(tools)), Run("r", "k", 1.0, steps=steps), REQUEST)


def test_what_was_read_or_said_is_supported() -> None:
    """E15: by a result, by the user, by the agent's own instructions; not by the model's own call."""
    read = (step('{"id": "B7", "items": ["C1"]}'),)

    assert missing("B7", "C1", "A123", "P9", "X5", "Z0", "Z0", steps=read) == ("X5", "Z0")


def test_a_citation_of_certain_tools_needs_their_results() -> None:
    steps = (step("B7"), step("D4", tool="search"))

    assert missing("B7", "D4", "A123", steps=steps, tools=("search",)) == ("B7", "A123")


@pytest.mark.parametrize("status", [StepStatus.PENDING, StepStatus.REFUSED])
def test_a_call_that_was_not_run_shows_nothing(status: StepStatus) -> None:
    assert missing("B7", steps=(step("B7", status=status),)) == ("B7",)


@pytest.mark.parametrize(
    ("result", "value", "is_there"),
    [
        ("A123", "A12", False),
        ("xA12", "A12", False),
        ("A12_b", "A12", False),
        ("(A12)", "A12", True),
        ("see https://x.example/A12/", "A12", True),
        ("ａ１２", "A12", True),
        ("a12", "A12", True),
        ("A\u200b12", "A12", True),
        ("A 12", "A12", False),
        ("Order  of\nten", "order of ten", True),
        ("ORD-12/7", "ORD-12/7", True),
        ("ORD-12/78", "ORD-12/7", False),
        ("xORD-12", "ORD-12", False),
        ("#12", "#12", True),
        ("#123", "#12", False),
        ("a_b_c", "a_b_c", True),
        ("§§", "§", True),
    ],
)
def test_a_value_stands_there_as_a_whole_word(result: str, value: str, *, is_there: bool) -> None:
    found = missing(value, steps=(step(result),), tools=("get_order",))

    assert found == (() if is_there else (value,))


def test_what_cannot_be_known_is_not_objected_to() -> None:
    """A verdict only where it is certain."""
    cut = step("x" * POLICY_TEXT_BYTES)
    kept = replace(REQUEST, previous="resp_1")

    assert missing("B7", steps=(cut,)) == ()
    assert unsupported(Cited(("B7",)), Run("r", "k", 1.0), kept) == ()
    assert missing("B7", steps=(cut, step("C1", tool="search")), tools=("search",)) == ("B7",)


def test_of_very_many_invented_values_only_some_are_looked_for() -> None:
    """A model chooses how many it invents, and everybody waits while they are looked for."""
    invented = [f"Z{number}" for number in range(12_000)]

    assert missing(*invented) == tuple(invented[:MOST_MISSING])


def test_marks_that_nobody_sees_hide_nothing() -> None:
    assert plain("Order **A**1\u200b2３ and `B7`") == "Order A123 and B7"


@given(words=st.lists(WORDS, min_size=1, max_size=6), cited=st.data())
def test_words_of_results_are_never_objected_to(words: list[str], cited: st.DataObject) -> None:
    """E15."""
    chosen = cited.draw(st.lists(st.sampled_from(words), max_size=4))

    assert missing(*chosen, steps=(step(" | ".join(words)),)) == ()
