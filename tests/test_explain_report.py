"""What is said about a decision."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

from proxy.engines.bundle import load_bundle, read_sources
from proxy.engines.explaining import Explanation, explained
from proxy.explain_report import NOT_LOOKED_AT, as_json, is_refused, refused_calls, report_lines, trace_lines
from proxy.redaction import Redactor
from tests.asked import asked

RULES: dict[str, Any] = {
    "org": {
        "tools": {
            "read": {"arguments": {"id": {"pattern": "^A"}, "api_key": {"pattern": "^k", "required": False}}},
            "pay": {"approval": "required"},
        },
        "limits": {"turn": {"calls": 5}},
    },
    "teams": {"blue": {"allowed_tools": ["read", "pa*"]}},
}
SETTINGS = {"turn.calls": 9, "turn.rounds": 4}


@cache
def _loaded() -> tuple[Any, Any]:
    return load_bundle([], (), RULES), read_sources([], (), RULES, with_tests=False)


def told(name: str, arguments: dict[str, Any], **changes: Any) -> tuple[Explanation, dict[str, Any]]:
    document = asked(name, arguments, **changes)
    return explained(*_loaded(), document), document


def lines(name: str, arguments: dict[str, Any], **changes: Any) -> str:
    return "\n".join(report_lines(*told(name, arguments, **changes), SETTINGS, Redactor()))


def test_verdict_reason_and_numbers_are_told() -> None:
    """D5: what decided, where it stands, and what the value was."""
    text = lines("read", {"id": "B2"})

    assert text.startswith('read {"id":"B2"}: refused\nOffered to the model: read\n')
    assert "Denied call 0 by org: tools.read.arguments.id.pattern (argument_rule)" in text
    assert "  told: The argument id must match ^A." in text
    assert "  settings:0: org.tools.read.arguments.id" not in text
    assert 'BROKEN org: id pattern "^A", is "B2"' in text
    assert "team.blue: read is on it (pa*, read)" in text
    assert "turn.calls: 5 by org" in text
    assert "turn.rounds: 4 by the settings" in text
    assert "agent.bot: there are no rules of it" in text
    assert text.endswith(NOT_LOOKED_AT)


def test_what_may_pass_and_what_waits_for_a_person_are_told_apart() -> None:
    """D4: a demand is no denial."""
    assert lines("read", {"id": "A2"}).startswith('read {"id":"A2"}: allowed')
    text = lines("pay", {})
    assert text.startswith("pay {}: waits for a person")
    assert "Approval is demanded for call 0 by org: tools.pay.approval" in text
    assert "pay is on it" in text


def test_a_tool_beside_the_list_is_told_with_the_list() -> None:
    found, document = told("send", {})

    assert refused_calls(found, document) == [0]
    assert "team.blue: send is not on it" in lines("send", {})


def test_secrets_are_left_out_everywhere() -> None:
    """C3: by the names of their keys."""
    arguments = {"id": "A2", "api_key": "s3cr3t"}
    found, document = told("read", arguments)

    assert "s3cr3t" not in lines("read", arguments)
    assert "s3cr3t" not in json.dumps(as_json(found, document, SETTINGS, Redactor()))


def test_a_request_without_calls_is_told_too() -> None:
    found, document = told("read", {}, phase="request", calls=[])

    assert not is_refused(found, document)
    assert lines("read", {}, phase="request", calls=[]).startswith("phase request: allowed")
    assert lines("read", {}, phase="other", calls=[]).startswith("phase other: refused")


def test_hostile_names_steer_no_terminal() -> None:
    text = lines("re\u001b[31mad\u202e", {"id": "\u001b"})

    assert "\u001b" not in text
    assert "\u202e" not in text


def test_the_trace_shows_lines_that_were_reached_and_those_that_were_not() -> None:
    text = "\n".join(trace_lines(told("read", {"id": "A2"})[0]))

    assert "callgate/org/closed_objects.rego\n  -   15 deny contains {" in text
    assert "  +   20     count(_closed) > 0" in text


def test_programs_get_the_same() -> None:
    found, document = told("read", {"id": "B2"})
    said = as_json(found, document, SETTINGS, Redactor())

    assert (said["refused"], said["refused_calls"], said["allowed_tools"]) == (True, [0], ["read"])
    assert said["said"][0]["rule"] == "tools.read.arguments.id.pattern"
    assert [each["values"] for each in said["constraints"] if each["path"] == "id"] == [["B2"]]
    assert said["limits"] == {"turn.calls": {"value": 5, "layers": ["org"]}}
    assert [each["layer"] for each in said["layers"]] == ["org", "team.blue", "agent.bot"]
