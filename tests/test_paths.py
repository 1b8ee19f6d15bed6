"""Which route a request is for (C021)."""

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, strategies as st
from multidict import CIMultiDict

from proxy.dialects import DIALECTS, Dialect, Route, RouteKind
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
        "/v1%5Cmessages",
        "/v1\\messages",
        "/v1/%252e%252e/messages",
        "/v1/messages%",
        "/v1/messages%0a",
        "/v1/messages%00",
        "/v1/%2fmessages",
        "/v1/x%2F..%2Fmessages",
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
        assert "%2f" not in path


def test_every_route_of_every_dialect_is_found() -> None:
    for dialect in DIALECTS:
        for route in dialect.routes:
            found = routes_of().find(
                route.method, route.path.replace("{", "").replace("}", ""), CIMultiDict()
            )

            assert found.route is not None
            assert found.route.kind is route.kind


@pytest.mark.parametrize(
    ("method", "target"),
    [
        ("POST", "/anthropic/v1/messages"),
        ("POST", "/V1/Messages"),
        ("POST", "/v1%2fmessages"),
        ("POST", "/v1/fine_tuning/jobs"),
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
        assert route.method in found.allowed
        assert "PUT" not in found.allowed


def test_the_operator_opens_a_route_by_name_and_no_guard_is_lost_by_it() -> None:
    dialect = DIALECTS[0]
    guarded = next(route for route in dialect.routes if route.guarded)
    routes = routes_of(
        opening(dialect, "POST /v1/own", "GET /v1/files/{id}", f"{guarded.method} {guarded.path}")
    )

    own = routes.find("POST", "/v1/own", CIMultiDict())
    assert (own.route, own.opened) == (Route("POST", "/v1/own", RouteKind.PASSED), True)
    file = routes.find("GET", "/v1/files/f1", CIMultiDict())
    assert file.route is not None
    assert (file.dialect, file.route.kind, file.opened) == (dialect, RouteKind.PASSED, True)
    content = routes.find("GET", "/v1/files/f1/content", CIMultiDict())
    assert content.route is not None
    assert (content.route.kind, content.opened) == (RouteKind.REFUSED, False)
    assert routes.find(guarded.method, guarded.path, CIMultiDict()).route is guarded
    assert f"{guarded.method} {guarded.path}" in routes.served


def test_a_refusal_is_said_by_the_dialect_that_was_meant() -> None:
    for dialect in DIALECTS:
        below = f"{dialect.routes[0].path.replace('{', '').replace('}', '')}/unknown"
        headers = {f"{dialect.provider}_version": "1"}

        assert find("PUT", below).dialect.provider == dialect.provider
        assert find("GET", "/elsewhere", **headers).dialect.provider == dialect.provider
    assert find("GET", "/elsewhere").dialect is DIALECTS[0]


def test_a_shared_path_belongs_to_whose_headers_come_and_keys_do_not_cross() -> None:
    settings = opening(DIALECTS[0], "GET /v1/shared")
    only_one = Routes(DIALECTS, settings)
    upstream = {setting_name(dialect.name): {"open_routes": ["GET /v1/shared"]} for dialect in DIALECTS}
    both = Routes(DIALECTS, Settings.model_validate({"upstream": upstream}))

    for dialect in DIALECTS:
        headers = CIMultiDict({f"{dialect.provider}-version": "1"})
        is_first = dialect.provider == DIALECTS[0].provider

        assert both.find("GET", "/v1/shared", headers).dialect.provider == dialect.provider
        found = only_one.find("GET", "/v1/shared", headers)
        assert (found.dialect.provider, found.route is None) == (dialect.provider, not is_first)


# ---- kinds of routes ----


class Shapes:
    """A dialect of which only the routes are looked at."""

    def __init__(self, *routes: Route, parameters: Sequence[str] = ()) -> None:
        self.name = "shapes"
        self.provider = "shapes"
        self.routes = routes
        self.credential_headers = ("x-shapes-key",)
        self.credential_parameters = parameters


def shaped(*routes: Route, parameters: Sequence[str] = ()) -> Routes:
    dialect: Any = Shapes(*routes, parameters=parameters)
    return Routes([dialect], Settings())


@pytest.mark.parametrize(
    ("pattern", "target", "holes"),
    [
        ("/v1/answers/{answer}", "/v1/answers/a_1?x=1", {"answer": "a_1"}),
        ("/v1/answers/{answer}/cancel", "/v1/answers/a%C3%A4/cancel", {"answer": "a%C3%A4"}),
        ("/v1beta/models/{model}:make", "/v1beta/models/big:1:make", {"model": "big:1"}),
        ("/p/{p}/l/{l}/models/{model}:make", "/p/a/l/b/models/c:make", {"p": "a", "l": "b", "model": "c"}),
        ("/{first}/x", "/one/x", {"first": "one"}),
        ("/v1/answers", "/v1/answers", {}),
    ],
)
def test_what_stands_in_a_path_is_known_by_name(pattern: str, target: str, holes: dict[str, str]) -> None:
    for kind in RouteKind:
        found = shaped(Route("POST", pattern, kind)).find("POST", canonical(target), CIMultiDict())

        assert found.route is not None
        assert (found.route.kind, dict(found.holes), found.path) == (kind, holes, target)


def test_a_hole_is_never_empty_and_never_more_than_one_segment() -> None:
    routes = shaped(Route("POST", "/models/{model}:make"))

    for target in (
        "/models/:make",
        "/models/a/b:make",
        "/models/a:make/b",
        "/models/amake",
        "/models/a%2Fb:make",
    ):
        assert routes.find("POST", canonical(target), CIMultiDict()).route is None


def test_an_encoded_slash_fits_only_where_a_route_says_so() -> None:
    arn = "/model/arn%3Aaws%3Aprofile%2Fx/go"
    strict, broad = (Route("POST", "/model/{model}/go", encoded_slash=slash) for slash in (False, True))

    assert shaped(strict).find("POST", canonical(arn), CIMultiDict()).route is None
    found = shaped(broad).find("POST", canonical(arn), CIMultiDict())
    assert (found.route, found.holes) == (broad, {"model": "arn%3Aaws%3Aprofile%2Fx"})
    assert (
        shaped(Route("POST", "/a/b", encoded_slash=True)).find("POST", "/a%2Fb", CIMultiDict()).route is None
    )


def test_a_colon_that_is_encoded_leads_round_no_guard() -> None:
    """C021: a reader further on may decode it."""
    routes = shaped(
        Route("POST", "/models/{model}", RouteKind.PASSED),
        Route("POST", "/models/{model}:make"),
        Route("POST", "/models/{model}:go", RouteKind.REFUSED),
    )

    assert routes.find("POST", canonical("/models/x%3amake"), CIMultiDict()).route is None
    assert routes.find("POST", canonical("/models/x:make"), CIMultiDict()).route == Route(
        "POST", "/models/{model}:make"
    )
    assert routes.find("POST", canonical("/models/x%3A0"), CIMultiDict()).route is not None


def test_a_key_in_the_query_tells_whose_request_it_is() -> None:
    mine: Any = Shapes(Route("GET", "/own"), parameters=("own_key",))
    routes = Routes([*DIALECTS, mine], Settings())

    assert routes.find("GET", "/elsewhere?own_key=k", CIMultiDict()).dialect is mine
    assert routes.find("GET", "/elsewhere", CIMultiDict()).dialect is DIALECTS[0]


def test_a_refusal_has_a_reason_and_says_how_to_open_the_route() -> None:
    """C021: refused until opened by name."""
    for dialect in DIALECTS:
        for route in dialect.routes:
            if route.kind is not RouteKind.REFUSED:
                continue
            place = route.path.replace("{", "").replace("}", "")
            headers = CIMultiDict({f"{dialect.provider}-version": "1"})
            found = routes_of().find(route.method, place, headers)
            problem = routes_of().problem(route.method, place, found)
            name = setting_name(dialect.name)

            assert (found.route, problem.status, problem.code) == (route, 403, "route_refused")
            assert route.reason
            assert route.reason in problem.message
            assert f"upstream.{name}.open_routes: `{route.method} {route.path}`" in problem.message
            opened = routes_of(opening(dialect, f"{route.method} {route.path}"))
            lifted = opened.find(route.method, place, headers).route
            assert lifted is not None
            assert lifted.kind is RouteKind.PASSED


# ---- named providers ----


def named(**providers: Any) -> Routes:
    return routes_of(Settings.model_validate({"upstream": providers}))


def test_a_path_that_begins_with_a_provider_s_name_is_its_dialect_s_path() -> None:
    """F1: an agent sets its base URL to the name of a provider."""
    for dialect in DIALECTS:
        routes = named(near={"dialect": dialect.name, "open_routes": ["GET /v1/own"]})
        for route in dialect.routes:
            place = route.path.replace("{", "").replace("}", "")
            found = routes.find(route.method, f"/near{place}?a=1", CIMultiDict({"anthropic-version": "1"}))

            assert (found.dialect, found.named, found.path) == (dialect, "near", f"{place}?a=1")
            assert found.route is not None
            assert found.route.kind is route.kind
        own = routes.find("GET", "/near/v1/own", CIMultiDict())
        assert (own.named, own.opened) == ("near", True)
        assert routes.find("GET", "/v1/own", CIMultiDict()).route is None
        assert "below /near/" in routes.served


def test_other_dialects_and_unknown_names_are_not_below_a_name() -> None:
    """C021."""
    routes = named(near={"dialect": DIALECTS[0].name})
    other = next(dialect for dialect in DIALECTS if dialect.provider != DIALECTS[0].provider)
    path = other.routes[0].path

    for target in (
        f"/near{path}",
        f"/far{DIALECTS[0].routes[0].path}",
        f"/near/near{DIALECTS[0].routes[0].path}",
    ):
        assert routes.find("POST", canonical(target), CIMultiDict()).route is None
    for target in ("/near", "/near/", "/NEAR/v1/x"):
        assert routes.find("POST", canonical(target), CIMultiDict()).named == ""
    assert routes.find("POST", canonical(f"//near/{path}"), CIMultiDict()).dialect is DIALECTS[0]
