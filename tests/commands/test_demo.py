"""`callgate demo`: what it needs and which scenes there are; the scenes themselves are tested with the demo."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.typed import typed

if TYPE_CHECKING:
    from pathlib import Path


def test_one_scene_can_be_chosen_and_a_wrong_name_is_an_error(tmp_path: Path) -> None:
    """Whoever looks for one thing need not read all."""
    done = typed("demo", "--scene", "no such scene", cwd=tmp_path)

    assert done.returncode != 0
    assert "Traceback" not in done.stderr
