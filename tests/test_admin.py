"""The operator's port."""

import base64
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiohttp
import pytest
from aiohttp import web
from hypothesis import given, strategies as st

from proxy.admin import Readiness, _shown, build_admin
from proxy.settings import Settings


async def runs(_: web.Request) -> web.Response:
    return web.Response(text="all runs")


@asynccontextmanager
async def admin(token: str, readiness: Readiness | None = None) -> AsyncIterator[aiohttp.ClientSession]:
    settings = Settings.model_validate({"admin": {"token": token}})
    runner = web.AppRunner(build_admin(settings, readiness or Readiness(), [web.get("/runs", runs)]))
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        host, port = runner.addresses[0]
        async with aiohttp.ClientSession(f"http://{host}:{port}") as session:
            yield session
    finally:
        await runner.cleanup()


async def status(session: aiohttp.ClientSession, path: str, authorization: str = "") -> int:
    headers = {"authorization": authorization} if authorization else {}
    async with session.get(path, headers=headers) as response:
        return response.status


def basic(password: str) -> str:
    return "Basic " + base64.b64encode(f"me:{password}".encode()).decode()


@pytest.mark.parametrize("token", ["", "s3cret"])
async def test_health_and_readiness_need_no_token(token: str) -> None:
    async with admin(token) as session:
        assert [await status(session, path) for path in ("/healthz", "/readyz")] == [200, 200]


async def test_without_a_token_there_is_nothing_else() -> None:
    async with admin("") as session:
        for shown in ("", "Bearer ", "Bearer x", basic("")):
            assert await status(session, "/runs", shown) == 404


async def test_the_token_opens_the_rest() -> None:
    async with admin("s3cret:ä") as session:
        for shown in ("Bearer s3cret:ä", "bearer  s3cret:ä", basic("s3cret:ä")):
            assert await status(session, "/runs", shown) == 200
        for shown in (
            "",
            "s3cret:ä",
            "Bearer s3cret",
            "Bearer",
            basic("s3cret"),
            "Basic !",
            "Digest s3cret:ä",
        ):
            assert await status(session, "/runs", shown) == 401
        for path in ("/elsewhere", "/healthz/../runs", "/healthz/x"):
            assert await status(session, path) == 401


async def test_a_browser_is_asked_for_the_token() -> None:
    async with admin("s3cret") as session, session.get("/runs") as response:
        assert response.headers["www-authenticate"].startswith("Basic ")


async def test_readiness_says_what_is_wrong() -> None:
    readiness = Readiness(notes={"policy": "newer policies were refused"})
    async with admin("", readiness) as session:
        async with session.get("/readyz") as response:
            assert (response.status, (await response.json())["notes"]) == (200, readiness.notes)
        readiness.problems["policy"] = "no policies"
        async with session.get("/readyz") as response:
            assert (response.status, (await response.json())["problems"]) == (503, {"policy": "no policies"})
        readiness.problems.clear()
        readiness.draining = True
        async with session.get("/readyz") as response:
            assert (response.status, (await response.json())["draining"]) == (503, True)
        assert await status(session, "/healthz") == 200


@given(st.text())
def test_whatever_is_sent_as_authorization_is_read_without_a_fault(value: str) -> None:
    assert isinstance(_shown(value), bytes)


async def test_what_changes_by_itself_is_looked_at_when_somebody_asks() -> None:
    said = ["", "the OPA server is not asked"]
    readiness = Readiness(notes={"policy": "refused"}, watched={"engine": lambda: said.pop(0)})
    async with admin("", readiness) as session:
        notes = []
        for _ in range(2):
            async with session.get("/readyz") as response:
                assert response.status == 200
                notes.append((await response.json())["notes"])

    assert notes == [{"policy": "refused"}, {"policy": "refused", "engine": "the OPA server is not asked"}]
