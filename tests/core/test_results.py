"""Results are classed by what they say of themselves, never by words inside content (A5, A6, D7)."""

import json
import re
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from proxy.core.messages import ToolResult
from proxy.core.results import FRUITLESS, StatusRule, StepStatus, ToolTraits, classify, summary, wording
from tests.conftest import need

FOUND, NOT_FOUND = StepStatus.FOUND, StepStatus.NOT_FOUND
FORBIDDEN, FAILED = StepStatus.FORBIDDEN, StepStatus.FAILED
PASSING = StepStatus.TEMPORARILY_UNAVAILABLE
PLAIN = ToolTraits()
TRAJECTORIES = Path(__file__).resolve().parents[3] / "shared" / "trajectories" / "airline.jsonl"


def classed(text: str, traits: ToolTraits = PLAIN, *, is_error: bool = False) -> StepStatus:
    return classify(ToolResult("c1", text, is_error), traits)


@pytest.mark.parametrize(
    ("text", "status"),
    [
        ('{"found":true,"data":{"id":"A1"}}', FOUND),
        ('{"found":false,"reason":"no such order"}', NOT_FOUND),
        ('{"error":"DB_TIMEOUT","message":"try later"}', PASSING),
        ('{"error":"FORBIDDEN"}', FORBIDDEN),
    ],
)
def test_the_four_typical_forms_are_told_apart(text: str, status: StepStatus) -> None:
    """A5, D7."""
    assert classed(text) is status


@pytest.mark.parametrize(
    "text",
    [
        "[]",
        "{}",
        '{"hits":[]}',
        '{"results":[],"total":0,"query":"x"}',
        '{"items":[],"next":null,"page":1}',
        '{"data":null}',
        '{"hits":{"total":{"value":0},"hits":[]},"took":3}',
        '{"success":false,"reason":"not found"}',
        "No results found.",
        "Not found",
        "0 matches",
        "nothing found",
        "no such order was found",
    ],
)
def test_an_empty_value_is_not_found_and_never_a_failure(text: str) -> None:
    """A6."""
    assert classed(text) is NOT_FOUND


@pytest.mark.parametrize("text", ["", " \n", "null", "None", '""'])
def test_a_tool_that_says_nothing_has_failed_at_nothing(text: str) -> None:
    """A6: many tools that act have nothing to say; one that is known to read has found nothing."""
    assert classed(text) is FOUND
    assert classed(text, ToolTraits(effect="read")) is NOT_FOUND
    assert classed("[]", ToolTraits(effect="write")) is FOUND


@pytest.mark.parametrize(
    ("number", "status"),
    [
        (401, FORBIDDEN),
        (403, FORBIDDEN),
        (404, NOT_FOUND),
        (408, PASSING),
        (429, PASSING),
        (500, PASSING),
        (503, PASSING),
        (400, FAILED),
        (422, FAILED),
        (200, FOUND),
        (1404, FOUND),
    ],
)
def test_status_numbers_are_read_where_they_are_status_numbers(number: int, status: StepStatus) -> None:
    for form in (
        {"status": number},
        {"status_code": number, "body": "x"},
        {"code": number, "message": "said so"},
    ):
        assert classed(json.dumps(form)) is status
    for envelope in (
        {"error": {"code": number, "message": "said so"}},
        {"errors": [{"status": number}], "data": None},
    ):
        assert classed(json.dumps(envelope)) is (FAILED if status is FOUND else status)


@pytest.mark.parametrize(
    ("text", "status"),
    [
        ('{"status":"error","message":"permission denied"}', FORBIDDEN),
        ('{"success":false,"message":"boom"}', FAILED),
        ('{"error":"NotFoundError"}', NOT_FOUND),
        ('{"error":true,"message":"rate limit exceeded"}', PASSING),
        ('{"isError":true,"content":"x"}', FAILED),
        ('{"errors":[{"message":"not authorized"}],"data":null}', FORBIDDEN),
        ('{"status":"temporarily_unavailable"}', PASSING),
        ('[{"type":"text","text":"Error: boom"}]', FAILED),
        ('"Error: boom"', FAILED),
        ("Error: payment amount does not add up, total price is 500, but paid 404", FAILED),
        ("Error executing tool: This tool always fails", FAILED),
        ("An error occurred while running the tool.", FAILED),
        ("Tool call failed with error: 'x'", FAILED),
        ("ValueError: bad", FAILED),
        (
            "Traceback (most recent call last):\n  ...\nPermissionError: [Errno 13] Permission denied",
            FORBIDDEN,
        ),
        ("Failed to connect: connection refused", PASSING),
        ("Request timed out after 30 s", PASSING),
        ("HTTP 503 Service Unavailable", PASSING),
        ("Error 404: page", NOT_FOUND),
        ("Access denied.", FORBIDDEN),
    ],
)
def test_failures_say_which_kind_they_are(text: str, status: StepStatus) -> None:
    """A5, A11, D7."""
    assert classed(text) is status


