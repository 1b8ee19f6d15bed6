"""The runner of Rego tests."""

import re
from pathlib import Path

import pytest

from proxy.engines import BundleFault, RegoTest, TestChoice, examined, run_policy_tests
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


def test_only_the_chosen_tests_run(tmp_path: Path) -> None:
    text = "package callgate.team.blue_test\n\ntest_a if true\n\ntest_b if true\n"
    files = team_rule(RULE) | {"callgate/team/blue/rules_test.rego": text}
    run = examined([written(tmp_path, files)], TestChoice(re.compile(r"blue_test\.test_b"), shipped=False))

    assert [test.name for test in run.tests] == ["test_b"]
    assert all(test.seconds > 0 for test in run.tests)


def test_a_folder_without_tests_is_told(tmp_path: Path) -> None:
    bare = written(tmp_path / "bare", team_rule(RULE))

    assert examined([bare], TestChoice(shipped=False)).untested == (bare,)


def test_without_any_test_no_line_is_reached(tmp_path: Path) -> None:
    """F3: a policy that nobody tests is not a covered one."""
    bare = written(tmp_path, team_rule(RULE))

    (found,) = examined([bare], TestChoice(shipped=False, watched=True)).coverage
    assert (found.percent, found.missed) == (0.0, (3,))


def test_shipped_policies_are_left_out_of_the_coverage_of_ones_own(tmp_path: Path) -> None:
    files = team_rule(RULE) | {
        "callgate/team/blue/rules_test.rego": "package callgate.team.blue_test\n\ntest_a if true\n"
    }
    folder = written(tmp_path, files)
    of_all = examined([folder], TestChoice(re.compile("blue"), watched=True)).coverage

    assert len(examined([folder], TestChoice(shipped=False, watched=True)).coverage) == 1
    assert "callgate/org/closed_objects.rego" in {each.file for each in of_all}


def test_an_error_has_its_place_in_the_file_as_it_was_written(tmp_path: Path) -> None:
    (found,) = results(tmp_path, 'test_a if count(blue.deny) == 1 with input as {"phase": to_number("x")}')

    assert ".rego:5:" in found.message


def test_the_tests_of_a_team_with_any_name_run(tmp_path: Path) -> None:
    test = 'package callgate.team["big-team_test"]\n\ntest_a if 1 == 2\n'
    (found,) = examined(
        [written(tmp_path, {"callgate/team/big-team/a_test.rego": test})], TestChoice(shipped=False)
    ).tests

    assert found.message == "is <undefined>, not true"
    assert found.failure is not None
