"""The paths of Chat Completions and its neighbours (C021)."""

from __future__ import annotations

import re

from proxy.dialects import RouteKind
from proxy.dialects.openai_chat import OPENAI_CHAT
from proxy.dialects.openai_chat_routes import ROUTES, deployment_of

CARRY_CALLS = re.compile(r"/(?:chat/completions|completions|batches|files|assistants|threads|realtime)\b")
FROM_RECORDINGS = (
    "/v1/chat/completions",
    "/chat/completions",
    "/openai/deployments/gpt-4o/chat/completions",
    "/openai/v1/chat/completions",
    "/models/chat/completions",
    "/v1beta/openai/chat/completions",
    "/api/v1/chat/completions",
)


def kind_of(method: str, path: str) -> RouteKind | None:
    for route in ROUTES:
        fits = re.fullmatch(re.sub(r"\\\{[a-z]+\\\}", "[^/]+", re.escape(route.path)), path)
        if route.method == method and fits:
            return route.kind
    return None


def test_every_way_to_a_model_is_guarded() -> None:
    """C1, F1: paths that SDKs of compatible providers were seen to request."""
    assert {kind_of("POST", path) for path in FROM_RECORDINGS} == {RouteKind.GUARDED}


def test_nothing_that_carries_calls_passes_unread() -> None:
    """C021."""
    passed = [route.path for route in ROUTES if route.kind is RouteKind.PASSED]

    assert not [path for path in passed if CARRY_CALLS.search(path)]
    for method, path in (
        ("POST", "/v1/completions"),
        ("POST", "/v1/batches"),
        ("POST", "/v1/files"),
        ("POST", "/v1/threads/t/runs/r/submit_tool_outputs"),
        ("GET", "/v1/realtime"),
        ("POST", "/v1/realtime/client_secrets"),
    ):
        assert kind_of(method, path) is RouteKind.REFUSED


def test_a_refusal_has_a_reason_and_no_route_stands_twice() -> None:
    assert all(bool(route.reason) is (route.kind is RouteKind.REFUSED) for route in ROUTES)
    assert len({(route.method, route.path) for route in ROUTES}) == len(ROUTES)


def test_a_deployment_in_the_path_goes_before_the_model_of_the_body() -> None:
    """D5: what is judged is the model that answers."""
    path = "/openai/deployments/gpt%204o/chat/completions?api-version=1"
    body = b'{"model":"other","messages":[]}'

    assert OPENAI_CHAT.parse_request(body, path).model == deployment_of(path) == "gpt 4o"
    assert OPENAI_CHAT.parse_request(body, "/v1/chat/completions").model == "other"
    assert deployment_of("/v1/openai/deployments/x") == deployment_of("/openai/deployments") == ""
