"""Policies as everybody else sees them: asked with our own words, they answer with a decision and never raise.

Whatever breaks on the way (input, engine, output) is a decision that refuses, with the fault in it; the rule and its
place go to the log, for the people who can mend it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Protocol

from proxy.core.limits import Brakes, Limits
from proxy.core.verdicts import Decision
from proxy.errors import EngineFault

from .bundle import Bundle, load_bundle
from .decision import read_decision
from .document import build_input
from .embedded import EmbeddedEngine, EmbeddedSettings
from .findings import LintFault

if TYPE_CHECKING:
    from proxy.core.messages import Request, ToolCall, Turn
    from proxy.core.runs import Identity, Run

    from . import Engine

_LOG = logging.getLogger(__name__)
_NO_LIMITS = Limits(brakes=Brakes(None, None, None, None, None, None, None))


class PolicySettings(Protocol):
    """What is configured about policies."""

    @property
    def folders(self) -> Sequence[Path]:
        """Folders with policies, beside the shipped ones."""

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
    """Loads the configured policies into the embedded engine. `wrap` puts something around it, e.g. a watch.

    Raises EngineFault, with every reason and its place.
    """

    def load() -> Bundle:
        files = [settings.data] if settings.data is not None else []
        return load_bundle(settings.folders, files, {"profile": settings.profile})

    bundle = load()
    bounds = EmbeddedSettings(workers=settings.workers, deadline=settings.deadline_seconds)
    engine = await EmbeddedEngine.start(bundle, bounds)
    return Policies(wrap(engine) if wrap is not None else engine, bundle, load=load, put=engine.reload)


class Policies:
    """The policies in force."""

    def __init__(
        self,
        engine: Engine,
        bundle: Bundle,
        *,
        load: Callable[[], Bundle] | None = None,
        put: Callable[[Bundle], Awaitable[None]] | None = None,
    ) -> None:
        """`load` reads the policies anew from where they came, `put` puts others in force, all or nothing; both raise
        EngineFault. Without them nothing is reloaded."""
        self._engine = engine
        self._bundle = bundle
        self._load = load
        self._put = put
        self._problem = ""

    @property
    def revision(self) -> str:
        """Of the policies in force."""
        return self._engine.revision

    @property
    def problem(self) -> str:
        """Why newer policies were not put in force; empty: there is nothing of the kind."""
        return self._problem

    def describe(self) -> Description:
        """What is in force."""
        rules = self._bundle.data["rules"]
        parts = [rules["org"], *rules["teams"].values(), *rules["agents"].values()]
        return Description(
            revision=self.revision,
            profile=rules["profile"],
            layers=self._bundle.layers,
            packages=self._bundle.packages,
            tools=tuple(sorted({name for part in parts for name in part.get("tools", {})})),
            warnings=self._bundle.warnings,
        )

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
    ) -> Decision:
        """What policy says in this phase (`request`, `calls`, `answer`). Never raises: a fault is a decision too.

        `now` is in epoch seconds; `parsed` holds the calls' arguments as strictly read objects, or None.
        """
        revision = self._engine.revision
        try:
            document = build_input(
                phase,
                identity,
                request,
                run,
                calls,
                parsed,
                now=now,
                answer=answer,
                with_results=self._bundle.reads_results(identity.team, identity.agent),
            )
        except EngineFault as fault:
            return _refusal(fault.message, revision, phase, unjudged=True)
        try:
            return read_decision(await self._engine.decide(document), revision)
        except EngineFault as fault:
            return _refusal(fault.message, revision, phase)
        except Exception as error:  # noqa: BLE001 - a mistake of ours is a refusal too
            _LOG.exception("a policy decision broke off")
            return _refusal(f"a policy decision broke off ({type(error).__name__})", revision, phase)

    async def reload(self, bundle: Bundle | None = None) -> None:
        """Puts newer policies in force, by default those that are now where the policies came from.

        Raises EngineFault and keeps the old ones where they do not load or do not decide; `problem` then says why.
        """
        try:
            newer = bundle or self._bundle
            if bundle is None and self._load is not None:
                newer = await asyncio.to_thread(self._load)
            if self._put is not None and newer.revision != self._engine.revision:
                await self._put(newer)
        except EngineFault as fault:
            self._problem = fault.message
            _LOG.error("newer policies are refused, those of before stay in force: %s", fault.message)
            raise
        self._bundle = newer
        self._problem = ""

    async def close(self) -> None:
        """Ends the engine."""
        await self._engine.close()


def _refusal(fault: str, revision: str, phase: str, *, unjudged: bool = False) -> Decision:
    # What a caller or a model can bring about is no error of this system.
    _LOG.log(
        logging.WARNING if unjudged else logging.ERROR, "no policy decision in phase %s: %s", phase, fault
    )
    return Decision(limits=_NO_LIMITS, revision=revision, fault=fault or "unknown fault", unjudged=unjudged)
