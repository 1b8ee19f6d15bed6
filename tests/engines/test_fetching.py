"""A bundle file from a web server."""

import gzip

import pytest
from aiohttp import web

from proxy.engines.fetching import BundleSource, fetch
from proxy.errors import EngineFault
from tests.bundle_server import bundle_server
from tests.real_opa import answering, free_port, silent

SECRET = "t0p-s3cret"
BODY = gzip.compress(b"x" * 100)


def source(url: str, **more: object) -> BundleSource:
    return BundleSource(url=url, token=SECRET, **more)  # type: ignore[arg-type]  # as the test says


async def test_it_is_fetched_again_only_where_its_etag_has_changed() -> None:
    """F2: If-None-Match, 304."""
    async with bundle_server(BODY) as server:
        first = await fetch(source(server.url, headers={"x-team": "a"}))
        again = await fetch(source(server.url), first)
        server.content = BODY + b"1"
        newer = await fetch(source(server.url), again)

    assert (first.content, newer.content) == (BODY, BODY + b"1")
    assert again is first
    assert server.given == [200, 304, 200]
    assert server.asked[0]["authorization".title()] == f"Bearer {SECRET}"
    assert server.asked[0]["x-team"] == "a"
    assert server.asked[1]["If-None-Match"] == first.etag


async def test_without_an_etag_the_time_of_change_is_asked_for() -> None:
    async with bundle_server(BODY) as server:
        server.with_etag = False
        server.headers = {"last-modified": "Tue, 01 Dec 2026 00:00:00 GMT"}
        first = await fetch(source(server.url))
        again = await fetch(source(server.url), first)

    assert again is first
    assert server.asked[1]["If-Modified-Since"] == first.modified


@pytest.mark.parametrize("coding", ["gzip", "br", "identity"])
async def test_it_comes_as_it_is_whatever_the_coding_is_called(coding: str) -> None:
    """Some servers call a tar.gz a tar that is coded."""
    async with bundle_server(BODY) as server:
        server.headers = {"content-encoding": coding}
        assert (await fetch(source(server.url))).content == BODY
    assert server.asked[0]["Accept-Encoding"] == "identity"


@pytest.mark.parametrize("status", [301, 304, 307, 401, 404, 500])
async def test_everything_but_a_file_is_a_fault_without_secrets(status: int) -> None:
    """No redirect is followed: the token is for this server."""
    async with bundle_server(BODY) as server:
        server.status = status
        server.headers = {"location": "/elsewhere"}
        with pytest.raises(EngineFault, match=str(status)) as caught:
            await fetch(source(f"{server.url}?key={SECRET}"))

    assert len(server.asked) == 1
    assert SECRET not in str(caught.value)
    assert SECRET not in repr(source(server.url))


async def test_a_server_that_is_not_there_or_says_nothing_or_too_much_is_a_fault() -> None:
    """Bounded in time and size."""
    with pytest.raises(EngineFault, match="cannot be fetched"):
        await fetch(source(f"http://127.0.0.1:{free_port()}/x"))
    async with silent() as url:
        with pytest.raises(EngineFault, match="in time"):
            await fetch(source(url, timeout=0.05))

    async def endless(request: web.Request) -> web.StreamResponse:
        answer = web.StreamResponse()
        await answer.prepare(request)
        for _ in range(100):
            await answer.write(b"x" * 1000)
        return answer

    async with answering(endless) as url:
        with pytest.raises(EngineFault, match="larger than 5000"):
            await fetch(source(url, most_bytes=5000))
