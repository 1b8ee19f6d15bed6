"""A history is the one that happened: paired, whole and unaltered, or it is said which id is wrong (A2, A3, C7, E1)."""

from dataclasses import replace

import pytest

from proxy.checks import judge_request
from proxy.checks.history import NO_RESULT
from proxy.core.messages import Message, Request, Role, ToolKind, ToolResult
from proxy.core.runs import KeptAnswer, Run
from proxy.core.verdicts import Action, CheckSettings, Mode, Verdict
from tests.checks.build import (
    assistant,
    call,
    codes,
    enforced,
    facts,
    refused,
    request,
    result,
    run,
    step,
    user,
)


def judged(
    *messages: Message, steps: tuple[object, ...] = (), settings: CheckSettings | None = None
) -> tuple[Verdict, ...]:
    """The verdicts on this history, for a run with these steps."""
    return of_history(request(*messages), run(*steps), settings)  # type: ignore[arg-type]  # steps are steps


def of_history(asked: Request, known: Run, settings: CheckSettings | None = None) -> tuple[Verdict, ...]:
    verdicts = judge_request(facts(request=asked, run=known, settings=settings))
    return tuple(each for each in verdicts if each.check.startswith("history."))


def test_a_proper_history_has_nothing_against_it() -> None:
    """A3, C10."""
    history = [
        user(),
        assistant(call(id="a"), call(id="b")),
        result("b"),
        result("a"),
        assistant(text="done"),
        user(),
    ]

    assert judged(*history, steps=(step(call_id="a"), step(call_id="b"))) == ()


def test_a_result_without_its_call_is_refused_by_its_id() -> None:
    """A3, E1: the message says which id."""
    (verdict,) = judged(user(), assistant(call(id="a")), result("a"), result("call_stray"))

    assert (verdict.code, verdict.action, verdict.reason_class) == (
        "foreign_result",
        Action.DENY,
        "protocol_mismatch",
    )
    assert '"call_stray"' in verdict.message
    assert verdict.fields["call_id"] == "call_stray"


def test_a_result_for_a_call_that_this_run_released_belongs() -> None:
    """The provider may hold the history: only the new items are in the request."""
    assert judged(result("call_1"), steps=(step(call_id="call_1", text=None),)) == ()


def test_a_result_of_another_run_does_not_belong() -> None:
    """E1."""
    assert enforced(judged(result("call_9"), steps=(step(call_id="call_1"),))) == [
        ("foreign_result", Action.DENY)
    ]


def test_a_result_of_a_refused_call_does_not_belong() -> None:
    verdicts = judged(user(), assistant(text="note"), result("call_1"), steps=(refused(call_id="call_1"),))

    assert enforced(verdicts) == [("foreign_result", Action.DENY)]


def test_a_result_whose_calls_the_provider_keeps_is_only_noted() -> None:
    """State lost, history at the provider: nothing in the request can tell."""
    verdicts = judged(result("call_1"))

    assert codes(verdicts) == ["unseen_call"]
    assert not enforced(verdicts)


def test_a_second_result_that_differs_is_refused() -> None:
    (verdict,) = judged(assistant(call(id="a")), result("a", "yes"), result("a", "no"))

    assert (verdict.code, verdict.action) == ("duplicate_result", Action.DENY)
    assert '"a"' in verdict.message


def test_the_same_result_again_is_only_noted() -> None:
    verdicts = judged(assistant(call(id="a")), result("a", "yes"), result("a", "yes"))

    assert codes(verdicts) == ["duplicate_result"]
    assert not enforced(verdicts)


def test_a_call_without_a_result_gets_one_that_says_so() -> None:
    """C7: orphans are repaired, behind the message with the call."""
    (verdict,) = judged(user(), assistant(call(id="a"), call(id="b")), result("a"), user("go on"))

    assert (verdict.code, verdict.action) == ("missing_result", Action.PASS)
    (repair,) = verdict.repairs
    assert (repair.message_index, repair.call.id, repair.text) == (1, "b", NO_RESULT)
    assert '"b"' in verdict.message


