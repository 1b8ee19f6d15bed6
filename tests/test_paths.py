"""Which route a request is for (C021)."""

from typing import Any

import pytest
from hypothesis import given, strategies as st
from multidict import CIMultiDict

from proxy.dialects import DIALECTS, Dialect, Route
from proxy.paths import Routes, canonical
from proxy.settings import Settings, setting_name


def opening(dialect: Dialect, *routes: str) -> Settings:
    return Settings.model_validate({"upstream": {setting_name(dialect.name): {"open_routes": routes}}})


def routes_of(settings: Settings | None = None) -> Routes:
    return Routes(DIALECTS, settings or Settings())


def find(method: str, target: str, **headers: str) -> Any:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return routes_of().find(method, canonical(target), CIMultiDict(named))


@pytest.mark.parametrize(
    ("target", "form"),
    [
        ("/v1/messages", "/v1/messages"),
        ("//v1//messages", "/v1/messages"),
        ("/v1/messages/", "/v1/messages"),
        ("/v1/%6dessages?beta=true&a=%2e", "/v1/messages?beta=true&a=%2e"),
        ("/v1/models/a%3ab", "/v1/models/a%3Ab"),
        ("/v1/models/%c3%a4", "/v1/models/%C3%A4"),
        ("/", "/"),
    ],
)
def test_a_path_has_one_form(target: str, form: str) -> None:
    assert canonical(target) == form


@pytest.mark.parametrize(
    "target",
    [
        "/v1/x/../messages",
        "/v1/x/%2e%2e/messages",
        "/v1/./messages",
        "/v1%2fmessages",
        "/v1%5Cmessages",
        "/v1\\messages",
        "/v1/%252e%252e/messages",
        "/v1/messages%",
        "/v1/messages%0a",
        "/v1/messages%00",
        "/v1/messages#x",
        "/v1/messages x",
        "/v1/mess\u00e4ges",
        "v1/messages",
        "http://elsewhere.example/v1/messages",
        "*",
        "",
    ],
)
def test_a_path_that_somebody_might_read_differently_has_no_form(target: str) -> None:
    assert canonical(target) is None


@given(st.text(alphabet="/%.:a2eEfF5cC\\?#~", max_size=30).map("/".__add__))
def test_the_form_of_a_form_is_itself(target: str) -> None:
    form = canonical(target)

    if form is not None:
        path = form.partition("?")[0]
        assert canonical(form) == form
        assert "//" not in path
        assert not {".", ".."} & set(path.split("/"))
        assert "%2f" not in path.lower()


def test_every_route_of_every_dialect_is_found() -> None:
    for dialect in DIALECTS:
        for route in dialect.routes:
            found = routes_of().find(
                route.method, route.path.replace("{", "").replace("}", ""), CIMultiDict()
            )

            assert found.route is not None
            assert found.route.guarded == route.guarded


@pytest.mark.parametrize(
    ("method", "target"),
    [
        ("POST", "/anthropic/v1/messages"),
        ("POST", "/v1/batches"),
        ("POST", "/v1/messages/batches"),
        ("GET", "/v1/realtime?model=maple-1"),
        ("POST", "/V1/Messages"),
        ("POST", "/v1/assistants"),
        ("POST", "/v1/messages;x=1"),
    ],
)
def test_other_roads_to_a_provider_are_no_routes(method: str, target: str) -> None:
    found = find(method, target)

    assert found.route is None
    assert found.allowed == ()


def test_a_wrong_method_names_the_right_one() -> None:
    for dialect in DIALECTS:
        route = dialect.routes[0]

        found = find("PUT", route.path)

        assert found.route is None
        assert found.allowed == (route.method,)


def test_the_operator_opens_a_route_by_name_and_no_guard_is_lost_by_it() -> None:
    dialect = DIALECTS[0]
    guarded = next(route for route in dialect.routes if route.guarded)
    routes = routes_of(
        opening(dialect, "POST /v1/embeddings", "GET /v1/files/{id}", f"{guarded.method} {guarded.path}")
    )

    assert routes.find("POST", "/v1/embeddings", CIMultiDict()).route == Route(
        "POST", "/v1/embeddings", guarded=False
    )
    assert routes.find("GET", "/v1/files/f1", CIMultiDict()).dialect is dialect
    assert routes.find("GET", "/v1/files/f1/content", CIMultiDict()).route is None
    assert routes.find(guarded.method, guarded.path, CIMultiDict()).route is guarded
    assert "GET /v1/files/{id}" in routes.served


def test_a_refusal_is_said_by_the_dialect_that_was_meant() -> None:
    for dialect in DIALECTS:
        below = f"{dialect.routes[0].path}/unknown"

        assert find("POST", below).dialect is dialect
        assert find("GET", "/elsewhere", **{f"{dialect.provider}_version": "1"}).dialect is dialect
    assert find("GET", "/elsewhere").dialect is DIALECTS[0]


def test_a_shared_path_belongs_to_whose_headers_come_and_keys_do_not_cross() -> None:
    settings = opening(DIALECTS[0], "GET /v1/shared")
    only_one = Routes(DIALECTS, settings)
    upstream = {setting_name(dialect.name): {"open_routes": ["GET /v1/shared"]} for dialect in DIALECTS}
    both = Routes(DIALECTS, Settings.model_validate({"upstream": upstream}))

    for dialect in DIALECTS:
        headers = CIMultiDict({f"{dialect.provider}-version": "1"})

        assert both.find("GET", "/v1/shared", headers).dialect is dialect
        found = only_one.find("GET", "/v1/shared", headers)
        assert (found.dialect, found.route is None) == (dialect, dialect is not DIALECTS[0])
