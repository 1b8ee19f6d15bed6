"""`callgate bench`: figures of the configured engines."""

from pathlib import Path

from tests.typed import typed


def test_bench_prints_a_table_of_the_embedded_engine(tmp_path: Path) -> None:
    """F3."""
    done = typed("bench", "--decisions", "5", cwd=tmp_path, CALLGATE_POLICY__DEADLINE_SECONDS="30")

    assert (done.returncode, done.stderr) == (0, "")
    assert "p99 ms" in done.stdout
    assert [line.split()[:3] for line in done.stdout.splitlines() if "embedded" in line] == [
        ["embedded", "1", "5"],
        ["embedded", "32", "5"],
    ]


def test_bench_says_what_cannot_be_measured(tmp_path: Path) -> None:
    server = {"CALLGATE_POLICY__OPA__START_SECONDS": "0", "CALLGATE_POLICY__DEADLINE_SECONDS": "30"}
    done = typed("bench", "--decisions", "1", "--opa", "http://127.0.0.1:1", cwd=tmp_path, **server)

    assert done.returncode == 1
    assert "cannot be reached" in done.stderr
