"""`callgate serve`."""

from __future__ import annotations

import asyncio
from typing import Annotated

import typer

from proxy import logs, start_report
from proxy.admin import Readiness
from proxy.assembly import admin_of, parts_of, reloading_of
from proxy.config import SettingsFault
from proxy.errors import Fault
from proxy.gate import Gate
from proxy.serving import Started, serve as serve_forever
from proxy.settings import Settings
from proxy.terminal import FOUND_WRONG, WRONG_USAGE, ConfigFile, out, run_loop, settings_from, stop


def serve(
    config: ConfigFile = None,
    host: Annotated[str | None, typer.Option(help="Address for agents. Default 127.0.0.1.")] = None,
    port: Annotated[int | None, typer.Option(help="Port for agents. Default 8788.")] = None,
    profile: Annotated[
        str | None, typer.Option(help="starter (what the agent declares passes) or strict.")
    ] = None,
    log_level: Annotated[str, typer.Option(help="debug, info, warning or error.")] = "info",
) -> None:
    """Guard agents: serve until SIGTERM or Ctrl-C, then let open answers finish."""
    logs.configure_logging(log_level)
    settings = settings_from(config, {"listen.host": host, "listen.port": port, "policy.profile": profile})
    try:
        run_loop(_serve(settings))
    except SettingsFault as fault:
        stop(fault.problems, WRONG_USAGE)
    except (Fault, OSError) as fault:
        stop([str(fault)], FOUND_WRONG)


async def _serve(settings: Settings) -> None:
    readiness = Readiness()
    async with parts_of(settings) as parts, asyncio.TaskGroup() as tasks:

        def started(at: Started) -> None:
            out.print(start_report.lines(settings, parts.policies, at), markup=False)

        reloading = reloading_of(readiness, parts)
        with reloading.running(tasks):
            admin = admin_of(settings, readiness, parts, reloading)
            await serve_forever(settings, Gate(parts), readiness=readiness, admin=admin, started=started)
