"""`callgate bench`."""

from __future__ import annotations

from typing import Annotated

import typer

from proxy.config import SettingsFault
from proxy.engine_bench import AT_ONCE, Figures, measured, table_of
from proxy.errors import Fault
from proxy.policy_settings import Policy
from proxy.terminal import FOUND_WRONG, ConfigFile, out, run_loop, settings_from, stop

_MOST = 1_000_000


def bench(
    decisions: Annotated[
        int, typer.Option(min=1, max=_MOST, help="Decisions an engine and number at once.")
    ] = 2000,
    opa: Annotated[str, typer.Option(help="Measure this OPA server too (policy.opa.url).")] = "",
    config: ConfigFile = None,
) -> None:
    """Measure how quickly the configured policies decide: the embedded engine and, where there is one, the OPA server."""
    overrides = {"policy.engine": "opa", "policy.opa.url": opa} if opa else {}
    policy = settings_from(config, overrides).policy
    try:
        found = run_loop(_figures(policy, decisions))
    except (Fault, SettingsFault) as fault:
        stop(str(fault).splitlines(), FOUND_WRONG)
    out.print(table_of(found))


async def _figures(policy: Policy, decisions: int) -> list[Figures]:
    found = await measured("embedded", policy.model_copy(update={"engine": "embedded"}), AT_ONCE, decisions)
    if policy.opa_server is not None:
        found += await measured("opa", policy, AT_ONCE, decisions)
    return found
