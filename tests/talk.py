"""Conversations for tests: messages with digests, and an agent that sends its whole history along each time."""

from __future__ import annotations

from dataclasses import replace
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from proxy.core.limits import Limits, Reservation
from proxy.core.messages import Message, Request, Role, ToolCall, ToolResult
from proxy.core.runs import Identity, Outcome

if TYPE_CHECKING:
    from proxy.core.runs import Run
    from proxy.ledger import Ledger, Opened

NOW = 1_790_000_000.0
ALICE = Identity("key:alice")
BOB = Identity("key:bob")


def told(
    role: Role, text: str, calls: tuple[ToolCall, ...] = (), results: tuple[ToolResult, ...] = ()
) -> Message:
    digest = sha256(repr((role, text, calls, results)).encode()).digest()
    return Message(role, text, calls, results, digest)


def user(text: str = "Compare tariffs A and B.") -> Message:
    return told(Role.USER, text)


def said(text: str = "", *calls: ToolCall) -> Message:
    return told(Role.ASSISTANT, text, calls)


def brought(*results: tuple[str, str]) -> Message:
    return told(Role.TOOL, "", (), tuple(ToolResult(call_id, text) for call_id, text in results))


def call(call_id: str, arguments: str = '{"key":"A"}', name: str = "lookup") -> ToolCall:
    return ToolCall(call_id, name, arguments)


def request(*messages: Message, **changes: Any) -> Request:
    return replace(Request("sample", "maple-1", messages, text_size=400, max_output=100), **changes)


class Clock:
    """Time stands still until it is moved."""

    def __init__(self) -> None:
        self.now = NOW

    def __call__(self) -> float:
        return self.now


class Agent:
    """Keeps its history; what the model says is told to it by the test, what the ledger says is kept."""

    def __init__(self, ledger: Ledger, *messages: Message, identity: Identity = ALICE, **labels: Any) -> None:
        self.ledger = ledger
        self.history = [*messages] or [user()]
        self.identity = identity
        self.labels = labels
        self.runs: list[str] = []
        self.run: Run

    async def asks(self, **more: Any) -> Opened:
        """One request with the whole history."""
        asked = request(*self.history)
        opened = await self.ledger.open(self.identity, asked, **self.labels, **more)
        self.run, reserved = await self.ledger.reserve_round(opened.run, asked, Limits())
        assert isinstance(reserved, Reservation)
        self.run = await self.ledger.settle_round(reserved, None)
        self.runs.append(opened.run.id)
        return opened

    async def hears(self, *calls: ToolCall, text: str = "") -> Run:
        """The model's answer with these calls, all released."""
        self.run, reserved = await self.ledger.reserve_calls(self.run, calls, Limits())
        for reservation in reserved:
            assert isinstance(reservation, Reservation)
            self.run = await self.ledger.keep(reservation)
        self.run = await self.ledger.record_calls(self.run, calls, {})
        self.history.append(said(text, *calls))
        return self.run

    async def ends(self, text: str, outcome: Outcome = Outcome.COMPLETED) -> Run:
        """The model's final answer."""
        self.run = await self.ledger.record_answer(self.run, text, outcome)
        self.history.append(said(text))
        return self.run

    def runs_tools(self, *results: tuple[str, str]) -> None:
        self.history.append(brought(*results))

    def says(self, text: str) -> None:
        self.history.append(user(text))
