"""What passes between the server and the gate: one request with its caller, one reply."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Protocol

from multidict import MultiMapping

from proxy.core.messages import Problem
from proxy.dialects import Dialect, Route
from proxy.identity import Caller
from proxy.provider_settings import setting_name


@dataclass(frozen=True, slots=True)
class Incoming:
    """One request of an agent, whole, its path canonical and its caller known."""

    dialect: Dialect
    method: str
    path: str
    """Canonical path, with the query as it was received: what is appended to the upstream's base URL."""
    headers: MultiMapping[str]
    """As received; only the content coding that the server undid is taken out."""
    body: bytes
    caller: Caller
    peer: str
    """Address of the other end of the connection; empty where there is none."""
    named: str = ""
    """Name of the provider that the path or the model chose; empty: the dialect's own."""

    @property
    def provider(self) -> str:
        """Where it goes, by the name in the settings."""
        return self.named or setting_name(self.dialect.name)


@dataclass(slots=True)
class Reply:
    """What the agent gets. A streamed body consists of whole frames; whoever stops reading it closes it."""

    status: int
    headers: list[tuple[str, str]]
    body: bytes | AsyncIterator[bytes]
    cut_off: Callable[[Problem], bytes] | None = None
    """What ends the streamed body where it cannot go on; None: nothing can be said in it, so it breaks off."""


class Gatekeeper(Protocol):
    """The other side of the server. Cancelled, or its stream closed, it stops the upstream at once and settles."""

    async def reply(self, incoming: Incoming) -> Reply:
        """Answers a guarded request. Raises only the four faults."""

    async def kept(self, incoming: Incoming, answer_id: str, route: Route) -> Reply:
        """Answers a request about an answer that the provider keeps (decoded id; empty: the route has none)."""

    async def pass_through(self, incoming: Incoming) -> Reply:
        """Lets an unguarded request through. Raises only the four faults."""


def problem_reply(dialect: Dialect, problem: Problem) -> Reply:
    """An error in the dialect's own shape. What cannot get better is not retried by the official SDKs (C015)."""
    headers = [("content-type", "application/json")]
    if not problem.retryable:
        headers.append(("x-should-retry", "false"))
    return Reply(problem.status, headers, dialect.render_problem(problem))
