"""The runner of Rego tests."""

from pathlib import Path

import pytest

from proxy.engines import BundleFault, RegoTest, run_policy_tests
from tests.asked import team_rule, written

RULE = 'deny contains {"code": "x", "message": "m"} if input.phase == "calls"'


def results(folder: Path, tests: str) -> list[RegoTest]:
    text = f"package callgate.team.blue_test\n\nimport data.callgate.team.blue\n\n{tests}\n"
    files = team_rule(RULE) | {"callgate/team/blue/rules_test.rego": text}
    return [result for result in run_policy_tests([written(folder, files)]) if str(folder) in result.file]


def test_only_true_passes(tmp_path: Path) -> None:
    tests = """test_yes if count(blue.deny) == 1 with input as {"phase": "calls"}

test_no if count(blue.deny) == 2 with input as {"phase": "calls"}

test_false := false

test_number := 1

test_error if to_number("12x") == 1

helper := 1"""
    found = {result.name: (result.passed, result.message) for result in results(tmp_path, tests)}

    assert found["test_yes"] == (True, "")
    assert found["test_no"] == (False, "is <undefined>, not true")
    assert found["test_false"] == (False, "is false, not true")
    assert found["test_number"] == (False, "is 1, not true")
    assert "could not parse string as number" in found["test_error"][1]
    assert len(found) == 5


def test_of_two_tests_of_one_name_none_passes(tmp_path: Path) -> None:
    found = results(tmp_path, "test_twice if true\n\ntest_twice if false")

    assert [(result.passed, result.line) for result in found] == [(False, 5), (False, 7)]


def test_a_test_leaves_nothing_to_the_next_one(tmp_path: Path) -> None:
    tests = """test_a if count(blue.deny) == 0 with blue.deny as set()

test_b if count(blue.deny) == 1 with input as {"phase": "calls"}"""

    assert [result.passed for result in results(tmp_path, tests)] == [True, True]


def test_tests_that_do_not_load_are_said(tmp_path: Path) -> None:
    with pytest.raises(BundleFault, match="there is no function nothing"):
        results(tmp_path, "test_a if nothing(1)")
