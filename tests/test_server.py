"""HTTP in, over real sockets: bounded, routed, cancelled at once, honest about what broke."""

import asyncio
import gzip
import hashlib
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import orjson
import pytest
from aiohttp import web

from proxy.core.messages import Problem, Request
from proxy.dialects import DIALECTS, Route, RouteKind
from proxy.errors import ClientFault, UpstreamFault
from proxy.exchange import Incoming, Reply
from proxy.server import AgentSide, runner_of
from proxy.settings import Settings, setting_name
from tests.raw_client import RawClient, connected, post

DIALECT = DIALECTS[0]
PATH = next(route.path for route in DIALECT.routes if route.guarded)
OPEN_PATH = next(
    route.path for route in DIALECT.routes if route.kind is RouteKind.PASSED and route.method == "GET"
)
STREAM = [("content-type", "text/event-stream")]
WRITER = DIALECT.writer(Request(DIALECT.name, "", ()), "")
MIB = 1 << 20


def said(incoming: Incoming) -> Reply:
    return Reply(200, [("content-type", "application/json"), ("x-a", "1"), ("x-a", "2")], incoming.body)


class FakeGate:
    """Answers as the test says, and keeps what came."""

    def __init__(self, answer: Callable[[Incoming], Reply | Awaitable[Reply]] = said) -> None:
        self.guarded: list[Incoming] = []
        self.passed: list[Incoming] = []
        self.kept_answers: list[tuple[Incoming, str, bool]] = []
        self._answer = answer

    async def reply(self, incoming: Incoming) -> Reply:
        self.guarded.append(incoming)
        answer = self._answer(incoming)
        return answer if isinstance(answer, Reply) else await answer

    async def kept(self, incoming: Incoming, answer_id: str, route: Route) -> Reply:
        self.kept_answers.append((incoming, answer_id, route.judged))
        return said(incoming)

    async def pass_through(self, incoming: Incoming) -> Reply:
        self.passed.append(incoming)
        return said(incoming)


class Served:
    """A running server."""

    def __init__(self, port: int, side: AgentSide) -> None:
        self.port = port
        self.side = side

    async def ask(self, content: bytes) -> tuple[RawClient, Any]:
        """Sends a request; gives the head and the decoded JSON body."""
        async with asyncio.timeout(5), connected(self.port) as client:
            await client.send(content)
            await client.head()
            body = await client.body()
            return client, orjson.loads(body) if body else None


@asynccontextmanager
async def serving(gate: FakeGate, **settings: Any) -> AsyncIterator[Served]:
    side = AgentSide(gate, Settings.model_validate(settings))
    runner = runner_of(side)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        yield Served(runner.addresses[0][1], side)
    finally:
        await runner.cleanup()


class Endless:
    """A stream that says when it waits and when it was closed."""

    def __init__(self, first: bytes = b"data: 1\n\n") -> None:
        self.first = first
        self.waiting = asyncio.Event()
        self.closed = asyncio.Event()

    async def body(self) -> AsyncIterator[bytes]:
        try:
            yield self.first
            self.waiting.set()
            await asyncio.Event().wait()
        finally:
            self.closed.set()

    def reply(self, _: Incoming) -> Reply:
        return Reply(200, STREAM, self.body(), WRITER.failed)


async def soon(event: asyncio.Event) -> None:
    async with asyncio.timeout(1):
        await event.wait()


# ---- what reaches the gate, and what comes back ----


async def test_a_guarded_request_reaches_the_gate_and_its_reply_the_agent() -> None:
    gate = FakeGate()
    async with serving(gate) as served:
        client, body = await served.ask(post(f"/{PATH}/?beta=%20true", b'{"a":1}', "authorization: Bearer k"))

    (incoming,) = gate.guarded
    assert incoming.dialect is DIALECT
    assert (incoming.method, incoming.path, incoming.body) == ("POST", f"{PATH}?beta=%20true", b'{"a":1}')
    assert incoming.headers["authorization"] == "Bearer k"
    assert incoming.caller.identity.key.startswith("anonymous:")
    assert incoming.peer == "127.0.0.1"
    assert (client.status, body, client.headers["content-length"]) == (200, {"a": 1}, "7")


async def test_an_unguarded_route_passes_through() -> None:
    gate = FakeGate()
    async with serving(gate) as served:
        client, _ = await served.ask(f"GET {OPEN_PATH} HTTP/1.1\r\nhost: x\r\n\r\n".encode())

    assert client.status == 200
    assert (gate.passed[0].path, gate.guarded) == (OPEN_PATH, [])


