"""HTTP out, over real sockets (C030): decoded or refused, bounded in time and size, closed at once."""

import asyncio
import gzip
import zlib
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import brotli  # type: ignore[import-untyped]  # published without types
import pytest
import zstandard
from hypothesis import given, strategies as st
from multidict import CIMultiDict

from proxy.core.runs import Identity
from proxy.dialects import DIALECTS
from proxy.errors import UpstreamFault
from proxy.exchange import Incoming
from proxy.identity import Caller
from proxy.settings import Settings, setting_name
from proxy.upstream import (
    CLOSED,
    UNREACHABLE,
    PooledUpstream,
    UpstreamAnswer,
    UpstreamRequest,
    join_url,
    may_retry,
    retry_pause,
)
from tests.raw_upstream import RawUpstream, answer, chunk, chunked, header

LIMIT = 1 << 20
DIALECT = DIALECTS[0]
CODERS: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.compress,
    "deflate": zlib.compress,
    "br": brotli.compress,
    "zstd": zstandard.ZstdCompressor().compress,
}


def settings_of(**upstream: Any) -> Settings:
    return Settings.model_validate({"upstream": upstream})


def request_to(raw: RawUpstream, *, seconds: float = 5, body: bytes = b"{}") -> UpstreamRequest:
    return UpstreamRequest(
        "POST", f"{raw.url}/v1/x?a=%2f", [("content-type", "application/json")], body, seconds
    )


@asynccontextmanager
async def upstream_of(**settings: Any) -> AsyncIterator[PooledUpstream]:
    upstream = PooledUpstream(settings_of(**settings).upstream)
    try:
        yield upstream
    finally:
        await upstream.close()


@asynccontextmanager
async def answered(raw: RawUpstream, **settings: Any) -> AsyncIterator[UpstreamAnswer]:
    async with raw, upstream_of(**settings) as upstream:
        got = await upstream.send(request_to(raw))
        try:
            yield got
        finally:
            got.close()


async def fault_of(raw: RawUpstream, *, seconds: float = 5, **settings: Any) -> UpstreamFault:
    async with raw, upstream_of(**settings) as upstream:
        with pytest.raises(UpstreamFault) as refused:
            await (await upstream.send(request_to(raw, seconds=seconds))).read(LIMIT)
    assert "127.0.0.1" not in refused.value.message
    return refused.value


async def test_a_request_arrives_as_it_was_made_and_asks_for_what_can_be_decoded() -> None:
    raw = RawUpstream([answer(b"{}")])
    async with answered(raw) as got:
        assert (got.status, await got.read(LIMIT)) == (200, b"{}")

    line, *fields = raw.heads[0].rstrip().split("\r\n")
    assert line == "POST /v1/x?a=%2f HTTP/1.1"
    assert {field.partition(":")[0].lower() for field in fields} == {
        "host",
        "content-type",
        "accept-encoding",
        "content-length",
    }
    assert header(raw.heads[0], "accept-encoding") == "gzip, deflate, br, zstd"
    assert raw.bodies == [b"{}"]


@pytest.mark.parametrize("coding", CODERS)
async def test_a_compressed_answer_is_decoded_whatever_was_asked_for(coding: str) -> None:
    body = CODERS[coding](b'{"id":"msg_1"}')
    raw = RawUpstream([answer(body, f"content-encoding: {coding}", "request-id: req_123")])
    async with answered(raw) as got:
        assert await got.read(LIMIT) == b'{"id":"msg_1"}'
        assert got.headers == [("request-id", "req_123")]


@pytest.mark.parametrize("coding", CODERS)
async def test_a_compressed_stream_is_decoded_as_it_comes(coding: str) -> None:
    events = b"data: {}\n\n" * 50
    body = CODERS[coding](events)
    pieces = [chunk(body[start : start + 7]) for start in range(0, len(body), 7)]
    raw = RawUpstream([chunked(f"content-encoding: {coding}"), *pieces, chunk(b"")])
    got_all = b""
    async with answered(raw) as got:
        while piece := await got.next_chunk():
            got_all += piece

    assert got_all == events


async def test_an_answer_in_an_unknown_coding_is_refused_unread() -> None:
    """C030, second run."""
    fault = await fault_of(RawUpstream([answer(b"\x01\x02\x03", "content-encoding: x-unknown")]))

    assert (fault.status, fault.code) == (502, "upstream_unreadable")


@pytest.mark.parametrize("coding", CODERS)
async def test_a_bomb_is_met_by_the_limit(coding: str) -> None:
    bomb = CODERS[coding](bytes(4 * LIMIT))

    fault = await fault_of(RawUpstream([answer(bomb, f"content-encoding: {coding}")]))

    assert fault.code == "upstream_too_long"


@pytest.mark.parametrize(
    "broken",
    [
        answer(gzip.compress(b"{}")[:-3], "content-encoding: gzip"),
        answer(b"rubbish", "content-encoding: br"),
        b"no HTTP at all\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: x\r\n\r\n",
    ],
)
async def test_an_answer_that_cannot_be_read_is_a_fault(broken: bytes) -> None:
    fault = await fault_of(RawUpstream([broken]))

    assert (fault.status, fault.code) == (502, "upstream_unreadable")


