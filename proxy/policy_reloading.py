"""Newer policies in a Callgate that serves: by signal, by an operator's word, or since what they are read from has changed.

Whatever the occasion, what came of it is in readiness, the metrics and the log. What changes on a disk is put in force
once it is the same at two looks: a file may be half written. A server is asked more and more rarely while it fails.
"""

from __future__ import annotations

import asyncio
import logging
import signal
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Protocol

from .errors import EngineFault

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from .admin import Readiness
    from .engines import Policies
    from .engines.origins import Seen
    from .policy_settings import Policy

NOTE = "policy"
SERVER_NOTE = "policy_bundle"
SHADOW_NOTE = "policy_shadow"
LONGEST_PAUSE = 600.0
"""Seconds between two questions to a server that fails, unless it is asked more rarely anyway."""
_MOST_DOUBLINGS = 10

log = logging.getLogger("callgate.policies")


class Figures(Protocol):
    """Where it is counted."""

    def policies_reloaded(self, result: str, revision: str) -> None:
        """`result`: loaded, unchanged, refused or unreachable; `revision`: of the policies in force after it."""


class Reloading:
    """Puts newer policies in force and says so."""

    def __init__(  # noqa: PLR0913, PLR0917 - the parts that it joins
        self,
        policies: Policies,
        settings: Policy,
        readiness: Readiness,
        figures: Figures,
        clock: Callable[[], float],
        jitter: Callable[[], float],
        beside: Policies | None = None,
    ) -> None:
        """`clock` gives epoch seconds; `jitter` numbers from 0 to below 1, that replicas do not ask all at once; `beside`
        are policies that are tried out: they are read anew when somebody says so."""
        self._beside = beside
        self.policies = policies
        self._settings = settings
        self._readiness = readiness
        self._figures = figures
        self._clock = clock
        self._jitter = jitter
        self._asks = bool(settings.bundle.url)
        self._poll_at = clock() + self._pause(0)
        self._failures = 0
        self._before: str | None = None
        self.since = clock()
        """When the policies in force were put in force, in epoch seconds."""
        self.fetched_at = clock()
        """When the server was last heard, in epoch seconds."""
        figures.policies_reloaded("loaded", policies.revision)
        if policies.origins is not None and policies.origins.is_cached:
            self._note(
                SERVER_NOTE, "the server of the bundle could not be reached: the kept bundle is in force"
            )

    async def reload(self, seen: Seen | None = None) -> bool:
        """Puts in force what was seen, or by default what is there now, the server asked: whether it could be."""
        before, well = self.policies.revision, False
        with suppress(EngineFault):
            await self.policies.reload(seen)
            well = True
        result = "refused"
        if well:
            result = "unchanged" if self.policies.revision == before else "loaded"
        if result == "loaded":
            self.since = self._clock()
            log.info("policies: revision %s is in force", self.policies.revision[:12])
        self._note(NOTE, self.policies.problem)
        if self._beside is not None and seen is None:
            with suppress(EngineFault):
                await self._beside.reload()
            self._note(SHADOW_NOTE, self._beside.problem)
        self._figures.policies_reloaded(result, self.policies.revision)
        return well

    async def look(self) -> None:
        """One look at everything that is due now."""
        origins = self.policies.origins
        if origins is None:
            return
        if self._asks and self._clock() >= self._poll_at and await self._polled():
            await self.reload(await origins.look())
            return
        if not self._settings.watch_seconds:
            return
        seen = await origins.look()
        is_new = origins.loaded is None or seen.digest != origins.loaded.digest
        if is_new and seen.digest == self._before:
            await self.reload(seen)
        self._before = seen.digest

    async def _polled(self) -> bool:
        """Asks the server: whether it has something else than before."""
        origins = self.policies.origins
        try:
            changed = origins is not None and await origins.fetch()
        except EngineFault as fault:
            self._failures += 1
            self._poll_at = self._clock() + self._pause(self._failures)
            log.warning("policies: %s; those of before stay in force", fault.message)
            self._note(SERVER_NOTE, fault.message)
            self._figures.policies_reloaded("unreachable", self.policies.revision)
            return False
        self._failures = 0
        self.fetched_at = self._clock()
        self._poll_at = self._clock() + self._pause(0)
        self._note(SERVER_NOTE, "")
        return changed

    def _pause(self, failures: int) -> float:
        usual = self._settings.bundle.poll_seconds
        longest = max(usual, LONGEST_PAUSE)
        grown = usual * 2 ** min(max(failures - 1, 0), _MOST_DOUBLINGS)
        return float(min(grown, longest) * (0.75 + self._jitter() / 2))

    @property
    def pause(self) -> float | None:
        """Seconds until something is due; None: nothing ever is."""
        watch = self._settings.watch_seconds or None
        poll = max(0.0, self._poll_at - self._clock()) if self._asks else None
        return min((each for each in (watch, poll) if each is not None), default=None)

    async def watch(self) -> None:
        """Looks again and again, until it is cancelled."""
        while self.policies.origins is not None and (pause := self.pause) is not None:
            await asyncio.sleep(pause)
            try:
                await self.look()
            except Exception:
                # Whatever went wrong in looking, what is in force goes on deciding.
                log.exception("policies could not be looked for; those of before stay in force")

    def _note(self, name: str, text: str) -> None:
        if text:
            self._readiness.notes[name] = text
        else:
            self._readiness.notes.pop(name, None)

    @contextmanager
    def running(self, tasks: asyncio.TaskGroup) -> Iterator[None]:
        """While the block lasts, SIGHUP reads the policies anew, and what changes is put in force."""
        loop = asyncio.get_running_loop()
        number = getattr(signal, "SIGHUP", None)
        watching = tasks.create_task(self.watch())
        if number is not None:
            loop.add_signal_handler(number, lambda: tasks.create_task(self.reload()))
        try:
            yield
        finally:
            watching.cancel()
            if number is not None:
                loop.remove_signal_handler(number)