@pytest.mark.parametrize(
    "target",
    [
        "/v1/fine_tuning/jobs",
        "/native/v1/messages",
        "/v1/x/%2e%2e/messages",
        "/v1%2fmessages",
        "http://x/v1/messages",
    ],
)
async def test_an_unknown_route_is_refused_in_a_dialect_s_shape_and_says_what_is_served(target: str) -> None:
    """C021."""
    gate = FakeGate()
    async with serving(gate) as served:
        client, body = await served.ask(post(target))

    assert client.status == 404
    assert PATH in str(body["error"])
    assert client.headers["x-should-retry"] == "false"
    assert (gate.guarded, gate.passed) == ([], [])


async def test_a_route_that_could_carry_calls_is_refused_in_the_dialect_s_shape() -> None:
    """C021: 403, with the reason and the setting that opens it; then it passes unread."""
    route = next(
        route for route in DIALECT.routes if route.kind is RouteKind.REFUSED and route.method == "POST"
    )
    name = setting_name(DIALECT.name)
    gate = FakeGate()
    async with serving(gate) as served:
        client, body = await served.ask(post(route.path))

    assert (client.status, client.headers["x-should-retry"]) == (403, "false")
    assert route.reason in str(body["error"])
    assert f"upstream.{name}.open_routes" in str(body["error"])
    assert (gate.guarded, gate.passed) == ([], [])
    opened = {name: {"open_routes": [f"{route.method} {route.path}"]}}
    async with serving(gate, upstream=opened) as served:
        client, _ = await served.ask(post(route.path))
    assert (client.status, len(gate.passed)) == (200, 1)


async def test_a_kept_answer_is_asked_for_by_its_id() -> None:
    keeps = [
        (dialect, route) for dialect in DIALECTS for route in dialect.routes if route.kind is RouteKind.KEPT
    ]
    assert keeps
    for dialect, route in keeps:
        gate = FakeGate()
        path = route.path.replace("{answer}", "resp_1")
        async with serving(gate) as served:
            await served.ask(f"{route.method} {path}?a=1 HTTP/1.1\r\nhost: x\r\n\r\n".encode())

        ((incoming, answer_id, judged),) = gate.kept_answers
        assert (incoming.dialect, incoming.path) == (dialect, f"{path}?a=1")
        expected = "resp_1" if "{answer}" in route.path else ""
        assert (answer_id, judged) == (expected, route.judged)


async def test_a_path_below_a_provider_s_name_goes_on_without_it() -> None:
    """F1."""
    gate = FakeGate()
    async with serving(gate, upstream={"near": {"dialect": DIALECT.name}}) as served:
        await served.ask(post(f"/near{PATH}?a=1", b"{}", "authorization: Bearer k"))

    (incoming,) = gate.guarded
    assert (incoming.path, incoming.named, incoming.provider) == (f"{PATH}?a=1", "near", "near")


async def test_a_wrong_method_is_told_the_right_one() -> None:
    async with serving(FakeGate()) as served:
        client, _ = await served.ask(f"DELETE {PATH} HTTP/1.1\r\nhost: x\r\n\r\n".encode())

    assert (client.status, client.headers["allow"]) == (405, "POST")


async def test_a_web_socket_is_no_way_in() -> None:
    upgrade = ("connection: Upgrade", "upgrade: websocket")
    smuggled = post(PATH, b'{"smuggled":1}')
    gate = FakeGate()
    async with serving(gate) as served:
        client, _ = await served.ask(post("/v1/unknown", smuggled, *upgrade))
        assert client.status == 404
        client, _ = await served.ask(
            b"GET /v1/realtime HTTP/1.1\r\nhost: x\r\n" + "\r\n".join(upgrade).encode() + b"\r\n\r\n"
        )
        assert (client.status, client.headers["connection"]) == (403, "close")
        async with connected(served.port) as client:
            await client.send(post(PATH, smuggled, *upgrade))
            await client.head()
            await client.body()
            assert await client.reader.read() == b""
        http2 = ("connection: Upgrade, HTTP2-Settings", "upgrade: h2c", "http2-settings: AAMAAABk")
        client, body = await served.ask(post(PATH, b'{"a":1}', *http2))
        assert (client.status, body) == (200, {"a": 1})

    assert b'{"smuggled":1}' not in [incoming.body for incoming in gate.guarded]