async def test_a_provider_that_cannot_be_reached_is_told_from_one_that_went_away() -> None:
    async with RawUpstream() as raw:
        pass
    async with upstream_of() as upstream:
        with pytest.raises(UpstreamFault) as refused:
            await upstream.send(request_to(raw))
    assert (refused.value.status, refused.value.code) == (502, UNREACHABLE)
    assert str(raw.port) not in refused.value.message

    fault = await fault_of(RawUpstream([b""]))
    assert (fault.status, fault.code) == (502, CLOSED)


async def test_a_plain_server_under_a_secure_address_is_no_provider() -> None:
    async def greet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"220 a server that speaks first, and no TLS\r\n")
        await reader.read()
        writer.close()

    server = await asyncio.start_server(greet, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with server, upstream_of() as upstream:
        with pytest.raises(UpstreamFault, match="secure connection") as refused:
            await upstream.send(UpstreamRequest("POST", f"https://127.0.0.1:{port}/", [], b"", 5))

    assert refused.value.code == UNREACHABLE


@pytest.mark.parametrize(
    "start",
    [b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nshort", chunked() + chunk(b"data"), b"HTTP/1.1 200"],
)
async def test_an_answer_that_breaks_off_is_a_fault(start: bytes) -> None:
    fault = await fault_of(RawUpstream([start]))

    assert fault.status == 502


@pytest.mark.parametrize("start", [b"", chunked() + chunk(b"data: ")])
@pytest.mark.parametrize("limit", ["deadline", "idle"])
async def test_silence_has_a_time_limit_before_and_within_an_answer(start: bytes, limit: str) -> None:
    """E3."""
    idle = {"idle_seconds": 0.05} if limit == "idle" else {}

    fault = await fault_of(
        RawUpstream([start], stays=True), seconds=0.05 if limit == "deadline" else 5, **idle
    )

    assert (fault.status, fault.code) == (504, "upstream_timeout")


async def test_closing_an_answer_drops_the_connection_at_once() -> None:
    """B2, C018: nothing is read on to learn the usage."""
    raw = RawUpstream([chunked() + chunk(b"data: {}\n\n")], stays=True)
    async with raw, upstream_of() as upstream:
        got = await upstream.send(request_to(raw))
        assert await got.next_chunk() == b"data: {}\n\n"

        got.close()
        got.close()

        async with asyncio.timeout(1):
            await raw.gone.wait()
        with pytest.raises(UpstreamFault):
            await got.next_chunk()


async def test_a_cancelled_request_drops_the_connection_at_once() -> None:
    raw = RawUpstream([], stays=True)
    async with raw, upstream_of() as upstream:
        task = asyncio.Task(upstream.send(request_to(raw)))
        await raw.asked.wait()

        task.cancel()

        async with asyncio.timeout(1):
            await raw.gone.wait()
        with pytest.raises(asyncio.CancelledError):
            await task


async def test_a_wait_that_is_given_up_loses_no_byte() -> None:
    """C031: the gate stops waiting for each heartbeat."""
    go = asyncio.Event()
    raw = RawUpstream([chunked(), go, chunk(b"one"), chunk(b"two"), chunk(b"")])
    got_all = b""
    async with answered(raw) as got:
        for _ in range(3):
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.01):
                    await got.next_chunk()
        go.set()
        while piece := await got.next_chunk():
            got_all += piece

    assert got_all == b"onetwo"


async def test_connections_are_used_again_and_carry_no_cookies() -> None:
    raw = RawUpstream([answer(b"1", "set-cookie: a=b; path=/", "x-a: 1", "x-a: 2")], [answer(b"2")])
    async with raw, upstream_of() as upstream:
        first = await upstream.send(request_to(raw))
        assert await first.read(LIMIT) == b"1"
        assert first.headers == [("x-a", "1"), ("x-a", "2")]
        second = await upstream.send(request_to(raw))
        assert await second.read(LIMIT) == b"2"

    assert len(raw.heads) == 2
    assert header(raw.heads[1], "cookie") is None


@pytest.mark.parametrize("status", [301, 302, 307, 308])
async def test_a_redirect_is_neither_followed_nor_passed_on(status: int) -> None:
    moved = answer(b"", "location: http://127.0.0.1:1/elsewhere", status=f"{status} Moved")

    fault = await fault_of(RawUpstream([moved]))

    assert (fault.status, fault.code) == (502, "upstream_redirect")


async def test_an_answer_that_turns_the_connection_into_something_else_is_none() -> None:
    switched = answer(b"", "upgrade: other", "connection: upgrade", status="101 Switching Protocols")

    fault = await fault_of(RawUpstream([switched]))

    assert (fault.status, fault.code) == (502, "upstream_unreadable")


@pytest.mark.parametrize("status", [200, 201, 400, 401, 404, 429, 500, 529])
async def test_every_other_status_comes_back_with_its_body(status: int) -> None:
    async with answered(RawUpstream([answer(b"said", "retry-after: 7", status=f"{status} X")])) as got:
        assert (got.status, await got.read(LIMIT)) == (status, b"said")
        assert ("retry-after", "7") in got.headers


async def test_a_large_body_is_sent_whole() -> None:
    body = bytes(range(256)) * 20_000
    raw = RawUpstream([answer(b"{}")])
    async with raw, upstream_of() as upstream:
        got = await upstream.send(request_to(raw, body=body))
        await got.read(LIMIT)

    assert raw.bodies == [body]
    assert header(raw.heads[0], "content-type") == "application/json"


async def test_headers_that_are_no_text_are_left_out() -> None:
    head = b"HTTP/1.1 200 OK\r\nx-bytes: \xff\xfe\r\nx-text: 1\r\ncontent-length: 0\r\n\r\n"
    async with answered(RawUpstream([head])) as got:
        assert got.headers == [("x-text", "1")]


def incoming(path: str = "/v1/x?beta=true", credential: str | None = None) -> Incoming:
    headers = CIMultiDict({"content-type": "application/json", "authorization": "Bearer callers"})
    return Incoming(DIALECT, "POST", path, headers, b"{}", Caller(Identity(), credential), "")


def test_a_request_goes_where_the_operator_or_the_dialect_says() -> None:
    configured = settings_of(**{setting_name(DIALECT.name): {"base_url": "http://inside:1/team/v1"}})

    assert UpstreamRequest.of(incoming(), b"{}", configured).url == "http://inside:1/team/v1/x?beta=true"
    assert UpstreamRequest.of(incoming(), b"{}", Settings()).url.startswith(DIALECT.base_url)


def test_the_time_left_bounds_the_time_of_an_answer() -> None:
    """E3."""
    made = [
        UpstreamRequest.of(incoming(), b"", Settings(), seconds_left=left).deadline_seconds
        for left in (None, 5.0, 1e9)
    ]

    assert made == [600, 5.0, 600]
    with pytest.raises(UpstreamFault) as refused:
        UpstreamRequest.of(incoming(), b"", Settings(), seconds_left=0.0)
    assert refused.value.status == 504


def test_the_credential_and_the_trace_travel_with_it() -> None:
    made = UpstreamRequest.of(incoming(credential="k"), b"", Settings(), trace_headers={"traceparent": "t"})

    assert ("traceparent", "t") in made.headers
    assert not any("callers" in value for _, value in made.headers)
    assert set(DIALECT.credential("k").items()) <= set(made.headers)


@pytest.mark.parametrize(
    ("base", "path", "url"),
    [
        ("https://h", "/v1/x", "https://h/v1/x"),
        ("https://h/", "/v1/x", "https://h/v1/x"),
        ("https://h/v1", "/v1/x", "https://h/v1/x"),
        ("https://h/team/v1", "/v1/x", "https://h/team/v1/x"),
        ("https://h/v1", "/x", "https://h/v1/x"),
        ("https://h/v1/x", "/v1/x", "https://h/v1/x"),
        ("https://v1", "/v1/x", "https://v1/v1/x"),
        ("https://h/v", "/v1/x", "https://h/v/v1/x"),
    ],
)
def test_base_and_path_are_joined_without_saying_anything_twice(base: str, path: str, url: str) -> None:
    assert join_url(base, path) == url


def test_only_what_reached_nobody_is_tried_again() -> None:
    """C024."""
    twice = settings_of(retries=2)
    again: list[UpstreamFault | int] = [
        429,
        503,
        529,
        UpstreamFault("", code=UNREACHABLE),
        UpstreamFault("", code=CLOSED),
        UpstreamFault("", status=529, code="overloaded"),
    ]
    never: list[UpstreamFault | int] = [
        200,
        400,
        401,
        500,
        504,
        UpstreamFault("", status=504, code="upstream_timeout"),
    ]

    assert [may_retry(reason, attempt, twice) for attempt in (1, 2, 3) for reason in again] == [True] * 12 + [
        False
    ] * 6
    assert not any(may_retry(reason, 1, twice) for reason in never)
    assert not may_retry(429, 1, settings_of(retries=0))


def test_a_provider_s_own_pause_is_kept_or_left_to_the_agent() -> None:
    assert [retry_pause([], attempt) for attempt in (1, 2, 9)] == [0.5, 1.0, 5.0]
    assert retry_pause([("Retry-After", "2")], 1) == 2.0
    assert retry_pause([("retry-after", "60")], 1) is None
    assert retry_pause([("retry-after", "Wed, 21 Oct 2026 07:28:00 GMT")], 1) is None


@given(st.lists(st.text(alphabet="v1x", min_size=1, max_size=2), max_size=4), st.integers(0, 4))
def test_a_joined_url_holds_the_whole_path(above: list[str], cut: int) -> None:
    path = "/" + "/".join([*above[cut:], "end"])

    assert join_url("https://h/" + "/".join(above), path).endswith(path)
