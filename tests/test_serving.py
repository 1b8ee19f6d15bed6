"""The life of the process: two ports, and an end in which open answers are finished (C036)."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import pytest

from proxy.admin import Readiness
from proxy.config import SettingsFault
from proxy.core.messages import Request
from proxy.dialects import DIALECTS, Route
from proxy.exchange import Incoming, Reply
from proxy.serving import Started, serve
from proxy.settings import Settings
from tests.raw_client import connected, post

PATH = next(route.path for route in DIALECTS[0].routes if route.guarded)
OPEN_PATH = next(route.path for route in DIALECTS[0].routes if not route.guarded and route.method == "GET")


class PausedGate:
    """Streams one event, waits, streams another."""

    def __init__(self) -> None:
        self.waiting = asyncio.Event()
        self.go = asyncio.Event()
        self.settled = asyncio.Event()

    async def reply(self, incoming: Incoming) -> Reply:
        del incoming
        writer = DIALECTS[0].writer(Request(DIALECTS[0].name, "", ()), "")
        return Reply(200, [("content-type", "text/event-stream")], self._body(), writer.failed)

    async def kept(self, incoming: Incoming, answer_id: str, route: Route) -> Reply:
        raise AssertionError(incoming.path, answer_id, route)

    async def pass_through(self, incoming: Incoming) -> Reply:
        del incoming
        return Reply(200, [], b"{}")

    async def _body(self) -> AsyncIterator[bytes]:
        try:
            yield b"data: 1\n\n"
            self.waiting.set()
            await self.go.wait()
            yield b"data: 2\n\n"
        finally:
            self.settled.set()


class Process:
    """A running `serve`."""

    def __init__(self, task: asyncio.Task[None], started: Started) -> None:
        self.task = task
        self.port = int(started.agents.rpartition(":")[2])
        self.admin = started.admin

    async def ready(self) -> int:
        async with aiohttp.ClientSession() as session, session.get(f"{self.admin}/readyz") as response:
            return response.status


@asynccontextmanager
async def process(
    gate: PausedGate, stop: asyncio.Event | None = None, **settings: Any
) -> AsyncIterator[Process]:
    ports = {"listen": {"port": 0}, "admin": {"port": 0}}
    started: asyncio.Future[Started] = asyncio.get_running_loop().create_future()
    tree = Settings.model_validate({**ports, **settings})
    task = asyncio.Task(serve(tree, gate, started=started.set_result, stop=stop))
    try:
        waits: list[asyncio.Future[Any]] = [task, started]
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        yield Process(task, await started)
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def soon(event: asyncio.Event) -> None:
    async with asyncio.timeout(1):
        await event.wait()


async def test_agents_and_operators_have_ports_of_their_own() -> None:
    async with process(PausedGate()) as running:
        assert await running.ready() == 200
        async with connected(running.port) as client:
            await client.send(b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n")
            assert await client.head() == 404


async def test_sigterm_turns_readiness_red_and_open_streams_run_to_their_end() -> None:
    """C036."""
    gate = PausedGate()
    async with process(gate) as running, connected(running.port) as client, connected(running.port) as idle:
        await client.send(post(PATH))
        assert await client.head() == 200
        await soon(gate.waiting)
        assert await running.ready() == 200

        os.kill(os.getpid(), signal.SIGTERM)

        async with asyncio.timeout(1):
            while await running.ready() != 503:
                pass
        with pytest.raises(ConnectionError):
            await asyncio.open_connection("127.0.0.1", running.port)
        await idle.send(f"GET {OPEN_PATH} HTTP/1.1\r\nhost: x\r\n\r\n".encode())
        assert await idle.head() == 200
        assert idle.headers["connection"] == "close"
        assert not running.task.done()
        gate.go.set()
        async with asyncio.timeout(2):
            assert await client.body() == b"data: 1\n\ndata: 2\n\n"
            await running.task


async def test_what_does_not_end_in_time_is_cut_off_with_an_error_and_settled() -> None:
    """C036."""
    gate, stop = PausedGate(), asyncio.Event()
    async with process(gate, stop, drain_seconds=0) as running, connected(running.port) as client:
        await client.send(post(PATH))
        await client.head()
        await soon(gate.waiting)

        stop.set()

        async with asyncio.timeout(2):
            assert b"going away" in await client.body()
            await running.task
    assert gate.settled.is_set()


async def test_a_second_signal_does_not_wait() -> None:
    gate = PausedGate()
    async with process(gate) as running, connected(running.port) as client:
        await client.send(post(PATH))
        await client.head()
        await soon(gate.waiting)
        os.kill(os.getpid(), signal.SIGINT)
        async with asyncio.timeout(1):
            while await running.ready() != 503:
                pass

        os.kill(os.getpid(), signal.SIGINT)

        async with asyncio.timeout(2):
            assert b"going away" in await client.body()
            await running.task


async def test_a_port_that_is_taken_is_said_with_its_setting() -> None:
    async with process(PausedGate()) as running:
        for name in ("listen", "admin"):
            ports = {"listen": {"port": 0}, "admin": {"port": 0}, name: {"port": running.port}}
            with pytest.raises(
                SettingsFault, match=f"{name}: cannot listen on 127.0.0.1 port {running.port}"
            ):
                await serve(Settings.model_validate(ports), PausedGate())


async def test_readiness_may_be_shared_with_whoever_knows_more() -> None:
    readiness, stop = Readiness(problems={"policy": "not loaded"}), asyncio.Event()
    ports = Settings.model_validate({"listen": {"port": 0}, "admin": {"port": 0}})

    def look(_: Started) -> None:
        assert not readiness.is_ready
        stop.set()

    await serve(ports, PausedGate(), readiness=readiness, started=look, stop=stop)

    assert readiness.draining
