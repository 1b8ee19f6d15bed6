"""Which run is this, and what does a history add to it? The pure part; whole conversations are in test_ledger."""

from dataclasses import replace

import pytest
from hypothesis import given, settings, strategies as st

from proxy.core.limits import Amounts
from proxy.core.messages import Message, Role, ToolCall
from proxy.core.recognition import (
    POLICY_TEXT_BYTES,
    absorbed,
    call_key,
    chosen,
    evidence,
    prefix_chain,
    rebuilt,
    step_of,
    text_digest,
    turn_openings,
    with_result,
)
from proxy.core.results import StepStatus, ToolTraits
from proxy.core.runs import Outcome, Run, RunChange, applied
from tests.talk import NOW, brought, call, request, said, user

FRESH = Run("run_0", "key:alice", NOW, turn_started_at=NOW)
HISTORY = (user(), said("", call("c1")), brought(("c1", "A=12")))


def released(run: Run, *calls: ToolCall) -> Run:
    return applied(run, RunChange(at=NOW, add_steps=tuple(step_of(each, run, NOW) for each in calls)))


def read(run: Run, *messages: Message) -> Run:
    return applied(run, absorbed(run, request(*messages), prefix_chain(messages), NOW))


def opened(name: str = "run_0", *messages: Message, **changes: object) -> Run:
    run = replace(FRESH, id=name, **changes)  # type: ignore[arg-type]  # the test names real fields
    return rebuilt(run, request(*messages), prefix_chain(messages), NOW)


# ---- ids that agents change ----


def test_a_call_that_came_back_under_another_id_is_counted_once() -> None:
    """Some clients of APIs with an id for the item and one for the call send back the item's."""
    before = released(opened("run_0", user()), call("call_1"))
    after = read(before, user(), said("", call("item_1")), brought(("item_1", "A=12")))
    assert [step.status for step in after.steps] == [StepStatus.FOUND]
    assert [step.call_id for step in after.steps] == ["call_1"]


# ---- evidence ----


def test_a_chain_tells_every_prefix_apart() -> None:
    chain = prefix_chain(HISTORY)

    assert len(set(chain)) == 4
    assert chain[0] == b""
    assert prefix_chain(HISTORY[:2]) == chain[:3]
    assert prefix_chain((HISTORY[1], HISTORY[0]))[2] != chain[2]


@pytest.mark.parametrize(
    "other", ["A is 12.\nB is 15.", "  A is 12.  B is 15. ", "A is 12.\n\nB is 15.", "A is 12.B is 15."]
)
def test_an_answer_is_known_however_it_was_wrapped(other: str) -> None:
    assert text_digest(other) == text_digest("A is 12. B is 15.")
    assert text_digest(other) != text_digest("A is 12. B is 16.")


def test_a_text_of_any_kind_has_a_digest() -> None:
    """Text from outside may hold lone surrogates."""
    assert text_digest("\ud800") != text_digest("\ud801")
    assert call_key("k", "\ud800") != call_key("k", "\ud801")


def test_evidence_of_a_first_request_is_the_request_itself() -> None:
    seen = evidence("k", request(user()), "")

    assert (seen.calls, seen.prefix, seen.answer, seen.label) == ((), "", "", "")
    assert seen.whole.startswith("p:k:")


def test_a_follow_up_points_to_the_request_that_was_answered() -> None:
    first = evidence("k", request(user()), "")
    second = evidence("k", request(*HISTORY), "task")

    assert second.prefix == first.whole
    assert second.calls == (call_key("k", "c1"),)
    assert second.answer == ""
    assert second.label.startswith("l:k:")


def test_an_answer_of_several_messages_has_one_beginning() -> None:
    """Some dialects have a message a call."""
    first = evidence("k", request(user()), "")
    split = evidence("k", request(user(), said("One."), said("", call("c1")), brought(("c1", "x"))), "")
    joined = evidence("k", request(user(), said("One.", call("c1")), brought(("c1", "x"))), "")

    assert split.prefix == joined.prefix == first.whole
    assert split.answer == joined.answer != ""


def test_only_the_newest_calls_are_looked_up() -> None:
    """A long history costs no more than a short one."""
    messages = [
        part for number in range(50) for part in (said("", call(f"c{number}")), brought((f"c{number}", "x")))
    ]
    seen = evidence("k", request(user(), *messages), "")

    assert [
        key in seen.calls for key in (call_key("k", "c49"), call_key("k", "c47"), call_key("k", "c46"))
    ] == [
        True,
        True,
        False,
    ]


