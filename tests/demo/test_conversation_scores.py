"""What policies are worth on recorded runs, counted by hand."""

from __future__ import annotations

import io

from rich.console import Console

from proxy.demo.conversation_scores import print_scores, rows, rule_rows, scored, writing_tools
from proxy.demo.conversations import Caller, Conversation, JudgedCall, Played

RULES = {
    "org": {"tools": {"pay": {"effect": "write"}, "find": {"effect": "read"}}},
    "teams": {"blue": {"tools": {"send": {"effect": "write"}}}},
    "agents": {},
}


def _played(
    name: str, reward: float, calls: list[JudgedCall], expected: list[tuple[str, object]] | None
) -> Played:
    return Played(Conversation(name, [], reward, expected), calls=calls)


def _pay(amount: object, result: str | None = '{"paid": true}', *, refused: str = "") -> JudgedCall:
    return JudgedCall(
        1, "pay", {"amount": amount}, result, released=not refused, refused_by=(refused,) if refused else ()
    )


def test_calls_are_told_apart_by_whether_they_were_wanted_refused_and_done() -> None:
    wanted: list[tuple[str, object]] = [("pay", {"amount": 3}), ("pay", {"amount": 4})]
    good = _played("good", 1.0, [_pay(3.0), _pay(4, refused="too_much")], wanted)
    bad = _played(
        "bad", 0.0, [_pay(5), _pay(6, "Error: no money"), _pay(7, refused="too_much"), _pay(8, None)], wanted
    )

    scores = scored([good, bad], {"pay"})

    assert scores is not None
    assert rows(scores) == [
        ("wanted by the task's author", 1, 1, 2),
        ("not wanted, took effect", 1, 1, 2),
        ("not wanted, failed by itself", 0, 2, 2),
        ("all", 2, 4, 6),
    ]
    assert rule_rows(scores) == [("too_much", 1, 1)]
    assert (scores.good, scores.touched, scores.touched_without_loss) == (1, ["good"], [])
    assert [each.run for each in scores.harmful] == ["bad"]


def test_a_wanted_call_is_wanted_until_it_has_succeeded() -> None:
    """A second booking is one too many; a second try after an error is not."""
    calls = [_pay(3, "Error: try again"), _pay(3), _pay(3)]

    scores = scored([_played("run", 0.0, calls, [("pay", {"amount": 3})])], {"pay"})

    assert scores is not None
    assert [each.wanted for each in scores.calls] == [True, True, False]


def test_lists_count_in_their_order_and_true_is_not_one() -> None:
    calls = [_pay([1, 2]), _pay([2, 1]), _pay(True)]

    scores = scored(
        [_played("run", 0.0, calls, [("pay", {"amount": [2, 1]}), ("pay", {"amount": 1})])], {"pay"}
    )

    assert scores is not None
    assert [each.wanted for each in scores.calls] == [False, True, False]


def test_a_good_run_is_touched_when_only_a_failing_call_was_refused() -> None:
    """It is said, and said that nothing was lost."""
    run = _played("run", 1.0, [_pay(3, "Error: no", refused="rule"), _pay(4)], [("pay", {"amount": 4})])

    scores = scored([run], {"pay"})

    assert scores is not None
    assert (scores.touched, scores.touched_without_loss) == (["run"], ["run"])


def test_runs_that_do_not_say_what_was_wanted_have_no_scores() -> None:
    assert scored([_played("run", 1.0, [_pay(3)], None)], {"pay"}) is None
    assert scored([_played("run", 1.0, [_pay(3)], [])], frozenset()) is None


def test_tools_with_side_effects_are_those_of_the_callers_layers() -> None:
    assert writing_tools(RULES, Caller()) == {"pay"}
    assert writing_tools(RULES, Caller(team="blue")) == {"pay", "send"}


def test_what_is_printed_names_rules_and_the_calls_to_look_at() -> None:
    scores = scored([_played("run", 1.0, [_pay(3), _pay(4, refused="r")], [("pay", {"amount": 4})])], {"pay"})
    text = io.StringIO()

    assert scores is not None
    print_scores(Console(file=text, width=200), scores)

    printed = text.getvalue()
    assert 'run, round 1: pay {"amount":4} (r)' in printed
    assert 'Not wanted, passed, took effect:\n  run, round 1: pay {"amount":3}' in printed
    assert "Touched, of 1 runs with reward 1:\n  run\n" in printed
