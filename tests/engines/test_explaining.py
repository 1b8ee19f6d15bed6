"""A decision taken apart."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from proxy.engines.bundle import load_bundle, read_sources
from proxy.engines.explaining import Explanation, explained, flat
from proxy.errors import EngineFault
from tests.asked import asked, team_rule, written

if TYPE_CHECKING:
    from pathlib import Path

RULES: dict[str, Any] = {
    "org": {
        "tools": {"read": {"arguments": {"id": {"pattern": "^A", "max_length": 3, "required": False}}}},
        "limits": {"turn": {"calls": 5, "per_tool": {"read": 2}}},
        "denied_tools": ["write"],
    },
    "teams": {"blue": {"allowed_tools": ["read"], "limits": {"turn": {"calls": 3}}}},
    "agents": {"bot": {"limits": {"turn": {"calls": 3}}, "tools": {"read": {"approval": "required"}}}},
}
DENY = """deny contains {"code": "never", "call": call.index, "message": "m"} if {
	some call in input.calls
	call.arguments.id == "A2"
}

shadow contains {"code": "maybe", "message": "m"} if input.phase == "calls"
"""


def explain(
    folder: Path, name: str, arguments: dict[str, Any], rules: dict[str, Any] | None = None
) -> Explanation:
    written(folder, team_rule(DENY))
    said = RULES if rules is None else rules
    bundle, sources = load_bundle([folder], (), said), read_sources([folder], (), said, with_tests=False)
    return explained(bundle, sources, asked(name, arguments))


def test_every_denial_names_layer_rule_and_line(tmp_path: Path) -> None:
    """D5: data and Rego, enforced, shadow and approvals."""
    found = explain(tmp_path, "read", {"id": "A2"})
    said = {each.code: each for each in found.said}

    assert said["never"].layer == "team.blue"
    assert [(place.line, place.file.endswith("rules.rego")) for place in said["never"].places] == [(3, True)]
    assert said["maybe"].shadow
    assert (said["approval_required"].layer, said["approval_required"].action) == ("agent.bot", "")


def test_every_constraint_is_told_whether_it_held_or_not(tmp_path: Path) -> None:
    """D2: with the value and what was wanted."""
    tested = explain(tmp_path, "read", {"id": "B2"}).tested
    absent = explain(tmp_path, "read", {}).tested

    assert [(each.kind, each.wanted, each.values, each.holds) for each in tested] == [
        ("max_length", 3, ("B2",), True),
        ("pattern", "^A", ("B2",), False),
    ]
    assert [(each.values, each.holds) for each in absent] == [((), True), ((), True)]


def test_each_layer_is_asked_by_itself(tmp_path: Path) -> None:
    """D12, F2: what it adds to the others."""
    org, team, agent = explain(tmp_path, "write", {"id": "A2"}).layers

    assert (org.layer, org.codes, org.allowed_tools) == ("org", ("tool_not_allowed",), ("read",))
    assert (team.layer, team.codes, team.allowed_tools) == (
        "team.blue",
        ("never", "tool_not_allowed"),
        ("read",),
    )
    assert (agent.layer, agent.codes) == ("agent.bot", ())
    assert all(each.speaks for each in (org, team, agent))


def test_the_smallest_limit_is_told_with_those_who_set_it(tmp_path: Path) -> None:
    """E1: several layers may say the same."""
    assert explain(tmp_path, "read", {}).limits == {
        "turn.calls": (3, ("team.blue", "agent.bot")),
        "turn.per_tool.read": (2, ("org",)),
    }


def test_lists_and_reached_lines_are_told(tmp_path: Path) -> None:
    found = explain(tmp_path, "read", {"id": "A1"})
    (mine,) = [each for each in found.reached if str(tmp_path) in each.file]

    assert found.lists == (("team.blue", ("read",)),)
    assert (mine.reached, mine.missed) == ((4, 5, 8), (3,))
    assert found.sources[mine.file].startswith("package callgate.team.blue")


def test_arguments_that_cannot_be_read_break_every_constraint(tmp_path: Path) -> None:
    written(tmp_path, team_rule(DENY))
    bundle, sources = (
        load_bundle([tmp_path], (), RULES),
        read_sources([tmp_path], (), RULES, with_tests=False),
    )
    question = asked("read")
    question["calls"][0]["arguments"] = None

    tested = explained(bundle, sources, question).tested
    assert {(each.kind, each.holds) for each in tested} >= {("unreadable", False)}


def test_a_layer_that_nobody_wrote_does_not_speak(tmp_path: Path) -> None:
    found = explain(tmp_path, "read", {}, rules={"org": {}})

    assert [(each.layer, each.speaks) for each in found.layers] == [
        ("org", True),
        ("team.blue", True),
        ("agent.bot", False),
    ]


def test_what_is_no_decision_is_a_fault(tmp_path: Path) -> None:
    """D8: nothing is guessed."""
    written(tmp_path, team_rule("deny contains x if x := input.calls[0].name"))
    bundle, sources = load_bundle([tmp_path]), read_sources([tmp_path], with_tests=False)

    with pytest.raises(EngineFault, match="no decision"):
        explained(bundle, sources, asked("read"))


def test_nested_values_have_dotted_names() -> None:
    assert flat({"a": {"b": 1, "c": {"d": 2}}, "e": 3}) == {"a.b": 1, "a.c.d": 2, "e": 3}
