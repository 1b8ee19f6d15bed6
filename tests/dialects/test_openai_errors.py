"""Errors in the shape of OpenAI's SDK, read and written."""

from typing import Any

import pytest

from proxy.core.messages import Problem
from proxy.dialects.openai_errors import error_record, problem_of


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        ({"code": 400, "message": "Token limit"}, Problem(400, "upstream_error", "Token limit")),
        (
            {"type": "server_error", "code": None, "message": "Busy", "status_code": 503},
            Problem(503, "server_error", "Busy", retryable=True),
        ),
        (
            {"code": "tool_use_failed", "message": "Bad"},
            Problem(502, "tool_use_failed", "Bad", retryable=True),
        ),
        ("gone", Problem(502, "upstream_error", "gone", retryable=True)),
        (
            {"code": 7, "message": ["x"]},
            Problem(502, "upstream_error", "The provider reported an error in its answer.", retryable=True),
        ),
    ],
)
def test_errors_in_an_answer_are_read_in_every_form(error: Any, expected: Problem) -> None:
    assert problem_of(error) == expected


def test_an_error_keeps_its_own_words_beside_the_fields() -> None:
    record = error_record(Problem(403, "budget_exhausted", "Used up.", {"budget": "rounds", "code": "x"}))[
        "error"
    ]
    assert record == {
        "message": "Used up.",
        "type": "permission_error",
        "param": None,
        "code": "budget_exhausted",
        "budget": "rounds",
    }
    assert error_record(Problem(500, "x", "y"))["error"]["type"] == "server_error"
    assert error_record(Problem(400, "x", "y"))["error"]["type"] == "invalid_request_error"
