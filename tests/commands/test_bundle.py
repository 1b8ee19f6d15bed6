"""`callgate bundle`: policies as one file."""

import tarfile
from pathlib import Path

from tests.asked import team_rule, written
from tests.typed import typed

PATIENT = {"CALLGATE_POLICY__DEADLINE_SECONDS": "30"}
RULE = 'deny contains {"code": "closed", "message": "No."} if input.phase == "calls"'


def test_what_is_built_is_shown_and_comes_into_force(tmp_path: Path) -> None:
    """F2, F3: the same bytes for the same policies."""
    written(tmp_path / "mine", team_rule(RULE))
    built = typed("bundle", "build", "one.tar.gz", "mine", cwd=tmp_path, **PATIENT)
    again = typed("bundle", "build", "two.tar.gz", "mine", cwd=tmp_path, **PATIENT)
    shown = typed("bundle", "show", "one.tar.gz", cwd=tmp_path)
    checked = typed("check", cwd=tmp_path, CALLGATE_POLICY__BUNDLE__PATH="one.tar.gz", **PATIENT)

    assert [each.returncode for each in (built, again, shown, checked)] == [0, 0, 0, 0], checked.stderr
    assert (tmp_path / "one.tar.gz").read_bytes() == (tmp_path / "two.tar.gz").read_bytes()
    assert "callgate/team/blue/rules.rego" in shown.stdout
    assert built.stdout.split()[-1] in shown.stdout
    assert "team.blue" in shown.stdout
    assert "team.blue" in checked.stdout
    assert "one.tar.gz" in checked.stdout


def test_nothing_is_built_of_what_does_not_load(tmp_path: Path) -> None:
    written(tmp_path / "mine", team_rule("deny contains {"))
    done = typed("bundle", "build", "out.tar.gz", "mine", cwd=tmp_path)

    assert done.returncode == 1
    assert "rules.rego:4" in done.stderr
    assert not (tmp_path / "out.tar.gz").exists()


def test_what_is_no_bundle_is_said_without_a_traceback(tmp_path: Path) -> None:
    """Hostile files are read too."""
    (tmp_path / "odd.tar.gz").write_bytes(b"\x1f\x8b odd")
    odd = typed("bundle", "show", "odd.tar.gz", cwd=tmp_path)
    nowhere = typed("bundle", "show", "nowhere.tar.gz", cwd=tmp_path)
    nothing = typed("bundle", "build", "out.tar.gz", cwd=tmp_path)

    assert (odd.returncode, nowhere.returncode, nothing.returncode) == (1, 2, 2)
    assert "odd.tar.gz" in odd.stderr
    assert "nowhere.tar.gz" in nowhere.stderr
    assert "Traceback" not in odd.stderr + nowhere.stderr + nothing.stderr


def test_opa_gets_all_that_it_needs(tmp_path: Path) -> None:
    """F3."""
    done = typed("bundle", "opa", "out.tar.gz", cwd=tmp_path, **PATIENT)

    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("out.tar.gz: revision ")
    with tarfile.open(tmp_path / "out.tar.gz") as archive:
        assert [name.lstrip("/") for name in archive.getnames()] == [
            ".manifest",
            "callgate.rego",
            "policies.rego",
            "data.json",
        ]


def test_nothing_is_written_for_opa_that_does_not_load(tmp_path: Path) -> None:
    (tmp_path / "rules.yaml").write_text("org:\n  allowed_tool: [x]\n")
    done = typed("bundle", "opa", "out.tar.gz", cwd=tmp_path, CALLGATE_POLICY__DATA="rules.yaml", **PATIENT)

    assert done.returncode == 1
    assert "rules.yaml:2" in done.stderr
    assert not (tmp_path / "out.tar.gz").exists()
    assert typed("bundle", "opa", "no/where.tar.gz", cwd=tmp_path, **PATIENT).returncode == 1
