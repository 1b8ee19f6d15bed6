"""Approvals as JSON: redacted unless asked for whole."""

import json

from proxy.approval_json import shown, written
from proxy.core.approvals import asked_for
from proxy.core.messages import ToolCall
from proxy.core.runs import Identity, Run
from proxy.core.verdicts import Demand
from proxy.redaction import Redactor
from tests.checks.build import NOW

CALL = ToolCall("c1", "login", '{"user": "ann", "password": "hunter2", "note": "\ud800"}')
DEMAND = Demand("needs_person", "Ask.", 0, "org", "tools.login.approval")
APPROVAL = asked_for(
    "apr_1", Identity("k"), Run("run_1", "k", NOW), CALL, (DEMAND,), now=NOW, expires_at=NOW + 60
)


def test_secrets_stay_out_where_arguments_are_redacted() -> None:
    text = written(shown(APPROVAL, Redactor())).decode()

    assert "hunter2" not in text
    assert "[redacted]" in text
    assert json.loads(text)["redacted"] is True


def test_in_a_list_arguments_are_short() -> None:
    text = written(shown(APPROVAL, Redactor(), 20)["arguments"])

    assert len(text) == 20 + len('""') + text.count(b"\\")


def test_whoever_decides_can_see_the_exact_arguments() -> None:
    whole = json.loads(written(shown(APPROVAL, None)))

    assert whole["arguments"] == CALL.arguments
    assert whole["demands"] == [
        {"code": "needs_person", "message": "Ask.", "layer": "org", "rule": "tools.login.approval"}
    ]
    assert whole["expires_at"] == "2026-09-21T14:14:20.000Z"
