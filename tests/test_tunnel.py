"""Web sockets that the operator opened (C021), over real sockets: both ways, the same hygiene, an end for both."""

from __future__ import annotations

import asyncio
import hashlib
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import aiohttp
import pytest
from aiohttp import WSMsgType, web

from proxy.dialects import DIALECTS, Route
from proxy.exchange import Incoming, Reply
from proxy.server import AgentSide, runner_of
from proxy.settings import Settings, setting_name
from tests.raw_client import connected

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

NAME = setting_name(DIALECTS[0].name)
PATH = "/v1/realtime"
KEYS = {"api_keys": [{"name": "one", "hash": f"sha256:{hashlib.sha256(b'guard-k-1').hexdigest()}"}]}


class Far:
    """The provider's end: echoes what it gets, unless the test says otherwise, and keeps how it was asked."""

    def __init__(self) -> None:
        self.url = ""
        self.asked: list[web.BaseRequest] = []
        self.said: list[Any] = []
        self.codes: list[int | None] = []
        self.closed = asyncio.Event()
        self.speaks: Callable[[web.WebSocketResponse], Awaitable[None]] | None = None
        self.instead: web.Response | None = None

    async def serve(self, request: web.BaseRequest) -> web.StreamResponse:
        self.asked.append(request)
        if self.instead is not None:
            return self.instead
        socket = web.WebSocketResponse(protocols=["live"], autoping=False)
        await socket.prepare(request)
        if self.speaks is not None:
            await self.speaks(socket)
        async for message in socket:
            self.said.append(message.data)
            if message.type is WSMsgType.TEXT:
                await socket.send_str(f"echo {message.data}")
            elif message.type is WSMsgType.BINARY:
                await socket.send_bytes(message.data)
            elif message.type is WSMsgType.PING:
                await socket.pong(message.data)
        self.codes.append(socket.close_code)
        self.closed.set()
        return socket


class NoGate:
    """Nothing of a tunnel is judged."""

    async def reply(self, incoming: Incoming) -> Reply:
        raise AssertionError(incoming.path)

    async def kept(self, incoming: Incoming, answer_id: str, route: Route) -> Reply:
        raise AssertionError(incoming.path)

    async def pass_through(self, incoming: Incoming) -> Reply:
        raise AssertionError(incoming.path)


class Near:
    """Callgate's end."""

    def __init__(self, url: str, port: int, side: AgentSide, http: aiohttp.ClientSession) -> None:
        self.url = url
        self.port = port
        self.side = side
        self.http = http

    def socket(self, path: str = PATH, **given: Any) -> Any:
        return self.http.ws_connect(self.url + path, autoping=False, **given)


@asynccontextmanager
async def joined(far: Far, *, opened: bool = True, **settings: Any) -> AsyncIterator[Near]:
    server = web.ServerRunner(web.Server(far.serve), shutdown_timeout=0.1)
    await server.setup()
    await web.TCPSite(server, "127.0.0.1", 0).start()
    far.url = f"http://127.0.0.1:{server.addresses[0][1]}"
    own = {"base_url": far.url, "open_routes": [f"GET {PATH}"] if opened else []}
    tree = {**settings, "upstream": {**settings.get("upstream", {}), NAME: own | settings.get("own", {})}}
    tree.pop("own", None)
    side = AgentSide(NoGate(), Settings.model_validate(tree))
    runner = runner_of(side)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    port = runner.addresses[0][1]
    try:
        async with aiohttp.ClientSession() as http, asyncio.timeout(10):
            yield Near(f"http://127.0.0.1:{port}", port, side, http)
    finally:
        await runner.cleanup()
        await server.cleanup()


async def test_messages_travel_both_ways_as_they_are() -> None:
    far = Far()
    async with joined(far) as near, near.socket(f"{PATH}?model=m&x=%20") as socket:
        await socket.send_str("hello")
        assert await socket.receive_str() == "echo hello"
        await socket.send_bytes(bytes(range(256)) * 1000)
        assert await socket.receive_bytes() == bytes(range(256)) * 1000
        await socket.ping(b"p")
        assert (await socket.receive()).type is WSMsgType.PONG
        await socket.close(code=4001, message=b"done")
        await far.closed.wait()

    assert far.codes == [4001]
    assert far.asked[0].raw_path == f"{PATH}?model=m&x=%20"


async def test_a_socket_that_was_not_opened_is_refused_with_the_reason() -> None:
    """C021."""
    far = Far()
    async with joined(far, opened=False) as near:
        with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
            await near.socket()
        async with near.http.get(near.url + PATH) as answer:
            said = await answer.json()

    assert (refused.value.status, answer.status, far.asked) == (403, 403, [])
    assert "upstream.openai_chat.open_routes" in said["error"]["message"]


