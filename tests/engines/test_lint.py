"""Lint: what is said about policies before they are loaded."""

from pathlib import Path

import pytest

from proxy.engines import BundleFault, Severity, load_bundle
from proxy.engines.lint import layer_of
from tests.asked import team_rule, written

GOOD = 'deny contains {"code": "x", "message": "m"} if input.phase == "calls"'


def complaints(folder: Path, files: dict[str, str]) -> list[str]:
    """Errors of the files, each as `line:column: message`."""
    try:
        bundle = load_bundle([written(folder, files)])
    except BundleFault as fault:
        return [f"{found.line}:{found.column}: {found.message}" for found in fault.faults]
    assert all(found.severity is Severity.WARNING for found in bundle.warnings)
    return [f"{found.line}:{found.column}: warning: {found.message}" for found in bundle.warnings]


def of_rule(folder: Path, rule: str) -> list[str]:
    return complaints(folder, team_rule(rule))


def test_a_good_rule_has_no_complaint(tmp_path: Path) -> None:
    assert of_rule(tmp_path, GOOD) == []


@pytest.mark.parametrize(
    ("rule", "complaint"),
    [
        (f"{GOOD}\n\nx := hash(1)", "5:6: there is no function hash, or not in every engine"),
        (f"{GOOD}\n\nx if {{\n\tfalse\n\thttp.send({{}})\n}}", "7:2: http.send asks the network"),
        (f"{GOOD}\n\nx := time.now_ns()", "5:6: time.now_ns reads a clock; use input.now_ns"),
        (f'{GOOD}\n\nx := io.jwt.decode("x")', "5:6: io.jwt.decode is not in the embedded engine"),
        (f"{GOOD}\n\nx := count([1], 2)", "5:6: count takes 1 argument, here are 2"),
        (f"{GOOD}\n\nf(a) := a\n\nx := f(1, 2)", "7:6: f takes 1 argument, here are 2"),
        (f"{GOOD}\n\nf(a) := a\n\nf(a, b) := a + b", "7:1: f has another number of arguments"),
        (f"{GOOD}\n\ndefault x := 1\n\ndefault x := 2", "7:9: x has two defaults"),
        (f"{GOOD}\n\nx := 1\n\nx contains 2", "7:1: x is a set rule here and a complete rule in"),
        (f"{GOOD}\n\nx := data.other.y", "5:6: data.other.y: there are only data.rules and data.callgate"),
        (f"{GOOD}\n\nx := data.callgate.org.nothing", "there is no rule nothing in callgate.org"),
        (f"{GOOD}\n\nx := data.callgate.nobody.y", "there is no such package"),
        (f"{GOOD}\n\nx := data.callgate.org", "data.callgate.org is a whole package"),
        (f"{GOOD}\n\nx := data.callgate.team[input.y].deny", "data.callgate.team is a whole package"),
        (f"{GOOD}\n\nx := data[input.y]", "there are only data.rules and data.callgate"),
        (f"{GOOD}\n\nx if input.phase == 1 with input.phase as 1", "`with` is for tests"),
        (f'{GOOD}\n\nx if regex.match("^.{{1,2000}}$", input.y)', "bound lengths"),
        (f'{GOOD}\n\nx if regex.match("(", input.y)', "cannot be compiled"),
        ('deny[{"code": "x"}] if input.phase', "deny is written as `deny contains {…} if …`"),
        ("deny := true", "deny is written as `deny contains {…} if …`"),
        (f"{GOOD}\n\nlimits contains 1", "limits is written as `limits := …`"),
        ('deny contains {"code": "x"} if input.phase', "3:1: a denial needs a message"),
        ('deny contains {"message": "x"} if input.phase', "a denial needs a code"),
        ("approve := true", "approve is written as `approve contains {…} if …`"),
        ('approve contains {"code": "x"} if input.phase', "a demand for approval needs a message"),
        (
            'approve contains {"code": "x", "message": "m", "action": "deny"}',
            "a demand for approval has no action: only call, code, message, rule",
        ),
        ('deny contains {"code": "No way", "message": "m"}', "a code is written in small letters and _"),
        (
            'deny contains {"code": "x", "message": "m", "action": "nudge"}',
            "an action is one of reask, finish, deny",
        ),
        ('deny contains {"code": "x", "message": "m", "reason": "r"}', "a denial has no reason"),
        ('deny contains {"code": "x", "message": "m", "layer": "org"}', "a denial has no layer"),
        (f"{GOOD}\n\nx[y.z] := 1 if some y in input.y", "a key in the head of a rule has to be a name"),
        ("deny contains {", "4:1: "),
    ],
)
def test_mistakes_are_found_with_their_place(tmp_path: Path, rule: str, complaint: str) -> None:
    """F3: the embedded engine would find these late, or never."""
    found = of_rule(tmp_path, rule)

    assert any(complaint in each for each in found), found


