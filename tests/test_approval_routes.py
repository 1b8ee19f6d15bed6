"""The admin port's routes for approvals, over HTTP (D4)."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from proxy.admin import Readiness, build_admin
from proxy.approval_routes import BY_LENGTH, MOST_BYTES, REASON_LENGTH, approval_routes
from proxy.config import load_settings
from proxy.redaction import Redactor
from tests.checks.build import call
from tests.test_approving import Desk, asking, desk, statuses

TOKEN = {"authorization": "Bearer letmein"}
SECRET = call("refund", {"order_id": "A1", "password": "hunter2"})
BY_ANN = {"by": "ann", "reason": "fine"}


@dataclass
class Port:
    """An admin port, and the desk behind it."""

    url: str
    desk: Desk
    http: aiohttp.ClientSession

    async def get(self, path: str, headers: Any = TOKEN) -> tuple[int, Any]:
        async with self.http.get(self.url + path, headers=headers) as answer:
            return answer.status, json.loads(await answer.read())

    async def post(self, path: str, said: Any = BY_ANN, **more: Any) -> tuple[int, Any]:
        body = said if isinstance(said, bytes) else json.dumps(said).encode()
        headers = TOKEN | {"content-type": "application/json"} | more.get("headers", {})
        async with self.http.post(self.url + path, data=body, headers=headers) as answer:
            return answer.status, json.loads(await answer.read())

    async def asked(self, *calls: Any) -> list[str]:
        """Asks about these calls; their approvals' ids."""
        await statuses(self.desk, asking(*(calls or (SECRET,))))
        return [self.desk.told.get_nowait().id for _ in range(self.desk.told.qsize())]


@asynccontextmanager
async def port(token: str = "letmein") -> AsyncIterator[Port]:
    settings = load_settings(overrides={"admin.token": token}, environment={})
    it = desk(when_needed="pending")
    app = build_admin(settings, Readiness(), approval_routes(it.approvals, Redactor()))
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        async with aiohttp.ClientSession() as http:
            yield Port(f"http://127.0.0.1:{runner.addresses[0][1]}", it, http)
    finally:
        await runner.cleanup()


async def test_the_list_is_redacted_and_one_approval_is_whole() -> None:
    """D4: whoever decides sees exactly what would be run."""
    async with port() as admin:
        (asked,) = await admin.asked()
        status, found = await admin.get("/approvals?status=pending")
        _, one = await admin.get(f"/approvals/{asked}")

    assert status == 200
    assert [each["id"] for each in found["approvals"]] == [asked]
    assert "hunter2" not in json.dumps(found)
    assert json.loads(one["arguments"])["password"] == "hunter2"


async def test_the_list_can_be_narrowed() -> None:
    async with port() as admin:
        first, second = await admin.asked(SECRET, call("refund"))
        await admin.post(f"/approvals/{first}/approve")
        _, everything = await admin.get("/approvals")
        _, pending = await admin.get("/approvals?status=pending")
        status, wrong = await admin.get("/approvals?status=open")

    assert [each["id"] for each in everything["approvals"]] == [second, first]
    assert [each["id"] for each in pending["approvals"]] == [second]
    assert (status, wrong["code"]) == (400, "invalid_request")


@pytest.mark.parametrize(("word", "then"), [("approve", "approved"), ("reject", "rejected")])
async def test_a_decision_says_who_and_why(word: str, then: str) -> None:
    """D4: the same again is answered alike, the opposite is a conflict."""
    other = {"approve": "reject", "reject": "approve"}[word]
    async with port() as admin:
        (asked,) = await admin.asked()
        first = await admin.post(f"/approvals/{asked}/{word}")
        again = await admin.post(f"/approvals/{asked}/{word}", {"by": "bob"})
        status, conflict = await admin.post(f"/approvals/{asked}/{other}", {"by": "bob"})

    assert first == again
    assert (first[0], first[1]["status"]) == (200, then)
    assert (first[1]["decided_by"], first[1]["reason"]) == ("ann", "fine")
    assert (status, conflict["code"]) == (409, "conflict")
    assert conflict["error"] == f"This was decided otherwise before: {then} by ann."


async def test_a_decision_may_come_again_when_the_call_has_left() -> None:
    async with port() as admin:
        (asked,) = await admin.asked()
        await admin.post(f"/approvals/{asked}/approve")
        assert await statuses(admin.desk, asking(SECRET)) == ["used"]
        status, said = await admin.post(f"/approvals/{asked}/approve")

    assert (status, said["status"]) == (200, "used")


async def test_a_decision_that_comes_too_late_is_a_conflict() -> None:
    """D4: approve after expiry."""
    async with port() as admin:
        (asked,) = await admin.asked()
        admin.desk.clock.now += 3600
        for word in ("approve", "reject"):
            status, said = await admin.post(f"/approvals/{asked}/{word}")
            assert (status, said["code"]) == (409, "conflict")
            assert "too late" in said["error"]
        assert await statuses(admin.desk, asking(SECRET)) == ["expired"]


async def test_an_unknown_id_is_not_found() -> None:
    async with port() as admin:
        assert (await admin.get("/approvals/apr_nothing"))[0] == 404
        assert await admin.post("/approvals/apr_nothing/approve") == (
            404,
            {"error": "There is no approval with this id.", "code": "unknown_approval"},
        )


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"", 400),
        (b"[]", 400),
        (b"{", 400),
        (b"[" * 10_000, 400),
        ({}, 400),
        ({"by": ""}, 400),
        ({"by": "  "}, 400),
        ({"by": 7}, 400),
        ({"by": "a\nb"}, 400),
        ({"by": "\x1b[31m"}, 400),
        ({"by": "\ud800"}, 400),
        ({"by": "x" * (BY_LENGTH + 1)}, 400),
        ({"by": "ann", "reason": "x" * (REASON_LENGTH + 1)}, 400),
        ({"by": "ann", "why": "x"}, 400),
        ({"by": "ann", "reason": "x" * MOST_BYTES}, 413),
        (b" " * (1 << 20), 413),
    ],
    ids=range(16),
)
async def test_what_is_no_decision_decides_nothing(body: Any, status: int) -> None:
    async with port() as admin:
        (asked,) = await admin.asked()
        got, said = await admin.post(f"/approvals/{asked}/approve", body)

        assert got == status
        assert said.keys() == {"error", "code"}
        assert (await admin.get(f"/approvals/{asked}"))[1]["status"] == "pending"


async def test_a_foreign_page_cannot_decide() -> None:
    """A browser sends other types of content to any host unasked, with the password that it knows."""
    async with port() as admin:
        (asked,) = await admin.asked()
        status, _ = await admin.post(f"/approvals/{asked}/approve", headers={"content-type": "text/plain"})

        assert status == 415


@pytest.mark.parametrize("headers", [{}, {"authorization": "Bearer wrong"}])
async def test_nobody_decides_without_the_token(headers: dict[str, str]) -> None:
    """D4."""
    async with port() as admin:
        (asked,) = await admin.asked()
        for path in ("/approvals", f"/approvals/{asked}"):
            assert (await admin.get(path, headers))[0] == 401
        async with admin.http.post(
            f"{admin.url}/approvals/{asked}/approve", json=BY_ANN, headers=headers
        ) as answer:
            assert answer.status == 401
        assert (await admin.get(f"/approvals/{asked}"))[1]["status"] == "pending"


async def test_where_no_token_is_set_the_routes_do_not_exist() -> None:
    async with port(token="") as admin:
        assert (await admin.get("/approvals"))[0] == 404
