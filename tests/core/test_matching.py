"""Calls of a history against the steps of a run."""

from dataclasses import replace

from proxy.core.matching import fingerprint_of, matched_steps
from proxy.core.results import ToolTraits
from tests.checks.build import call, run, step

KNOWN = run(
    step(call_id="c1", arguments={"id": 1}, text=None), step(call_id="c2", arguments={"id": 2}, text=None)
)


def numbers(*calls: tuple[str, int]) -> list[int | None]:
    made = [call(arguments={"id": number}, id=id_) for id_, number in calls]
    found = matched_steps(KNOWN, made, known=True)
    return [one.number if one is not None else None for one in found]


def test_a_call_is_known_by_its_id_and_its_words() -> None:
    """A2: in any order."""
    assert numbers(("c2", 2), ("c1", 1)) == [2, 1]


def test_a_call_that_came_back_altered_is_still_the_one_of_its_id() -> None:
    """A2: it must not count twice."""
    assert numbers(("c1", 7), ("c2", 2)) == [1, 2]


def test_a_call_under_another_id_is_known_by_its_words() -> None:
    """Some clients send back another id than they got."""
    assert numbers(("item_2", 2), ("item_1", 1)) == [2, 1]
    assert numbers(("item_3", 3)) == [None]


def test_each_step_is_found_once() -> None:
    assert numbers(("c1", 1), ("x", 1)) == [1, None]


def test_what_is_declared_volatile_says_nothing() -> None:
    """D10."""
    traits = {"lookup": ToolTraits(volatile_arguments=("at",))}
    left, right = (call(arguments={"id": 1, "at": at}) for at in (5, 6))
    assert fingerprint_of(left, traits) == fingerprint_of(right, traits)
    assert fingerprint_of(left, {}) != fingerprint_of(replace(right), {})
