"""HTTP that nobody should send: broken, ambiguous, cut off, too large. A stranger gets one clear error, and the next
agent is served as if nothing had been.
"""

from __future__ import annotations

import asyncio
import gzip
import json
from collections.abc import AsyncIterator
from urllib.parse import urlsplit

import pytest
import pytest_asyncio

from proxy.demo import Raw
from tests.dialects.agents import AGENTS
from tests.playbook import Answered
from tests.raw_client import CRLF, RawClient, connected
from tests.shelf import Shelf
from tests.siege import EACH, LONG, PATHS, STREAM, Siege, assert_sound_error, besieged

pytestmark = pytest.mark.asyncio(loop_scope="module")

CHAT = "openai-chat"
BODY = AGENTS[CHAT].request
MOST = 1 << 20
PLAIN = b"POST /v1/chat/completions HTTP/1.1"
CHUNKED = b"transfer-encoding: chunked"
CANARY = b"sk-canary-7f3a"


def request(*lines: bytes, first: bytes = PLAIN, body: bytes = BODY, length: bytes | None = None) -> bytes:
    """A request with these further header lines. `length`: what its header says; b"": there is none."""
    size = b"%d" % len(body) if length is None else length
    heads = [b"host: callgate", b"content-type: application/json"] + (
        [b"content-length: " + size] if size else []
    )
    return CRLF.join([first, *heads, *lines]) + CRLF * 2 + body


def in_chunks(chunks: bytes, *lines: bytes) -> bytes:
    return request(CHUNKED, *lines, body=chunks, length=b"")


def chunk(content: bytes, extension: bytes = b"") -> bytes:
    return b"%x%s\r\n%s\r\n" % (len(content), extension, content)


