"""The dialect of the Responses API as a whole: its routes, and what a kept answer shows of its request."""

import json

import pytest

from proxy.core.messages import ChoiceMode, Malformed
from proxy.dialects import RouteKind
from proxy.dialects.openai_responses import OPENAI_RESPONSES
from tests.dialects.responses_agent import call, response


def test_the_routes_of_the_official_sdk_and_what_becomes_of_them() -> None:
    """F1: about a kept answer only for whom it was made; answers that are fetched are judged again."""
    kinds = {(route.method, route.path): route.kind for route in OPENAI_RESPONSES.routes}
    assert kinds["POST", "/v1/responses"] is RouteKind.GUARDED
    kept = {"GET": "", "DELETE": ""} | {"POST": "/cancel"}
    for method, rest in kept.items():
        assert kinds[method, "/v1/responses/{answer}" + rest] is RouteKind.KEPT
    judged = {(route.method, route.path) for route in OPENAI_RESPONSES.routes if route.judged}
    assert ("GET", "/v1/responses/{answer}") in judged
    assert ("DELETE", "/v1/responses/{answer}") not in judged
    assert ("GET", "/v1/responses/{answer}/input_items") not in judged


def test_the_paths_of_compatible_servers_are_guarded_too() -> None:
    guarded = {route.path for route in OPENAI_RESPONSES.routes if route.guarded}
    assert guarded >= {
        "/responses",
        "/openai/responses",
        "/openai/v1/responses",
        "/api/v1/responses",
    }


def test_a_kept_answer_shows_the_tools_of_its_request() -> None:
    """D1, F1: its calls are judged as those of the request were."""
    tools = [{"type": "function", "name": "f", "parameters": {"type": "object"}, "description": None}]
    body = json.dumps(response(call("c", "f", "{}"), tools=tools, tool_choice="required")).encode()
    request = OPENAI_RESPONSES.parse_kept(body)
    assert (request.model, request.tool_names) == ("maple-1", ("f",))
    assert request.tool_choice.mode is ChoiceMode.REQUIRED


@pytest.mark.parametrize("body", [b"{}", b"[]", b'{"object":"list","data":[]}'])
def test_what_is_no_kept_answer_is_malformed(body: bytes) -> None:
    with pytest.raises(Malformed):
        OPENAI_RESPONSES.parse_kept(body)


def test_the_key_travels_as_the_sdk_sends_it() -> None:
    assert OPENAI_RESPONSES.credential("k") == {"authorization": "Bearer k"}
