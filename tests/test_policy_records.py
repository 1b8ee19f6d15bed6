"""Records about policies themselves."""

from __future__ import annotations

from proxy.audit_records import line, records
from proxy.core.messages import ToolCall
from proxy.core.runs import Run
from proxy.policy_records import Difference, input_record, shadow_record
from proxy.redaction import Redactor

RUN = Run("run_1", "k", 1.0)


def test_a_difference_says_what_it_was_and_would_be() -> None:
    """F2: redacted like every other record."""
    call = ToolCall("c1", "refund", '{"id":"A1","password":"hunter2"}')
    difference = Difference("old", "new", "allowed", "refused", ("org: r (no)",))
    record = shadow_record(Redactor(), RUN, call, difference, request_id="req_1", at=0.0)

    assert (record["was"], record["would"], record["by"]) == ("allowed", "refused", ["org: r (no)"])
    assert (record["policy"], record["shadow"], record["run"]) == ("old", "new", "run_1")
    assert "hunter2" not in record["arguments"]
    assert list(records([line(record)])) == [record]


def test_what_policies_were_asked_is_kept_without_secrets() -> None:
    """A9."""
    document = {"phase": "calls", "calls": [{"arguments": {"api_key": "sk-1", "id": "A1"}}]}
    record = input_record(Redactor(), RUN, document, request_id="req_1", policy="old", at=0.0)

    assert record["input"] == {
        "phase": "calls",
        "calls": [{"arguments": {"api_key": "[redacted]", "id": "A1"}}],
    }
    assert list(records([line(record)])) == [record]
