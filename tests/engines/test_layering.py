"""What the embedded engine is given: the same decisions, without the faults that whole packages have in it."""

import json
from pathlib import Path

import pytest

from proxy.engines import load_bundle
from proxy.engines.layering import layers_module
from proxy.engines.worker import Evaluator
from tests.asked import asked, codes, decided, evaluator_of, team_rule, written

TWO_FILES = {
    "callgate/team/blue/a.rego": "package callgate.team.blue\n\n_unused := 1\n",
    "callgate/team/blue/b.rego": "package callgate.team.blue\n\n"
    'deny contains {"code": code, "message": "m"} if some code in _codes\n\n_codes contains "one"\n',
    "callgate/team/blue/c.rego": 'package callgate.team.blue\n\n_codes contains "two" if input.phase == "calls"\n',
    "callgate/team/blue/allowed.rego": 'package callgate.team.blue\n\nallowed_tools := {"read"} if _narrow\n',
    "callgate/team/blue/why.rego": "package callgate.team.blue\n\ndefault _narrow := false\n\n_narrow if count(_codes) == 2\n",
}


def test_a_package_in_several_files_is_read_as_one(tmp_path: Path) -> None:
    """The engine alone would lose these denials: a prohibition must not hang on how files are cut."""
    decision = decided(evaluator_of(load_bundle([written(tmp_path, TWO_FILES)])), asked())

    assert codes(decision) == ["one", "two"]
    assert decision["allowed_tools"] == ["read"]


def test_the_engine_alone_does_lose_them() -> None:
    """Why names are resolved here. When this fails, the engine was mended."""
    modules = {
        "a.rego": "package m\n\n_z := 1\n",
        "b.rego": "package m\n\nd contains x if some x in s\n\ns contains 1\n",
        "c.rego": "package c\n\nimport data.m\n\nt := m.d\n",
    }

    assert json.loads(Evaluator(modules).evaluate("data.c.t", "{}")) == []


def test_helpers_in_packages_of_their_own_are_read_rule_by_rule(tmp_path: Path) -> None:
    files = {
        "callgate/shared/a.rego": "package callgate.shared\n\nx := 1\n",
        "callgate/shared/b.rego": "package callgate.shared\n\nlist contains y if some y in more\n\nmore contains 7\n",
        "callgate/shared/deep/c.rego": "package callgate.shared.deep\n\nz contains y if some y in w\n\nw contains 8\n",
    } | team_rule(
        "import data.callgate.shared\nimport data.callgate.shared.deep as d\n\n"
        'deny contains {"code": "x", "message": sprintf("%v", [union({shared.list, d.z})])}'
    )
    decision = decided(evaluator_of(load_bundle([written(tmp_path, files)])), asked())

    assert [denial["message"] for denial in decision["deny"]] == ["{7, 8}"]


def test_a_layer_is_only_asked_for_its_own_members(tmp_path: Path) -> None:
    """F2: what another team's rules do, even if they fail, is nothing to this one."""
    files = team_rule('deny contains {"code": "x", "message": to_number("12x")}', name="red") | team_rule(
        'deny contains {"code": "blue", "message": "m"}'
    )
    evaluator = evaluator_of(load_bundle([written(tmp_path, files)]))

    assert codes(decided(evaluator, asked())) == ["blue"]
    stranger = asked(identity={"team": "green", "roles": []})
    assert codes(decided(evaluator, stranger)) == []


def test_a_team_demands_a_person_for_its_own_calls_only(tmp_path: Path) -> None:
    """D4, F2: and speaks for no other layer, whatever it writes."""
    rule = 'approve contains {"code": "ask", "call": call.index, "message": "m"} if some call in input.calls'
    evaluator = evaluator_of(load_bundle([written(tmp_path, team_rule(rule))]))
    wanted = [{"code": "ask", "call": 0, "message": "m", "layer": "team.blue", "rule": "ask"}]

    assert decided(evaluator, asked())["approvals"] == wanted
    assert decided(evaluator, asked(identity={"team": "green", "roles": []}))["approvals"] == []


@pytest.mark.parametrize("name", ["a-b", "default", "x y", "Ünï", 'q"q', "in"])
def test_a_layer_may_have_any_name(tmp_path: Path, name: str) -> None:
    quoted = json.dumps(name, ensure_ascii=False)
    files = {
        f"callgate/team/{name}/a.rego": f"package callgate.team[{quoted}]\n\n"
        'deny contains {"code": "named", "message": "m"}\n\nlimits := {"run": {"calls": 1}}\n'
    }
    decision = decided(
        evaluator_of(load_bundle([written(tmp_path, files)])), asked(identity={"team": name, "roles": []})
    )

    assert [(denial["code"], denial["layer"]) for denial in decision["deny"]] == [("named", f"team.{name}")]
    assert decision["limits"]["run"] == {"calls": 1, "per_tool": {}}


def test_everything_that_a_layer_says_is_taken(tmp_path: Path) -> None:
    rule = (
        'deny contains {"code": "no", "message": "m"}\n\nshadow contains {"code": "maybe", "message": "m"}\n\n'
        'allowed_tools := {"read"}\n\nlimits := {"turn": {"calls": 2}}'
    )
    decision = decided(evaluator_of(load_bundle([written(tmp_path, team_rule(rule))])), asked())

    assert codes(decision) == ["no"]
    assert [denial["code"] for denial in decision["shadow"]] == ["maybe"]
    assert decision["allowed_tools"] == ["read"]
    assert decision["limits"]["turn"] == {"calls": 2, "per_tool": {}}


def test_without_layers_everything_is_there_and_empty() -> None:
    evaluator = Evaluator({"l.rego": layers_module([])})

    assert json.loads(evaluator.evaluate("data.callgate.layers.deny", "{}")) == []
    assert json.loads(evaluator.evaluate("data.callgate.layers.limits", "{}")) == []