def test_keys_never_show_what_agents_sent() -> None:
    seen = evidence(
        "k", request(user(), said("", call("canary-id")), brought(("canary-id", "x"))), "canary-run"
    )

    assert "canary" not in repr((seen.calls, seen.label, seen.whole, seen.prefix))


@given(
    st.text(max_size=8), st.text(max_size=8), st.text(min_size=1, max_size=8), st.text(min_size=1, max_size=8)
)
def test_keys_of_two_identities_are_never_equal(alice: str, bob: str, one: str, other: str) -> None:
    """However the parts are cut."""
    first, second = evidence(alice, request(user()), one), evidence(bob, request(user()), other)
    if alice != bob:
        assert first.label != second.label
        assert first.whole != second.whole
        assert call_key(alice, one) != call_key(bob, other)
    elif one != other:
        assert first.label != second.label


# ---- the choice among runs ----


def run_with(name: str, *calls: ToolCall, done: bool = False, **changes: object) -> Run:
    run = released(opened(name, user()), *calls)
    if done:
        run = read(run, user(), said("", *calls), brought(*((each.id, "x") for each in calls)))
    return replace(run, **changes)  # type: ignore[arg-type]  # the test names real fields


def picked(by_call: list[Run], by_prefix: list[Run], *messages: Message, label: str = "") -> str | None:
    run = chosen(by_call, by_prefix, request(*messages), label)
    return run.id if run else None


def test_no_candidate_no_run() -> None:
    assert picked([], [], *HISTORY) is None


def test_a_run_is_sure_by_its_calls_as_they_stand() -> None:
    same, other = run_with("same", call("c1")), run_with("other", call("c1", '{"key":"B"}'))

    assert picked([same, other], [], *HISTORY) == "same"
    assert picked([other], [], *HISTORY) is None


def test_arguments_are_compared_by_meaning() -> None:
    """D10: agents write JSON anew."""
    run = run_with("same", call("c1", '{"key":"A","n":1}'))
    back = (user(), said("", call("c1", '{ "n": 1.0, "key": "A" }')), brought(("c1", "x")))

    assert picked([run], [], *back) == "same"


def test_every_call_of_the_newest_answer_has_to_be_known() -> None:
    run = run_with("half", call("c1"))
    both = (user(), said("", call("c1"), call("c2")), brought(("c1", "x"), ("c2", "y")))

    assert picked([run], [], *both) is None
    assert picked([run], [run], *both) == "half"


def test_calls_and_prefix_together_beat_either() -> None:
    """Ids from zero: other conversations made the same call."""
    elsewhere, here = run_with("elsewhere", call("c1"), last_seen_at=NOW + 9), run_with("here", call("c1"))

    assert picked([elsewhere, here], [here], *HISTORY) == "here"


def test_a_prefix_alone_is_sure_only_while_one_run_has_it() -> None:
    one, two = opened("one", user()), opened("two", user())
    back = (user(), said("Hello."), user("And?"))

    assert picked([], [one], *back) == "one"
    assert picked([], [one, two], *back) is None
    assert picked([], [one, replace(two, answers=(text_digest("Hello."),))], *back) == "two"


def test_among_equals_the_label_decides_then_what_is_open_then_time() -> None:
    done = run_with("done", call("c1"), done=True, last_seen_at=NOW + 9, label="mine")
    early = run_with("early", call("c1"), last_seen_at=NOW)
    late = run_with("late", call("c1"), last_seen_at=NOW + 1)

    assert picked([done, early, late], [], *HISTORY, label="mine") == "done"
    assert picked([done, early, late], [], *HISTORY, label="unknown") == "late"
    assert picked([done, early], [], *HISTORY) == "early"


def test_a_label_is_no_evidence() -> None:
    """A run that the evidence does not show is not entered by its name."""
    run = run_with("other", call("c9"), label="mine")

    assert picked([run], [], *HISTORY, label="mine") is None


def test_a_refused_call_leads_nowhere() -> None:
    refused = replace(step_of(call("c1"), FRESH, NOW), status=StepStatus.REFUSED, number=1)
    run = replace(opened("refused", user()), steps=(refused,))

    assert picked([run], [], *HISTORY) is None


def test_results_alone_show_their_run() -> None:
    """The provider keeps the history: the request holds nothing but results."""
    run = run_with("mine", call("c1"), call("c2"))

    assert picked([run], [], brought(("c1", "x")), brought(("c2", "y"))) == "mine"
    assert picked([run], [], brought(("c1", "x"), ("c9", "y"))) is None


