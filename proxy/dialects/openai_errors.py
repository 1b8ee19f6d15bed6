"""Errors as the official SDK of OpenAI reads them, whichever of its formats they belong to."""

from __future__ import annotations

from proxy.core.messages import Problem

from .values import Json, count

_RETRYABLE = frozenset({408, 409, 429, 500, 502, 503, 504, 529})
_ERROR_TYPES = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    429: "rate_limit_error",
}
_LOWEST_ERROR, _LOWEST_SERVER_ERROR, _HIGHEST_ERROR = 400, 500, 599


def problem_of(error: object) -> Problem:
    """The error that a provider reports inside an answer."""
    record = error if isinstance(error, dict) else {"message": error}
    code, kind = record.get("code"), record.get("type")
    numbers = [count(value) for value in (code, record.get("status_code"), record.get("status"))]
    status = next((number for number in numbers if _LOWEST_ERROR <= number <= _HIGHEST_ERROR), 502)
    word = (
        code
        if isinstance(code, str) and code
        else kind
        if isinstance(kind, str) and kind
        else "upstream_error"
    )
    message = record.get("message")
    said = (
        message if isinstance(message, str) and message else "The provider reported an error in its answer."
    )
    return Problem(status, word, said, retryable=status in _RETRYABLE)


def error_record(problem: Problem) -> Json:
    """An error as the official SDK expects it."""
    kind = "server_error" if problem.status >= _LOWEST_SERVER_ERROR else "invalid_request_error"
    own = {"message", "type", "param", "code"}
    return {
        "error": {
            "message": problem.message,
            "type": _ERROR_TYPES.get(problem.status, kind),
            "param": None,
            "code": problem.code,
            **{key: value for key, value in problem.fields.items() if key not in own},
        }
    }
