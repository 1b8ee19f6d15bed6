"""Ollama's chat API as a whole: its routes, and whole answers that are not clear."""

import pytest

from proxy.core.messages import Malformed
from proxy.dialects import RouteKind
from proxy.dialects.ollama import OLLAMA


@pytest.mark.parametrize(
    "body",
    [
        b'{"message":{"tool_calls":[{"function":{"name":"x"}}]},"error":"no"}',
        b'{"message":{"tool_calls":[]},"message":{}}',
        b'{"message":{"content":"","Tool_Calls":[{"function":{"name":"x"}}]}}',
        b'{"message":[]}',
    ],
)
def test_an_answer_that_readers_could_take_differently_is_malformed(body: bytes) -> None:
    """C11: fail closed."""
    with pytest.raises(Malformed):
        OLLAMA.parse_response(body, str)


def test_an_error_with_status_200_is_one() -> None:
    turn = OLLAMA.parse_response(b'{"error":"no such model"}', str)
    assert turn.error is not None
    assert turn.error.message == "no such model"


def test_what_changes_the_server_or_completes_raw_text_is_refused_with_a_reason() -> None:
    """C021."""
    refused = {route.path for route in OLLAMA.routes if route.kind is RouteKind.REFUSED}
    assert {"/api/generate", "/api/pull", "/api/push", "/api/create", "/api/copy", "/api/delete"} <= refused
    assert all(route.reason for route in OLLAMA.routes if route.path in refused)