# ---- what a history adds ----


def test_a_result_is_classed_and_kept_cut() -> None:
    """A5, B4"""
    step = with_result(
        step_of(call("c1", '{"key":"' + "A" * POLICY_TEXT_BYTES + '"}'), FRESH, NOW),
        brought(("c1", '{"error":"FORBIDDEN"}' + " " * POLICY_TEXT_BYTES)).results[0],
        {},
        NOW + 5,
    )

    assert step.status is StepStatus.FORBIDDEN
    assert (len(step.arguments), len(step.result), step.result_at) == (
        POLICY_TEXT_BYTES,
        POLICY_TEXT_BYTES,
        NOW + 5,
    )


def test_a_result_answers_the_nearest_open_call() -> None:
    """E1, C006: two answers wait for a result of the same id; the later one was asked last."""
    run = released(opened("run_0", user()), call("c1", '{"key":"A"}'))
    run = applied(run, RunChange(at=NOW, spend=Amounts(rounds=1)))
    run = released(run, call("c1", '{"key":"B"}'))
    first, second = said("", call("c1", '{"key":"A"}')), said("", call("c1", '{"key":"B"}'))
    whole = read(run, user(), first, second, brought(("c1", "for B")), brought(("c1", "for A")))
    run = read(run, user(), first, second)
    later = read(run, user(), first, second, brought(("c1", "for B")), brought(("c1", "for A")))

    assert [step.result for step in whole.steps] == ["for A", "for B"]
    assert [step.result for step in later.steps] == ["for A", "for B"]


def test_two_results_for_one_id_in_one_answer_go_in_order() -> None:
    run = released(opened("run_0", user()), call("c1", '{"key":"A"}'), call("c1", '{"key":"B"}'))
    run = read(
        run,
        user(),
        said("", call("c1", '{"key":"A"}'), call("c1", '{"key":"B"}')),
        brought(("c1", "for A"), ("c1", "for B"), ("c1", "for nobody")),
    )

    assert [step.result for step in run.steps] == ["for A", "for B"]


def test_a_user_message_in_a_rewritten_history_opens_no_turn_while_the_run_goes_on() -> None:
    """Compaction in the middle of a turn: the summary is a user's message, and no limit starts afresh."""
    run = released(opened("run_0", user()), call("c1"))
    summary = (user("Summary."), said("", call("c1")), brought(("c1", "x")))

    assert read(run, *summary).turn == 1
    ended = applied(run, RunChange(at=NOW, outcome=Outcome.COMPLETED))
    assert read(ended, *summary).turn == 1
    assert read(ended, *summary, said("Done."), user("More?")).turn == 2


def test_a_changed_system_prompt_changes_no_count() -> None:
    """Some agents write the time there: no prefix is ever known, and each call is still matched."""
    run = opened("run_0", Message(Role.SYSTEM, "at 0", digest=b"0"), user())
    history = [user()]
    for number in range(1, 5):
        made = call("lookup:0", f'{{"page":{number}}}')
        run = released(run, made)
        history += [said("", made), brought(("lookup:0", f"page {number}"))]
        run = read(run, Message(Role.SYSTEM, f"at {number}", digest=b"%d" % number), *history)

    assert [step.result for step in run.steps] == ["page 1", "page 2", "page 3", "page 4"]
    assert run.turn == 1
    assert run.spent.calls == 0  # released calls are paid when they are reserved


def test_calls_that_the_run_did_not_know_are_counted() -> None:
    """E2: wherever they come from, they are in the history, so they happened."""
    run = released(opened("run_0", user()), call("c1"))
    run = read(run, *HISTORY, said("", call("c9", name="search")), brought(("c9", "x")))

    assert [(step.call_id, step.seen_only, step.turn) for step in run.steps] == [
        ("c1", False, 1),
        ("c9", True, 1),
    ]
    assert run.spent == Amounts(calls=1, per_tool={"search": 1})


def test_volatile_arguments_do_not_tell_calls_apart() -> None:
    traits = {"lookup": ToolTraits(volatile_arguments=("at",))}
    run = replace(opened("run_0", user()), traits=traits)
    run = released(run, call("c1", '{"key":"A","at":1}'))
    run = read(run, user(), said("", call("c1", '{"key":"A","at":2}')), brought(("c1", "x")))

    assert [step.result for step in run.steps] == ["x"]


