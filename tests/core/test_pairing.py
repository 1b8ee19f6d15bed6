"""Results find their calls by id, nearest open call first, in order, in one pass (A3, C7, C10, E1)."""

from hypothesis import given, strategies as st

from proxy.core.messages import Message, Role, ToolCall, ToolKind, ToolResult
from proxy.core.pairing import Pairing, paired
from tests.checks.build import assistant, call, result, user


def texts(pairing: Pairing) -> list[tuple[str, str | None]]:
    """Arguments of each call and the text of its result."""
    return [(pair.call.arguments, pair.result.text if pair.result else None) for pair in pairing.pairs]


def test_parallel_calls_get_their_own_results_in_the_order_of_the_calls() -> None:
    """A3, C10."""
    calls = [call(id=name, arguments=f'"{name}"') for name in "abc"]
    pairing = paired([user(), assistant(*calls), result("c", "C"), result("a", "A"), result("b", "B")])

    assert texts(pairing) == [('"a"', "A"), ('"b"', "B"), ('"c"', "C")]
    assert [(pair.message_index, pair.result_index) for pair in pairing.pairs] == [(1, 3), (1, 4), (1, 2)]
    assert not pairing.missing
    assert not pairing.foreign
    assert not pairing.duplicates


def test_several_results_in_one_message_are_paired() -> None:
    """C1: blocks of one user message."""
    both = Message(Role.USER, results=(ToolResult("a", "A"), ToolResult("b", "B")))

    pairing = paired([assistant(call(id="a", arguments="1"), call(id="b", arguments="2")), both])

    assert texts(pairing) == [("1", "A"), ("2", "B")]


def test_an_id_that_comes_back_in_a_later_turn_is_another_call() -> None:
    """C006: the upstream numbers its calls from zero in every turn."""
    history = [
        user(),
        assistant(call(id="lookup:0", arguments='{"key":"A"}')),
        result("lookup:0", "A=12"),
        assistant(call(id="lookup:0", arguments='{"key":"B"}')),
        result("lookup:0", "B=15"),
    ]

    pairing = paired(history)

    assert texts(pairing) == [('{"key":"A"}', "A=12"), ('{"key":"B"}', "B=15")]
    assert not pairing.duplicates


def test_a_result_answers_the_nearest_turn_that_has_the_id_open() -> None:
    history = [
        assistant(call(id="x", arguments="1")),
        user("never mind"),
        assistant(call(id="x", arguments="2")),
        result("x", "second"),
        result("x", "late first"),
    ]

    assert texts(paired(history)) == [("1", "late first"), ("2", "second")]


def test_two_calls_of_one_turn_with_one_id_are_answered_in_order() -> None:
    """C10, also where a dialect has a message for each call."""
    calls = call(id="x", arguments="1"), call(id="x", arguments="2")
    answers = result("x", "one"), result("x", "two")

    together = paired([assistant(*calls), *answers])
    apart = paired([assistant(calls[0]), assistant(calls[1]), *answers])

    assert texts(together) == texts(apart) == [("1", "one"), ("2", "two")]


def test_a_result_without_any_call_is_foreign() -> None:
    """E1."""
    pairing = paired([user(), assistant(call(id="a")), result("b", "stray"), result("a", "A")])

    assert [loose.result.call_id for loose in pairing.foreign] == ["b"]
    assert pairing.foreign[0].message_index == 2
    assert not pairing.missing


def test_a_result_before_its_call_is_foreign() -> None:
    pairing = paired([result("a", "too early"), assistant(call(id="a"))])

    assert [loose.result.text for loose in pairing.foreign] == ["too early"]
    assert [pair.call.id for pair in pairing.missing] == ["a"]


def test_a_second_result_is_a_duplicate_that_knows_the_first() -> None:
    pairing = paired([assistant(call(id="a")), result("a", "one"), result("a", "two")])

    assert [(loose.result.text, loose.before and loose.before.text) for loose in pairing.duplicates] == [
        ("two", "one")
    ]


def test_calls_without_a_result_are_missing_one_but_for_hosted_ones() -> None:
    """C7."""
    hosted = ToolCall("h", "web_search", "{}", kind=ToolKind.HOSTED)
    pairing = paired([assistant(call(id="a"), hosted, call(id="b")), result("b")])

    assert [pair.call.id for pair in pairing.missing] == ["a"]
    assert pairing.call_ids == {"a", "h", "b"}


IDS = st.sampled_from("abc")
MESSAGES = st.lists(
    st.one_of(
        st.just(user()),
        st.lists(IDS, min_size=1, max_size=3).map(lambda ids: assistant(*(call(id=each) for each in ids))),
        st.lists(IDS, min_size=1, max_size=3).map(
            lambda ids: Message(Role.USER, results=tuple(ToolResult(each, each) for each in ids))
        ),
    ),
    max_size=12,
)


@given(MESSAGES)
def test_every_call_and_every_result_is_accounted_for_once(messages: list[Message]) -> None:
    pairing = paired(messages)
    calls = [found for message in messages for found in message.calls]
    results = [found for message in messages for found in message.results]
    answered = [pair for pair in pairing.pairs if pair.result]

    assert [pair.call for pair in pairing.pairs] == calls
    assert len(answered) + len(pairing.foreign) + len(pairing.duplicates) == len(results)
    assert all(pair.result and pair.result.call_id == pair.call.id for pair in answered)
    assert all(pair.result_index is not None and pair.message_index < pair.result_index for pair in answered)


@given(st.lists(st.lists(IDS, min_size=1, max_size=3, unique=True), max_size=6))
def test_a_proper_history_leaves_nothing_over(turns: list[list[str]]) -> None:
    """C006, C10: whatever ids repeat across turns, and in whatever order the results of a turn come."""
    history: list[Message] = []
    for number, ids in enumerate(turns):
        history.append(assistant(*(call(id=each, arguments=str(number)) for each in ids)))
        mixed = sorted(ids, reverse=number % 2 == 0)
        history += [result(each, f"{number}{each}") for each in mixed]

    pairing = paired(history)

    assert not pairing.missing
    assert not pairing.foreign
    assert not pairing.duplicates
    assert all(
        pair.result and pair.result.text == pair.call.arguments + pair.call.id for pair in pairing.pairs
    )
