"""Which lines tests reach, told in the files as they were written."""

import json

from proxy.engines.coverage import Covered, FileCoverage, percent
from proxy.engines.rewriting import rewritten
from proxy.engines.syntax import parsed
from proxy.engines.worker import Evaluator

RULES = """package callgate.team.blue

import data.callgate.org

deny contains {
	"code": "x",
	"call": call.index,
} if {
	some call in input.calls
	not _ok(call)
}

_ok(call) if {
	call.x == 1
	call.y > 2
}
"""
FILE = "blue.rego"


def reached(*documents: object) -> FileCoverage:
    module = rewritten(parsed(FILE, RULES))
    covered = Covered()
    for document in documents:
        evaluator = Evaluator({FILE: module.text})
        evaluator.watch()
        evaluator.evaluate("data.callgate.team.blue.deny", json.dumps(document))
        covered.add(evaluator.lines())
    (found,) = covered.files({FILE: module}, {FILE: [5, 13]})
    return found


def test_a_denial_that_was_never_said_is_not_reached() -> None:
    """F3: head and value of a rule count when it said something, wherever its condition got to."""
    assert reached({"calls": [{"x": 1, "y": 3}]}).missed == (5, 6, 7)


def test_lines_of_several_tests_unite() -> None:
    found = reached({"calls": [{"x": 1, "y": 3}]}, {"calls": [{"index": 0, "x": 2}]})

    assert (found.missed, found.percent) == ((), 100.0)


def test_a_condition_that_was_never_asked_is_not_reached() -> None:
    assert reached({"calls": []}).missed == (5, 6, 7, 10, 14, 15)


def test_of_a_file_that_was_never_asked_no_rule_is_reached() -> None:
    assert reached().missed == (5, 13)


def test_percent_is_of_lines_and_not_of_files() -> None:
    files = [FileCoverage("a", (1, 2, 3), ()), FileCoverage("b", (), (1,)), FileCoverage("c", (), ())]

    assert percent(files) == 75.0
    assert [each.percent for each in files] == [100.0, 0.0, 100.0]
