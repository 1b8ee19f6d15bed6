"""The admin port's routes about the policies in force: look at them, read them anew. Both need the token."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import orjson
from aiohttp import web

if TYPE_CHECKING:
    from .policy_reloading import Reloading


def policy_routes(reloading: Reloading) -> list[web.RouteDef]:
    """The routes, for `build_admin`."""

    async def look(_: web.Request) -> web.Response:
        return _json(said_of(reloading))

    async def reload(_: web.Request) -> web.Response:
        well = await reloading.reload()
        return _json(said_of(reloading), 200 if well else 409)

    return [web.get("/policy", look), web.post("/policy/reload", reload)]


def said_of(reloading: Reloading) -> dict[str, Any]:
    """What is in force, where it is from, and why nothing newer is."""
    policies, origins = reloading.policies, reloading.policies.origins
    what = policies.describe()
    said: dict[str, Any] = {
        "revision": what.revision,
        "since": _time(reloading.since),
        "profile": what.profile,
        "layers": what.layers,
        "packages": what.packages,
        "sources": origins.titles if origins is not None else (),
        "problem": policies.problem,
    }
    if origins is not None and origins.source is not None:
        said["bundle"] = {
            "source": origins.source.title,
            "revision": origins.loaded.revision if origins.loaded is not None else "",
            "etag": origins.etag,
            "is_kept_one": origins.is_cached,
        }
        if origins.source.url:
            said["bundle"]["asked"] = _time(reloading.fetched_at)
    return said


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")


def _json(said: object, status: int = 200) -> web.Response:
    return web.Response(
        body=orjson.dumps(said),
        status=status,
        content_type="application/json",
        headers={"cache-control": "no-store"},
    )
