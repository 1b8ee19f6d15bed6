"""Which provider and which dialect's route a request is for. A path is made canonical once, and only that form is used
from then on, also upstream; what is no route of a dialect, and was not opened by name, is not served (C021)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from functools import lru_cache

from multidict import MultiMapping

from proxy import queries
from proxy.core.messages import Problem
from proxy.dialects import Dialect, Route, RouteKind
from proxy.settings import Settings, setting_name

_UNRESERVED = re.compile(r"[A-Za-z0-9._~-]")
_ENCODED = re.compile(r"%([0-9A-Fa-f]{2})?")
_NEVER_ENCODED = frozenset("\\%")
_SLASH = "%2F"
_LONGEST = 512
_MOST_NAMES = 8
_HOLE = re.compile(r"\{([a-z_]+)\}")


def canonical(target: str) -> str | None:
    """The request target in its one form: single slashes, nothing encoded that need not be, query as received.

    None where a reader further on might understand another path: dot segments, control characters, encoded back-slashes
    and percent signs, anything but an absolute path, more than 512 letters. An encoded slash stays as it is; only a
    route that says so is found for it.
    """
    path, mark, query = target.partition("?")
    form = _form(path) if len(path) <= _LONGEST else None
    if form is None or not query.isascii() or not query.isprintable() or set(query) & set("# "):
        return None
    return f"{form}{mark}{query}"


@lru_cache(maxsize=512)
def _form(path: str) -> str | None:
    if not path.startswith("/") or not path.isascii() or not path.isprintable() or set(path) & set("\\# "):
        return None
    decoded: list[str] = []
    end = 0
    for found in _ENCODED.finditer(path):
        letter = chr(int(found[1], 16)) if found[1] else "%"
        if letter in _NEVER_ENCODED or (letter.isascii() and not letter.isprintable()):
            return None
        decoded += path[end : found.start()], letter if _UNRESERVED.match(letter) else found[0].upper()
        end = found.end()
    segments = [segment for segment in ("".join(decoded) + path[end:]).split("/") if segment]
    if not {"", ".", ".."}.isdisjoint(part for segment in segments for part in segment.split(_SLASH)):
        return None
    return "/" + "/".join(segments)


@dataclass(frozen=True, slots=True)
class Found:
    """A dialect, and its route where the request is for one."""

    dialect: Dialect
    route: Route | None = None
    allowed: tuple[str, ...] = ()
    """No route: the methods that the path would have."""
    named: str = ""
    """Name of the provider that the path begins with; empty: it begins with none."""
    path: str = ""
    """The canonical path, less that name, with its query."""
    opened: bool = False
    """The operator opened this route by name."""

    @property
    def holes(self) -> Mapping[str, str]:
        """What stands in the path for the `{names}` of the route."""
        if self.route is None or "{" not in self.route.path:
            return {}
        fits = _pattern(self.route.path).fullmatch(self.path.partition("?")[0])
        return fits.groupdict() if fits else {}


_RANK = {RouteKind.GUARDED: 3, RouteKind.KEPT: 2, RouteKind.PASSED: 1, RouteKind.REFUSED: 0}
"""Which of several routes of one dialect holds: opening one never takes a guard away, but lifts a refusal."""
_JUDGED = 2
"""From this rank on a guard stands on the route."""


class Routes:
    """All routes of all dialects, below no name and below the name of each named provider."""

    def __init__(self, dialects: Sequence[Dialect], settings: Settings) -> None:
        """The order of the dialects decides where nothing else does."""
        self._common = _Table([(dialect, setting_name(dialect.name)) for dialect in dialects], settings)
        speaks = {setting_name(dialect.name): dialect for dialect in dialects}
        self._named = {
            name: _Table([(speaks[setting_name(provider.dialect or "")], name)], settings)
            for name, provider in settings.upstream.named.items()
            if setting_name(provider.dialect or "") in speaks
        }

    @property
    def served(self) -> str:
        """What is served, in words: the first guarded route of each dialect, and names."""
        words = list(self._common.mainly)
        words += [f"the same below /{name}/" for name in list(self._named)[:_MOST_NAMES]]
        return ", ".join(words)

    def problem(self, method: str, path: str | None, found: Found) -> Problem:
        """Why a request for this is not served, and what would be. `path` is canonical; None: it has no such form."""
        if found.route is not None:
            route, provider = found.route, found.named or setting_name(found.dialect.name)
            text = (
                f"{route.method} {route.path} is refused: {route.reason}. To let it pass unread all the same, name it "
                f"in the setting upstream.{provider}.open_routes: `{route.method} {route.path}`."
            )
            return Problem(403, "route_refused", text)
        what = f"{method[:16]} {path.partition('?')[0][:100]}" if path is not None else "A path of this form"
        text = (
            f"{what} is not served. Callgate serves {self.served} and what `callgate check` lists. A route that carries "
            "no tool calls can be opened in the setting upstream.<provider>.open_routes."
        )
        return Problem(405 if found.allowed else 404, "not_served", text)

    def find(self, method: str, path: str | None, headers: MultiMapping[str]) -> Found:
        """The route of this canonical path; else the dialect in whose shape the refusal is best said."""
        path = path or "/"
        if self._named:
            first, _, rest = path[1:].partition("/")
            if first in self._named and rest:
                found = self._named[first].find(method, f"/{rest}", headers)
                return replace(found, named=first)
        return self._common.find(method, path, headers)


class _Table:
    """The routes of some dialects, those opened by the operator included."""

    def __init__(self, dialects: Sequence[tuple[Dialect, str]], settings: Settings) -> None:
        """Each dialect with the name of its provider in the settings."""
        self._dialects = [dialect for dialect, _ in dialects]
        self._exact: dict[str, list[tuple[Dialect, Route]]] = {}
        self._patterns: list[tuple[re.Pattern[str], Dialect, Route]] = []
        self._opened: set[int] = set()
        for dialect, name in dialects:
            opened = list(opened_routes(name, settings))
            self._opened.update(map(id, opened))
            for route in (*dialect.routes, *opened):
                if _HOLE.search(route.path):
                    self._patterns.append((_pattern(route.path), dialect, route))
                else:
                    self._exact.setdefault(route.path, []).append((dialect, route))

        # Nearly every request is for a guarded route that one dialect has: nothing is left to be found out.
        self._sure = {
            (route.method, path): (dialect, route)
            for path, ((dialect, route), *others) in self._exact.items()
            if route.guarded and not others
        }

    @property
    def mainly(self) -> Iterable[str]:
        """The first guarded route of each dialect."""
        for dialect in self._dialects:
            yield from [f"{route.method} {route.path}" for route in dialect.routes if route.guarded][:1]

    def find(self, method: str, path: str, headers: MultiMapping[str]) -> Found:
        """The route of this canonical path; else the dialect in whose shape the refusal is best said."""
        place = path.partition("?")[0]
        if sure := self._sure.get((method, place)):
            return Found(*sure, path=path)
        here = list(self._at(place))
        fitting = [(dialect, route) for dialect, route in here if route.method == method]
        shown = _Shown({name.lower() for name in headers}, {name for name, _ in queries.parameters(path)})
        if fitting:
            dialect = self._likeliest([dialect for dialect, _ in fitting], place, shown)
            route = max((route for owner, route in fitting if owner is dialect), key=_rank)
            # A reader further on might see a colon, and with it another route.
            if self._reads_stricter(method, place, _rank(route)):
                return Found(dialect, path=path)
            if _rank(route) >= _JUDGED:
                return Found(dialect, route, path=path)
        likeliest = self._likeliest(self._dialects, place, shown)
        # One provider's key is not carried to another, where only one of them has the route.
        if fitting and self._evidence(likeliest, shown) <= self._evidence(dialect, shown):
            return Found(dialect, route, path=path, opened=id(route) in self._opened)
        allowed = () if fitting else tuple(dict.fromkeys(route.method for _, route in here))
        return Found(likeliest, None, allowed, path=path)

    def _at(self, place: str) -> Iterator[tuple[Dialect, Route]]:
        slash = _SLASH in place
        if not slash:
            yield from self._exact.get(place, ())
        for pattern, dialect, route in self._patterns:
            if (not slash or route.encoded_slash) and pattern.fullmatch(place):
                yield dialect, route

    def _reads_stricter(self, method: str, place: str, rank: int) -> bool:
        plain = place.replace("%3A", ":")
        return plain != place and any(
            route.method == method and _rank(route) > rank for _, route in self._at(plain)
        )

    def _likeliest(self, among: Sequence[Dialect], place: str, shown: _Shown) -> Dialect:
        """The dialect that a request with these headers speaks: providers share paths such as `/v1/models`."""
        if len(among) == 1:
            return among[0]

        def likelihood(dialect: Dialect) -> tuple[bool, int, bool]:
            vendor, own = self._evidence(dialect, shown)
            return vendor, max((_shared(place, route.path) for route in dialect.routes), default=0), own

        return max(among, key=likelihood)

    def _evidence(self, dialect: Dialect, shown: _Shown) -> tuple[bool, bool]:
        """What speaks for this dialect: a header of the vendor's own, a key where only this vendor looks for one."""
        vendor = any(name.startswith(f"{dialect.provider}-") for name in shown.headers)
        others = [other for other in self._dialects if other.provider != dialect.provider]
        headers = {name for other in others for name in other.credential_headers}
        parameters = {name for other in others for name in other.credential_parameters}
        own = not shown.headers.isdisjoint(set(dialect.credential_headers) - headers)
        return vendor, own or not shown.parameters.isdisjoint(set(dialect.credential_parameters) - parameters)


@dataclass(frozen=True, slots=True)
class _Shown:
    """Names of the headers and parameters of a request, in small letters."""

    headers: Set[str]
    parameters: Set[str]


def _rank(route: Route) -> int:
    return _RANK[route.kind]


def opened_routes(provider: str, settings: Settings) -> Iterator[Route]:
    """The routes that were opened by name at this provider (its name in the settings)."""
    for route in settings.upstream.provider(provider).open_routes:
        method, _, path = route.partition(" ")
        yield Route(method, path, RouteKind.PASSED)


@lru_cache(maxsize=512)
def _pattern(path: str) -> re.Pattern[str]:
    """A hole is at least one letter of one segment."""
    parts = _HOLE.split(path)
    seen: set[str] = set()
    written = [re.escape(parts[0])]
    for name, after in zip(parts[1::2], parts[2::2], strict=True):
        written += "([^/]+)" if name in seen else f"(?P<{name}>[^/]+)", re.escape(after)
        seen.add(name)
    return re.compile("".join(written))


def _shared(place: str, path: str) -> int:
    """How many segments both begin with."""
    count = 0
    for left, right in zip(place.split("/"), path.split("/"), strict=False):
        if left != right:
            break
        count += 1
    return count
