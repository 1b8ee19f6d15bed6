"""The shapes of the journal's records, held to their declared schema."""

import json
import types
import typing
from typing import Any

import pytest

from proxy import audit_records as records
from proxy.core.approvals import Word, asked_for, decided
from proxy.core.messages import Exchange, MissingResult, RequestEdit, ToolCall, ToolChoice
from proxy.core.results import StepStatus
from proxy.core.runs import Identity, Outcome, Run
from proxy.core.verdicts import Action, Demand, Mode
from proxy.redaction import Redactor

from . import sample_run as sample

SHAPES: dict[str, Any] = {
    "step": records.StepRecord,
    "decision": records.DecisionRecord,
    "run_end": records.RunEndRecord,
    "request_edit": records.EditRecord,
    "approval": records.ApprovalRecord,
    "lost": records.LostRecord,
}
redactor = Redactor()


def fits(value: Any, shape: Any) -> bool:
    """Whether a decoded JSON value has this declared shape, with no undeclared fields."""
    origin, parts = typing.get_origin(shape), typing.get_args(shape)
    if typing.is_typeddict(shape):
        hints = typing.get_type_hints(shape)
        present = all(fits(value[key], hints[key]) for key in value if key in hints)
        return set(value) <= set(hints) and shape.__required_keys__ <= set(value) and present
    if origin is typing.Literal:
        return value in parts
    if origin is types.UnionType:
        return any(fits(value, part) for part in parts)
    if origin is list:
        return isinstance(value, list) and all(fits(each, parts[0]) for each in value)
    if origin is dict:
        return isinstance(value, dict) and all(isinstance(key, str) for key in value)
    return value is None if shape is types.NoneType else type(value) is shape


def checked(record: records.Record) -> dict[str, Any]:
    """The record as read back from its line, which is printable ASCII; it has exactly its declared shape."""
    line = records.line(record)
    back: dict[str, Any] = json.loads(line)
    assert line.endswith(b"\n")
    assert line[:-1].isascii()
    assert line[:-1].decode().isprintable()
    assert fits(back, SHAPES[back["kind"]])
    return back


def test_a_record_of_another_shape_does_not_fit() -> None:
    gap = records.lost_record(1, sample.AT)

    assert fits(gap, records.LostRecord)
    assert not fits({**gap, "count": "1"}, records.LostRecord)
    assert not fits({**gap, "more": 1}, records.LostRecord)
    assert not fits({"kind": "lost", "count": 1}, records.LostRecord)
    assert not fits({**gap, "kind": "step"}, records.LostRecord)


def a_step(**changes: Any) -> dict[str, Any]:
    return checked(
        records.step_record(
            redactor,
            sample.run(),
            sample.step(**changes),
            request_id="req_1",
            tokens_in=300,
            at=sample.AT + 4,
        )
    )


def test_a_step_record_holds_what_the_trajectory_asks_for() -> None:
    """A9: request_id, step, tool, args_hash, ok, latency_ms, tokens_in, and the run that strings them together."""
    assert a_step() == {
        "ts": "2026-09-21T14:13:24.250Z",
        "request_id": "req_1",
        "run": "run_1",
        "turn": 1,
        "round": 1,
        "kind": "step",
        "step": 1,
        "call_id": "call_1",
        "tool": "get_order",
        "args_hash": records.args_hash('{"order_id":"A123"}'),
        "ok": True,
        "status": "found",
        "latency_ms": 2500.0,
        "tokens_in": 300,
        "arguments": '{"order_id":"A123"}',
        "result": '{"found":true,"data":{"status":"sent"}}',
        "refused_as": "",
    }


@pytest.mark.parametrize(
    ("status", "ok"),
    [
        (StepStatus.FOUND, True),
        (StepStatus.NOT_FOUND, True),
        (StepStatus.FORBIDDEN, False),
        (StepStatus.TEMPORARILY_UNAVAILABLE, False),
        (StepStatus.FAILED, False),
    ],
)
def test_an_empty_answer_is_no_failure(status: StepStatus, ok: bool) -> None:
    """A5, A6."""
    record = a_step(status=status)

    assert record["ok"] is ok
    assert record["status"] == status.value


def test_a_refused_call_has_a_record_with_the_reason() -> None:
    """D5."""
    record = a_step(
        status=StepStatus.REFUSED, refused_as="tool_not_allowed", released_at=0.0, result_at=None, result=""
    )

    assert record["refused_as"] == "tool_not_allowed"
    assert record["ok"] is False
    assert record["latency_ms"] is None


def test_arguments_and_results_are_short_and_redacted() -> None:
    """B4."""
    record = a_step(arguments='{"password":"CANARY"}', result="token=CANARY " + "x" * 1000)

    assert "CANARY" not in json.dumps(record)
    assert len(record["result"]) == 120
    assert record["args_hash"] != a_step()["args_hash"]


