"""One question to an engine, from our own words to a decision in them. Never raises.

Whatever breaks on the way (input, engine, output) is a decision that refuses, with the fault in it; the rule and its
place go to the log, for the people who can mend it.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING

from proxy.core.limits import Brakes, Limits
from proxy.core.verdicts import Decision
from proxy.errors import EngineFault

from .decision import read_decision
from .document import build_input

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from proxy.core.messages import Request, ToolCall, Turn
    from proxy.core.runs import Identity, Run

    from . import Engine
    from .bundle import Bundle

_LOG = logging.getLogger(__name__)
_NO_LIMITS = Limits(brakes=Brakes(None, None, None, None, None, None, None))


@dataclass(frozen=True, slots=True)
class Question:
    """The facts of one decision."""

    phase: str
    """`request`, `calls` or `answer`."""
    identity: Identity
    request: Request
    run: Run
    now: float
    """Epoch seconds."""
    calls: Sequence[ToolCall] = ()
    parsed: Sequence[Mapping[str, object] | None] = ()
    """The calls' arguments as strictly read objects; None where they are none."""
    answer: Turn | None = None
    heard: Callable[[Mapping[str, object]], None] | None = None
    """Gets the input document as the policies are asked it."""


async def decided(engine: Engine, bundle: Bundle, question: Question) -> Decision:
    """What the policies of this bundle, which the engine has loaded, say."""
    phase, identity = question.phase, question.identity
    revision = engine.revision
    try:
        document = build_input(
            phase,
            identity,
            question.request,
            question.run,
            question.calls,
            question.parsed,
            now=question.now,
            answer=question.answer,
            # Whoever else gets the document may read results though these policies do not.
            with_results=question.heard is not None or bundle.reads_results(identity.team, identity.agent),
        )
    except EngineFault as fault:
        return _refusal(fault.message, revision, phase, unjudged=True)
    if question.heard is not None:
        question.heard(document)
    return await answered(engine, document, phase)


async def answered(engine: Engine, document: Mapping[str, object], phase: str) -> Decision:
    """What the policies that the engine has loaded say of an input document of this phase."""
    revision = engine.revision
    try:
        said = await engine.decide(document)
        # An engine whose policies are elsewhere knows only now which ones they were.
        return read_decision(said, engine.revision)
    except EngineFault as fault:
        return _refusal(fault.message, revision, phase)
    except Exception as error:  # noqa: BLE001 - a mistake of ours is a refusal too
        _LOG.exception("a policy decision broke off")
        return _refusal(f"a policy decision broke off ({type(error).__name__})", revision, phase)


def _refusal(fault: str, revision: str, phase: str, *, unjudged: bool = False) -> Decision:
    # What a caller or a model can bring about is no error of this system.
    _LOG.log(
        logging.WARNING if unjudged else logging.ERROR, "no policy decision in phase %s: %s", phase, fault
    )
    return Decision(limits=_NO_LIMITS, revision=revision, fault=fault or "unknown fault", unjudged=unjudged)
