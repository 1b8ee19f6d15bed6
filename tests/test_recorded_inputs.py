"""What policies read is written where that is wanted, redacted, and can be asked again (A9, F2)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from proxy.conversation_files import read_recordings
from proxy.demo import Answer, Call
from proxy.seen_calls import recorded_calls
from tests.playbook import CHAT, play

BODY: dict[str, Any] = {
    "model": "m",
    "messages": [{"role": "user", "content": "Refund order A1."}],
    "tools": [{"type": "function", "function": {"name": "refund", "parameters": {"type": "object"}}}],
}
MADE = Answer(calls=(Call("refund", {"order_id": "A1", "password": "hunter2"}),))


async def test_the_input_of_a_decision_is_written_and_read_back(tmp_path: Path) -> None:
    """Secrets are redacted there as everywhere."""
    async with play(tmp_path, audit__inputs="calls") as stage:
        stage.provider.script(MADE)
        await stage.post(CHAT, BODY)
        (record,) = await stage.records("input")
        assert record["kind"] == "input"
        assert record["policy"] == stage.callgate.policies.revision
    recordings = read_recordings(stage.journal)

    assert "hunter2" not in stage.journal.read_text()
    (recorded,) = recordings.inputs
    assert recorded.document["task"]["user_text"] == "Refund order A1."
    (call,) = recorded_calls(recorded).calls
    assert call == ("refund", {"order_id": "A1", "password": "[redacted]"})


async def test_nothing_is_written_unless_it_is_wanted(tmp_path: Path) -> None:
    async with play(tmp_path) as stage:
        stage.provider.script(MADE)
        await stage.post(CHAT, BODY)

        assert await stage.records("input") == []
