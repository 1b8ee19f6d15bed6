"""Where a decision was written down."""

from pathlib import Path

import pytest

from proxy.engines.bundle import load_bundle, read_sources
from proxy.engines.rule_places import RulePlace, places_of
from tests.asked import written

REGO = """package callgate.team.blue

# METADATA
# title: Orders are read first
# custom:
#   code: order_not_read
deny contains denial if {
	some call in input.calls
	denial := {"code": "order_not_read", "call": call.index, "message": "m"}
}

deny contains {"code": "plain", "message": "m"} if input.x

allowed_tools := {"read"} if input.narrow
"""
TEAM = """
roles:
  clerk: {tools: [read]}
tools:
  a.b: {arguments: {x.y: {pattern: "^a$"}}}
  a: {roles: [boss]}
"""
SETTINGS = "teams:\n  blue:\n    tools:\n      a.b:\n        arguments:\n          x.y: {pattern: '^b$'}\n"


def found(folder: Path, code: str, rule: str, tool: str = "") -> list[RulePlace]:
    files = {"callgate/team/blue/a.rego": REGO, "callgate/team/blue/rules.yaml": TEAM, "rules.yaml": SETTINGS}
    written(folder, files)
    asked = ([folder], [folder / "rules.yaml"])
    bundle, sources = load_bundle(*asked), read_sources(*asked, with_tests=False)
    places = places_of(sources, bundle.data["rules"], "team.blue", code, rule, tool)
    return [
        RulePlace(Path(each.file).relative_to(folder).as_posix(), each.line, each.text) for each in places
    ]


IN_DATA = "callgate/team/blue/rules.yaml"
IN_REGO = "callgate/team/blue/a.rego"


@pytest.mark.parametrize(
    ("code", "rule", "tool", "file", "line"),
    [
        ("order_not_read", "order_not_read", "", IN_REGO, 7),
        ("plain", "other_rule", "", IN_REGO, 12),
        ("argument_rule", "tools.a.b.arguments.x.y.pattern", "a.b", "rules.yaml", 6),
        ("argument_rule", "tools.a.b.arguments.x.y.required", "a.b", "rules.yaml", 6),
        ("tool_not_allowed", "tools.roles", "a", IN_DATA, 6),
        ("tool_not_allowed", "allowed_tools", "send", IN_DATA, 2),
    ],
)
def test_each_kind_of_rule_has_its_line(
    tmp_path: Path, code: str, rule: str, tool: str, file: str, line: int
) -> None:
    """D5: names with dots are told apart, and the strongest file counts."""
    assert [(each.file, each.line) for each in found(tmp_path, code, rule, tool)] == [(file, line)]


def test_a_rule_in_rego_is_named_by_its_title(tmp_path: Path) -> None:
    (place,) = found(tmp_path, "order_not_read", "order_not_read")

    assert place.text == "Orders are read first"


def test_what_nobody_wrote_down_has_no_place(tmp_path: Path) -> None:
    assert found(tmp_path, "other", "other") == []


def test_an_unknown_layer_has_no_place() -> None:
    sources = read_sources([], with_tests=False)

    assert places_of(sources, {"org": {}}, "team.nobody", "x", "tools.y.arguments.z") == []
    assert places_of(sources, {"org": {}}, "", "undefined_decision", "decision") == []
