"""What `serve` says at its start and `check` says at its end: what is guarded, where to point an agent, what holds."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .dialects import DIALECTS
from .engines import open_policies
from .errors import EngineFault

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .engines import Policies
    from .serving import Started
    from .settings import Settings

STARTER = "starter: every tool that an agent declares passes unless rules restrict it; brakes, limits and records are on"
STRICT = "strict: only tools that rules list may be called"


def lines(settings: Settings, policies: Policies, at: Started) -> str:
    """The report of a Callgate that serves."""
    return "\n".join(
        [
            f"Callgate guards agents at {at.agents}",
            *(f"  {line}" for line in _base_urls(settings, at.agents)),
            f"admin     {at.admin} (health{', operator' if settings.admin.token.get_secret_value() else ' only: admin.token is not set'})",
            *_in_force(settings, policies),
        ]
    )


def _base_urls(settings: Settings, url: str) -> Iterator[str]:
    for dialect in DIALECTS:
        provider = settings.upstream.provider(dialect.name).base_url or dialect.base_url
        paths = ", ".join(f"{route.method} {route.path}" for route in dialect.routes if route.guarded)
        yield f"{dialect.name}: base URL {url}{dialect.sdk_base_path} -> {provider}   ({paths})"


def _in_force(settings: Settings, policies: Policies) -> Iterator[str]:
    what = policies.describe()
    yield f"policy    revision {what.revision[:12]}, {len(what.packages)} packages, layers: {', '.join(what.layers) or 'org'}"
    yield f"profile   {STARTER if what.profile == 'starter' else STRICT}"
    if what.tools:
        yield f"rules     for the tools {', '.join(what.tools)}"
    for warning in what.warnings:
        yield f"          {warning}"
    turn = settings.limits.turn
    yield f"limits    per turn {_said(turn.rounds)} rounds, {_said(turn.calls)} calls, {_said(turn.seconds)} seconds"
    modes = [f"{name} {mode}" for name, mode in sorted(settings.checks.modes.items())]
    if modes:
        yield f"checks    not as usual: {', '.join(modes)}"
    if settings.faults.engine == "open":
        yield "checks    a policy engine that fails lets everything pass (faults.engine: open)"
    yield f"identity  {len(settings.identity.api_keys)} keys, callers without one: {settings.identity.anonymous}"
    yield f"audit     {settings.audit.path or 'off (audit.path is not set)'}"


def _said(limit: float | None) -> str:
    return "unlimited" if limit is None else f"{limit:g}"


async def examined(settings: Settings) -> tuple[list[str], str]:
    """Loads the policies and lets them decide samples, without serving: the faults found, and what would hold."""
    try:
        policies = await open_policies(settings.policy)
    except EngineFault as fault:
        return str(fault).splitlines(), "Settings are well; policies are not:"
    try:
        where = f"http://{settings.listen.host}:{settings.listen.port}"
        said = [
            "Settings and policies are well.",
            *_base_urls(settings, where),
            *_in_force(settings, policies),
        ]
    finally:
        await policies.close()
    return [], "\n".join(said)
