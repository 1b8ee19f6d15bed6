"""Policies as everybody else sees them: which are in force, and how newer ones take their place.

Laws:
1. Newer policies are put in force all or nothing: they are loaded beside the old ones, have to decide samples, and only
   then take over.
2. A turn is decided to its end by the policies that were in force when it began (`hold`). An engine is closed when the
   last turn has let go of it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Protocol

from proxy.errors import EngineFault

from .asking import Question, answered, decided
from .bundle import Bundle
from .decision import read_decision
from .fetching import BundleSource
from .findings import LintFault
from .kinds import FOREIGN, Engines, engines_of
from .opa_wire import OpaServer
from .origins import Origins, Seen
from .samples import sample_inputs

if TYPE_CHECKING:
    from proxy.core.messages import Request, ToolCall, Turn
    from proxy.core.runs import Identity, Run
    from proxy.core.verdicts import Decision

    from . import Engine

_LOG = logging.getLogger(__name__)


class PolicySettings(Protocol):
    """What is configured about policies."""

    @property
    def folders(self) -> Sequence[Path]:
        """Folders with policies, beside the shipped ones."""

    @property
    def bundle_source(self) -> BundleSource | None:
        """Where a bundle file is; None: there is none."""

    @property
    def data(self) -> Path | None:
        """A file with rule data."""

    @property
    def profile(self) -> Literal["starter", "strict"]:
        """What holds where nothing is said. The strictest of this and the rule data counts."""

    @property
    def deadline_seconds(self) -> float:
        """The longest that a decision may take."""

    @property
    def workers(self) -> int:
        """Engine workers."""

    @property
    def opa_server(self) -> OpaServer | None:
        """The OPA server that decides; None: the embedded engine does."""


@dataclass(frozen=True, slots=True)
class Description:
    """What is in force, for people."""

    revision: str
    profile: str
    layers: tuple[str, ...]
    packages: tuple[str, ...]
    tools: tuple[str, ...]
    """The tools that rule data describes."""
    warnings: tuple[LintFault, ...]


async def open_policies(settings: PolicySettings, wrap: Callable[[Engine], Engine] | None = None) -> Policies:
    """Loads the configured policies into the configured engine. `wrap` puts something around it, e.g. a watch.

    Raises EngineFault, with every reason and its place.
    """
    engines = engines_of(settings.opa_server, settings.workers, settings.deadline_seconds)
    origins = _origins(settings)

    async def start(bundle: Bundle) -> Engine:
        engine = await engines.start(bundle)
        return wrap(engine) if wrap is not None else engine

    try:
        if origins is None:
            return Policies(await _proven(start, FOREIGN), FOREIGN, start=start, engines=engines)
        await origins.fetch_first()
        bundle = await origins.bundle()
        engine = await _proven(start, bundle)
        await origins.keep()
        return Policies(engine, bundle, origins=origins, start=start, engines=engines)
    except BaseException:
        await engines.close()
        raise


def _origins(settings: PolicySettings) -> Origins | None:
    if settings.opa_server is not None and not settings.opa_server.manage:
        return None
    return Origins(settings.folders, settings.data, settings.bundle_source, {"profile": settings.profile})


async def _proven(start: Callable[[Bundle], Awaitable[Engine]], bundle: Bundle) -> Engine:
    """An engine that has loaded these policies and decided samples under them. Raises EngineFault."""
    engine = await start(bundle)
    try:
        for sample in sample_inputs(bundle):
            read_decision(await engine.decide(sample), bundle.revision)
    except BaseException:
        await engine.close()
        raise
    return engine


@dataclass(eq=False, slots=True)
class _Edition:
    """One bundle in its engine, and how many turns are decided by it."""

    engine: Engine
    bundle: Bundle
    holders: int = 0
    retired: bool = False


class Held:
    """The policies that were in force when a turn began: they decide it to its end. Let go of them however it ends."""

    def __init__(self, edition: _Edition, let_go: Callable[[], None]) -> None:
        """Use `Policies.hold`. `let_go` is called once."""
        self._edition = edition
        self._let_go: Callable[[], None] | None = let_go

    @property
    def revision(self) -> str:
        """Of these policies."""
        return self._edition.engine.revision

    async def decide(  # noqa: PLR0913 - the facts of one decision
        self,
        phase: str,
        identity: Identity,
        request: Request,
        run: Run,
        calls: Sequence[ToolCall] = (),
        parsed: Sequence[Mapping[str, object] | None] = (),
        *,
        now: float,
        answer: Turn | None = None,
        heard: Callable[[Mapping[str, object]], None] | None = None,
    ) -> Decision:
        """What policy says in this phase (`request`, `calls`, `answer`). Never raises: a fault is a decision too.

        `now` is in epoch seconds; `parsed` holds the calls' arguments as strictly read objects, or None; `heard` gets the
        input document.
        """
        question = Question(phase, identity, request, run, now, calls, parsed, answer, heard)
        return await decided(self._edition.engine, self._edition.bundle, question)

    async def decide_again(self, document: Mapping[str, object]) -> Decision:
        """What policy says of an input document that was kept. Never raises."""
        return await answered(self._edition.engine, document, str(document.get("phase", "")))

    def judges_answers(self, identity: Identity) -> bool:
        """Whether these policies have to be asked about this caller's final answers."""
        return self._edition.bundle.judges_answers(identity.team, identity.agent)

    def let_go(self) -> None:
        """The turn is over. A second time does nothing."""
        let_go, self._let_go = self._let_go, None
        if let_go is not None:
            let_go()


