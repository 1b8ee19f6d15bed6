"""`callgate check`: errors with a place."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.typed import typed

if TYPE_CHECKING:
    from pathlib import Path


def test_check_says_well_and_where_to_point_an_agent(tmp_path: Path) -> None:
    """F1: nothing configured is a working configuration."""
    done = typed("check", cwd=tmp_path)

    assert (done.returncode, done.stderr) == (0, "")
    assert "Settings and policies are well." in done.stdout
    assert "base URL http://127.0.0.1:8788/v1" in done.stdout
    assert "guarded   POST   /v1/chat/completions  (openai_chat)" in done.stdout


def test_check_names_file_line_and_column_of_a_bad_setting(tmp_path: Path) -> None:
    """An editor can jump to it; what was probably meant is said."""
    (tmp_path / "callgate.yaml").write_text("listen:\n  prot: 1\n")

    done = typed("check", cwd=tmp_path)

    assert done.returncode == 2
    assert "callgate.yaml:2:3" in done.stderr
    assert "port" in done.stderr


def test_check_names_file_and_line_of_bad_rules(tmp_path: Path) -> None:
    """F3: rule data is checked like code."""
    (tmp_path / "rules.yaml").write_text("org:\n  allowed_tool: [x]\n")

    done = typed("check", cwd=tmp_path, CALLGATE_POLICY__DATA="rules.yaml")

    assert done.returncode == 1
    assert "rules.yaml:2" in done.stderr
    assert "allowed_tools" in done.stderr


def test_check_looks_at_policies_in_shadow_too(tmp_path: Path) -> None:
    """F2: whoever tries something out should know before that it does not load."""
    (tmp_path / "tried.yaml").write_text("org:\n  denied_tool: [x]\n")
    (tmp_path / "callgate.yaml").write_text("policy: {shadow: {data: tried.yaml}}\n")
    done = typed("check", cwd=tmp_path)

    assert done.returncode == 1
    assert "tried.yaml:2" in done.stderr
    assert "Traceback" not in done.stderr
