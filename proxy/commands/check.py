"""`callgate check`."""

from __future__ import annotations

from proxy import route_table, start_report
from proxy.terminal import FOUND_WRONG, ConfigFile, out, run_loop, settings_from, stop


def check(config: ConfigFile = None) -> None:
    """Check settings and policies without serving; say where each fault is, and which routes are guarded or refused."""
    settings = settings_from(config)
    faults, lines = run_loop(start_report.examined(settings))
    out.print(lines, markup=False)
    if faults:
        stop(faults, FOUND_WRONG)
    route_table.print_routes(out, settings)
