"""A policy from recorded runs: all that was seen is allowed, and nothing else."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import HealthCheck, given, settings, strategies as st

from proxy.learned_values import Thresholds
from proxy.learning import LearnSettings, learned_from, replayed, rule_data
from proxy.seen_calls import SeenAnswer
from tests.asked import asked, codes, decided, with_rules
from tests.test_learned_values import VALUES

ARGUMENTS = st.dictionaries(st.sampled_from(["id", "n", "list", "deep", "odd.name"]), VALUES, max_size=3)
CALLS = st.tuples(st.sampled_from(["read", "write", "look"]), ARGUMENTS)


def answer(
    name: str, arguments: Any, *, run: str = "r", turn: int = 1, **changes: Any
) -> tuple[str, SeenAnswer]:
    document = asked(name, arguments, **changes)
    return "org", SeenAnswer(run, turn, ((name, arguments),), document)


def refused(rules: Any, name: str, arguments: Any, **changes: Any) -> list[str]:
    return codes(decided(with_rules(rules), asked(name, arguments, **changes)))


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(CALLS, min_size=1, max_size=6))
def test_what_was_seen_is_allowed_and_what_was_not_is_refused(
    calls: list[tuple[str, dict[str, Any]]],
) -> None:
    """D1, D2: least privilege, proven call by call in the engine that will judge."""
    seen = [answer(name, arguments, run=str(place)) for place, (name, arguments) in enumerate(calls)]
    learned = learned_from(seen)
    rules = rule_data(learned)
    tools = learned["org"].tools

    for name, arguments in calls:
        if any(path in arguments and arguments[path] is not None for path in tools[name].unsaid):
            assert refused(rules, name, arguments) != []
        elif not tools[name].unsaid:
            assert refused(rules, name, arguments) == []
            assert refused(rules, name, arguments | {"further": 1}) == ["argument_rule"]
            assert refused(rules, name, arguments | {"further": {}}) == ["argument_rule"]
    for name in {"read", "write", "look", "send"} - {name for name, _ in calls}:
        assert refused(rules, name, {}) == ["tool_not_allowed"]


def test_a_value_comes_from_where_all_came_from() -> None:
    """D3, D12: an id that was always in an earlier result, or always said, has to be."""
    step = {"number": 1, "tool": "look", "status": "found", "result_json": {"ids": ["A123", "B456"]}}
    task = {"folded": "order a123 and b456", "user_texts": ["order A123 and B456"]}
    seen = [answer("read", {"id": value}, run=value, task=task) for value in ("A123", "B456")]
    seen = [
        (layer, SeenAnswer(each.run, 1, each.calls, {**(each.document or {}), "run": {"steps": [step]}}))
        for layer, each in seen
    ]
    (argument,) = learned_from(seen)["org"].tools["read"].arguments.values()
    without = learned_from(seen, LearnSettings(origins=False))["org"].tools["read"].arguments["id"]

    assert argument.constraint == {
        "pattern": "^[A-Z]{1}[0-9]{3}$",
        "required": True,
        "in_results_of": ["look"],
        "in_user_text": True,
    }
    assert without.constraint == {"pattern": "^[A-Z]{1}[0-9]{3}$", "required": True}
    assert replayed(learned_from(seen), seen).refused_calls == 0


def test_one_value_from_elsewhere_and_nothing_is_said_about_origins() -> None:
    step = {"number": 1, "tool": "look", "status": "found", "result": "A123"}
    seen = [answer("read", {"id": value}, run=value) for value in ("A123", "B456")]
    seen = [
        (layer, SeenAnswer(each.run, 1, each.calls, {**(each.document or {}), "run": {"steps": [step]}}))
        for layer, each in seen
    ]

    assert "in_results_of" not in learned_from(seen)["org"].tools["read"].arguments["id"].constraint


def test_limits_are_the_most_that_one_turn_had() -> None:
    """E1: per tool and in all."""
    seen = [answer("read", {}), answer("read", {}), answer("write", {}), answer("read", {}, turn=2)]

    assert rule_data(learned_from(seen))["org"]["limits"] == {
        "turn": {"calls": 3, "per_tool": {"read": 2, "write": 1}}
    }
    more = [*seen, answer("write", {})]
    assert replayed(learned_from(seen), more).over_limit == 1


def test_tools_of_too_few_runs_are_left_out_and_told() -> None:
    seen = [answer("read", {}, run="1"), answer("read", {}, run="2"), answer("write", {}, run="2")]
    layer = learned_from(seen, LearnSettings(min_runs=2))["org"]

    assert (list(layer.tools), layer.left_out) == (["read"], {"write": 1})


def test_a_name_with_a_star_at_its_end_would_stand_for_others() -> None:
    layer = learned_from([answer("read*", {}), answer("look", {})])["org"]

    assert (list(layer.tools), layer.left_out) == (["look"], {"read*": 1})


def test_arguments_that_are_not_recorded_are_not_constrained() -> None:
    seen = [("org", SeenAnswer("r", 1, (("read", {"id": 1}), ("read", None))))]
    rules = rule_data(learned_from(seen))

    assert rules["org"]["tools"] == {"read": {}}


def test_what_rule_data_cannot_say_is_refused_and_told() -> None:
    tool = learned_from([answer("read", {"a.b": 1, "x": [{"*": 1}], "y": 1})])["org"].tools["read"]

    assert tool.unsaid == ("a.b", "x.*") or set(tool.unsaid) >= {"a.b", "x"}
    assert (
        refused(rule_data({"org": learned_from([answer("read", {"a.b": 1})])["org"]}), "read", {"a.b": 1})
        != []
    )


def test_an_argument_that_was_missing_once_may_be_missing() -> None:
    seen = [answer("read", {"id": "A1"}, run="1"), answer("read", {}, run="2")]
    rules = rule_data(learned_from(seen))

    assert refused(rules, "read", {}) == []
    assert refused(rules, "read", {"id": "A1"}) == []
    assert refused(rules, "read", {"id": "other"}) == ["argument_rule"]


def test_secrets_stand_neither_in_rules_nor_in_evidence() -> None:
    seen = [answer("read", {"api_key": "s3cr3t", "q": f"{place}"}, run=str(place)) for place in range(9)]
    tool = learned_from(seen, LearnSettings(thresholds=Thresholds(times=1)))["org"].tools["read"]

    assert "s3cr3t" not in repr(tool)
    assert tool.samples == ()
    assert tool.arguments["api_key"].constraint == {"type": "string", "max_length": 8, "required": True}


def test_what_looks_like_a_secret_is_one_whatever_its_key_says() -> None:
    key = "sk-" + "abcdefghijklmnop1234"
    seen = [answer("read", {"note": key}, run=str(place)) for place in range(9)]

    assert key not in repr(learned_from(seen, LearnSettings(thresholds=Thresholds(times=1))))


def test_each_layer_has_its_own() -> None:
    """D1: what one agent did permits another nothing."""
    read, write = answer("read", {})[1], answer("write", {})[1]
    rules = rule_data(learned_from([("agent.bot", read), ("team.blue", write), ("org", read)]))

    assert rules["agents"]["bot"]["allowed_tools"] == ["read"]
    assert rules["teams"]["blue"]["allowed_tools"] == ["write"]
    assert json.dumps(list(rules)) == '["org", "teams", "agents"]'
