"""What an operator reads about routes (C021)."""

from __future__ import annotations

import io

from rich.console import Console

from proxy.config import load_settings
from proxy.dialects import DIALECTS, RouteKind
from proxy.provider_settings import setting_name
from proxy.route_table import OPENED, print_routes, rows
from proxy.settings import Settings

FIRST = DIALECTS[0]


def printed(settings: Settings, *, terminal: bool) -> str:
    text = io.StringIO()
    print_routes(Console(file=text, force_terminal=terminal, width=200, soft_wrap=not terminal), settings)
    return text.getvalue()


def test_every_route_of_every_dialect_is_listed_once() -> None:
    found = list(rows(Settings()))

    assert len(found) == sum(len(dialect.routes) for dialect in DIALECTS)
    assert len(set(found)) == len(found)


def test_an_opened_route_is_said_to_pass_unread_and_a_guard_stays() -> None:
    """Nobody should believe to be guarded who is not."""
    refused = next(route for route in FIRST.routes if route.kind is RouteKind.REFUSED)
    guarded = next(route for route in FIRST.routes if route.guarded)
    name = setting_name(FIRST.name)
    opened = [f"{route.method} {route.path}" for route in (refused, guarded)] + ["GET /v1/own/{id}"]
    found = list(rows(load_settings(overrides={f"upstream.{name}.open_routes": opened}, environment={})))

    mine = [row for row in found if row.provider == name]
    told = {(row.method, row.path): (row.kind, row.remark) for row in mine}
    assert len(told) == len(mine)
    assert told[refused.method, refused.path] == (RouteKind.PASSED, OPENED)
    assert told["GET", "/v1/own/{id}"] == (RouteKind.PASSED, OPENED)
    assert told[guarded.method, guarded.path][0] is RouteKind.GUARDED


def test_a_named_provider_s_routes_stand_below_its_name() -> None:
    """F1."""
    near = {"dialect": FIRST.name, "open_routes": ["GET /v1/own"]}
    found = [
        row for row in rows(Settings.model_validate({"upstream": {"near": near}})) if row.provider == "near"
    ]

    assert {row.path for row in found if row.kind is RouteKind.GUARDED} == {
        f"/near{route.path}" for route in FIRST.routes if route.guarded
    }
    assert [(row.path, row.remark) for row in found if row.kind is RouteKind.PASSED] == [
        ("/near/v1/own", OPENED)
    ]


def test_a_terminal_gets_a_table_and_a_file_gets_lines() -> None:
    table, lines = (printed(Settings(), terminal=terminal) for terminal in (True, False))

    assert "┃" in table
    assert "refused   POST   /v1/batches  (openai_chat)  the requests of a batch" in lines
    assert len(lines.splitlines()) == len(list(rows(Settings())))
    assert not set("┃│\x1b") & set(lines)
