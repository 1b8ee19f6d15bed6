"""A Callgate that is attacked from both sides: what every attack has to leave as it was."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from proxy.demo import Raw, ScriptedProvider, Seen
from proxy.stores.memory import MemoryStore
from tests.playbook import CHAT, MESSAGES, Answered, Play
from tests.shelf import Shelf

PATHS = {"openai-chat": CHAT, "anthropic-messages": MESSAGES}
EACH = pytest.mark.parametrize("dialect", PATHS)
STREAM, JSON = "text/event-stream", "application/json"
RULES = {"org": {"denied_tools": ["delete_note"]}}
LONG = 30.0
"""Seconds. What takes longer hangs."""


class Siege:
    """A running Callgate, one for all attacks: none may spoil it for the next."""

    def __init__(self, play: Play) -> None:
        self.play = play
        self.log = _Kept()
        self._answer = Raw()
        play.provider.respond(lambda _: self._answer)

    def provider_says(self, answer: Raw) -> None:
        """From now on, to everything."""
        self._answer = answer

    @property
    def seen(self) -> list[Seen]:
        return self.play.provider.seen

    async def asks(self, dialect: str, body: bytes, headers: Mapping[str, str] | None = None) -> Answered:
        """One request, which is answered in time. Each is of a caller of its own."""
        own = {"authorization": f"Bearer caller-{len(self.seen)}-{id(body)}", **(headers or {})}
        async with asyncio.timeout(LONG):
            return await self.play.post(PATHS[dialect], body, own)

    async def is_unharmed(self) -> None:
        """Nothing is open or put aside, nothing broke, and new requests are welcome."""
        async with asyncio.timeout(LONG):
            while self.reserved:  # noqa: ASYNC110 - a store tells nobody
                await asyncio.sleep(0)
        async with self.play.http.get(self.play.callgate.admin_url + "/readyz") as ready:
            assert ready.status == 200
        errors, self.log.errors = self.log.errors, []
        assert not errors, "\n".join(errors)

    @property
    def reserved(self) -> int:
        """Reservations that nobody has settled yet."""
        store: Any = self.play.callgate.parts.ledger._store
        memory = getattr(store, "_store", store)
        assert isinstance(memory, MemoryStore)
        return len(memory._reserved)


class _Kept(logging.Handler):
    """Keeps what is logged as an error."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.errors: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.errors.append(self.format(record))


@asynccontextmanager
async def besieged(shelf: Shelf, folder: Path, **settings: Any) -> AsyncIterator[Siege]:
    """Opens the gates; afterwards no task is left over."""
    await shelf.policies(RULES)
    before = asyncio.all_tasks()
    provider = ScriptedProvider(strict=False)
    chosen = {"upstream__retries": 0, "reask__per_turn": 0} | settings
    async with shelf.play(folder, RULES, provider=provider, **chosen) as play:
        siege = Siege(play)
        logging.getLogger().addHandler(siege.log)
        try:
            yield siege
            await siege.is_unharmed()
        finally:
            logging.getLogger().removeHandler(siege.log)
    assert not asyncio.all_tasks() - before - {asyncio.current_task()}


def assert_sound_error(dialect: str, got: Answered, said: str = "") -> None:
    """F1, C4: the dialect's own shape, a plain short sentence, and nothing of a program's insides."""
    assert got.headers["content-type"].startswith(JSON)
    body = got.json
    error = body["error"]
    if dialect == "anthropic-messages":
        assert body["type"] == "error"
    assert isinstance(error["type"], str)
    message = error["message"]
    assert 10 < len(message) < 700
    assert said in message
    assert not any(word in message for word in ("Traceback", "Error(", "object at 0x", ".py"))


def is_streamed(body: bytes) -> bool:
    """The request asks for a stream, as a provider would read it."""
    try:
        return json.loads(body).get("stream") is True
    except (ValueError, AttributeError, RecursionError):
        return False
