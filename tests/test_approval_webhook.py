"""The webhook, against a real receiver on loopback."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest
from aiohttp import web

from proxy.approval_settings import WebhookSettings
from proxy.approval_webhook import QUEUE_LENGTH, ApprovalWebhook, signature
from proxy.core.approvals import Approval, asked_for
from proxy.core.messages import ToolCall
from proxy.core.runs import Identity, Run
from proxy.redaction import Redactor
from tests.checks.build import NOW

SECRET = "shared"


def approval(number: int = 1) -> Approval:
    call = ToolCall("c", "refund", '{"order_id": "A1", "password": "hunter2"}')
    run = Run("run_1", "k", NOW)
    return asked_for(f"apr_{number}", Identity("k"), run, call, (), now=NOW, expires_at=NOW + 60)


@dataclass
class Receiver:
    """Answers with these statuses in order, then with 200; keeps what came."""

    url: str = ""
    statuses: list[int] = field(default_factory=list)
    came: asyncio.Queue[tuple[dict[str, str], bytes]] = field(default_factory=asyncio.Queue)

    async def hears(self, request: web.Request) -> web.Response:
        body = await request.read()
        headers = {name.lower(): value for name, value in request.headers.items()}
        self.came.put_nowait((headers, body))
        status = self.statuses.pop(0) if self.statuses else 200
        return web.Response(status=status, headers={"location": self.url} if status == 302 else {})

    async def next(self) -> tuple[dict[str, str], bytes]:
        async with asyncio.timeout(10):
            return await self.came.get()


@asynccontextmanager
async def receiving(*statuses: int) -> AsyncIterator[Receiver]:
    receiver = Receiver(statuses=list(statuses))
    app = web.Application()
    app.router.add_post("/hook", receiver.hears)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    receiver.url = f"http://127.0.0.1:{runner.addresses[0][1]}/hook"
    try:
        yield receiver
    finally:
        await runner.cleanup()


@asynccontextmanager
async def sending(
    url: str, attempts: int = 3, pauses: Sequence[float] = (0.0,)
) -> AsyncIterator[ApprovalWebhook]:
    settings = WebhookSettings.model_validate({"url": url, "secret": SECRET, "attempts": attempts})
    webhook = ApprovalWebhook(settings, Redactor(), lambda: NOW, pauses)
    try:
        yield webhook
    finally:
        await webhook.close()


async def test_a_request_for_approval_is_told_and_signed() -> None:
    """D4: anybody who knows the secret can tell that it is ours, and when it was sent."""
    async with receiving() as receiver, sending(receiver.url) as webhook:
        webhook.tell(approval())
        headers, body = await receiver.next()
    stamp = headers["x-callgate-timestamp"]
    wanted = hmac.new(SECRET.encode(), stamp.encode() + b"." + body, hashlib.sha256).hexdigest()

    assert headers["x-callgate-signature"] == f"v1={wanted}" == signature(SECRET, stamp, body)
    assert stamp == str(int(NOW))
    assert headers["content-type"] == "application/json"


async def test_what_is_told_is_redacted() -> None:
    async with receiving() as receiver, sending(receiver.url) as webhook:
        webhook.tell(approval())
        _, body = await receiver.next()
    told = json.loads(body)

    assert told["event"] == "approval_requested"
    assert told["approval"]["id"] == "apr_1"
    assert b"hunter2" not in body


async def test_a_receiver_that_fails_in_passing_is_tried_again() -> None:
    async with receiving(500, 429) as receiver, sending(receiver.url) as webhook:
        webhook.tell(approval())
        bodies = [(await receiver.next())[1] for _ in range(3)]

    assert len(set(bodies)) == 1


@pytest.mark.parametrize("status", [400, 302])
async def test_a_receiver_that_says_no_is_not(status: int, caplog: pytest.LogCaptureFixture) -> None:
    """A redirection is not followed: the next message is what comes next."""
    async with receiving(status) as receiver, sending(receiver.url) as webhook:
        webhook.tell(approval(1))
        webhook.tell(approval(2))
        ids = [json.loads((await receiver.next())[1])["approval"]["id"] for _ in range(2)]

    assert ids == ["apr_1", "apr_2"]
    assert f"apr_1 could not be delivered: status {status}" in caplog.text


async def test_tries_are_bounded(caplog: pytest.LogCaptureFixture) -> None:
    async with receiving(500, 500, 200) as receiver, sending(receiver.url, attempts=2) as webhook:
        webhook.tell(approval(1))
        webhook.tell(approval(2))
        ids = [json.loads((await receiver.next())[1])["approval"]["id"] for _ in range(3)]

    assert ids == ["apr_1", "apr_1", "apr_2"]
    assert "could not be delivered" in caplog.text
    assert "127.0.0.1" not in caplog.text


async def test_nobody_there_is_no_fault_of_the_request(caplog: pytest.LogCaptureFixture) -> None:
    async with receiving() as receiver:
        gone = receiver.url
    with caplog.at_level(logging.ERROR):
        async with sending(gone, attempts=1) as webhook:
            webhook.tell(approval())
            async with asyncio.timeout(10):
                while "could not be delivered" not in caplog.text:  # noqa: ASYNC110 - a log tells nobody
                    await asyncio.sleep(0)


async def test_messages_that_wait_are_bounded(caplog: pytest.LogCaptureFixture) -> None:
    async with sending("http://192.0.2.1/") as webhook:
        for number in range(QUEUE_LENGTH + 2):
            webhook.tell(approval(number))

    assert "too many messages wait" in caplog.text
    assert "messages are not sent" in caplog.text


async def test_without_an_address_nobody_is_told() -> None:
    webhook = ApprovalWebhook(WebhookSettings(), Redactor(), lambda: NOW)
    webhook.tell(approval())
    await webhook.close()
