"""A web server with one bundle file, for tests: it can change, break, and say what it was asked."""

from __future__ import annotations

import hashlib
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from aiohttp import web

from tests.real_opa import answering

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping


@dataclass
class BundleServer:
    """What it gives, and what it was asked."""

    content: bytes = b""
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    with_etag: bool = True
    url: str = ""
    asked: list[Mapping[str, str]] = field(default_factory=list)
    given: list[int] = field(default_factory=list)

    async def answer(self, request: web.Request) -> web.StreamResponse:
        """As a static file server does."""
        self.asked.append(dict(request.headers))
        etag = f'"{hashlib.sha256(self.content).hexdigest()[:16]}"'
        status = self.status
        headers = dict(self.headers)
        if status == 200 and self.with_etag:
            headers["etag"] = etag
            if request.headers.get("if-none-match") == etag:
                status = 304
        self.given.append(status)
        return web.Response(status=status, body=self.content if status == 200 else b"", headers=headers)


@asynccontextmanager
async def bundle_server(content: bytes = b"") -> AsyncIterator[BundleServer]:
    """It runs while the block lasts."""
    server = BundleServer(content)
    async with answering(server.answer) as url:
        server.url = f"{url}/policies/x.tar.gz"
        yield server
