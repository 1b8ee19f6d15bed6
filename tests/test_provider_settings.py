"""Which providers there are: one for each dialect, and those with names of their own."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from proxy.dialects import DIALECTS
from proxy.provider_settings import Provider, Upstream, dialect_names, setting_name, taken_segments

FIRST, OTHER = DIALECTS[0].name, DIALECTS[-1].name


def upstream_of(**providers: Any) -> Upstream:
    return Upstream.model_validate(providers)


@pytest.mark.parametrize(
    "url",
    ["ftp://x", "x", "http://", "https:///", "http://u:p@x", "http://x?a=1", "http://x#a", "http://x y"],
)
def test_an_upstream_is_a_plain_url(url: str) -> None:
    with pytest.raises(ValidationError):
        Provider(base_url=url)


@pytest.mark.parametrize("route", ["/v1/files", "GET v1/files", "CONNECT /x", "get /v1/files"])
def test_an_opened_route_is_a_method_and_a_path(route: str) -> None:
    with pytest.raises(ValidationError):
        Provider(open_routes=(route,))


def test_a_name_of_its_own_is_looked_up_as_it_is_written() -> None:
    upstream = upstream_of(**{"my-near": {"dialect": FIRST, "base_url": "http://127.0.0.1:1/v1/"}})

    assert upstream.provider("my-near").base_url == "http://127.0.0.1:1/v1"
    assert list(upstream.named) == ["my-near"]
    assert upstream.provider(FIRST) == upstream.provider("nobody") == Provider()


def test_a_dialect_may_be_written_either_way() -> None:
    for written in (FIRST, setting_name(FIRST)):
        assert list(upstream_of(near={"dialect": written}).of_dialect(FIRST)) == ["near"]


@pytest.mark.parametrize(
    ("name", "provider", "complaint"),
    [
        ("near", {}, "needs `dialect`"),
        ("near", {"dialect": "nonsense"}, "there is no dialect nonsense; there are"),
        (FIRST, {"dialect": FIRST}, f"is written {setting_name(FIRST)} here"),
        (setting_name(FIRST), {"dialect": FIRST}, "this is the name of a dialect"),
        (setting_name(FIRST), {"models": ["x-*"], "credential": "k"}, "`models` is for providers with names"),
        ("near", {"dialect": FIRST, "models": ["x-*"]}, "`models` needs `credential`"),
        ("v1", {"dialect": FIRST}, "paths begin with this word"),
        ("chat", {"dialect": FIRST}, "paths begin with this word"),
        ("healthz", {"dialect": FIRST}, "paths begin with this word"),
        ("Near", {"dialect": FIRST}, "a name is a small letter"),
        ("ne ar", {"dialect": FIRST}, "a name is a small letter"),
        ("ne/ar", {"dialect": FIRST}, "a name is a small letter"),
        ("1near", {"dialect": FIRST}, "a name is a small letter"),
    ],
)
def test_a_provider_that_could_be_misunderstood_is_an_error(name: str, provider: Any, complaint: str) -> None:
    with pytest.raises(ValidationError) as refused:
        upstream_of(**{name: provider})

    assert complaint in str(refused.value)


def test_the_first_pattern_that_fits_chooses_among_providers_of_the_dialect() -> None:
    upstream = upstream_of(
        other={"dialect": OTHER, "models": ["*"], "credential": "k"},
        near={"dialect": FIRST, "models": ["llama-*", "exact"], "credential": "k"},
        free={"dialect": FIRST, "models": ["llama-3*", "vendor/*"], "credential": ""},
        path={"dialect": FIRST},
    )

    chosen = {
        model: upstream.for_model(FIRST, model)
        for model in ("llama-3", "exact", "exact-2", "LLAMA-3", "vendor/a/b", "", "gpt\nllama-3")
    }
    assert chosen == {
        "llama-3": "near",
        "exact": "near",
        "exact-2": None,
        "LLAMA-3": None,
        "vendor/a/b": "free",
        "": None,
        "gpt\nllama-3": None,
    }
    assert upstream.for_model(OTHER, "anything") == "other"


def test_no_name_can_hide_a_route() -> None:
    for dialect in DIALECTS:
        for route in dialect.routes:
            first = route.path.split("/")[1]
            assert "{" in first or first in taken_segments()
    assert len(dialect_names()) == len(DIALECTS)