async def test_a_caller_who_may_not_be_anonymous_is_told_before_the_body_is_read() -> None:
    """F2."""
    async with serving(FakeGate(), identity={"anonymous": "refuse"}) as served:
        client, body = await served.ask(post(PATH, b"", "content-length: 1000"))

    assert client.status == 401
    assert "identity.api_keys" in str(body)


async def test_a_key_decides_whose_rules_hold() -> None:
    """F2, C020."""
    keys = [
        {"hash": f"sha256:{hashlib.sha256(key.encode()).hexdigest()}", "name": key, "agent": agent}
        for key, agent in (("guard-k-1", "cleaner"), ("guard-k-2", "greeter"))
    ]
    upstream = {setting_name(DIALECT.name): {"credential": "provider-key"}}
    gate = FakeGate()
    async with serving(gate, identity={"api_keys": keys}, upstream=upstream) as served:
        for key in ("guard-k-1", "guard-k-2", "other"):
            await served.ask(post(PATH, b"{}", f"authorization: Bearer {key}"))

    assert [incoming.caller.identity.agent for incoming in gate.guarded] == ["cleaner", "greeter", ""]
    assert [incoming.caller.credential for incoming in gate.guarded] == ["provider-key", "provider-key", None]


# ---- bodies ----


async def test_a_body_nested_a_hundred_thousand_deep_is_only_bytes_here() -> None:
    deep = b"[" * 100_000 + b"]" * 100_000
    gate = FakeGate(lambda _: Reply(200, [], b"{}"))
    async with serving(gate) as served:
        client, _ = await served.ask(post(PATH, deep))

    assert client.status == 200
    assert gate.guarded[0].body == deep


@pytest.mark.parametrize("framing", ["announced", "chunked", "compressed"])
async def test_a_body_that_is_too_long_is_refused_without_taking_it_in(framing: str) -> None:
    long = b" " * (3 * MIB)
    requests = {
        "announced": post(PATH, b"", f"content-length: {10 * MIB}"),
        "chunked": post(
            PATH, f"{len(long):x}\r\n".encode() + long + b"\r\n0\r\n\r\n", "transfer-encoding: chunked"
        ),
        "compressed": post(PATH, gzip.compress(long), "content-encoding: gzip"),
    }
    gate = FakeGate()
    async with serving(gate, max_body_bytes=MIB) as served, connected(served.port) as client:
        client.writer.write(requests[framing])
        assert await client.head() == 413
        assert "max_body_bytes" in str(orjson.loads(await client.body()))

    assert gate.guarded == []


@pytest.mark.parametrize("coding", ["gzip", "identity"])
async def test_a_compressed_request_is_read_and_travels_on_plain(coding: str) -> None:
    body = gzip.compress(b'{"a":1}') if coding == "gzip" else b'{"a":1}'
    gate = FakeGate()
    async with serving(gate) as served:
        client, _ = await served.ask(post(PATH, body, f"content-encoding: {coding}"))

    assert client.status == 200
    assert gate.guarded[0].body == b'{"a":1}'
    assert "content-encoding" not in gate.guarded[0].headers


@pytest.mark.parametrize(
    ("header", "status"),
    [
        ("content-encoding: x-unknown", 415),
        ("content-encoding: br", 415),
        ("content-type: multipart/form-data; boundary=x", 415),
        ("content-type: application/x-www-form-urlencoded", 415),
        ("content-type: application/json; charset=utf-16", 415),
        ("content-type: application/json; charset=utf-8", 200),
        ("content-type: application/vnd.api+json", 200),
        ("content-type: application/octet-stream", 200),
        ("content-type: text/plain", 200),
        ("x-bytes: \xff\xfe", 200),
        ("x-nul: a\0b", 400),
        ("x-line: a\nb", 400),
        ("transfer-encoding: gzip", 400),
    ],
)
async def test_what_is_no_json_is_refused_and_what_is_goes_on_as_json(header: str, status: int) -> None:
    """C021, fifth request: guarded as JSON or refused, never forwarded unread."""
    gate = FakeGate()
    async with serving(gate) as served, asyncio.timeout(5), connected(served.port) as client:
        await client.send(post(PATH, b"{}", header))
        assert await client.head() == status

    for incoming in gate.guarded:
        assert "json" in incoming.headers["content-type"]