def test_an_open_call_at_the_very_end_is_repaired_too() -> None:
    """C7: the user broke off; the provider would refuse the request."""
    (verdict,) = judged(user(), assistant(call(id="a")))

    assert [repair.call.id for repair in verdict.repairs] == ["a"]


def test_a_call_without_a_result_is_refused_where_repair_is_off() -> None:
    """C7."""
    settings = CheckSettings(repair_history=False)
    (verdict,) = judged(user(), assistant(call(id="a")), user(), settings=settings)

    assert (verdict.code, verdict.action, verdict.repairs) == ("missing_result", Action.DENY, ())


def test_what_the_provider_ran_itself_needs_no_result() -> None:
    assert judged(user(), assistant(call(id="h", kind=ToolKind.HOSTED), text="found"), user()) == ()


def test_ids_that_repeat_across_turns_are_no_fault() -> None:
    """C006."""
    first, second = call(arguments={"key": "A"}, id="lookup:0"), call(arguments={"key": "B"}, id="lookup:0")
    history = [user(), assistant(first), result("lookup:0"), assistant(second), result("lookup:0")]
    steps = (
        step(arguments={"key": "A"}, call_id="lookup:0"),
        step(arguments={"key": "B"}, call_id="lookup:0"),
    )

    assert judged(*history, steps=steps) == ()
    assert judged(*history[:3], user("stop, another question"), steps=steps[:1]) == ()


@pytest.mark.parametrize(
    "sent_back",
    [
        call(arguments={"id": "B456"}, id="a"),
        call("other", {"id": "A123"}, id="a"),
        call(arguments="{broken", id="a"),
    ],
)
def test_a_released_call_that_comes_back_altered_is_refused(sent_back: object) -> None:
    """A2: what the model is told it did has to be what it did."""
    released = step(arguments={"id": "A123"}, text=None, call_id="a")
    seen = step(call_id="a", seen_only=True)
    history = request(user(), assistant(sent_back), result("a"))  # type: ignore[arg-type]  # it is a call
    verdicts = of_history(history, run(released, seen))

    assert enforced(verdicts) == [("altered_call", Action.DENY)]
    assert '"a"' in verdicts[0].message
    assert "B456" not in verdicts[0].message


def test_an_altered_call_is_noticed_after_its_result_came_too() -> None:
    """A2."""
    sent_back = assistant(call(arguments={"id": "B456"}, id="a"))
    steps = (step(arguments={"id": "A123"}, call_id="a"),)

    assert enforced(judged(user(), sent_back, result("a"), steps=steps)) == [("altered_call", Action.DENY)]


@pytest.mark.parametrize(
    ("released", "sent_back"),
    [
        ('{"a":1,"b":"x y"}', '{ "b": "x  y", "a": 1.0 }'),
        ('{"s":"\\u00e9"}', '{"s":"e\u0301"}'),
        ("", "{}"),
        ('{"n":1234567890123456789}', '{"n":1234567890123456800}'),
        ("*** patch", "*** patch"),
    ],
)
def test_another_spelling_of_the_same_call_is_the_same_call(released: str, sent_back: str) -> None:
    """A2: agents parse arguments and write them again, some with numbers of floating point."""
    history = [user(), assistant(call(arguments=sent_back, id="a")), result("a")]

    assert judged(*history, steps=(step(arguments=released, call_id="a"),)) == ()


def test_members_dropped_or_filled_in_by_the_agents_validation_are_only_noted() -> None:
    released = step(arguments={"q": "x", "junk": 1}, call_id="a")
    for sent_back in ({"q": "x"}, {"q": "x", "junk": 1, "limit": 10}):
        verdicts = judged(
            user(), assistant(call(arguments=sent_back, id="a")), result("a"), steps=(released,)
        )
        assert codes(verdicts) == ["reshaped_call"]
        assert not enforced(verdicts)