class Policies:
    """The policies in force."""

    def __init__(
        self,
        engine: Engine,
        bundle: Bundle,
        *,
        origins: Origins | None = None,
        start: Callable[[Bundle], Awaitable[Engine]] | None = None,
        engines: Engines | None = None,
    ) -> None:
        """`origins` is where the policies came from, `start` gives an engine with newer ones, or raises EngineFault.
        Without them nothing is reloaded. `engines`: where engines come from, closed with the last of them."""
        self._edition = _Edition(engine, bundle)
        self.origins = origins
        self._start = start
        self._engines = engines
        self._reloading = asyncio.Lock()
        self._retired: set[_Edition] = set()
        self._closing: set[asyncio.Task[None]] = set()
        self._problem = ""

    @property
    def revision(self) -> str:
        """Of the policies in force."""
        return self._edition.engine.revision

    @property
    def bundle(self) -> Bundle:
        """Those in force, as they were loaded."""
        return self._edition.bundle

    @property
    def problem(self) -> str:
        """Why newer policies were not put in force; empty: there is nothing of the kind."""
        return self._problem

    @property
    def trouble(self) -> str:
        """Why nothing can be decided at the moment; empty: nothing is known against it."""
        return self._engines.trouble if self._engines is not None else ""

    def describe(self) -> Description:
        """What is in force."""
        bundle = self._edition.bundle
        rules = bundle.data["rules"]
        parts = [rules["org"], *rules["teams"].values(), *rules["agents"].values()]
        return Description(
            revision=self.revision,
            profile=rules["profile"],
            layers=bundle.layers,
            packages=bundle.packages,
            tools=tuple(sorted({name for part in parts for name in part.get("tools", {})})),
            warnings=bundle.warnings,
        )

    def hold(self) -> Held:
        """The policies in force, for a turn that begins now."""
        edition = self._edition
        edition.holders += 1

        def let_go() -> None:
            edition.holders -= 1
            self._close_unused(edition)

        return Held(edition, let_go)

    async def reload(self, newer: Bundle | Seen | None = None) -> None:
        """Puts newer policies in force: these, those that were seen, or by default those that are now where the policies
        came from.

        Raises EngineFault and keeps the old ones where they do not load or do not decide; `problem` then says why.
        """
        async with self._reloading:
            try:
                bundle = newer if isinstance(newer, Bundle) else await self._read(newer)
                if bundle.revision == self._edition.bundle.revision:
                    self._edition.bundle = bundle
                elif self._start is not None:
                    self._swap(_Edition(await _proven(self._start, bundle), bundle))
                if self.origins is not None:
                    await self.origins.keep()
            except EngineFault as fault:
                if fault.message != self._problem:
                    _LOG.error("newer policies are refused, those of before stay in force: %s", fault.message)
                self._problem = fault.message
                raise
            self._problem = ""

    async def _read(self, seen: Seen | None) -> Bundle:
        if self.origins is None:
            return self._edition.bundle
        if seen is None:
            await self.origins.fetch()
        return await self.origins.bundle(seen)

    def _swap(self, newer: _Edition) -> None:
        old, self._edition = self._edition, newer
        old.retired = True
        self._retired.add(old)
        self._close_unused(old)

    def _close_unused(self, edition: _Edition) -> None:
        if edition.retired and not edition.holders and edition in self._retired:
            self._retired.discard(edition)
            closing = asyncio.get_running_loop().create_task(edition.engine.close())
            self._closing.add(closing)
            closing.add_done_callback(self._closing.discard)

    async def close(self) -> None:
        """Ends all engines. Decisions under way are refusals."""
        left, self._retired = self._retired, set()
        await asyncio.gather(*(edition.engine.close() for edition in (self._edition, *left)), *self._closing)
        if self._engines is not None:
            await self._engines.close()
