"""`callgate replay`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.progress import Progress

from proxy.demo import conversation_table, conversations
from proxy.errors import Fault
from proxy.terminal import (
    FOUND_WRONG,
    WRONG_USAGE,
    ConfigFile,
    complaints,
    out,
    run_loop,
    settings_from,
    stop,
)


def replay(
    file: Annotated[
        Path, typer.Argument(help="JSON lines: recorded conversations (`messages`, `id`, `reward`).")
    ],
    tools: Annotated[
        Path | None, typer.Option(help="JSON file with the tools that the agent declared.")
    ] = None,
    config: ConfigFile = None,
) -> None:
    """Play recorded conversations through a Callgate with these settings and print what was flagged or altered.

    Exit code 1 if a run that ended well (reward 1) was altered.
    """
    settings = settings_from(config)
    try:
        runs = conversations.read_conversations(file)
        declared = json.loads(tools.read_text(encoding="utf-8")) if tools else []
    except (OSError, ValueError) as fault:
        stop([str(fault)], WRONG_USAGE)
    try:
        with Progress(console=complaints, transient=True) as bar:
            task = bar.add_task("Playing", total=len(runs))
            played = run_loop(
                conversations.play_conversations(
                    runs, declared, settings, progress=lambda _: bar.advance(task)
                )
            )
    except Fault as fault:
        stop(str(fault).splitlines(), FOUND_WRONG)
    conversation_table.print_table(out, played)
    if any(each.altered and each.conversation.reward == 1 for each in played):
        raise typer.Exit(FOUND_WRONG)
