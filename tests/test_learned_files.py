"""What was learned, as files."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from proxy.engines import TestChoice, examined, load_bundle
from proxy.engines.marked import read_marked
from proxy.engines.rules import RuleData, checked
from proxy.learned_files import as_json, as_rego, as_yaml
from proxy.learning import Learned, LearnSettings, learned_from, rule_data
from proxy.seen_calls import SeenAnswer
from tests.asked import asked, codes, decided, evaluator_of
from tests.test_learning import CALLS, answer

if TYPE_CHECKING:
    from pathlib import Path

ODD = 'x"\n\u2028\x7f\U0001f600: #{'


def learned() -> Learned:
    seen = [
        answer("read", {"id": f"A{place}", "kind": "x", "items": [{"n": place}]}, run=str(place))
        for place in range(4)
    ]
    seen += [answer(ODD, {ODD.replace(".", ""): ODD}), answer("write", {"a.b": 1})]
    others = [(layer, each) for layer in ("team.blue", "agent.my bot") for _, each in seen]
    return learned_from([*seen, *others], LearnSettings())


def test_yaml_and_json_say_the_same_and_load() -> None:
    """D1, D2: `callgate check` takes it as it is."""
    found = learned()
    tree, faults = checked(read_marked("rules.yaml", as_yaml(found)), RuleData)
    same, more_faults = checked(read_marked("rules.json", as_json(found)), RuleData)

    assert faults == more_faults == []
    assert tree == same
    assert json.loads(as_json(found)) == rule_data(found)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.lists(CALLS, min_size=1, max_size=4),
    st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")),
)
def test_whatever_was_called_can_be_written_down(calls: list[tuple[str, dict[str, Any]]], name: str) -> None:
    """Names, values and comments come from outside."""
    seen = [SeenAnswer("r", 1, ((tool, arguments), (name, {name: name}))) for tool, arguments in calls]
    found = learned_from([("agent.x", each) for each in seen])
    tree, faults = checked(read_marked("rules.yaml", as_yaml(found)), RuleData)

    assert faults == []
    assert tree == checked(read_marked("rules.json", as_json(found)), RuleData)[0]


def test_every_line_has_its_evidence() -> None:
    text = as_yaml(learned())

    assert '      id: {pattern: "^[A-Z]{1}[0-9]{1}$", required: true}' not in text  # names are quoted
    assert (
        '"id": {pattern: "^[A-Z]{1}[0-9]{1}$", required: true}  # 4 times in 4 runs, e.g. "A0", "A1", "A2"'
        in text
    )
    assert '"kind": {one_of: ["x"], required: true}  # 4 times in 4 runs' in text
    assert '"read":  # 4 calls in 4 runs' in text
    assert '# refused, since rule data cannot say what was seen: "a.b"' in text
    assert "calls: 6  # the most in one turn" not in text


def test_examples_can_be_left_out() -> None:
    found = learned_from([answer("read", {"id": "A1"})], LearnSettings(examples=False))

    assert "e.g." not in as_yaml(found)
    assert "A1" not in as_yaml(found)


def test_what_was_left_out_or_not_recorded_is_told() -> None:
    seen = [answer("read", {}, run="1"), answer("read", {}, run="2"), answer("look", {}, run="2")]
    seen.append(("org", SeenAnswer("3", 1, (("read", None),))))
    text = as_yaml(learned_from(seen, LearnSettings(min_runs=2)))

    assert '# left out: "look", called in 1 runs' in text
    assert "arguments of 1 are not recorded in full, so none is constrained" in text


@pytest.fixture(name="folder")
def _folder(tmp_path: Path) -> Path:
    for name, text in as_rego(learned()).items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return tmp_path


def test_the_rego_loads_and_its_tests_hold(folder: Path) -> None:
    """F3: `callgate test` proves it against calls that were seen."""
    run = examined([folder], TestChoice(shipped=False))

    assert load_bundle([folder]).warnings == ()
    assert len(run.tests) > 6
    assert [test for test in run.tests if not test.passed] == []


@pytest.mark.parametrize(
    ("name", "arguments", "said"),
    [
        ("read", {"id": "A7", "kind": "x", "items": [{"n": 2}]}, []),
        ("read", {"id": "A7", "kind": "x", "items": [{"n": 9}]}, ["argument_rule"]),
        ("read", {"id": "A7", "kind": "x", "items": [], "z": 1}, ["argument_rule"]),
        ("send", {}, ["tool_not_allowed"]),
    ],
)
def test_the_rego_decides_as_the_rule_data(folder: Path, name: str, arguments: Any, said: list[str]) -> None:
    question = asked(name, arguments)
    by_rego = decided(evaluator_of(load_bundle([folder])), question)
    by_data = decided(evaluator_of(load_bundle([], (), rule_data(learned()))), question)

    assert sorted(set(codes(by_rego))) == said
    assert sorted(set(codes(by_data))) == said
    assert by_rego["limits"] == by_data["limits"]


def test_secrets_stand_in_no_file() -> None:
    found = learned_from([answer("read", {"token": "s3cr3t-value", "id": "A1"})])

    assert not any("s3cr3t" in text for text in (as_yaml(found), as_json(found), *as_rego(found).values()))


@pytest.mark.parametrize("name", ["../up", "a/b", ".hidden", "", "a\0b", "a\\\\b"])
def test_a_name_from_a_recording_leads_out_of_no_folder(name: str) -> None:
    found = learned_from([(f"agent.{name}", answer("read", {})[1])])

    with pytest.raises(ValueError, match="name of a folder"):
        as_rego(found)
