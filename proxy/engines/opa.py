"""The engine that asks an OPA server, for as many bundles as there are at a time.

The server gets its policies from here (`manage`), below a name of their own (`namespaces.py`), or it has its own and
is only asked. Where it has lost them, after a restart say, they are put there again; until then everything is
refused. What does not answer is spared (`breaker.py`).
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from typing import Any

from proxy.errors import EngineFault

from .breaker import Breaker
from .bundle import Bundle
from .namespaces import namespaced
from .opa_places import OpaPlace
from .opa_wire import OpaClient, OpaServer, Refused, ServerFault

_LOG = logging.getLogger(__name__)
OWN_DECISION = "callgate/main/decision"


class OpaEngines:
    """Engines on one server, with one client and one breaker for all of them."""

    def __init__(
        self,
        server: OpaServer,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        """`wall`: epoch seconds, by which proxies that share a server see what the others still use."""
        self._server = server
        self._client = OpaClient(server)
        self._wall = wall
        self._breaker = Breaker("the OPA server", server.breaker_failures, server.breaker_seconds, clock)
        self._writing = asyncio.Lock()

    @property
    def trouble(self) -> str:
        """Why the server is not asked at the moment; empty: it is."""
        return self._breaker.trouble

    async def start(self, bundle: Bundle) -> OpaEngine:
        """An engine that decides under this bundle, which is then on the server. Raises EngineFault."""
        await self._client.open()
        if not self._server.manage:
            return OpaEngine(self._server, self._client, self._breaker, None)
        space = await asyncio.to_thread(namespaced, bundle)
        place = OpaPlace(self._client, space, self._writing, self._wall)
        engine = OpaEngine(self._server, self._client, self._breaker, place, bundle.revision)
        try:
            await self._patiently(place)
        except BaseException:
            await engine.close()
            raise
        return engine

    async def _patiently(self, place: OpaPlace) -> None:
        """A server beside this process may start later than it."""
        ends = time.monotonic() + self._server.start_wait
        pause = 0.05
        while True:
            try:
                return await place.put()
            except ServerFault as fault:
                if isinstance(fault, Refused) or time.monotonic() + pause > ends:
                    raise place.explained(fault) from None
            await asyncio.sleep(pause)
            pause = min(pause * 2, 1.0)

    async def close(self) -> None:
        """Closes the connections. Engines that are left decide nothing more."""
        await self._client.close_connection()


class OpaEngine:
    """Decides on a server under one bundle. Made by `OpaEngines.start`."""

    def __init__(
        self,
        server: OpaServer,
        client: OpaClient,
        breaker: Breaker,
        place: OpaPlace | None,
        revision: str = "",
    ) -> None:
        """`place`: where on the server its policies are; None: the server has its own."""
        self._server = server
        self._client = client
        self._breaker = breaker
        self._place = place
        self._revision = revision
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._closed = False

    @property
    def revision(self) -> str:
        """Of the policies that it decides under: of the bundle, or what the server said at the last decision."""
        return self._revision

    async def decide(self, document: Mapping[str, object]) -> Mapping[str, object]:
        """The decision document. Raises EngineFault, within the server's time-out."""
        if self._closed:
            raise EngineFault("the policy engine is closed")
        with self._breaker.asking(ServerFault):
            try:
                async with asyncio.timeout(self._server.timeout):
                    decision = await (
                        self._placed(document, self._place) if self._place else self._foreign(document)
                    )
            except TimeoutError:
                said = f"the OPA server did not answer in time ({self._server.timeout:g} s)"
                raise ServerFault(said, code="opa_timeout") from None
            except Refused as refusal:
                raise _told(refusal, self._place) from None
        if not isinstance(decision, dict):
            raise EngineFault("the policy gave no decision: it is not an object")
        return decision

    async def _foreign(self, document: Mapping[str, object]) -> object:
        """By the server's own policies."""
        answer = await self._client.ask(OWN_DECISION, document, provenance=True)
        self._revision = _reported(answer.get("provenance"))
        if "result" not in answer:
            raise ServerFault(
                f"the OPA server has no data.{OWN_DECISION.replace('/', '.')}", code="opa_undefined"
            )
        return answer["result"]

    async def _placed(self, document: Mapping[str, object], place: OpaPlace) -> object:
        """By the policies that were put there."""
        if place.is_renewal_due():
            _ = self._soon("renew", place.renew)
        answer = await self._client.ask(place.decision, document)
        if "result" not in answer:
            # The whole decision is undefined only where something of the bundle is not there.
            _LOG.warning(
                "the OPA server has lost the policies of revision %s; they are put there again",
                self._revision,
            )
            await asyncio.shield(self._soon("put", place.put))
            answer = await self._client.ask(place.decision, document)
        if "result" not in answer:
            raise ServerFault(
                "the OPA server does not keep the policies that are put there", code="opa_undefined"
            )
        return answer["result"]

    def _soon(self, name: str, work: Callable[[], Coroutine[Any, Any, None]]) -> asyncio.Task[None]:
        """The task that does this; one for all who wait, which goes on where they have given up."""
        task = self._tasks.get(name)
        if task is None or task.done():
            task = self._tasks[name] = asyncio.get_running_loop().create_task(work())
            task.add_done_callback(_looked_at)
        return task

    async def close(self) -> None:
        """Takes away from the server what nobody uses any more. Decisions under way fail with EngineFault."""
        self._closed = True
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)
        if self._place is not None:
            with suppress(TimeoutError, EngineFault):
                async with asyncio.timeout(self._server.write_wait):
                    await self._place.leave()


def _looked_at(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        _LOG.error("policies could not be put on the OPA server: %s", error)


def _told(refusal: Refused, place: OpaPlace | None) -> EngineFault:
    """A rule that fails is no fault of the server, and is told with its place."""
    if not any(said.code.startswith("eval_") and said.code != "eval_cancel_error" for said in refusal.errors):
        return refusal
    return EngineFault(place.told(refusal) if place else refusal.message)


def _reported(provenance: Any) -> str:
    """What the server says about the revision of its bundles."""
    bundles = provenance.get("bundles") if isinstance(provenance, dict) else None
    if not isinstance(bundles, dict):
        return "not reported"
    said = sorted(
        f"{name}:{bundle.get('revision', '')}" for name, bundle in bundles.items() if isinstance(bundle, dict)
    )
    return ",".join(said)[:256] or "not reported"