def test_a_refused_call_does_not_come_back_as_if_it_had_been_made() -> None:
    was_refused = refused("lookup", arguments={"id": "B456"}, call_id="a")
    seen = step(arguments={"id": "B456"}, call_id="a", seen_only=True)
    history = [user(), assistant(call(arguments={"id": "B456"}, id="a")), result("a", "secret")]

    assert enforced(judged(*history, steps=(was_refused, seen))) == [("refused_call", Action.DENY)]


def test_an_id_that_was_refused_once_may_be_released_later() -> None:
    """C006: numbered ids come again after a re-ask."""
    steps = (refused(arguments={"id": "B"}, call_id="x:0"), step(arguments={"id": "A"}, call_id="x:0"))
    history = [user(), assistant(call(arguments={"id": "A"}, id="x:0")), result("x:0")]

    assert judged(*history, steps=steps) == ()


def test_calls_that_this_run_never_saw_are_left_alone() -> None:
    """Examples and older conversations in a prompt are the agent's own."""
    example = [assistant(call("example", {"x": 1}, id="ex1")), result("ex1")]

    assert judged(*example, user(), steps=(step(call_id="a"),)) == ()


def test_a_rebuilt_run_compares_with_nothing() -> None:
    seen = step(arguments={"id": "A123"}, call_id="a", seen_only=True)

    assert judged(user(), assistant(call(arguments={"id": "B"}, id="a")), result("a"), steps=(seen,)) == ()


def test_a_released_turn_that_is_not_in_the_history_is_noticed() -> None:
    """A2: missing is noticed; users break off, so it is no reason to refuse."""
    verdicts = judged(user(), assistant(text="hm"), user("stop"), steps=(step(text=None, call_id="a"),))

    assert codes(verdicts) == ["missing_turn"]
    assert '"a"' in verdicts[0].message
    assert not enforced(verdicts)


def test_a_turn_lost_long_ago_is_not_noted_for_ever() -> None:
    steps = (step(text=None, call_id="a"), step(call_id="b"))

    assert judged(user(), assistant(call(id="b")), result("b"), steps=steps) == ()


def test_odd_ids_are_shown_escaped() -> None:
    (verdict,) = judged(assistant(call(id="a")), result("a"), result("x\u200b\n"))

    assert '"x\\u200b\\n"' in verdict.message


def test_the_check_can_be_shadowed() -> None:
    settings = CheckSettings(modes={"history": Mode.SHADOW})
    (verdict,) = judged(assistant(call(id="a")), result("a"), result("b"), settings=settings)

    assert verdict.mode is Mode.SHADOW


def test_results_and_text_in_one_user_message_are_paired() -> None:
    """C1."""
    answer = Message(Role.USER, "and hurry", results=(ToolResult("a", "A"),))

    assert judged(user(), assistant(call(id="a")), answer) == ()


def test_a_long_history_is_judged_whole() -> None:
    messages = [user()]
    for place in range(3_000):
        messages += [assistant(call(id=f"c{place}")), result(f"c{place}")]
    steps = [step(call_id=f"c{place}") for place in range(3_000)]
    whole = run(*steps)
    altered = replace(messages[-2], calls=(call(arguments={"other": 1}, id="c2999"),))

    assert of_history(request(*messages), whole) == ()
    (verdict,) = of_history(request(*messages[:-2], altered, messages[-1]), whole)
    assert verdict.code == "reshaped_call"


def test_a_call_that_the_provider_keeps_needs_its_result_too() -> None:
    """C7: the agent goes on from a kept answer by its id and leaves an open call without result."""
    open_call, answered = call(id="c1"), call(id="c2")
    kept = KeptAnswer("resp_1", "resp_1", open=(open_call, answered))
    asked = request(result("c2"), previous="resp_1")
    known = run(step(call_id="c1", text=None), step(call_id="c2", text=None), kept=(kept,))
    repairs = [repair for verdict in of_history(asked, known) for repair in verdict.repairs]
    assert [(repair.call, repair.is_owed) for repair in repairs] == [(open_call, True)]
