"""Bundles as an OPA server is given them."""

import subprocess
from pathlib import Path

from proxy.engines import load_bundle
from proxy.engines.namespaces import below, namespaced
from proxy.engines.syntax import parsed
from tests.asked import shipped, team_rule, written
from tests.tools import opa

TEXT = """package callgate.team.blue

import data.callgate.lib
import data.rules as r

# data.callgate in a comment, and "data.x" in a text
deny contains {"code": "data.x", "message": "m"} if {
	lib.listed(data.rules["org"]["é"], r.x[data.callgate.org.n])
	not data.callgate.org.deny with input as data.rules
	every d in data.rules { not d == lib.f(d) }
}
"""


def moved(text: str) -> str:
    return below("ns", parsed("f.rego", text)).text


def test_everything_moves_below_the_name_and_nothing_else_changes() -> None:
    assert moved(TEXT) == (
        TEXT.replace("package callgate", "package ns.callgate")
        .replace("import data.", "import data.ns.")
        .replace('data.rules["org"]', 'data.ns.rules["org"]')
        .replace("[data.callgate", "[data.ns.callgate")
        .replace("not data.callgate.org.deny with", "count({1 | data.ns.callgate.org.deny }) == 0 with")
        .replace("as data.rules", "as data.ns.rules")
        .replace("in data.rules", "in data.ns.rules")
        .replace("not d == lib.f(d)", "count({1 | d == lib.f(d) }) == 0")
    )


def test_places_lead_back_to_the_file() -> None:
    text = below("a_long_name", parsed("f.rego", TEXT))
    for row, line in enumerate(text.text.split("\n"), 1):
        if (column := line.find("r.x")) >= 0:
            assert text.place(row, column + 1) == (8, TEXT.split("\n")[7].find("r.x") + 1)
            return
    raise AssertionError("not found")


def test_equal_bundles_share_a_name_and_unequal_ones_do_not(tmp_path: Path) -> None:
    one = namespaced(shipped())
    assert namespaced(load_bundle([])).name == one.name
    other = load_bundle([written(tmp_path, team_rule('allowed_tools := {"a"} if input.phase'))])
    assert namespaced(other).name != one.name
    assert namespaced(load_bundle([], [], {"profile": "strict"})).name != one.name


def test_messages_name_what_authors_know() -> None:
    space = namespaced(shipped())
    assert (
        space.as_written(f"rule data.{space.name}.callgate.org.deny fails")
        == "rule data.callgate.org.deny fails"
    )
    assert space.place("of/others", 3, 4) == ("", 3, 4)


def test_opa_finds_it_well(tmp_path: Path) -> None:
    """F3: with its own check, strictly."""
    for number, text in enumerate(namespaced(shipped()).policies.values()):
        (tmp_path / f"{number}.rego").write_text(text)
    done = subprocess.run([opa(), "check", tmp_path], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