@pytest.mark.parametrize(
    "request_bytes",
    [
        b"rubbish\r\n\r\n",
        post(PATH, b"zz\r\n{}\r\n0\r\n\r\n", "transfer-encoding: chunked"),
        post(PATH, b"2\r\n{}", "transfer-encoding: chunked", "content-length: 2"),
        post(PATH, b"{}", "content-length: -1"),
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"POST " + PATH.encode() + b"\xff HTTP/1.1\r\nhost: x\r\n\r\n",
        b"POST / HTTP/1.1\r\n" + b"x-long: " + b"a" * 100_000 + b"\r\n\r\n",
    ],
)
async def test_rubbish_is_a_client_s_fault(request_bytes: bytes, caplog: pytest.LogCaptureFixture) -> None:
    gate = FakeGate()
    async with serving(gate) as served, asyncio.timeout(5), connected(served.port) as client:
        client.writer.write(request_bytes)
        assert 400 <= await client.head() < 500

    assert gate.guarded == []
    assert not [record for record in caplog.records if record.exc_info or record.levelno > logging.WARNING]


async def test_a_body_that_breaks_off_reaches_nobody() -> None:
    gate = FakeGate()
    async with serving(gate) as served:
        async with connected(served.port) as client:
            await client.send(post(PATH, b"{", "content-length: 10"))
        async with asyncio.timeout(5):
            await served.side.quiet()

    assert gate.guarded == []


# ---- faults ----


async def test_a_fault_is_said_in_the_dialect_s_shape() -> None:
    """F1, C4."""
    faults = [ClientFault("no such thing"), UpstreamFault("gone", status=504, code="upstream_timeout")]
    for fault in faults:

        def fail(_: Incoming, fault: Exception = fault) -> Reply:
            raise fault

        async with serving(FakeGate(fail)) as served:
            client, body = await served.ask(post(PATH))

        problem = Problem(fault.status, fault.code, fault.message)
        assert (client.status, body) == (fault.status, orjson.loads(DIALECT.render_problem(problem)))


async def test_what_nobody_foresaw_is_logged_and_told_without_details(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def fail(_: Incoming) -> Reply:
        raise KeyError("a secret detail")

    with caplog.at_level(logging.ERROR):
        async with serving(FakeGate(fail)) as served:
            client, body = await served.ask(post(PATH))

    assert client.status == 500
    assert "detail" not in str(body)
    assert "a secret detail" in caplog.text


# ---- streams ----


async def test_a_stream_is_written_as_it_comes() -> None:
    go = asyncio.Event()

    async def body() -> AsyncIterator[bytes]:
        yield b"data: 1\n\n"
        await go.wait()
        yield b""
        yield b"data: 2\n\n"

    gate = FakeGate(lambda _: Reply(200, STREAM, body()))
    async with serving(gate) as served, asyncio.timeout(5), connected(served.port) as client:
        await client.send(post(PATH))
        assert await client.head() == 200
        assert await client.chunk() == b"data: 1\n\n"
        go.set()
        assert await client.body() == b"data: 2\n\n"
        assert client.headers["cache-control"] == "no-cache"
        assert client.headers["x-accel-buffering"] == "no"
        await client.send(post(PATH))
        assert await client.head() == 200


async def test_a_hang_up_while_we_wait_for_the_provider_stops_the_stream_at_once() -> None:
    """B2, C018."""
    endless = Endless()
    async with serving(FakeGate(endless.reply)) as served, connected(served.port) as client:
        await client.send(post(PATH))
        await client.head()
        await client.chunk()
        await soon(endless.waiting)

        client.hang_up()

        await soon(endless.closed)


async def test_a_hang_up_before_there_is_a_reply_stops_the_request_at_once() -> None:
    """B2."""
    started, stopped = asyncio.Event(), asyncio.Event()

    async def wait(_: Incoming) -> Reply:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()
        raise AssertionError

    async with serving(FakeGate(wait)) as served, connected(served.port) as client:
        await client.send(post(PATH))
        await soon(started)

        client.hang_up()

        await soon(stopped)


async def test_a_slow_reader_slows_the_stream_and_its_hang_up_ends_it() -> None:
    """B2: writing waits for the client, and that wait ends with the client."""
    too_much, closed = asyncio.Event(), asyncio.Event()

    async def flood() -> AsyncIterator[bytes]:
        try:
            for _ in range(64):
                yield bytes(MIB)
            too_much.set()
            await asyncio.Event().wait()
        finally:
            closed.set()

    gate = FakeGate(lambda _: Reply(200, STREAM, flood()))
    async with serving(gate) as served, connected(served.port, limit=1024) as client:
        await client.send(post(PATH))
        await client.head()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.2):
                await too_much.wait()

        client.writer.transport.abort()

        await soon(closed)
    assert not too_much.is_set()


