"""`callgate demo`."""

from __future__ import annotations

from typing import Annotated

import typer

from proxy.terminal import WRONG_USAGE, out, run_loop, stop


def demo(
    scene: Annotated[str | None, typer.Option(help="Only the scene whose name contains this.")] = None,
    trace: Annotated[bool, typer.Option(help="Show the trace of every run.")] = True,
) -> None:
    """Play the refund story with real SDK agents against a scripted provider; no key, no network."""
    try:
        from proxy.demo import show  # noqa: PLC0415 - needs the SDKs of the extra `demo`
    except ImportError as missing:
        stop([f"The demo needs {missing.name}: pip install 'callgate[demo]'"], WRONG_USAGE)
    raise typer.Exit(run_loop(show.play_scenes(out, only=scene, with_trace=trace)))
