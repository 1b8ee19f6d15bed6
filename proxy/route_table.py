"""The routes that are served and refused, as an operator reads them: for `check`, and for the README."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rich.table import Table

from .dialects import DIALECTS, Route, RouteKind
from .paths import opened_routes
from .provider_settings import setting_name

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import Console

    from .dialects import Dialect
    from .settings import Settings

OPENED = "opened by name: nobody reads what passes"
_STYLES = {
    RouteKind.GUARDED: "green",
    RouteKind.KEPT: "green",
    RouteKind.PASSED: "yellow",
    RouteKind.REFUSED: "red",
}


@dataclass(frozen=True, slots=True)
class Row:
    """One route of one provider."""

    provider: str
    kind: RouteKind
    method: str
    path: str
    """With the provider's name in front, where it has one of its own."""
    remark: str


def rows(settings: Settings) -> Iterator[Row]:
    """Every route of every dialect's own provider; of one with a name of its own what is judged, and what was opened."""
    for dialect in DIALECTS:
        yield from _rows(dialect, setting_name(dialect.name), "", settings)
    speaks = {setting_name(dialect.name): dialect for dialect in DIALECTS}
    for name, provider in settings.upstream.named.items():
        dialect = speaks[setting_name(provider.dialect or "")]
        for row in _rows(dialect, name, f"/{name}", settings):
            if row.kind in {RouteKind.GUARDED, RouteKind.KEPT} or row.remark == OPENED:
                yield row


def _rows(dialect: Dialect, name: str, above: str, settings: Settings) -> Iterator[Row]:
    opened = list(opened_routes(name, settings))
    lifted = {(route.method, route.path) for route in opened}
    judged = {(route.method, route.path) for route in dialect.routes if _is_judged(route)}
    for route in sorted(dialect.routes, key=lambda route: list(RouteKind).index(route.kind)):
        if _is_judged(route) or (route.method, route.path) not in lifted:
            yield Row(name, route.kind, route.method, above + route.path, route.reason)
    for route in opened:
        if (route.method, route.path) not in judged:
            yield Row(name, route.kind, route.method, above + route.path, OPENED)


def _is_judged(route: Route) -> bool:
    return route.kind in {RouteKind.GUARDED, RouteKind.KEPT}


def print_routes(console: Console, settings: Settings) -> None:
    """A table in a terminal; else one line a route, its parts set apart by two blanks or more."""
    found = list(rows(settings))
    if console.is_terminal:
        table = Table("provider", "", "route", "", title="Routes", title_justify="left")
        for row in found:
            table.add_row(
                row.provider,
                f"[{_STYLES[row.kind]}]{row.kind.value}[/]",
                f"{row.method} {row.path}",
                row.remark,
            )
        console.print(table)
        return
    for row in found:
        line = f"{row.kind.value:<8}  {row.method:<6} {row.path}  ({row.provider})  {row.remark}"
        console.print(line.rstrip(), markup=False)
