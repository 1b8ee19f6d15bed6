"""`callgate replay`."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer
from rich.progress import Progress

from proxy.conversation_files import BadRecording, Recordings, read_recordings
from proxy.core.runs import Identity
from proxy.demo import conversation_scores, conversation_table, conversations
from proxy.engines import load_bundle, open_policies
from proxy.errors import Fault
from proxy.policy_comparison import Comparison, compared, print_comparison
from proxy.policy_settings import Policy
from proxy.redaction import Redactor
from proxy.seen_calls import SeenAnswer, audited_calls, calls_of, recorded_calls
from proxy.settings import Settings
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

_PATIENCE = 30.0
"""Seconds for a decision where nobody waits for it."""


def replay(  # noqa: PLR0913, PLR0917 - the options of the command
    files: Annotated[
        list[Path],
        typer.Argument(
            help="JSON lines: recorded conversations (`messages`, `id`, `reward`, `expected_actions`). With --policy or "
            "--rules also request bodies of any dialect, and audit files."
        ),
    ],
    tools: Annotated[
        Path | None, typer.Option(help="JSON file with the tools that the agent declared.")
    ] = None,
    team: Annotated[str, typer.Option(help="The team as which they are played: its policies hold.")] = "",
    agent: Annotated[str, typer.Option(help="The agent as which they are played: its policies hold.")] = "",
    policy: Annotated[
        list[Path] | None, typer.Option(help="A folder of changed policies, instead of policy.folders.")
    ] = None,
    rules: Annotated[
        Path | None, typer.Option(help="A file of changed rule data, instead of policy.data.")
    ] = None,
    json_: Annotated[bool, typer.Option("--json", help="With --policy or --rules: for programs.")] = False,
    allow_stricter: Annotated[
        bool,
        typer.Option(
            "--allow-stricter", help="With --policy or --rules: exit with 0 though calls are newly refused."
        ),
    ] = False,
    config: ConfigFile = None,
) -> None:
    """Play recorded conversations through a Callgate with these settings and print what was flagged or altered; with --policy or --rules, print what changed policies would newly refuse or allow.

    Where conversations say which calls were wanted (`expected_actions`), so is what policies were worth. Exit code 1 if a
    run that ended well (reward 1) was altered, or if changed policies newly refuse a call.
    """
    settings = settings_from(config)
    caller = conversations.Caller(team, agent)
    if policy or rules:
        _compare(
            files,
            caller,
            settings,
            _changed(settings.policy, policy, rules),
            json_=json_,
            lenient=allow_stricter,
        )
    elif len(files) > 1:
        stop(["One file of conversations is played at a time."], WRONG_USAGE)
    else:
        _play(files[0], tools, caller, settings)


def _play(file: Path, tools: Path | None, caller: conversations.Caller, settings: Settings) -> None:
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
        origins = [settings.policy.data] if settings.policy.data else []
        rules = load_bundle(settings.policy.folders, origins).data["rules"]
    except Fault as fault:
        stop(str(fault).splitlines(), FOUND_WRONG)
    conversation_table.print_table(out, played)
    scores = conversation_scores.scored(played, conversation_scores.writing_tools(rules, caller))
    if scores is not None:
        conversation_scores.print_scores(out, scores)
    if any(each.altered and each.conversation.reward == 1 for each in played):
        raise typer.Exit(FOUND_WRONG)


# --- changed policies -----------------------------------------------------------------------------------------------


def _changed(policy: Policy, folders: Sequence[Path] | None, rules: Path | None) -> Policy:
    """The configured policies with other folders or other rule data."""
    changes: dict[str, object] = {}
    if folders:
        changes["folders"] = tuple(folders)
    if rules:
        changes["data"] = rules
    return policy.model_copy(update=changes)


def _compare(
    files: Sequence[Path],
    caller: conversations.Caller,
    settings: Settings,
    changed: Policy,
    *,
    json_: bool,
    lenient: bool,
) -> None:
    try:
        recordings = sum(map(read_recordings, files), Recordings())
    except (BadRecording, OSError) as fault:
        stop([str(fault)], WRONG_USAGE)
    answers = list(_answers(recordings, caller))
    if not answers:
        stop(["There is no recorded call in these files."], WRONG_USAGE)
    try:
        with Progress(console=complaints, transient=True) as bar:
            task = bar.add_task("Deciding", total=len(answers))
            found = run_loop(_compared(answers, settings, changed, lambda: bar.advance(task)))
    except Fault as fault:
        stop(str(fault).splitlines(), FOUND_WRONG)
    if json_:
        out.print_json(json.dumps(found.as_json()))
    else:
        print_comparison(out, found)
    if found.stricter and not lenient:
        raise typer.Exit(FOUND_WRONG)


async def _compared(
    answers: Sequence[SeenAnswer], settings: Settings, changed: Policy, progress: Callable[[], None]
) -> Comparison:
    patient = {"deadline_seconds": _PATIENCE}
    now = await open_policies(settings.policy.model_copy(update=patient))
    try:
        other = await open_policies(changed.model_copy(update=patient))
        try:
            redactor = Redactor(settings.audit.redact)
            return await compared(answers, now, other, redactor, progress)
        finally:
            await other.close()
    finally:
        await now.close()


def _answers(recordings: Recordings, caller: conversations.Caller) -> Iterator[SeenAnswer]:
    now = time.time()
    for conversation in recordings.conversations:
        said = conversation.identity
        unsaid = said == Identity()
        identity = replace(said, team=caller.team, agent=caller.agent) if unsaid else said
        yield from calls_of(conversation, identity, now)
    whole = {recorded.run for recorded in recordings.inputs}
    for recorded in recordings.inputs:
        yield recorded_calls(recorded)
    for run in recordings.audited:
        if run.id not in whole:
            yield from audited_calls(run)