END = b"0\r\n\r\n"
NO_HTTP = {
    "zeros": b"\0" * 100 + CRLF * 2,
    "a TLS client": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\x11" * 200,
    "HTTP/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "another version": request(first=PLAIN.replace(b"1.1", b"9.9")),
    "another protocol": request(first=PLAIN.replace(b"HTTP", b"HTTPX")),
    "no host": PLAIN + b"\r\ncontent-length: 2\r\n\r\n{}",
    "a method in small letters": request(first=b"post /v1/chat/completions HTTP/1.1"),
    "an endless method": request(first=b"A" * 50_000 + b" / HTTP/1.1"),
    "a path with a blank": request(first=b"POST /v1/chat completions HTTP/1.1"),
    "a path that is no ASCII": request(first=b"POST /v1/\xff\xfe HTTP/1.1"),
    "two lengths": request(b"content-length: 3"),
    "the same length twice": request(b"content-length: %d" % len(BODY)),
    "a length below zero": request(length=b"-5"),
    "a length with a sign": request(length=b"+5"),
    "a length in words": request(length=b"many"),
    "a length beyond counting": request(length=b"9" * 30),
    "a length and chunks": request(CHUNKED, body=END),
    "an unknown transfer coding": request(b"transfer-encoding: xchunked"),
    "chunks twice": request(CHUNKED, CHUNKED, body=END, length=b""),
    "chunks, with a blank before the colon": request(b"transfer-encoding : chunked", body=END, length=b""),
    "a chunk of no size": in_chunks(b"zz\r\nabc\r\n" + END),
    "a chunk below zero": in_chunks(b"-1\r\nabc\r\n" + END),
    "a chunk beyond counting": in_chunks(b"f" * 20 + b"\r\nabc\r\n" + END),
    "a chunk that is longer than it says": in_chunks(b"3\r\nabcdef\r\n" + END),
    "a folded header": request(b"x-a: b\r\n c: d"),
    "a blank before the colon": request(b"x-a : b"),
    "a header with NUL": request(b"authorization: Bearer " + CANARY + b"\0"),
    "a header with CR": request(b"authorization: Bearer " + CANARY + b"\rx: y"),
    "a header without a colon": request(b"authorization Bearer " + CANARY),
    "a header without a name": request(b": " + CANARY),
    "a header's name that is no ASCII": request(b"x-\xff: " + CANARY),
    "an endless header": request(b"x-a: " + CANARY * 10_000),
    "thousands of headers": request(*(b"x-%d: a" % number for number in range(3000))),
    "two content types": request(b"content-type: text/html"),
    "rubbish behind a request": request() + b"\0\0" + CANARY + CRLF * 2,
    "a body nobody announced": request(length=b""),
}
ODD_BUT_SOUND = {
    "HTTP/1.0": request(first=PLAIN.replace(b"1.1", b"1.0")),
    "one chunk a byte": in_chunks(b"".join(chunk(BODY[at : at + 1]) for at in range(len(BODY))) + END),
    "chunks with extensions": in_chunks(chunk(BODY, b';a=b;c="d"') + END),
    "headers behind the body": in_chunks(chunk(BODY) + b"0\r\nx-api-key: other\r\n\r\n"),
    "slashes in a row": request(first=b"POST //v1//chat/completions HTTP/1.1"),
    "letters as numbers": request(first=b"POST /v1/ch%61t/completions HTTP/1.1"),
    "not waiting to be asked": request(b"expect: 100-continue"),
    "another protocol on offer": request(b"upgrade: h2c", b"connection: upgrade"),
    "compressed": request(b"content-encoding: gzip", body=gzip.compress(BODY)),
}
WELL_SAID = {
    "an unknown route": (404, "not served", request(first=b"POST /v1/elsewhere/x HTTP/1.1")),
    "batches, which carry calls": (403, "is refused", request(first=b"POST /v1/batches HTTP/1.1")),
    "a way around": (404, "not served", request(first=b"POST /v1/x/../chat/completions HTTP/1.1")),
    "an encoded slash": (404, "not served", request(first=b"POST /v1/chat%2fcompletions HTTP/1.1")),
    "a whole URL": (404, "not served", request(first=b"POST http://other/v1/chat/completions HTTP/1.1")),
    "a tunnel": (404, "not served", request(first=b"CONNECT api:443 HTTP/1.1")),
    "a long path": (404, "not served", request(first=b"POST /" + b"a" * 20_000 + b" HTTP/1.1")),
    "another method": (405, "not served", request(first=b"DELETE /v1/chat/completions HTTP/1.1")),
    "too long": (413, "max_body_bytes", request(body=b"{" + b" " * MOST)),
    "too long in chunks": (413, "max_body_bytes", in_chunks(chunk(b" " * 9000) * 200 + END)),
    "too long when unpacked": (
        413,
        "max_body_bytes",
        request(b"content-encoding: gzip", body=gzip.compress(b" " * 9 * MOST)),
    ),
    "no gzip": (415, "gzip", request(b"content-encoding: gzip")),
    "half of gzip": (415, "gzip", request(b"content-encoding: gzip", body=gzip.compress(BODY)[:-9])),
    "no br": (415, "br", request(b"content-encoding: br")),
    "no zstd": (415, "zstd", request(b"content-encoding: zstd")),
    "an unknown coding": (415, "Known are", request(b"content-encoding: rot13")),
    "codings upon codings": (415, "Known are", request(b"content-encoding: gzip, gzip, gzip")),
    "a header that cannot travel": (400, "header", request(b"x-own: \xff" + CANARY)),
    "a key that cannot travel": (400, "header", request(b"authorization: Bearer \xff" + CANARY)),
    "a body of another kind": (
        415,
        "JSON",
        request().replace(b"content-type: application/json", b"content-type: text/html"),
    ),
}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def siege(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Siege]:
    folder = tmp_path_factory.mktemp("siege")
    async with Shelf(folder) as shelf, besieged(shelf, folder, max_body_bytes=MOST) as siege:
        siege.provider_says(Raw(AGENTS[CHAT].stream, headers={"content-type": STREAM}))
        yield siege


def port_of(siege: Siege) -> int:
    return urlsplit(siege.play.url).port or 0


async def read(client: RawClient) -> Answered:
    status = await client.head()
    if "content-length" in client.headers or "transfer-encoding" in client.headers:
        return Answered(status, client.headers, await client.body())
    return Answered(status, client.headers, await client.reader.read())


