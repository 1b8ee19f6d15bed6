"""Ends what may hang, within a bound: the OpenTelemetry SDK's own stop takes 20 to 31 s when a collector is down."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterable

FLUSH_SHARE = 0.75
"""Part of the time that is for sending what is left; the rest is for shutting down."""


def run_for(actions: Iterable[Callable[[], object]], seconds: float) -> bool:
    """Runs all at once in threads that nobody waits for longer than this; whether all came to an end.

    What an action raises is its own business: a failed last export is no reason to trouble anybody.
    """
    deadline = time.monotonic() + seconds
    threads = [threading.Thread(target=_quietly, args=(action,), daemon=True) for action in actions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(max(0.0, deadline - time.monotonic()))
    return not any(thread.is_alive() for thread in threads)


def stop(
    flushes: Iterable[Callable[[], object]],
    releases: Iterable[Callable[[], object]],
    shutdowns: Iterable[Callable[[], object]],
    seconds: float,
) -> bool:
    """Sends what is left, lets go of exporters (which wakes their retries), shuts down; whether all was sent in time."""
    sent = run_for(flushes, seconds * FLUSH_SHARE)
    rest = seconds * (1 - FLUSH_SHARE)
    run_for(releases, rest / 2)
    run_for(shutdowns, rest / 2)
    return sent


def _quietly(action: Callable[[], object]) -> None:
    with contextlib.suppress(Exception):  # see run_for
        action()
