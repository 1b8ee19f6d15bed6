"""Which dialect's route a request is for. A path is made canonical once, and only that form is used from then on, also
upstream; what is no route of a dialect, and was not opened by name, is not served (C021)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

from multidict import MultiMapping

from proxy.dialects import Dialect, Route, RouteKind
from proxy.settings import Settings

_UNRESERVED = re.compile(r"[A-Za-z0-9._~-]")
_ENCODED = re.compile(r"%([0-9A-Fa-f]{2})?")
_NEVER_ENCODED = frozenset("/\\%")
_LONGEST = 512
_HOLE = re.compile(r"\{[a-z_]+\}")


def canonical(target: str) -> str | None:
    """The request target in its one form: single slashes, nothing encoded that need not be, query as received.

    None where a reader further on might understand another path: encoded slashes, dot segments, control
    characters, anything but an absolute path, more than 512 letters.
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
    if not {".", ".."}.isdisjoint(segments):
        return None
    return "/" + "/".join(segments)


@dataclass(frozen=True, slots=True)
class Found:
    """A dialect, and its route where the request is for one."""

    dialect: Dialect
    route: Route | None = None
    allowed: tuple[str, ...] = ()
    """No route: the methods that the path would have."""


class Routes:
    """All routes of all dialects, those opened by the operator included."""

    def __init__(self, dialects: Sequence[Dialect], settings: Settings) -> None:
        """The order of the dialects decides where nothing else does."""
        self._dialects = tuple(dialects)
        self._exact: dict[str, list[tuple[Dialect, Route]]] = {}
        self._patterns: list[tuple[re.Pattern[str], Dialect, Route]] = []
        for dialect in self._dialects:
            for route in (*dialect.routes, *_opened(dialect, settings)):
                if _HOLE.search(route.path):
                    self._patterns.append((_pattern(route.path), dialect, route))
                else:
                    self._exact.setdefault(route.path, []).append((dialect, route))

        # Nearly every request is for a guarded route that one dialect has: nothing is left to be found out.
        self._sure = {
            (route.method, path): Found(dialect, route)
            for path, ((dialect, route), *others) in self._exact.items()
            if route.guarded and not others
        }

    @property
    def served(self) -> str:
        """What is served, in words."""
        every = [(dialect, route) for found in self._exact.values() for dialect, route in found]
        every += [(dialect, route) for _, dialect, route in self._patterns]
        return ", ".join(dict.fromkeys(f"{route.method} {route.path}" for _, route in every))

    def find(self, method: str, path: str | None, headers: MultiMapping[str]) -> Found:
        """The route of this canonical path; else the dialect in whose shape the refusal is best said."""
        place = (path or "/").partition("?")[0]
        if sure := self._sure.get((method, place)):
            return sure
        here = list(self._at(place))
        fitting = [(dialect, route) for dialect, route in here if route.method == method]
        if fitting:
            dialect = self._likeliest([dialect for dialect, _ in fitting], place, headers)
            # A guarded route wins over one that the operator opened: opening never takes a guard away.
            route = max(
                (route for owner, route in fitting if owner is dialect), key=lambda route: route.guarded
            )
            if route.guarded:
                return Found(dialect, route)
        likeliest = self._likeliest(self._dialects, place, headers)
        # One provider's key is not carried to another, where only one of them has the route.
        if fitting and self._evidence(likeliest, headers) <= self._evidence(dialect, headers):
            return Found(dialect, route)
        allowed = () if fitting else tuple(dict.fromkeys(route.method for _, route in here))
        return Found(likeliest, None, allowed)

    def _at(self, place: str) -> Iterator[tuple[Dialect, Route]]:
        yield from self._exact.get(place, ())
        for pattern, dialect, route in self._patterns:
            if pattern.fullmatch(place):
                yield dialect, route

    def _likeliest(self, among: Sequence[Dialect], place: str, headers: MultiMapping[str]) -> Dialect:
        """The dialect that a request with these headers speaks: providers share paths such as `/v1/models`."""
        if len(among) == 1:
            return among[0]

        def likelihood(dialect: Dialect) -> tuple[bool, int, bool]:
            vendor, own = self._evidence(dialect, headers)
            return vendor, max((_shared(place, route.path) for route in dialect.routes), default=0), own

        return max(among, key=likelihood)

    def _evidence(self, dialect: Dialect, headers: MultiMapping[str]) -> tuple[bool, bool]:
        """What the headers say for this dialect: one of the vendor's own, a key where only it looks for one."""
        names = {name.lower() for name in headers}
        vendor = any(name.startswith(f"{dialect.provider}-") for name in names)
        elsewhere = {
            name for other in self._dialects if other is not dialect for name in other.credential_headers
        }
        return vendor, not names.isdisjoint(set(dialect.credential_headers) - elsewhere)


def _opened(dialect: Dialect, settings: Settings) -> Iterator[Route]:
    for route in settings.upstream.provider(dialect.name).open_routes:
        method, _, path = route.partition(" ")
        yield Route(method, path, RouteKind.PASSED)


def _pattern(path: str) -> re.Pattern[str]:
    return re.compile("[^/]+".join(re.escape(part) for part in _HOLE.split(path)))


def _shared(place: str, path: str) -> int:
    """How many segments both begin with."""
    count = 0
    for left, right in zip(place.split("/"), path.split("/"), strict=False):
        if left != right:
            break
        count += 1
    return count
