"""The life of the process: two ports, and an end in which open answers are finished before the door is shut (C036)."""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass

from aiohttp import web

from proxy.admin import Readiness, build_admin
from proxy.config import SettingsFault
from proxy.exchange import Gatekeeper
from proxy.issuer_keys import KeyRing
from proxy.server import FAREWELL_SECONDS, AgentSide, runner_of
from proxy.settings import Settings


@dataclass(frozen=True, slots=True)
class Started:
    """Both ports are open, at these addresses."""

    agents: str
    admin: str


async def serve(  # noqa: PLR0913 (parts of the process, all but two by name)
    settings: Settings,
    gate: Gatekeeper,
    *,
    readiness: Readiness | None = None,
    admin: web.Application | None = None,
    started: Callable[[Started], None] | None = None,
    stop: asyncio.Event | None = None,
    reuse_port: bool = False,
) -> None:
    """Serves agents and the admin port until SIGTERM or SIGINT, or until `stop` where one is given, then drains.

    A second signal ends the drain at once. `started` is called with the addresses once both ports are open. Raises
    SettingsFault where a port cannot be opened.
    """
    readiness = readiness or Readiness()
    hurry = asyncio.Event()
    keys = KeyRing(settings.identity.jwt, time.monotonic)
    side = AgentSide(gate, settings, keys=keys)
    agents = runner_of(side)
    operator = web.AppRunner(admin or build_admin(settings, readiness), access_log=None, shutdown_timeout=1.0)
    try:
        with _signals(hurry) if stop is None else nullcontext(stop) as asked:
            await agents.setup()
            await operator.setup()
            to_operators = await _listen(operator, "admin", settings.admin.host, settings.admin.port)
            to_agents = await _listen(
                agents, "listen", settings.listen.host, settings.listen.port, reuse=reuse_port
            )
            if started is not None:
                started(Started(to_agents, to_operators))
            await asked.wait()
            readiness.draining = True
            await _drain(agents, side, settings.drain_seconds, hurry)
    finally:
        await agents.cleanup()
        await operator.cleanup()
        await keys.close()


async def _listen(runner: web.BaseRunner, name: str, host: str, port: int, *, reuse: bool = False) -> str:
    try:
        await web.TCPSite(runner, host, port, reuse_port=reuse or None).start()
    except OSError as error:
        raise SettingsFault([f"{name}: cannot listen on {host} port {port}: {error.strerror}"]) from None
    address, bound = runner.addresses[0][:2]
    return f"http://[{address}]:{bound}" if ":" in address else f"http://{address}:{bound}"


@contextmanager
def _signals(hurry: asyncio.Event) -> Iterator[asyncio.Event]:
    """An event that the first signal sets; a second one sets `hurry`."""
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()

    def take() -> None:
        (hurry if stop.is_set() else stop).set()

    numbers = (signal.SIGTERM, signal.SIGINT)
    # Only the main thread of a Unix process may take signals; elsewhere the program gives an event of its own.
    with suppress(NotImplementedError, RuntimeError, ValueError):
        for number in numbers:
            loop.add_signal_handler(number, take)
    try:
        yield stop
    finally:
        with suppress(NotImplementedError, RuntimeError, ValueError):
            for number in numbers:
                loop.remove_signal_handler(number)


async def _drain(runner: web.BaseRunner, side: AgentSide, seconds: float, hurry: asyncio.Event) -> None:
    """Lets nobody in, waits for what is open, and cuts off what is still open then.

    Connections that are kept for later are not closed yet: a request may be on its way on one. It is answered, and
    that answer closes the connection.
    """
    side.drain()
    for site in list(runner.sites):
        await site.stop()
    waits = [asyncio.Task(side.quiet()), asyncio.Task(hurry.wait())]
    await asyncio.wait(waits, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
    for wait in waits:
        wait.cancel()
    await asyncio.gather(*waits, return_exceptions=True)
    if side.open_requests:
        side.expire()
        with suppress(TimeoutError):
            async with asyncio.timeout(FAREWELL_SECONDS):
                await side.quiet()
