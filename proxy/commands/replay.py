"""`callgate replay`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.progress import Progress

from proxy.demo import conversation_scores, conversation_table, conversations
from proxy.engines import load_bundle
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
        Path,
        typer.Argument(
            help="JSON lines: recorded conversations (`messages`, `id`, `reward`, `expected_actions`)."
        ),
    ],
    tools: Annotated[
        Path | None, typer.Option(help="JSON file with the tools that the agent declared.")
    ] = None,
    team: Annotated[str, typer.Option(help="The team as which they are played: its policies hold.")] = "",
    agent: Annotated[str, typer.Option(help="The agent as which they are played: its policies hold.")] = "",
    config: ConfigFile = None,
) -> None:
    """Play recorded conversations through a Callgate with these settings and print what was flagged or altered.

    Where they say which calls were wanted (`expected_actions`), so is what policies were worth. Exit code 1 if a run that
    ended well (reward 1) was altered.
    """
    caller = conversations.Caller(team, agent)
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
                    runs, declared, settings, caller=caller, progress=lambda _: bar.advance(task)
                )
            )
        files = [settings.policy.data] if settings.policy.data else []
        rules = load_bundle(settings.policy.folders, files).data["rules"]
    except Fault as fault:
        stop(str(fault).splitlines(), FOUND_WRONG)
    conversation_table.print_table(out, played)
    scores = conversation_scores.scored(played, conversation_scores.writing_tools(rules, caller))
    if scores is not None:
        conversation_scores.print_scores(out, scores)
    if any(each.altered and each.conversation.reward == 1 for each in played):
        raise typer.Exit(FOUND_WRONG)