@pytest.mark.parametrize(
    "text",
    [
        "Error handling in Rust is done with Result.",
        "Forbidden Planet is a film of 1956.",
        "The errors were fixed; nothing was forbidden.",
        "Not found in nature, this element decays at once.",
        "No problem at all",
        "Timeout: 30",
        "42",
        "true",
        "0",
        "false",
        '{"error":0.05,"margin":2}',
        '{"error":null,"data":[1]}',
        '{"error":"","rows":[1]}',
        '{"error":"none","id":1}',
        '{"errors":[{"message":"x"}],"data":{"a":1}}',
        '{"ok":true,"error":"none of your business"}',
        '{"id":"P1","status":"failed","amount":3}',
        '{"flight":"HAT1","status":"delayed"}',
        '{"code":404,"city":"Atlanta"}',
        '{"code":503,"city":"Portland","message":null}',
        '{"name":"","age":null}',
        '{"count":0}',
        '{"message":"User was not found"}',
        '{"title":"404: Not Found","author":"somebody"}',
        "[[]]",
        "{'results': []}",
        "x" * 70_000,
        "Error: " + "x" * 70_000,
    ],
)
def test_ordinary_content_with_such_words_is_content(text: str) -> None:
    assert classed(text) is FOUND


@pytest.mark.parametrize(
    ("text", "status"),
    [
        ("boom", FAILED),
        ("", FAILED),
        ("[]", FAILED),
        ("permission denied", FORBIDDEN),
        ("no such file", NOT_FOUND),
        ('{"status":404}', NOT_FOUND),
        ("timeout", PASSING),
        ('{"found":true}', FAILED),
    ],
)
def test_the_error_flag_of_the_wire_is_believed(text: str, status: StepStatus) -> None:
    assert classed(text, is_error=True) is status


def test_what_policy_says_of_a_tools_texts_comes_first() -> None:
    rules = (
        StatusRule("keine Berechtigung", FORBIDDEN),
        StatusRule("error:", FOUND),
        StatusRule("", NOT_FOUND),
    )
    traits = ToolTraits(status_rules=rules)

    assert classed("Leider KEINE BERECHTIGUNG für B456", traits) is FORBIDDEN
    assert classed("Error: boom", traits, is_error=True) is FOUND
    assert classed(" ", traits) is NOT_FOUND
    assert classed("sonst etwas", traits) is FOUND


@given(
    st.text(max_size=60)
    | st.recursive(st.none() | st.text(max_size=8), st.lists, max_leaves=5).map(json.dumps)
)
def test_any_text_has_a_status(text: str) -> None:
    for is_error in (False, True):
        status = classed(text, is_error=is_error)
        assert status is FOUND or status in FRUITLESS
        assert not (is_error and status is FOUND)


@pytest.mark.parametrize(
    "text", ["[" * 60_000, '{"a":' * 9_000 + "1" + "}" * 9_000, '{"n":' + "9" * 50_000 + "}", "\ud800"]
)
def test_hostile_results_are_classed_without_harm(text: str) -> None:
    assert classed(text) is FOUND


def test_errors_of_real_runs_are_told_from_content() -> None:
    need(TRAJECTORIES.exists(), "no recorded runs beside the checkout")
    said = set()
    for line in TRAJECTORIES.read_text(encoding="utf-8").splitlines():
        for message in json.loads(line)["messages"]:
            if message["role"] == "tool":
                said.add((classed(message["content"]), message["content"]))
    failures = {text for status, text in said if status in {FAILED, FORBIDDEN, PASSING}}

    assert failures
    assert failures == {
        text for status, text in said if re.match("Error: ", text) and status is not NOT_FOUND
    }
    assert all(
        text == "[]" or re.match("Error: .* not found", text) for status, text in said if status is NOT_FOUND
    )


@pytest.mark.parametrize("status", StepStatus)
def test_every_kind_has_wording_for_the_user(status: StepStatus) -> None:
    """A5, A6: not found and failed never share a word."""
    assert wording(status)
    assert len({wording(each) for each in StepStatus}) == len(StepStatus)


def test_a_summary_is_one_line_and_says_that_it_is_cut() -> None:
    """B4, C8."""
    assert summary("a\n b\t c") == "a b c"
    assert summary("x" * 120) == "x" * 120
    assert summary("x" * 121) == "x" * 119 + "…"
    assert summary("ab " + " " * 2000 + "c").endswith("…")
    assert summary("\x1b[31mred\x07 \u202e\u200bplain") == "[31mred plain"


@given(st.text(), st.integers(5, 200))
def test_no_summary_is_longer_than_its_limit(text: str, limit: int) -> None:
    shown = summary(text, limit)

    assert len(shown) <= limit
    assert "\n" not in shown
    assert "\x1b" not in shown
