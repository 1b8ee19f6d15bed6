"""`callgate test`: the tests of policies."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.typed import typed

if TYPE_CHECKING:
    from pathlib import Path


def test_rego_tests_run_and_a_failing_one_is_named_with_its_line(tmp_path: Path) -> None:
    """F3: shipped tests and one's own, by one command."""
    folder = tmp_path / "mine" / "callgate" / "org"
    folder.mkdir(parents=True)
    (folder / "mine_test.rego").write_text("package callgate.org_test\n\ntest_allows_nothing if 1 == 2\n")

    shipped = typed("test", cwd=tmp_path)
    mine = typed("test", "mine", cwd=tmp_path)

    assert shipped.returncode == 0, shipped.stderr
    assert shipped.stdout.endswith(" passed, 0 failed\n")
    assert mine.returncode == 1
    assert "mine_test.rego:3" in mine.stderr
    assert mine.stdout.endswith(" 1 failed\n")
