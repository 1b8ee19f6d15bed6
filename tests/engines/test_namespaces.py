"""Bundles as an OPA server is given them."""

import subprocess
from pathlib import Path

from proxy.engines import load_bundle
from proxy.engines.namespaces import below, namespaced
from proxy.engines.syntax import parsed
from tests.asked import shipped, team_rule, written
from tests.tools import opa

TEXT = """# METADATA
# title: Blue
package callgate.team["a-b"]

import data.callgate.lib
import data.rules as r
import input.run
import rego.v1

# data.callgate and _own in a comment
deny contains {"code": "data.x _own", "message": run.id} if {
	lib.listed(data.rules["org"]["é"], r.x[data.callgate.org.n])
	not data.callgate.org.deny with input as data.rules
	every d in data.rules { not d == _own("é") }
}

default _own(_) := 1

_own(run) := [lib | some lib in run] if not run._own == "é"

_table[key] := _own(key) if some key in r
"""
MOVED = """
# data.callgate and _own in a comment
callgate.team["a-b"].deny contains {"code": "data.x _own", "message": input.run.id} if {
	ns.callgate.lib.listed(ns.rules["org"]["é"], ns.rules.x[ns.callgate.org.n])
	count({1 | ns.callgate.org.deny }) == 0 with input as ns.rules
	every d in ns.rules { count({1 | d == ns.callgate.team["a-b"]._own("é") }) == 0 }
}

default callgate.team["a-b"]._own(_) := 1

callgate.team["a-b"]._own(run) := [lib | some lib in [each__ | each__ := run; object.filter({}, each__) == {}][_]] if count({1 | run._own == "é" }) == 0

callgate.team["a-b"]._table[key] := ns.callgate.team["a-b"]._own(key) if some key in ns.rules
""".replace("ns.", "data.ns.")
NAMES = {"deny", "_own", "_table"}


def test_names_are_written_out_below_the_name_and_nothing_else_changes() -> None:
    """F3: heads carry the package; a variable that is called like a rule or an import stays one."""
    assert below("ns", parsed("f.rego", TEXT), NAMES).text == MOVED


def test_places_lead_back_to_the_file() -> None:
    text = below("a_long_name", parsed("f.rego", TEXT), NAMES)
    (row,) = [row for row, line in enumerate(text.text.split("\n"), 1) if "_name.rules.x[" in line]
    column = text.text.split("\n")[row - 1].index("x[data") + 1

    assert text.place(row, column) == (12, TEXT.split("\n")[11].index("x[data") + 1)


def test_equal_bundles_share_a_name_and_unequal_ones_do_not(tmp_path: Path) -> None:
    one = namespaced(shipped())
    assert namespaced(load_bundle([])).name == one.name
    other = load_bundle([written(tmp_path, team_rule('allowed_tools := {"a"} if input.phase'))])
    assert namespaced(other).name != one.name
    assert namespaced(load_bundle([], [], {"profile": "strict"})).name != one.name


def test_messages_and_places_are_those_that_authors_know() -> None:
    space = namespaced(shipped())
    lines = space.text.split("\n")
    row = next(row for row, line in enumerate(lines, 1) if line.startswith("callgate.main._traits[name]"))
    file, line, column = space.place(row, 1)

    assert (file, column) == ("callgate/main/main.rego", 1)
    assert shipped().modules[file].split("\n")[line - 1].startswith("_traits[name]")
    assert space.place(1, 1)[0] == ""
    assert space.as_written(f"data.{space.name}.callgate.org.deny fails") == "data.callgate.org.deny fails"


def test_opa_finds_it_well(tmp_path: Path) -> None:
    """F3: with its own check."""
    (tmp_path / "all.rego").write_text(namespaced(shipped()).text)
    done = subprocess.run([opa(), "check", tmp_path], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