def test_odd_characters_are_escaped_in_the_line_and_kept_in_the_record() -> None:
    """C025."""
    assert a_step(tool="s\u0435arch\u200b\n\x7f\u2028")["tool"] == "s\u0435arch\u200b\n\x7f\u2028"


def test_a_decision_record_holds_every_verdict_and_every_call() -> None:
    """D5, F2."""
    verdicts = [sample.verdict(), sample.verdict("budget", call=None, action=Action.NUDGE, mode=Mode.SHADOW)]
    record = checked(
        records.decision_record(
            redactor,
            sample.run(),
            request_id="req_1",
            phase="calls",
            verdicts=verdicts,
            action=Action.REASK,
            calls=[sample.call("delete_all", '{"api_key":"CANARY"}'), sample.call(id="call_2")],
            policy="rev1",
            at=sample.AT,
        )
    )

    assert "CANARY" not in json.dumps(record)
    assert (record["phase"], record["action"], record["policy"], record["round"]) == (
        "calls",
        "reask",
        "rev1",
        2,
    )
    assert record["verdicts"] == [
        {
            "check": "policy.tools",
            "code": "tool_not_allowed",
            "action": "reask",
            "mode": "enforce",
            "call": 0,
            "layer": "org",
            "rule": "allow_list",
            "reason_class": "allow_list",
        },
        {
            "check": "policy.tools",
            "code": "budget",
            "action": "nudge",
            "mode": "shadow",
            "call": None,
            "layer": "org",
            "rule": "allow_list",
            "reason_class": "allow_list",
        },
    ]
    assert [(each["call_id"], each["tool"], each["released"]) for each in record["calls"]] == [
        ("call_1", "delete_all", False),
        ("call_2", "get_order", True),
    ]


def test_calls_that_a_broken_stream_kept_back_are_not_called_released() -> None:
    record = records.decision_record(
        redactor,
        sample.run(),
        request_id="req_1",
        phase="calls",
        verdicts=[],
        action=Action.PASS,
        calls=[sample.call()],
        refused={0},
        at=sample.AT,
    )

    assert not record["calls"][0]["released"]


def test_the_end_of_a_run_says_why_and_what_was_spent() -> None:
    """D12, E8."""
    run = sample.run(outcome=Outcome.LIMIT_REACHED, outcome_detail="turn.calls", steps=(sample.step(),))
    record = checked(records.run_end_record(run, request_id="req_1", at=sample.AT + 9))

    assert (record["outcome"], record["detail"], record["steps"], record["seconds"]) == (
        "limit_reached",
        "turn.calls",
        1,
        9.0,
    )
    assert record["spent"] == {
        "rounds": 2,
        "calls": 1,
        "input_tokens": 300,
        "output_tokens": 40,
        "unverified_tokens": 0,
        "usd": 0.0,
        "unverified_usd": 0.0,
        "per_tool": {"get_order": 1},
    }


def test_an_edit_record_names_only_what_was_changed() -> None:
    """C15."""
    edit = RequestEdit(
        keep_tools=frozenset({"b", "a"}),
        tool_choice=ToolChoice(),
        missing_results=(MissingResult(1, sample.call(), "interrupted"),),
        exchanges=(Exchange(b"{}", ((sample.call(id="call_7"), "no"),)),),
        note="stop here, password=CANARY",
    )
    record = checked(records.edit_record(redactor, sample.run(), edit, request_id="req_1", at=sample.AT))

    assert record["changed"] == {
        "keep_tools": ["a", "b"],
        "tool_choice": {"mode": "auto", "names": []},
        "missing_results": ["call_1"],
        "exchanges": [["call_7"]],
        "note": "stop here, password=[redacted]",
    }


def test_an_approval_record_says_who_decided_and_why() -> None:
    """D4, A9: redacted like everything else."""
    call = ToolCall("c1", "login", '{"password": "hunter2"}')
    run = Run("run_1", "k", sample.AT)
    demands = (Demand("a", "Ask.", 0, "team.x"), Demand("b", "Ask.", 0, "org"))
    asked = asked_for(
        "apr_1", Identity("k", team="x"), run, call, demands, now=sample.AT, expires_at=sample.AT + 9
    )
    said = decided(asked, Word(False, "ann", "use password=hunter2 instead"), sample.AT)
    record = checked(records.approval_record(redactor, said, at=sample.AT))

    assert (record["status"], record["by"], record["layers"], record["team"]) == (
        "rejected",
        "ann",
        ["org", "team.x"],
        "x",
    )
    assert "hunter2" not in json.dumps(record)


def test_a_gap_is_a_record_too() -> None:
    assert checked(records.lost_record(3, sample.AT)) == {
        "kind": "lost",
        "ts": "2026-09-21T14:13:20.250Z",
        "count": 3,
    }


def test_lines_that_are_no_records_are_left_out() -> None:
    good = records.line(records.lost_record(1, sample.AT))
    lines = [b"", b"\xff\n", b"[]\n", b'{"kind":"other"}\n', b"[" * 100_000, good, good[:-9]]

    assert [record["kind"] for record in records.records(lines)] == ["lost"]
