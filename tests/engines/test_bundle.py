"""Folders and files become a bundle, or a list of what is wrong."""

import dataclasses
from pathlib import Path

import pytest

from proxy.engines import BundleFault, load_bundle
from proxy.engines.bundle import shipped_folder
from tests.asked import asked, codes, decided, evaluator_of, team_rule, written

GOOD = 'deny contains {"code": "x", "message": "m"} if input.phase == "calls"'


def faults(*folders: Path, data: tuple[Path, ...] = ()) -> list[str]:
    with pytest.raises(BundleFault) as caught:
        load_bundle(folders, data)
    assert caught.value.code == "policy_error"
    return [str(fault) for fault in caught.value.faults]


def test_the_shipped_policies_load_by_themselves() -> None:
    bundle = load_bundle([])

    assert bundle.data["rules"]["profile"] == "starter"
    assert bundle.data["rules"]["org"] == {}
    assert "callgate/main/main.rego" in bundle.modules
    assert bundle.warnings == ()


def test_tests_are_never_loaded_for_decisions(tmp_path: Path) -> None:
    """A package payments_test would be a team that anybody could name."""
    files = team_rule(GOOD) | {
        "callgate/team/blue/rules_test.rego": "package callgate.team.blue_test\n\nx := 1\n"
    }
    bundle = load_bundle([written(tmp_path, files)])

    assert not [file for file in bundle.modules if file.endswith("_test.rego")]
    assert not [layer for layer in bundle.layers if layer.endswith("_test")]


def test_a_folder_named_twice_is_read_once(tmp_path: Path) -> None:
    assert load_bundle([shipped_folder()]).revision == load_bundle([]).revision


def test_the_revision_is_that_of_the_content(tmp_path: Path) -> None:
    one = load_bundle([written(tmp_path / "one", team_rule(GOOD))])
    same = load_bundle([written(tmp_path / "two", team_rule(GOOD))])
    other = load_bundle([written(tmp_path / "three", team_rule(GOOD + "\n"))])
    data = load_bundle([tmp_path / "one"], settings={"org": {"allowed_tools": []}})

    assert one.revision == same.revision
    assert len({one.revision, other.revision, data.revision, load_bundle([]).revision}) == 4


def test_rule_data_comes_from_folders_files_and_settings(tmp_path: Path) -> None:
    folder = written(
        tmp_path / "p",
        {
            "callgate/rules.yaml": "org: {allowed_tools: [a]}\nteams: {blue: {allowed_tools: [b]}}",
            "callgate/team/blue/rules.yaml": "limits: {turn: {calls: 5}}",
            "callgate/agent/bot/rules.json": '{"denied_tools": ["x"]}',
            "callgate/org/rules.yml": "denied_tools: [y]",
        },
    )
    file = tmp_path / "own.yaml"
    file.write_text("org: {allowed_tools: [c]}\nprofile: strict")
    bundle = load_bundle([folder], [file], {"profile": "starter", "agents": {"other": {}}})
    rules = bundle.data["rules"]

    assert rules["profile"] == "strict"
    assert rules["org"] == {"allowed_tools": ["c"], "denied_tools": ["y"]}
    assert rules["teams"]["blue"] == {"allowed_tools": ["b"], "limits": {"turn": {"calls": 5}}}
    assert rules["agents"]["bot"] == {"denied_tools": ["x"]}
    assert {"agent.bot", "agent.other", "org", "team.blue"} <= set(bundle.layers)


def test_everything_that_is_wrong_is_said_at_once(tmp_path: Path) -> None:
    files = {
        "callgate/team/a/x.rego": "package callgate.team.a\n\nx := {",
        "callgate/team/b/x.rego": "package callgate.team.c\n\nx := nothing(1)\n",
        "callgate/rules.yaml": "orgs: {}",
        "callgate/team/b/rules.yaml": "x: [",
        "callgate/lib/rules.yaml": "{}",
    }
    found = faults(written(tmp_path, files))

    assert len(found) == 6
    for part in (
        "a/x.rego:3:",
        "b/x.rego:1:1: error: the package is callgate.team.c",
        "b/x.rego:3:6: error: there is no function nothing",
        "callgate/rules.yaml:1:1: error: orgs: there is no such key; did you mean org?",
        "b/rules.yaml:",
        "callgate/lib/rules.yaml: error: rule data is in",
    ):
        assert any(part in fault for fault in found), (part, found)


@pytest.mark.parametrize(
    ("raw", "complaint"), [(b"\xff", "is not UTF-8 text"), (b"#" * 3_000_000, "is larger than 2 MiB")]
)
def test_files_that_cannot_be_read_are_said(tmp_path: Path, raw: bytes, complaint: str) -> None:
    file = tmp_path / "callgate" / "team" / "a" / "x.rego"
    file.parent.mkdir(parents=True)
    file.write_bytes(raw)

    assert complaint in faults(tmp_path)[0]


def test_files_that_are_not_there_are_said(tmp_path: Path) -> None:
    assert "cannot be read" in faults(data=(tmp_path / "missing.yaml",))[0]
    assert "there is no folder callgate in it" in faults(tmp_path)[0]


def test_other_data_files_are_not_read_and_it_is_said(tmp_path: Path) -> None:
    """Data beside a rule could hide it in the embedded engine."""
    files = team_rule(GOOD) | {
        "callgate/team/blue/data.json": '{"deny": []}',
        "callgate/.hidden/x.yaml": "a: 1",
    }
    bundle = load_bundle([written(tmp_path, files)])
    (warning,) = bundle.warnings

    assert "data.json: warning: is not read" in str(warning)
    assert codes(decided(evaluator_of(bundle), asked())) == ["x"]


def test_results_are_read_only_where_a_rule_reads_them(tmp_path: Path) -> None:
    reading = 'deny contains {"code": "x", "message": "m"} if input.run.steps[0].result == "a"'
    data = {"org": {"tools": {"t": {"arguments": {"x": {"in_results_of": ["y"]}}}}}}

    assert not load_bundle([written(tmp_path / "a", team_rule(GOOD))]).reads_results("blue", "bot")
    assert load_bundle([written(tmp_path / "b", team_rule(reading))]).reads_results("blue", "bot")
    assert not load_bundle([tmp_path / "b"]).reads_results("red", "bot")
    assert load_bundle([], settings=data).reads_results("", "")
    shared = {"callgate/shared/a.rego": "package callgate.shared\n\nx := input.run.steps[0].result_json\n"}
    assert load_bundle([written(tmp_path / "c", shared)]).reads_results("", "")


@pytest.mark.parametrize(
    "constraint",
    [
        {"named_by": ["user", "y"]},
        {"owned_by": {"tool": ["y"], "object": "id", "owner": "o", "equals": "identity.user"}},
        {"as_shown": {"tool": ["y"], "object": "id", "field": "f"}},
    ],
)
def test_a_constraint_that_looks_into_results_is_given_them(constraint: dict[str, object]) -> None:
    """D2, D3: else it would find nothing, and refuse all."""
    data = {"teams": {"blue": {"tools": {"t": {"arguments": {"x": constraint}}}}}}

    assert load_bundle([], settings=data).reads_results("blue", "")
    assert not load_bundle([], settings=data).reads_results("red", "")


def test_settings_are_checked_like_files() -> None:
    with pytest.raises(BundleFault) as caught:
        load_bundle([], settings={"profil": "strict"})

    assert "settings: error: profil: there is no such key; did you mean profile?" in str(caught.value)


def test_a_bundle_is_a_value() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        load_bundle([]).revision = "x"  # type: ignore[misc]  # that it is frozen is the point