def failing(error: Exception) -> Callable[[Incoming], Reply]:
    async def body() -> AsyncIterator[bytes]:
        yield b"data: 1\n\n"
        raise error

    return lambda _: Reply(200, STREAM, body(), WRITER.failed)


@pytest.mark.parametrize(
    ("error", "text"),
    [(UpstreamFault("the provider is gone"), "is gone"), (KeyError("a detail"), "Callgate failed")],
)
async def test_a_stream_that_cannot_go_on_ends_with_an_error_of_its_dialect(
    error: Exception, text: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with serving(FakeGate(failing(error))) as served, connected(served.port) as client:
        await client.send(post(PATH))
        await client.head()
        body = await client.body()

    assert body.startswith(b"data: 1\n\n")
    assert text.encode() in body
    assert b"a detail" not in body
    assert ("a detail" in caplog.text) is isinstance(error, KeyError)


async def test_a_stream_of_any_type_ends_as_its_writer_says() -> None:
    """F1: lines, arrays and frames have errors of their own."""

    async def body() -> AsyncIterator[bytes]:
        yield b"{}\n"
        raise UpstreamFault("gone", code="upstream_closed")

    def last(problem: Problem) -> bytes:
        return f'{{"error":"{problem.code}"}}\n'.encode()

    kind = [("content-type", "application/x-ndjson")]
    gate = FakeGate(lambda _: Reply(200, kind, body(), last))
    async with serving(gate) as served, connected(served.port) as client:
        await client.send(post(PATH))
        await client.head()

        assert client.headers["cache-control"] == "no-cache"
        assert await client.body() == b'{}\n{"error":"upstream_closed"}\n'


async def test_what_is_no_stream_of_events_breaks_off_and_is_seen_to() -> None:
    async def body() -> AsyncIterator[bytes]:
        yield b"half"
        raise UpstreamFault("gone")

    gate = FakeGate(lambda _: Reply(200, [("content-type", "audio/mpeg")], body()))
    async with serving(gate) as served, connected(served.port) as client:
        await client.send(post(PATH))
        broken = (asyncio.IncompleteReadError, ConnectionError)
        with pytest.raises(broken):  # noqa: PT012 (the break is met here or there, as the network has it)
            await client.head()
            await client.body()


async def test_an_answer_without_a_body_has_none() -> None:
    endless = Endless()
    gate = FakeGate(lambda _: Reply(204, [], endless.body()))
    async with serving(gate) as served, connected(served.port) as client:
        await client.send(post(PATH))
        assert await client.head() == 204
        assert not {"content-length", "transfer-encoding"} & set(client.headers)
        await client.send(post(PATH))
        assert await client.head() == 204


# ---- the end ----


async def test_what_is_still_open_at_the_end_is_told_so_and_its_gate_settles() -> None:
    """C036."""
    endless, waiting = Endless(), asyncio.Event()

    async def wait(_: Incoming) -> Reply:
        waiting.set()
        await asyncio.Event().wait()
        raise AssertionError

    def answer(incoming: Incoming) -> Reply | Awaitable[Reply]:
        return wait(incoming) if b"whole" in incoming.body else endless.reply(incoming)

    async with (
        serving(FakeGate(answer)) as served,
        connected(served.port) as streamed,
        connected(served.port) as whole,
    ):
        await streamed.send(post(PATH))
        await whole.send(post(PATH, b'{"whole":1}'))
        await soon(endless.waiting)
        await soon(waiting)
        assert served.side.open_requests == 2

        served.side.drain()
        served.side.expire()

        async with asyncio.timeout(1):
            await served.side.quiet()
            assert await whole.head() == 503
            assert "x-should-retry" not in whole.headers
            assert whole.headers["connection"] == "close"
            assert await streamed.head() == 200
            body = await streamed.body()
    assert endless.closed.is_set()
    going = Problem(503, "shutting_down", "Callgate is going away. Send the request again.", retryable=True)
    assert body == endless.first + WRITER.failed(going)
