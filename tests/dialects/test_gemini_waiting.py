"""Calls of a history and their results, which mostly name no call."""

from hypothesis import given, strategies as st

from proxy.core.messages import ToolCall
from proxy.dialects.gemini_waiting import WaitingCalls


def step(waiting: WaitingCalls, *calls: tuple[str, str, str]) -> list[str]:
    """One step of the model: calls by wire id, name and arguments. Gives the ids by which they are known."""
    waiting.begin_step()
    return also(waiting, *calls)


def also(waiting: WaitingCalls, *calls: tuple[str, str, str]) -> list[str]:
    """More calls of the same step."""
    made = [(wire_id, waiting.names.call(wire_id, name, text, (0, 0))) for wire_id, name, text in calls]
    for wire_id, call in made:
        waiting.add(wire_id, call)
    return [call.id for _, call in made]


def answered(waiting: WaitingCalls, wire_id: str, name: str) -> str:
    call = waiting.answered(wire_id, name)
    return "" if call is None else call.id


def test_results_without_ids_are_given_by_name_and_in_order() -> None:
    """A3: identical calls too."""
    waiting = WaitingCalls()
    ids = step(waiting, ("", "a", "{}"), ("", "b", "{}"), ("", "a", "{}"))
    assert [answered(waiting, "", name) for name in "aba"] == [ids[0], ids[1], ids[2]]
    assert len(set(ids)) == 3
    assert answered(waiting, "", "a") == ""


def test_a_result_without_id_never_belongs_to_an_older_step() -> None:
    """E1, C7: the call that got no result stays without one."""
    waiting = WaitingCalls()
    step(waiting, ("", "a", '{"x":1}'))
    (new,) = step(waiting, ("", "a", '{"x":2}'))
    assert answered(waiting, "", "a") == new
    assert answered(waiting, "", "a") == ""


def test_a_result_with_an_id_finds_its_call_however_old_and_the_newest_of_several() -> None:
    """E1: some servers number from zero in every turn."""
    waiting = WaitingCalls()
    step(waiting, ("0", "a", '{"x":1}'), ("own", "a", "{}"))
    step(waiting, ("0", "b", "{}"))
    first = waiting.answered("0", "b")
    second = waiting.answered("0", "a")
    assert first is not None
    assert second is not None
    assert (first.name, second.name) == ("b", "a")
    assert answered(waiting, "own", "a") == "own"


def test_a_foreign_id_belongs_to_no_call_that_has_its_own() -> None:
    """E1."""
    waiting = WaitingCalls()
    step(waiting, ("own", "a", "{}"))
    assert answered(waiting, "other", "a") == ""
    assert answered(waiting, "", "a") == "own"


def test_an_id_that_only_the_result_has_does_not_matter() -> None:
    waiting = WaitingCalls()
    (id_,) = step(waiting, ("", "a", "{}"))
    assert answered(waiting, "made-by-the-client", "a") == id_


def test_an_answer_that_comes_back_as_several_contents_is_one_step() -> None:
    """A3: the calls have the names that they had when they were released."""
    waiting, whole = WaitingCalls(), WaitingCalls()
    apart = step(waiting, ("", "a", "{}")) + also(waiting, ("", "a", "{}"))
    assert apart == step(whole, ("", "a", "{}"), ("", "a", "{}"))
    assert [answered(waiting, "", "a") for _ in apart] == apart


IDS = st.sampled_from(["", "0", "1"])
NAMES = st.sampled_from(["a", "b"])


@given(st.lists(st.lists(st.tuples(IDS, NAMES), max_size=3), max_size=4), st.lists(st.tuples(IDS, NAMES)))
def test_no_call_is_answered_twice(
    steps: list[list[tuple[str, str]]], results: list[tuple[str, str]]
) -> None:
    waiting = WaitingCalls()
    for calls in steps:
        step(waiting, *((id_, name, "{}") for id_, name in calls))
    found: list[ToolCall] = [
        call for call in (waiting.answered(id_, name) for id_, name in results) if call is not None
    ]
    assert len({id(call) for call in found}) == len(found)
