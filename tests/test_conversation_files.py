"""Recorded runs, read from files in whatever form they are."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from proxy.conversation_files import BadRecording, read_recordings, read_request
from proxy.core.messages import Malformed

if TYPE_CHECKING:
    from pathlib import Path

CHAT: dict[str, Any] = {
    "id": "run-7",
    "reward": 1,
    "agent": "bot",
    "messages": [
        {"role": "user", "content": "Order A1?"},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {"id": "c1", "type": "function", "function": {"name": "get", "arguments": '{"id": "A1"}'}}
            ],
        },
        {"role": "tool", "tool_call_id": "c1", "content": "found"},
    ],
}
BODIES: dict[str, dict[str, Any]] = {
    "openai-chat": CHAT,
    "openai-responses": {
        "input": [
            {"role": "user", "content": "Order A1?"},
            {"type": "function_call", "call_id": "c1", "name": "get", "arguments": '{"id": "A1"}'},
            {"type": "function_call_output", "call_id": "c1", "output": "found"},
        ]
    },
    "anthropic-messages": {
        "max_tokens": 9,
        "messages": [
            {"role": "user", "content": "Order A1?"},
            {
                "role": "assistant",
                "content": [{"type": "tool_use", "id": "c1", "name": "get", "input": {"id": "A1"}}],
            },
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", "content": "found"}]},
        ],
    },
    "gemini": {
        "contents": [
            {"role": "user", "parts": [{"text": "Order A1?"}]},
            {"role": "model", "parts": [{"functionCall": {"name": "get", "args": {"id": "A1"}}}]},
            {"role": "user", "parts": [{"functionResponse": {"name": "get", "response": {"x": "found"}}}]},
        ]
    },
    "ollama": {
        "messages": [
            {"role": "user", "content": "Order A1?"},
            {
                "role": "assistant",
                "content": "",
                "tool_calls": [{"function": {"name": "get", "arguments": {"id": "A1"}}}],
            },
            {"role": "tool", "tool_name": "get", "content": "found"},
        ]
    },
    "bedrock-converse": {
        "messages": [
            {"role": "user", "content": [{"text": "Order A1?"}]},
            {
                "role": "assistant",
                "content": [{"toolUse": {"toolUseId": "c1", "name": "get", "input": {"id": "A1"}}}],
            },
            {
                "role": "user",
                "content": [{"toolResult": {"toolUseId": "c1", "content": [{"text": "found"}]}}],
            },
        ]
    },
}
STEP = {
    "ts": "2026-01-01T00:00:00.000Z",
    "kind": "step",
    "run": "run_1",
    "turn": 1,
    "tool": "get",
    "arguments": '{"id":"A1"}',
    "status": "found",
}


@pytest.mark.parametrize("dialect", BODIES)
def test_a_request_body_is_read_in_the_dialect_that_it_is_in(dialect: str) -> None:
    """B1: with its calls and results, whatever the format."""
    request = read_request(BODIES[dialect])
    calls = [call for message in request.messages for call in message.calls]

    assert request.dialect == dialect
    assert [(call.name, json.loads(call.arguments)) for call in calls] == [("get", {"id": "A1"})]
    assert sum(len(message.results) for message in request.messages) == 1


def test_what_is_no_request_is_refused_with_what_each_dialect_says() -> None:
    with pytest.raises(Malformed, match="messages"):
        read_request({"x": 1})
    with pytest.raises(Malformed):
        read_request({"messages": []})


def test_a_file_may_hold_conversations_and_audit_records(tmp_path: Path) -> None:
    file = tmp_path / "runs.jsonl"
    refused = STEP | {"status": "refused", "run": "run_2"}
    rows = [CHAT, BODIES["gemini"], STEP, STEP, refused, STEP | {"kind": "decision"}]
    file.write_text("\n".join(json.dumps(row) for row in rows) + "\n\n")

    found = read_recordings(file)
    first, second = found.conversations
    assert (first.id, first.identity.agent, first.reward) == ("run-7", "bot", 1.0)
    assert (second.id, second.identity.agent, second.reward) == ("2", "", None)
    assert [(run.id, len(run.steps)) for run in found.audited] == [("run_1", 2), ("run_2", 1)]


def test_one_json_file_is_one_request(tmp_path: Path) -> None:
    file = tmp_path / "body.json"
    file.write_text(json.dumps(CHAT, indent=2))

    assert len(read_recordings(file).conversations) == 1


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("[1]", "line 1: a JSON object is needed"),
        ("{\n", "line 1: is not JSON"),
        ('{"messages": 1}\n', "line 1: no conversation in any dialect"),
        ("[" * 100_000, "line 1: is not JSON"),
    ],
)
def test_a_line_that_is_no_run_is_named(tmp_path: Path, text: str, complaint: str) -> None:
    file = tmp_path / "runs.jsonl"
    file.write_text(text)

    with pytest.raises(BadRecording, match=complaint):
        read_recordings(file)


def test_a_file_that_is_no_text_is_named(tmp_path: Path) -> None:
    file = tmp_path / "runs.jsonl"
    file.write_bytes(b"\xff")

    with pytest.raises(BadRecording, match="UTF-8"):
        read_recordings(file)
