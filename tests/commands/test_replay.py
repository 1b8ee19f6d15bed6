"""`callgate replay`: recorded conversations through a Callgate."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from proxy.engines.samples import sample_inputs
from tests.asked import shipped
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


def _lines(*calls: dict[str, object]) -> str:
    rows = []
    for number, arguments in enumerate(calls):
        call = {
            "id": "c1",
            "type": "function",
            "function": {"name": "refund", "arguments": json.dumps(arguments)},
        }
        messages = [
            {"role": "user", "content": "Refund order A1."},
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "c1", "content": "{}"},
        ]
        rows.append(json.dumps({"id": f"run-{number}", "messages": messages}))
    return "\n".join(rows) + "\n"


PATIENT = {"CALLGATE_POLICY__DEADLINE_SECONDS": "30"}


def test_a_changed_policy_that_refuses_more_stops_a_pipeline(tmp_path: Path) -> None:
    """F2: what would newly be refused is known before it is shipped."""
    (tmp_path / "runs.jsonl").write_text(_lines({"order_id": "A1"}, {"order_id": "B2"}))
    (tmp_path / "new.yaml").write_text(
        "org: {tools: {refund: {arguments: {order_id: {in_user_text: true}}}}}\n"
    )
    changed = typed("replay", "runs.jsonl", "--rules", "new.yaml", cwd=tmp_path, **PATIENT)
    lenient = typed(
        "replay", "runs.jsonl", "--rules", "new.yaml", "--allow-stricter", "--json", cwd=tmp_path, **PATIENT
    )
    back = typed(
        "replay",
        "runs.jsonl",
        "--policy",
        "none",
        cwd=tmp_path,
        CALLGATE_POLICY__DATA="new.yaml",
        **PATIENT,
    )

    assert changed.returncode == 1
    assert "1 stricter, 0 laxer, 0 not comparable" in changed.stdout
    assert "argument_rule" in changed.stdout
    assert "run-1" in changed.stdout
    assert lenient.returncode == 0
    assert [each["run"] for each in json.loads(lenient.stdout)["stricter"]] == ["run-1"]
    assert back.returncode == 1
    assert "none" in back.stderr


def test_an_audit_file_with_inputs_is_replayed_exactly(tmp_path: Path) -> None:
    """A9: what policies read is there, redacted; without it the calls alone cannot be judged."""
    document = next(each for each in sample_inputs(shipped()) if each["phase"] == "calls")
    document |= {
        "calls": [
            {
                "index": 0,
                "id": "c",
                "name": "refund",
                "folded": "refund",
                "hosted": False,
                "kind": "function",
                "arguments": {"order_id": "B2"},
            }
        ]
    }
    common = {"ts": "2026-01-01T00:00:00Z", "request_id": "req_1", "run": "run_1", "turn": 1, "round": 1}
    step = common | {"kind": "step", "tool": "mail", "arguments": "{}", "status": "found", "run": "run_2"}
    rows = [common | {"kind": "input", "policy": "r", "input": document}, step]
    (tmp_path / "audit.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / "new.yaml").write_text("org: {denied_tools: [refund, mail]}\n")
    done = typed("replay", "audit.jsonl", "--rules", "new.yaml", cwd=tmp_path, **PATIENT)

    assert done.returncode == 1, done.stderr
    assert "2 calls" in done.stdout
    assert "1 stricter, 0 laxer, 1 not comparable" in done.stdout


def test_files_without_calls_are_said(tmp_path: Path) -> None:
    (tmp_path / "runs.jsonl").write_text('{"messages": [{"role": "user", "content": "Hi"}]}\n')
    (tmp_path / "new.yaml").write_text("org: {}\n")
    done = typed("replay", "runs.jsonl", "--rules", "new.yaml", cwd=tmp_path)
    many = typed("replay", "runs.jsonl", "runs.jsonl", cwd=tmp_path)

    assert (done.returncode, many.returncode) == (2, 2)
    assert "no recorded call" in done.stderr
    assert "One file" in many.stderr