async def test_headers_and_keys_travel_as_with_any_request() -> None:
    """C030, F2."""
    far = Far()
    shown = {
        "authorization": "Bearer guard-k-1",
        "x-callgate-run": "r",
        "cookie": "a=b",
        "openai-beta": "realtime=v1",
    }
    offered = ["live", "some-api-key.guard-k-1", "their-api-key.other"]
    async with (
        joined(far, identity=KEYS, own={"credential": "provider-key"}) as near,
        near.http.ws_connect(near.url + PATH, headers=shown, protocols=offered) as socket,
    ):
        assert socket.protocol == "live"

    (asked,) = far.asked
    assert asked.headers["authorization"] == "Bearer provider-key"
    assert asked.headers["openai-beta"] == "realtime=v1"
    assert asked.headers["sec-websocket-protocol"] == "live"
    assert "guard-k-1" not in str(asked.headers)
    assert not {"cookie", "x-callgate-run"} & {name.lower() for name in asked.headers}


async def test_a_caller_without_a_provider_s_key_gets_no_socket() -> None:
    far = Far()
    async with joined(far, identity=KEYS) as near:
        with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
            await near.socket(headers={"authorization": "Bearer guard-k-1"})

    assert (refused.value.status, far.asked) == (500, [])


@pytest.mark.parametrize(("status", "seen"), [(401, 401), (503, 503), (200, 502)])
async def test_a_provider_that_opens_no_socket_is_an_ordinary_error(status: int, seen: int) -> None:
    far = Far()
    far.instead = web.Response(status=status)
    async with joined(far) as near:
        with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
            await near.socket()

    assert refused.value.status == seen


async def test_a_provider_that_sends_the_agent_elsewhere_is_not_followed() -> None:
    far = Far()
    far.instead = web.Response(status=307, headers={"location": "/v1/elsewhere"})
    async with joined(far) as near:
        with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
            await near.socket()

    assert (refused.value.status, len(far.asked)) == (502, 1)


async def test_a_provider_that_is_not_there_is_an_ordinary_error() -> None:
    async with joined(Far(), own={"base_url": "http://127.0.0.1:9"}) as near:
        with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
            await near.socket()

    assert refused.value.status == 502


async def test_a_provider_that_closes_says_so_to_the_agent() -> None:
    far = Far()

    async def close(socket: web.WebSocketResponse) -> None:
        await socket.send_str("last")
        await socket.close(code=1011, message=b"broken")

    far.speaks = close
    async with joined(far) as near, near.socket() as socket:
        assert await socket.receive_str() == "last"
        message = await socket.receive()

    assert (message.type, message.data, message.extra) == (WSMsgType.CLOSE, 1011, "broken")


async def test_an_agent_that_hangs_up_leaves_nobody_connected() -> None:
    """B2."""
    far = Far()
    async with joined(far) as near, connected(near.port) as client:
        head = f"GET {PATH} HTTP/1.1\r\nhost: x\r\nconnection: Upgrade\r\nupgrade: websocket\r\n"
        key = "sec-websocket-version: 13\r\nsec-websocket-key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
        await client.send((head + key).encode())
        assert await client.head() == 101
        client.writer.transport.abort()
        await far.closed.wait()
        await near.side.quiet()

    assert far.codes == [1001]


async def test_a_long_silence_ends_both() -> None:
    """Design 4.6: every dependency has a time limit."""
    far = Far()
    async with joined(far, upstream={"idle_seconds": 0.05}) as near, near.socket() as socket:
        message = await socket.receive()
        await far.closed.wait()

    assert (message.type, message.data, far.codes) == (WSMsgType.CLOSE, 1001, [1001])


async def test_what_is_still_open_at_the_end_is_told_so_on_both_sides() -> None:
    """C036."""
    far = Far()
    async with joined(far) as near, near.socket() as socket:
        await socket.send_str("a")
        await socket.receive_str()
        assert near.side.open_requests == 1
        near.side.drain()
        near.side.expire()
        message = await socket.receive()
        await far.closed.wait()
        await near.side.quiet()

    assert (message.type, message.data, far.codes) == (WSMsgType.CLOSE, 1001, [1001])


async def test_a_message_beyond_the_limit_ends_both() -> None:
    far = Far()
    async with joined(far, max_body_bytes=1000) as near, near.socket() as socket:
        await socket.send_bytes(bytes(2000))
        message = await socket.receive()
        await far.closed.wait()

    assert message.type is WSMsgType.CLOSE
    assert far.said == []
