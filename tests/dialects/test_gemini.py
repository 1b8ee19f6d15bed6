"""Gemini's API as a dialect: its roads, its keys."""

import pytest

from proxy.core.messages import Malformed
from proxy.dialects import RouteKind
from proxy.dialects.gemini import GEMINI


def kind_of(method: str, path: str) -> set[RouteKind]:
    return {route.kind for route in GEMINI.routes if (route.method, route.path) == (method, path)}


@pytest.mark.parametrize(
    "base",
    [
        "/v1beta/models/{model}",
        "/v1/models/{model}",
        "/v1/projects/{project}/locations/{location}/publishers/google/models/{model}",
        "/v1beta1/publishers/google/models/{model}",
    ],
)
def test_models_are_asked_at_both_apis(base: str) -> None:
    for verb in ("generateContent", "streamGenerateContent"):
        assert kind_of("POST", f"{base}:{verb}") == {RouteKind.GUARDED}
    assert kind_of("POST", f"{base}:countTokens") == {RouteKind.PASSED}


def test_what_cannot_be_seen_is_refused_and_says_why() -> None:
    """Batches, live sessions, kept tools."""
    refused = [route for route in GEMINI.routes if route.kind is RouteKind.REFUSED]
    assert all(route.reason for route in refused)
    for root in ("/v1beta", "/v1", "/v1beta1/projects/{project}/locations/{location}"):
        for path in (f"{root}/cachedContents", f"{root}/interactions"):
            assert kind_of("POST", path) == {RouteKind.REFUSED}
    assert kind_of("POST", "/v1beta/models/{model}:batchGenerateContent") == {RouteKind.REFUSED}
    assert any(route.path.startswith("/ws/") for route in refused)


def test_keys_stand_in_headers_and_in_the_query() -> None:
    assert GEMINI.credential("k") == {"x-goog-api-key": "k"}
    assert "key" in GEMINI.credential_parameters
    assert {"access_token", "oauth_token"} <= set(GEMINI.credential_parameters)
    assert "x-goog-api-key" in GEMINI.credential_headers


def test_nothing_is_kept() -> None:
    with pytest.raises(Malformed):
        GEMINI.parse_kept(b"{}")
