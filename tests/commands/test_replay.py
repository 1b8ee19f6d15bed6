"""`callgate replay`: recorded conversations through a Callgate."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from tests.typed import typed

if TYPE_CHECKING:
    from pathlib import Path


def test_replay_fails_where_a_good_run_would_have_been_altered(tmp_path: Path) -> None:
    """A pipeline can stop on it."""
    messages: list[object] = [{"role": "user", "content": "Go."}]
    for number in range(6):
        call = {"id": f"c{number}", "type": "function", "function": {"name": "find", "arguments": "{}"}}
        messages.append({"role": "assistant", "content": None, "tool_calls": [call]})
        messages.append({"role": "tool", "tool_call_id": f"c{number}", "content": "[]"})
    messages.append({"role": "assistant", "content": "Nothing."})
    (tmp_path / "runs.jsonl").write_text(json.dumps({"id": "r", "reward": 1.0, "messages": messages}))
    (tmp_path / "tools.json").write_text('[{"type":"function","function":{"name":"find"}}]')

    done = typed("replay", "runs.jsonl", "--tools", "tools.json", cwd=tmp_path)

    assert done.returncode == 1
    assert "progress.same_call" in done.stdout
    assert "reward 1: 1 runs, 1 flagged, 1 altered." in done.stdout
