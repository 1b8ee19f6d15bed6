"""Puts the parts together: from settings to a gate that serves, and takes them apart again."""

from __future__ import annotations

import asyncio
import random
import time
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .admin import Readiness, build_admin
from .approval_routes import approval_routes
from .approval_webhook import ApprovalWebhook
from .approving import Approvals
from .audit import AuditJournal
from .engines import open_policies
from .gate import Gate
from .judging import Parts
from .ledger import Ledger
from .policy_reloading import Reloading
from .policy_routes import policy_routes
from .policy_shadow import PolicyShadow
from .prices import PriceList
from .redaction import Redactor
from .serving import serve
from .stores.approvals import MemoryApprovals
from .stores.memory import MemoryStore
from .telemetry import Telemetry
from .timed import TimedEngine, TimedStore
from .upstream import PooledUpstream

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from aiohttp import web

    from .engines import Policies
    from .serving import Started
    from .settings import Settings


@asynccontextmanager
async def parts_of(
    settings: Settings,
    *,
    clock: Callable[[], float] = time.time,
    telemetry: Telemetry | None = None,
    policies: Policies | None = None,
) -> AsyncIterator[Parts]:
    """Opens what a gate is made of; what was opened is closed in the opposite order, also when opening fails.

    `policies` that are given are used instead of the configured ones, and stay open. Raises EngineFault (policies),
    OSError (the audit file).
    """
    async with AsyncExitStack() as stack:
        audit = AuditJournal.from_settings(settings.audit)
        stack.push_async_callback(audit.close)
        if telemetry is None:
            telemetry = Telemetry.from_environment(
                settings.telemetry, redactor=Redactor(settings.audit.redact)
            )
        stack.push_async_callback(telemetry.close)
        memory = MemoryStore(settings.state.max_runs, settings.state.run_ttl_seconds, clock)
        store = TimedStore(memory, telemetry.store_answered)
        stack.push_async_callback(store.close)
        upstream = PooledUpstream(settings.upstream)
        stack.push_async_callback(upstream.close)
        approvals = _approvals(settings, clock, audit, telemetry, stack)
        if policies is None:
            watch = telemetry.engine_decided
            policies = await open_policies(settings.policy, lambda engine: TimedEngine(engine, watch))
            stack.push_async_callback(policies.close)
        shadow = None
        if (in_shadow := settings.policy.in_shadow) is not None:
            shadow = PolicyShadow(await open_policies(in_shadow), audit, telemetry.shadow_decided)
            stack.push_async_callback(shadow.close)
        yield Parts(
            settings,
            policies,
            Ledger(store, clock),
            PriceList(settings.prices),
            upstream,
            telemetry,
            audit,
            clock,
            approvals,
            shadow,
        )


def _approvals(
    settings: Settings,
    clock: Callable[[], float],
    audit: AuditJournal,
    telemetry: Telemetry,
    stack: AsyncExitStack,
) -> Approvals:
    said = settings.approvals
    book = MemoryApprovals(said.max_waiting, said.max_waiting_per_caller)
    stack.push_async_callback(book.close)
    webhook = ApprovalWebhook(said.webhook, Redactor(settings.audit.redact), clock)
    stack.push_async_callback(webhook.close)
    return Approvals(said, book, clock, audit, webhook.tell, telemetry.approval_stands)


def admin_of(settings: Settings, readiness: Readiness, parts: Parts, reloading: Reloading) -> web.Application:
    """The operator's port over these parts."""
    readiness.watched["engine"] = lambda: parts.policies.trouble
    approvals = approval_routes(parts.approvals, Redactor(settings.audit.redact))
    return build_admin(settings, readiness, [*approvals, *policy_routes(reloading)])


def reloading_of(readiness: Readiness, parts: Parts) -> Reloading:
    """What puts newer policies in force."""
    return Reloading(
        parts.policies,
        parts.settings.policy,
        readiness,
        parts.telemetry,
        parts.clock,
        random.random,
        parts.shadow.policies if parts.shadow is not None else None,
    )


@dataclass(frozen=True, slots=True)
class Running:
    """A Callgate that serves."""

    url: str
    """Where agents point their base URL."""
    admin_url: str
    parts: Parts

    @property
    def policies(self) -> Policies:
        """What is enforced."""
        return self.parts.policies

    async def flush_audit(self) -> None:
        """Waits until all audit records so far are written."""
        await self.parts.audit.flush()


@asynccontextmanager
async def running(
    settings: Settings,
    *,
    clock: Callable[[], float] = time.time,
    telemetry: Telemetry | None = None,
    policies: Policies | None = None,
) -> AsyncIterator[Running]:
    """Serves in this process and event loop until the block is left (for the demo, tests, and programs of others).

    The parameters are those of `parts_of`.
    """
    async with parts_of(settings, clock=clock, telemetry=telemetry, policies=policies) as parts:
        loop = asyncio.get_running_loop()
        begun: asyncio.Future[Started] = loop.create_future()
        stop = asyncio.Event()
        readiness = Readiness()
        admin = admin_of(settings, readiness, parts, reloading_of(readiness, parts))
        serving = loop.create_task(
            serve(
                settings, Gate(parts), readiness=readiness, admin=admin, started=begun.set_result, stop=stop
            )
        )
        try:
            both: list[asyncio.Future[Any]] = [serving, begun]
            await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
            if serving.done():
                await serving
            started = begun.result()
            yield Running(started.agents, started.admin, parts)
        finally:
            stop.set()
            with suppress(asyncio.CancelledError):
                await serving
