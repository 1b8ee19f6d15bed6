"""`callgate shadow`: what is tried out, held against what is enforced."""

import json
from pathlib import Path

from tests.typed import typed

RECORD = {
    "ts": "2026-01-01T00:00:00Z",
    "request_id": "q",
    "run": "r",
    "turn": 1,
    "round": 1,
    "kind": "shadow",
    "call_id": "c",
    "tool": "refund",
    "arguments": "{}",
    "policy": "a",
    "shadow": "b",
    "was": "allowed",
    "would": "refused",
    "by": ["org: r (no)"],
}


def test_a_pipeline_can_stop_on_what_would_be_refused(tmp_path: Path) -> None:
    """F2."""
    (tmp_path / "audit.jsonl").write_text(json.dumps(RECORD) + "\nno JSON\n")
    plain = typed("shadow", "audit.jsonl", cwd=tmp_path)
    strict = typed("shadow", "audit.jsonl", "--fail-on-new-refusals", "--json", cwd=tmp_path)
    nowhere = typed("shadow", "nowhere.jsonl", cwd=tmp_path)

    assert plain.returncode == 0, plain.stderr
    assert "refund" in plain.stdout
    assert strict.returncode == 1
    assert json.loads(strict.stdout)["newly_refused"] == 1
    assert nowhere.returncode == 2
    assert "nowhere.jsonl" in nowhere.stderr
    assert "Traceback" not in nowhere.stderr
