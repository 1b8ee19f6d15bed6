"""`callgate test`: the tests of policies."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.asked import written
from tests.typed import typed

if TYPE_CHECKING:
    from pathlib import Path

RULES = """package callgate.org

deny contains {"code": "x", "message": "m"} if {
	input.phase == "calls"
	count(input.calls) > 3
}
"""
TESTS = """package callgate.org_test

import data.callgate.org

test_allows_requests if count(org.deny) == 0 with input as {"phase": "request"}
"""
FAILING = "\ntest_allows_nothing if count(org.deny) == 2 with input as {}\n"


@pytest.fixture(name="mine")
def _mine(tmp_path: Path) -> Path:
    files = {"callgate/org/mine.rego": RULES, "callgate/org/mine_test.rego": TESTS}
    return written(tmp_path / "mine", files)


def test_rego_tests_run_and_a_failing_one_is_named_with_its_line(tmp_path: Path, mine: Path) -> None:
    """F3: shipped tests and one's own, by one command."""
    test = mine / "callgate" / "org" / "mine_test.rego"
    test.write_text(TESTS + FAILING)

    shipped = typed("test", cwd=tmp_path)
    own = typed("test", "mine", cwd=tmp_path)

    assert shipped.returncode == 0, shipped.stderr
    assert " passed, 0 failed in " in shipped.stdout
    assert own.returncode == 1
    assert "mine_test.rego:7" in own.stderr
    assert "count(org.deny) is 0" in own.stderr
    assert own.stdout.startswith("1 passed, 1 failed in ")


def test_coverage_names_the_lines_that_no_test_reached(tmp_path: Path, mine: Path) -> None:
    """F3: too little of it is exit code 1."""
    assert mine.is_dir()
    shown = typed("test", "mine", "--coverage", cwd=tmp_path)
    wanted = typed("test", "mine", "--min-coverage", "90", cwd=tmp_path)

    assert shown.returncode == 0
    assert "mine.rego   33.3 %  never reached: 3, 5" in shown.stdout
    assert wanted.returncode == 1
    assert "33.3 % of the lines are reached by tests, 90 % are wanted" in wanted.stderr


def test_programs_get_json(tmp_path: Path, mine: Path) -> None:
    assert mine.is_dir()
    done = typed("test", "mine", "--json", "--shipped", "--run", "org_test", cwd=tmp_path)

    assert done.returncode == 0
    assert {test["package"] for test in json.loads(done.stdout)["tests"]} == {"callgate.org_test"}


@pytest.mark.parametrize(
    ("arguments", "code", "complaint"),
    [
        (["nowhere"], 2, "nowhere: there is no such folder"),
        (["mine", "--run", "("], 2, "--run (:"),
        (["mine", "--run", "test_other"], 2, "no test is called so"),
        (["bare"], 1, "bare: there is no test in it"),
        (["broken"], 1, "there is no rule nothing"),
    ],
)
def test_what_cannot_be_tested_is_said(
    tmp_path: Path, mine: Path, arguments: list[str], code: int, complaint: str
) -> None:
    assert mine.is_dir()
    written(tmp_path / "bare", {"callgate/org/mine.rego": RULES})
    test = "package callgate.org_test\n\ntest_a if data.callgate.org.nothing\n"
    written(tmp_path / "broken", {"callgate/org/mine.rego": RULES, "callgate/org/mine_test.rego": test})

    done = typed("test", *arguments, cwd=tmp_path)
    assert (done.returncode, done.stdout if code == 2 else "") == (code, "")
    assert complaint in done.stderr