def test_a_history_of_equal_ids_takes_no_more_than_its_length() -> None:
    """Hostile: every id the same, in one answer and over many; this ends at once or never."""
    count = 2_000
    once = (user(), said("", *(call("c", f"{number}") for number in range(count))))
    results = brought(*(("c", f"{number}") for number in range(count)))
    run = opened("run_0", *once, *(said("", call("c", "x")) for _ in range(count)))
    run = read(run, *once, results, user("again"), results)

    assert len(run.steps) == 2 * count
    assert [step.result for step in run.steps[:2]] == ["0", "1"]


parts = st.lists(
    st.one_of(
        st.builds(lambda text: ("user", text), st.sampled_from(["a", "b"])),
        st.builds(
            lambda calls, text: ("answer", calls, text),
            st.lists(
                st.tuples(st.sampled_from("xyz"), st.sampled_from("AB")), max_size=3, unique_by=lambda c: c[0]
            ),
            st.sampled_from(["", "ok"]),
        ),
    ),
    max_size=8,
)


def conversation(script: list[tuple[object, ...]]) -> list[Message]:
    """A proper history: every answer's calls get their results at once."""
    messages = [user("start")]
    for place, part in enumerate(script):
        if part[0] == "user":
            messages.append(user(str(part[1])))
        else:
            calls = [call(each, f'{{"key":"{key}"}}') for each, key in part[1]]  # type: ignore[attr-defined]  # the script's own shape
            messages.append(said(str(part[2]), *calls))
            if calls:
                messages.append(brought(*((each.id, f"{place} {each.id}") for each in calls)))
    return messages


@settings(max_examples=60, deadline=None)
@given(parts)
def test_a_history_read_piece_by_piece_or_at_once_is_the_same(script: list[tuple[object, ...]]) -> None:
    """E2, C006: ids come again in every answer; nothing is lost, nothing counts twice, also when it is read twice."""
    messages = conversation(script)
    at_once = opened("run_0", *messages)
    stepwise = opened("run_0", messages[0])
    for end in range(2, len(messages) + 1):
        stepwise = read(stepwise, *messages[:end])
    again = read(at_once, *messages)

    for run in (stepwise, again):
        assert [
            (step.call_id, step.arguments, step.result, step.status, step.turn) for step in run.steps
        ] == [(step.call_id, step.arguments, step.result, step.status, step.turn) for step in at_once.steps]
        assert (run.spent.calls, run.spent.per_tool) == (at_once.spent.calls, at_once.spent.per_tool)
        assert run.turn == at_once.turn
    assert at_once.turn_spent.calls == len(at_once.turn_steps)
    assert not at_once.open_steps


@settings(max_examples=60, deadline=None)
@given(parts, st.data())
def test_a_history_cut_or_rewritten_adds_no_step(
    script: list[tuple[object, ...]], choice: st.DataObject
) -> None:
    """Compaction: any part of a known history, behind a new beginning, holds nothing new, and takes no result away."""
    messages = conversation(script)
    run = opened("run_0", *messages)
    start = choice.draw(st.integers(0, len(messages)))
    end = choice.draw(st.integers(start, len(messages)))
    part = read(run, user("Summary."), *messages[start:end])

    assert [replace(step, turn=0) for step in part.steps] == [replace(step, turn=0) for step in run.steps]
    assert part.spent == run.spent
    assert part.seen_messages >= run.seen_messages
    assert part.turn == run.turn


def test_a_reminder_right_behind_results_opens_no_turn_and_a_person_after_an_answer_does() -> None:
    """B1, D12: an agent that sends a message of the user with every step is held to the limits of a turn all the same;
    a run that was stopped listens to whoever speaks, so that nobody is locked out."""
    history = [user(), said("", call("c1")), brought(("c1", "A=12"))]
    run = opened("run_0", *history[:1])
    run = read(run, *history)

    reminded = read(run, *history, user("Remember to be brief."))
    stopped = applied(run, RunChange(at=2.0, outcome=Outcome.NO_PROGRESS, stop_report="Stopped."))
    spoken_to = read(stopped, *history, user("Try again."))
    answered = read(run, *history, said("A is 12."), user("And B?"))

    assert (run.turn, reminded.turn, spoken_to.turn, answered.turn) == (1, 1, 2, 2)
    assert turn_openings([user(), user("More."), said("Yes."), user()]) == [True, False, False, True]
