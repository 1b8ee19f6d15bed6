"""`callgate approvals`, against a real admin port (D4)."""

from __future__ import annotations

import asyncio
import json
from functools import partial
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest
from aiohttp import web

from tests.checks.build import call
from tests.test_approval_routes import Port, port
from tests.typed import typed

Typed = CompletedProcess[str]
HERE = Path(__file__).parent


async def types(admin: Port, *words: str) -> Typed:
    """Types the command while this loop goes on serving."""
    work = partial(typed, "approvals", *words, "--url", admin.url, cwd=HERE, CALLGATE_ADMIN__TOKEN="letmein")
    return await asyncio.to_thread(work)


async def test_a_call_is_found_looked_at_and_approved() -> None:
    """D4."""
    async with port() as admin:
        (asked,) = await admin.asked()
        listed = await types(admin, "list")
        one = await types(admin, "show", asked)
        done = await types(admin, "approve", asked, "--by", "ann", "--reason", "fine")
        after = await types(admin, "list")
        every = await types(admin, "list", "--all")

    assert asked in listed.stdout
    assert "hunter2" not in listed.stdout
    assert "hunter2" in one.stdout
    assert (done.returncode, done.stdout.strip()) == (0, f"{asked} is approved")
    assert after.stdout.strip() == "Nothing waits for a person."
    assert f"{asked}  approved" in every.stdout


async def test_a_conflict_is_said_and_is_no_success() -> None:
    async with port() as admin:
        (asked,) = await admin.asked()
        await types(admin, "reject", asked, "--by", "ann")
        refused = await types(admin, "approve", asked, "--by", "bob")
        unknown = await types(admin, "show", "apr_nothing")

    assert (refused.returncode, refused.stderr.strip()) == (
        1,
        "This was decided otherwise before: rejected by ann.",
    )
    assert (unknown.returncode, unknown.stderr.strip()) == (1, "There is no approval with this id.")


async def test_what_a_model_made_up_cannot_steer_the_terminal() -> None:
    """C025."""
    async with port() as admin:
        (asked,) = await admin.asked(call("refund[red]\x1b[31m", '{"a": "\x1b[2J"}'))
        shown = [await types(admin, *words) for words in (("list",), ("show", asked))]

    assert all("\x1b" not in each.stdout and "refund[red]\\x1b[31m" in each.stdout for each in shown)


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["approve", "--by", "ann"], "needs the id of an approval"),
        (["approve", "../x", "--by", "ann"], "needs the id of an approval"),
        (["reject", "apr_1"], "needs --by: who decides?"),
    ],
)
async def test_wrong_usage_is_told_before_anything_is_sent(words: list[str], complaint: str) -> None:
    async with port() as admin:
        said = await types(admin, *words)

    assert said.returncode == 2
    assert complaint in said.stderr


def test_without_a_token_nothing_is_tried() -> None:
    said = typed("approvals", "list", cwd=HERE)

    assert said.returncode == 2
    assert "admin.token is not set" in said.stderr


async def test_a_wrong_token_is_said() -> None:
    async with port(token="another") as admin:
        said = await types(admin, "list")

    assert said.returncode == 1
    assert "admin.token" in said.stderr
    assert "letmein" not in said.stderr


@pytest.mark.parametrize("body", ["<html>", "[]", "{}", json.dumps({"approvals": 5, "left_out": 0})])
async def test_another_server_is_no_admin_port(body: str) -> None:
    async def says(_: web.Request) -> web.Response:
        return web.Response(text=body)

    async with port() as admin:
        app: Any = web.Application()
        app.router.add_get("/approvals", says)
        runner = web.AppRunner(app)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        admin.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        said = await types(admin, "list")
        await runner.cleanup()

    assert said.returncode == 1
    assert "this is no admin port of Callgate" in said.stderr


async def test_nobody_there_is_said() -> None:
    async with port() as admin:
        pass
    said = await types(admin, "list")

    assert said.returncode == 1
    assert "cannot be reached" in said.stderr
