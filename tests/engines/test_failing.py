"""Why a test of policies failed."""

from pathlib import Path

import pytest

from proxy.engines import TestChoice, examined
from proxy.engines.failing import Failure
from tests.asked import team_rule, written

RULE = 'deny contains {"code": "x", "message": "m"} if input.phase == "calls"'


def failure(folder: Path, test: str) -> Failure | None:
    text = f"package callgate.team.blue_test\n\nimport data.callgate.team.blue\n\n{test}\n"
    files = team_rule(RULE) | {"callgate/team/blue/rules_test.rego": text}
    (found,) = examined([written(folder, files)], TestChoice(shipped=False)).tests
    assert not found.passed
    return found.failure


def test_the_first_expression_that_does_not_hold_is_told_with_what_its_parts_came_to(tmp_path: Path) -> None:
    """F3: with the overrides that stand behind it."""
    found = failure(
        tmp_path,
        """test_no if {
	wanted := 2
	count(blue.deny) == wanted with input as {"phase": "calls"}
	false
}""",
    )

    assert found == Failure(
        7,
        'count(blue.deny) == wanted with input as {"phase": "calls"}',
        (("count(blue.deny)", "1"), ("wanted", "2")),
    )


@pytest.mark.parametrize(
    ("body", "values"),
    [
        ("not 1 + 1 == 2", (("1 + 1", "2"),)),
        ("input.x == 1", (("input.x", "undefined"),)),
        ('some x in ["a", "b"]; x == "c"', (("x", '"a" or "b"'),)),
        ("some x in numbers.range(1, 9); x > 9", (("x", "1 or 2 or 3 and 6 more"),)),
        ("3 in [1, 2]", (("[1, 2]", "[1, 2]"),)),
        ("every x in [1, 2] { x < 2 }", (("[1, 2]", "[1, 2]"),)),
        ("x := input.y", (("input.y", "undefined"),)),
        ("count([1]) == 1; is_string(count([]))", (("is_string(count([]))", "false"),)),
        ("some x in input.y", (("input.y", "undefined"),)),
    ],
)
def test_each_kind_of_expression_tells_its_parts(
    tmp_path: Path, body: str, values: tuple[tuple[str, str], ...]
) -> None:
    found = failure(tmp_path, f"test_no if {{ {body} }}")

    assert found is not None
    assert found.values == values


@pytest.mark.parametrize(
    "test", ["test_no := false", "test_no := 3 if true", 'test_no if to_number("x") == 1']
)
def test_where_no_expression_is_to_blame_none_is_named(tmp_path: Path, test: str) -> None:
    assert failure(tmp_path, test) is None


def test_a_long_value_is_cut(tmp_path: Path) -> None:
    found = failure(tmp_path, "test_no if numbers.range(1, 500) == []")

    assert found is not None
    assert len(found.values[0][1]) == 241
