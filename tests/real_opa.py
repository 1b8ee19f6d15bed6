"""A real OPA server, for tests that need to end and start it, and stand-ins for servers that misbehave."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import aiohttp
from aiohttp import web

from tests.tools import opa


@dataclass
class RealOpa:
    """`opa run --server` on loopback or a socket. It keeps nothing over a restart."""

    address: str
    """As OPA takes it."""
    arguments: tuple[str, ...] = ()
    _process: asyncio.subprocess.Process | None = field(default=None, repr=False)

    @property
    def url(self) -> str:
        """As the settings take it."""
        return self.address if self.address.startswith("unix:") else f"http://{self.address}"

    async def start(self) -> None:
        """Returns when it answers."""
        self._process = await asyncio.create_subprocess_exec(
            *(
                opa(),
                "run",
                "--server",
                "--addr",
                self.address,
                "--log-level",
                "error",
                "--skip-version-check",
            ),
            *self.arguments,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL,
        )
        async with self._session() as session:
            while self._process.returncode is None:
                with suppress(aiohttp.ClientError):
                    async with session.get("/health") as answer:
                        if answer.status in {200, 401}:
                            return
                await asyncio.sleep(0.01)
        raise RuntimeError(f"OPA did not start: {self._process.returncode}")

    async def stop(self) -> None:
        """At once, as by a crash."""
        if self._process is not None and self._process.returncode is None:
            self._process.kill()
            await self._process.wait()

    async def names(self) -> set[str]:
        """The first parts of the ids of all policies that are on it."""
        async with self._session() as session, session.get("/v1/policies") as answer:
            return {policy["id"].partition("/")[0] for policy in (await answer.json())["result"]}

    async def delete(self, path: str) -> None:
        """Takes something away behind the engine's back."""
        async with self._session() as session, session.delete(f"/v1/{path}") as answer:
            assert answer.status in {200, 204}

    def _session(self) -> aiohttp.ClientSession:
        if self.address.startswith("unix:"):
            connector = aiohttp.UnixConnector(self.address.removeprefix("unix://"))
            return aiohttp.ClientSession("http://localhost", connector=connector)
        return aiohttp.ClientSession(self.url)


@asynccontextmanager
async def real_opa(*arguments: str, unix: Path | None = None) -> AsyncIterator[RealOpa]:
    """A running OPA, on a free port of loopback or on a socket in this folder."""
    server = RealOpa(f"unix://{unix}/opa.sock" if unix else f"127.0.0.1:{free_port()}", arguments)
    try:
        await server.start()
        yield server
    finally:
        await server.stop()


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@asynccontextmanager
async def answering(answer: Callable[[web.Request], Awaitable[web.StreamResponse]]) -> AsyncIterator[str]:
    """The url of a server that answers everything like this."""
    app = web.Application(client_max_size=1 << 26)
    app.router.add_route("*", "/{path:.*}", answer)
    runner = web.AppRunner(app, shutdown_timeout=0)
    await runner.setup()
    port = free_port()
    await web.TCPSite(runner, "127.0.0.1", port).start()
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        await runner.cleanup()


@asynccontextmanager
async def silent() -> AsyncIterator[str]:
    """The url of a server that takes every connection and never says a word."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
