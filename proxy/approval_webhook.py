"""Tells somebody else's system that a call waits for a person. Never in the way of the request that asks.

Each message is signed: `x-callgate-signature` is `v1=` and the hex HMAC-SHA256, with the secret that both sides know,
over the value of `x-callgate-timestamp` (epoch seconds), a dot, and the body. Receivers compare it in constant time
and refuse old timestamps. A message can come more than once; its approval's id tells.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import logging
from contextlib import suppress
from typing import TYPE_CHECKING

import aiohttp

from .approval_json import shown, written

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from .approval_settings import WebhookSettings
    from .core.approvals import Approval
    from .redaction import Redactor

SIGNATURE = "x-callgate-signature"
TIMESTAMP = "x-callgate-timestamp"
QUEUE_LENGTH = 1_000
"""Messages that may wait for their receiver."""
PAUSES = (1.0, 5.0, 30.0)
"""Seconds before the second, third … try; the last one counts for all further ones."""
_PASSING = frozenset({408, 425, 429})
_FAULTS = 500
_WELL = range(200, 300)

log = logging.getLogger("callgate.approvals")


def signature(secret: str, timestamp: str, body: bytes) -> str:
    """The value of the signature's header."""
    digest = hmac.new(secret.encode(), f"{timestamp}.".encode() + body, hashlib.sha256)
    return f"v1={digest.hexdigest()}"


class ApprovalWebhook:
    """Sends messages one after the other. Without a URL it does nothing."""

    def __init__(
        self,
        settings: WebhookSettings,
        redactor: Redactor,
        clock: Callable[[], float],
        pauses: Sequence[float] = PAUSES,
    ) -> None:
        """`clock` gives epoch seconds."""
        self._settings = settings
        self._redactor = redactor
        self._clock = clock
        self._pauses = pauses
        self._queue: asyncio.Queue[Approval] = asyncio.Queue(QUEUE_LENGTH)
        self._sender: asyncio.Task[None] | None = None

    def tell(self, approval: Approval) -> None:
        """A person is asked. Takes no time; needs a running loop."""
        if not self._settings.url:
            return
        try:
            self._queue.put_nowait(approval)
        except asyncio.QueueFull:
            log.error("webhook: too many messages wait, that of %s is not sent", approval.id)  # noqa: TRY400 - said in full
            return
        if self._sender is None:
            self._sender = asyncio.get_running_loop().create_task(self._send_all())

    async def close(self) -> None:
        """Sends no more; what still waits is said in the log."""
        if self._sender is not None:
            self._sender.cancel()
            with suppress(asyncio.CancelledError):
                await self._sender
        if not self._queue.empty():
            log.warning("webhook: %d messages are not sent", self._queue.qsize())

    async def _send_all(self) -> None:
        timeout = aiohttp.ClientTimeout(total=self._settings.timeout_seconds)
        async with aiohttp.ClientSession(timeout=timeout, trust_env=False) as http:
            while True:
                approval = await self._queue.get()
                body = written({"event": "approval_requested", "approval": shown(approval, self._redactor)})
                try:
                    await self._sent(http, approval.id, body)
                except Exception as error:  # noqa: BLE001 - one message that cannot be sent stops no other
                    log.error("webhook: %s is not sent (%s)", approval.id, type(error).__name__)  # noqa: TRY400 - addresses stay out

    async def _sent(self, http: aiohttp.ClientSession, approval_id: str, body: bytes) -> None:
        why = ""
        for attempt in range(self._settings.attempts):
            if attempt:
                await asyncio.sleep(self._pauses[min(attempt, len(self._pauses)) - 1])
            try:
                status = await self._tried(http, body)
            except (aiohttp.ClientError, OSError, TimeoutError) as error:
                why = type(error).__name__
                continue
            if status in _WELL:
                return
            why = f"status {status}"
            if status < _FAULTS and status not in _PASSING:
                break
        log.error("webhook: %s could not be delivered: %s", approval_id, why)

    async def _tried(self, http: aiohttp.ClientSession, body: bytes) -> int:
        timestamp = str(int(self._clock()))
        headers = {
            "content-type": "application/json",
            TIMESTAMP: timestamp,
            SIGNATURE: signature(self._settings.secret.get_secret_value(), timestamp, body),
        }
        async with http.post(self._settings.url, data=body, headers=headers, allow_redirects=False) as answer:
            return answer.status