@pytest.mark.parametrize("what", NO_HTTP)
async def test_what_is_no_http_is_answered_once_and_read_no_further(what: str, siege: Siege) -> None:
    """F1: in the shape of all errors, and without a word of what came: there may be a key in it."""
    before = len(siege.seen)
    async with asyncio.timeout(LONG), connected(port_of(siege)) as client:
        client.writer.write(NO_HTTP[what])
        got = await read(client)
        assert (got.status, await client.reader.read()) == (400, b"")
    assert_sound_error(CHAT, got, "HTTP")
    assert CANARY not in got.body
    assert len(siege.seen) == before
    await siege.is_unharmed()


@pytest.mark.parametrize("what", ODD_BUT_SOUND)
async def test_what_is_odd_but_sound_is_served(what: str, siege: Siege) -> None:
    async with asyncio.timeout(LONG), connected(port_of(siege)) as client:
        client.writer.write(ODD_BUT_SOUND[what])
        got = await read(client)
    assert got.status == 200
    assert got.body.endswith(b"data: [DONE]\n\n")
    assert json.loads(siege.seen[-1].body)["messages"] == json.loads(BODY)["messages"]
    assert "x-api-key" not in siege.seen[-1].headers
    await siege.is_unharmed()


@pytest.mark.parametrize("what", WELL_SAID)
async def test_what_is_refused_is_refused_in_words(what: str, siege: Siege) -> None:
    """C4: which of the limits, which of the routes, what instead."""
    status, said, content = WELL_SAID[what]
    before = len(siege.seen)
    async with asyncio.timeout(LONG), connected(port_of(siege)) as client:
        client.writer.write(content)
        got = await read(client)
    assert got.status == status, got.body
    assert_sound_error(CHAT, got, said)
    assert CANARY not in got.body
    assert len(siege.seen) == before
    await siege.is_unharmed()


async def test_who_waits_to_be_asked_for_the_body_is_asked_unless_the_head_is_refused(siege: Siege) -> None:
    """F1: clients of large bodies do (RFC 9110, 10.1.1)."""
    for head, body, status in (
        (request(b"expect: 100-continue", body=b"", length=b"%d" % len(BODY)), BODY, 200),
        (in_chunks(b"", b"expect: 100-continue"), chunk(BODY) + END, 200),
        (request(b"expect: 100-continue", body=b"", length=b"%d" % (2 * MOST)), b"", 413),
    ):
        async with asyncio.timeout(LONG), connected(port_of(siege)) as client:
            await client.send(head)
            if body:
                assert await client.head() == 100
                await client.send(body)
            assert (await read(client)).status == status
    await siege.is_unharmed()


@EACH
async def test_a_refusal_has_the_shape_of_the_route_s_dialect(dialect: str, siege: Siege) -> None:
    """F1."""
    for headers in ({"content-encoding": "gzip"}, {"content-type": "text/html"}):
        assert_sound_error(dialect, await siege.asks(dialect, b"{}", headers))
    path = PATHS[dialect]
    async with siege.play.http.put(siege.play.url + path, data=b"{}") as answer:
        assert_sound_error(
            dialect, Answered(answer.status, answer.headers, await answer.read()), "not served"
        )
        assert answer.headers["allow"] == "POST"


async def test_two_requests_in_one_go_are_answered_in_order(siege: Siege) -> None:
    bad = request(body=b"{}")
    async with asyncio.timeout(LONG), connected(port_of(siege)) as client:
        client.writer.write(request() + bad + request())
        found = [await read(client) for _ in range(3)]
    assert [got.status for got in found] == [200, 400, 200]
    await siege.is_unharmed()


async def test_a_request_that_is_cut_off_anywhere_reaches_nobody(siege: Siege) -> None:
    """B2: whatever was read of it is let go."""
    whole = request(b"authorization: Bearer " + CANARY)
    before = len(siege.seen)
    for cut in range(0, len(whole), 11):
        async with asyncio.timeout(LONG), connected(port_of(siege)) as client:
            await client.send(whole[:cut])
    await siege.is_unharmed()
    assert len(siege.seen) == before


async def test_agents_that_leave_at_any_moment_leave_nothing_behind(siege: Siege) -> None:
    """B2, E13: in the middle of an answer too."""
    for taken in range(0, 1200, 40):
        async with asyncio.timeout(LONG), connected(port_of(siege)) as client:
            await client.send(request())
            if taken:
                await client.reader.read(taken)
            client.writer.transport.abort()
    await siege.is_unharmed()
