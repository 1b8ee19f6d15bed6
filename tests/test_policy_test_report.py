"""What is said about a run of policy tests."""

from pathlib import Path

from proxy.engines import RegoTest, TestRun
from proxy.engines.coverage import FileCoverage
from proxy.engines.failing import Failure
from proxy.policy_test_report import as_json, coverage_lines, failure_lines

GOOD = RegoTest("callgate.org_test", "test_a", "a_test.rego", 3, passed=True, seconds=0.00123)
BAD = RegoTest(
    "callgate.org_test",
    "test_b",
    "a_test.rego",
    7,
    passed=False,
    message="is <undefined>, not true",
    source="test_b if {",
    failure=Failure(8, "count(x)\n\t== 2", (("count(x)", "1"),)),
)


def test_a_failure_is_told_with_place_expression_and_values() -> None:
    """F3: what a person needs to mend it."""
    assert list(failure_lines(BAD)) == [
        "a_test.rego:7: callgate.org_test.test_b: is <undefined>, not true",
        "  line 8 does not hold: count(x) == 2",
        "    count(x) is 1",
    ]


def test_a_failure_of_no_single_expression_shows_where_the_test_begins() -> None:
    bare = RegoTest(
        "p", "test_c", "a_test.rego", 9, passed=False, message="is 3, not true", source="test_c := 3"
    )

    assert list(failure_lines(bare)) == ["a_test.rego:9: p.test_c: is 3, not true", "    test_c := 3"]


def test_lines_that_no_test_reached_are_told_in_stretches() -> None:
    files = [FileCoverage("long.rego", (1, 2), (4, 6, 7, 8)), FileCoverage("b.rego", (1,), ())]

    assert list(coverage_lines(files)) == [
        "long.rego   33.3 %  never reached: 4, 6-8",
        "b.rego     100.0 %",
        "all         42.9 %",
    ]


def test_programs_get_the_same() -> None:
    run = TestRun((GOOD, BAD), (FileCoverage("b.rego", (1,), (2,)),), (Path("bare"),), 1.23456)

    said = as_json(run, with_coverage=True)
    assert (said["passed"], said["failed"], said["seconds"], said["untested"]) == (1, 1, 1.235, ["bare"])
    assert said["tests"][0] == {
        "package": "callgate.org_test",
        "name": "test_a",
        "file": "a_test.rego",
        "line": 3,
        "passed": True,
        "seconds": 0.0012,
    }
    assert said["tests"][1]["failure"]["values"] == [{"expression": "count(x)", "value": "1"}]
    assert said["coverage"] == [{"file": "b.rego", "percent": 50.0, "missed": [2]}]
    assert "coverage" not in as_json(run, with_coverage=False)
