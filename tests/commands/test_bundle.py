"""`callgate bundle`: policies for a server that loads its own."""

import tarfile
from pathlib import Path

from tests.typed import typed

PATIENT = {"CALLGATE_POLICY__DEADLINE_SECONDS": "30"}


def test_bundle_writes_what_opa_loads(tmp_path: Path) -> None:
    """F3."""
    done = typed("bundle", "out.tar.gz", cwd=tmp_path, **PATIENT)

    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("out.tar.gz: revision ")
    with tarfile.open(tmp_path / "out.tar.gz") as archive:
        assert [name.lstrip("/") for name in archive.getnames()] == [
            ".manifest",
            "callgate.rego",
            "policies.rego",
            "data.json",
        ]


def test_bundle_writes_nothing_that_does_not_load(tmp_path: Path) -> None:
    (tmp_path / "rules.yaml").write_text("org:\n  allowed_tool: [x]\n")
    done = typed("bundle", "out.tar.gz", cwd=tmp_path, CALLGATE_POLICY__DATA="rules.yaml", **PATIENT)

    assert done.returncode == 1
    assert "rules.yaml:2" in done.stderr
    assert not (tmp_path / "out.tar.gz").exists()
    assert typed("bundle", "no/where.tar.gz", cwd=tmp_path, **PATIENT).returncode == 1