@pytest.mark.parametrize(
    ("rule", "complaint"),
    [
        (f'{GOOD}\n\nx if regex.match("^\\\\w+$", input.y)', "5:19: warning: \\d, \\w and \\s are Unicode"),
        (
            f'{GOOD}\n\nx if glob.match("a:*", [":"], input.y)',
            "5:18: warning: a `*` runs across the delimiter :",
        ),
        (f'{GOOD}\n\nx if glob.match("a*", null, input.y)', "a glob without delimiters"),
        (f'{GOOD}\n\nx := sprintf("%5d", [1])', "5:15: warning: engines print %5d differently"),
        ("denies contains 1", "says nothing: only deny, shadow, approve, allowed_tools, limits are read"),
    ],
)
def test_what_engines_read_differently_is_a_warning(tmp_path: Path, rule: str, complaint: str) -> None:
    found = of_rule(tmp_path, rule)

    assert any(complaint in each for each in found), found


def test_names_of_others_are_resolved_through_imports(tmp_path: Path) -> None:
    rule = f"import data.callgate.lib\nimport data.rules.org as ours\n\n{GOOD}\n\nx if lib.listed(ours.allowed_tools, lib.nothing(1))"

    found = of_rule(tmp_path, rule)

    assert [each.partition(": ")[2] for each in found] == [
        "data.callgate.lib.nothing: there is no rule nothing in callgate.lib",
        "there is no function lib.nothing, or not in every engine",
    ]


def test_a_name_that_is_imported_and_a_variable_is_refused(tmp_path: Path) -> None:
    rule = f"import data.callgate.lib\n\n{GOOD}\n\nx if {{\n\tsome lib in input.y\n\tlib == 1\n}}"

    assert "lib is an import and a variable" in of_rule(tmp_path, rule)[0]


def test_an_import_of_nothing_is_found(tmp_path: Path) -> None:
    found = of_rule(tmp_path, f"import data.callgate.team.red\nimport data.callgate.lib as l\n\n{GOOD}\n")

    assert found == ["3:8: data.callgate.team.red: there is no such package"]


@pytest.mark.parametrize(
    ("file", "package", "complaint"),
    [
        (
            "callgate/team/blue/a.rego",
            "callgate.team.red",
            "the package is callgate.team.red, and the folder says",
        ),
        ("callgate/team/a.rego", "callgate.team", "policies live in callgate.org"),
        ("callgate/a.rego", "callgate", "policies live in callgate.org"),
        ("callgate/main/more.rego", "callgate.main", "belongs to the product"),
        ("callgate/lib/more.rego", "callgate.lib", "belongs to the product"),
        ("callgate/team/blue/a_test.rego", "callgate.team.blue", ""),
    ],
)
def test_the_folder_names_the_package(tmp_path: Path, file: str, package: str, complaint: str) -> None:
    found = complaints(tmp_path, {file: f"package {package}\n\n{GOOD}\n"})

    assert any(complaint in each for each in found) if complaint else found == []


def test_rules_of_two_files_that_would_contradict_each_other_are_named(tmp_path: Path) -> None:
    files = {
        "callgate/team/blue/a.rego": 'package callgate.team.blue\n\nlimits := {"run": {}}\n',
        "callgate/team/blue/b.rego": 'package callgate.team.blue\n\nlimits := {"turn": {}}\n',
    }
    (found,) = complaints(tmp_path, files)

    assert found.startswith("3:1: limits is defined in ")
    assert "a.rego:3 already" in found


def test_a_rule_with_the_name_of_a_package_is_refused(tmp_path: Path) -> None:
    files = {
        "callgate/team/blue/a.rego": f"package callgate.team.blue\n\n{GOOD}\n\nmore := 1\n",
        "callgate/team/blue/more/b.rego": "package callgate.team.blue.more\n\nx := 1\n",
    }

    assert any("the rule more has the name of the package" in each for each in complaints(tmp_path, files))


def test_a_package_beside_the_layers_may_be_shared(tmp_path: Path) -> None:
    files = {
        "callgate/shared/words.rego": 'package callgate.shared\n\nis_word(x) if regex.match("^[a-z]+$", x)\n',
        "callgate/team/blue/a.rego": "package callgate.team.blue\n\nimport data.callgate.shared\n\n"
        'deny contains {"code": "x", "message": "m"} if not shared.is_word(input.y)\n',
    }

    assert complaints(tmp_path, files) == []


def test_packages_and_layers() -> None:
    assert layer_of(("callgate", "org")) == "org"
    assert layer_of(("callgate", "team", "a-b")) == "team.a-b"
    assert layer_of(("callgate", "agent", "x", "y")) is None
    assert layer_of(("callgate", "lib")) is None
