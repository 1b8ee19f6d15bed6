"""What `serve` says at its start and `check` says at its end: what is guarded, where to point an agent, what holds."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from .dialects import DIALECTS
from .engines import open_policies
from .errors import EngineFault
from .issuer_keys import KeyRing
from .provider_settings import setting_name

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .dialects import Dialect
    from .engines import Policies
    from .serving import Started
    from .settings import Settings

STARTER = "starter: every tool that an agent declares passes unless rules restrict it; brakes, limits and records are on"
STRICT = "strict: only tools that rules list may be called"

PROFILES = {"starter": STARTER, "strict": STRICT, "server": "what the policies of the OPA server say"}


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
        base = settings.upstream.provider(dialect.name).base_url
        first, *more = (f"{route.method} {route.path}" for route in dialect.routes if route.guarded)
        also = f" and {len(more)} more" if more else ""
        yield f"{dialect.name}: base URL {url}{_behind(dialect, base)} -> {base or dialect.base_url}   ({first}{also})"
    for name, provider in settings.upstream.named.items():
        dialect = next(
            each for each in DIALECTS if setting_name(each.name) == setting_name(provider.dialect or "")
        )
        base = provider.base_url
        models = f", also for models {', '.join(provider.models)}" if provider.models else ""
        yield (
            f"{name}: base URL {url}/{name}{_behind(dialect, base)} -> {base or dialect.base_url}   "
            f"({dialect.name}{models})"
        )


def _behind(dialect: Dialect, base: str | None) -> str:
    """What the agent's base URL has behind Callgate's: what the SDK is used to, unless the provider has another path."""
    path = (base or dialect.base_url).partition("://")[2].partition("/")[2]
    usual = dialect.sdk_base_path
    return usual if not path or f"/{path}".endswith(usual) else ""


def _in_force(settings: Settings, policies: Policies) -> Iterator[str]:
    what = policies.describe()
    yield f"policy    revision {what.revision[:12]}, {len(what.packages)} packages, layers: {', '.join(what.layers) or 'org'}"
    yield from _sources(policies)
    if settings.policy.opa_server is not None:
        yield f"engine    OPA server at {settings.policy.opa.url}"
    if settings.policy.in_shadow is not None:
        yield "shadow    a second set of policies is recorded where it differs (policy.shadow)"
    yield f"profile   {PROFILES[what.profile]}"
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


def _sources(policies: Policies) -> Iterator[str]:
    origins = policies.origins
    if origins is None or not origins.titles:
        return
    yield f"from      {', '.join(origins.titles)}"
    if origins.source is not None and origins.loaded is not None:
        revision = origins.loaded.revision or "not said"
        etag = f", ETag {origins.etag}" if origins.etag else ""
        kept = "; the server could not be reached: the kept one is in force" if origins.is_cached else ""
        yield f"          bundle: its maker's revision {revision}{etag}{kept}"


def _said(limit: float | None) -> str:
    return "unlimited" if limit is None else f"{limit:g}"


async def examined(settings: Settings) -> tuple[list[str], str]:
    """Loads the policies and lets them decide samples, without serving: the faults found, and what would hold."""
    try:
        policies = await open_policies(settings.policy)
        if (in_shadow := settings.policy.in_shadow) is not None:
            try:
                await (await open_policies(in_shadow)).close()
            except EngineFault:
                await policies.close()
                raise
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
    async with KeyRing(settings.identity.jwt, time.monotonic) as keys:
        # An issuer may be down for a moment: that is no fault of the settings.
        said += [f"          {problem}" for problem in await keys.check()]
    return [], "\n".join(said)
