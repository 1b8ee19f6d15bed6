"""The operator's port: health and readiness for everybody, all else for those who show the token."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import orjson
from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from proxy.settings import Settings

_FREE = frozenset({"/healthz", "/readyz"})


@dataclass(slots=True)
class Readiness:
    """Whether new requests should come here."""

    draining: bool = False
    problems: dict[str, str] = field(default_factory=dict)
    """What keeps this process from serving, by part; empty: nothing does."""
    notes: dict[str, str] = field(default_factory=dict)
    """What an operator should know though requests are served, e.g. that newer policies were refused."""
    watched: dict[str, Callable[[], str]] = field(default_factory=dict)
    """The same for what changes by itself: looked at when somebody asks. Empty: nothing to say."""

    @property
    def is_ready(self) -> bool:
        """Send requests."""
        return not (self.draining or self.problems)


def build_admin(
    settings: Settings, readiness: Readiness, routes: Iterable[web.AbstractRouteDef] = ()
) -> web.Application:
    """The admin app. `routes` are served to those who show `admin.token`; without a token they do not exist."""

    async def healthz(_: web.Request) -> web.Response:
        return web.Response(text="ok\n")

    async def readyz(_: web.Request) -> web.Response:
        said = {
            "ready": readiness.is_ready,
            "draining": readiness.draining,
            "problems": readiness.problems,
            "notes": readiness.notes
            | {part: said for part, look in readiness.watched.items() if (said := look())},
        }
        return _json(said, 200 if readiness.is_ready else 503)

    app = web.Application(middlewares=[_only_with_token(settings.admin.token.get_secret_value())])
    app.router.add_get("/healthz", healthz)
    app.router.add_get("/readyz", readyz)
    app.router.add_routes(routes)
    return app


def _json(said: object, status: int, headers: dict[str, str] | None = None) -> web.Response:
    return web.Response(
        body=orjson.dumps(said), status=status, content_type="application/json", headers=headers
    )


def _only_with_token(token: str) -> Middleware:
    @web.middleware
    async def guard(request: web.Request, handler: Handler) -> web.StreamResponse:
        if request.path in _FREE:
            return await handler(request)
        if not token:
            return _json(
                {"error": "Nothing but /healthz and /readyz is served here until admin.token is set."}, 404
            )
        if not _shows(request.headers.getall("authorization", ()), token):
            challenge = {"www-authenticate": 'Basic realm="Callgate", charset="UTF-8"'}
            return _json(
                {"error": "This needs admin.token, as Bearer or as the password of Basic."}, 401, challenge
            )
        return await handler(request)

    return guard


def _shows(values: Iterable[str], token: str) -> bool:
    wanted = hashlib.sha256(token.encode()).digest()
    return any(hmac.compare_digest(hashlib.sha256(shown).digest(), wanted) for shown in map(_shown, values))


def _shown(value: str) -> bytes:
    """The token in an Authorization header, b"" where there is none."""
    scheme, _, rest = value.strip().partition(" ")
    secret = rest.strip().encode("utf-8", "surrogateescape")
    if scheme.lower() == "bearer":
        return secret
    if scheme.lower() != "basic":
        return b""
    try:
        return base64.b64decode(secret, validate=True).partition(b":")[2]
    except binascii.Error:
        return b""
