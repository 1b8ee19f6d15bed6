"""`callgate learn`."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer
from rich.progress import Progress

from proxy.conversation_files import BadRecording, Conversation, Recordings, read_recordings
from proxy.core.runs import Identity
from proxy.errors import Fault
from proxy.learned_files import as_json, as_rego, as_yaml
from proxy.learned_values import Thresholds
from proxy.learning import Learned, LearnSettings, Replayed, learned_from, replayed
from proxy.redaction import Redactor
from proxy.seen_calls import SeenAnswer, audited_calls, calls_of
from proxy.terminal import (
    FOUND_WRONG,
    WRONG_USAGE,
    ConfigFile,
    complain,
    complaints,
    out,
    settings_from,
    stop,
)


def learn(  # noqa: PLR0913, PLR0917 - the options of the command
    files: Annotated[
        list[Path],
        typer.Argument(
            help="JSON lines: recorded conversations or request bodies in any dialect, or audit files."
        ),
    ],
    team: Annotated[str, typer.Option(help="Team of runs that name neither team nor agent.")] = "",
    agent: Annotated[str, typer.Option(help="Agent of runs that name none.")] = "",
    min_runs: Annotated[int, typer.Option(min=1, help="Leave out tools that fewer runs called.")] = 1,
    choices: Annotated[int, typer.Option(min=1, help="The most words of a closed set.")] = 8,
    good: Annotated[bool, typer.Option("--good", help="Only runs whose recorded `reward` is 1.")] = False,
    origins: Annotated[
        bool, typer.Option(help="Demand that values come from results or the user where all did.")
    ] = True,
    examples: Annotated[bool, typer.Option(help="Show a few values, redacted, in comments.")] = True,
    hold_out: Annotated[
        int, typer.Option(min=0, max=90, help="Learn without this percentage of the runs, then judge them.")
    ] = 0,
    json_: Annotated[bool, typer.Option("--json", help="Write rule data as JSON, without evidence.")] = False,
    rego: Annotated[
        Path | None, typer.Option(help="Write a folder of policies with tests instead of rule data.")
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="File to write. Default: standard output.")
    ] = None,
    config: ConfigFile = None,
) -> None:
    """Derive a least-privilege policy from recorded runs: tools, arguments, limits; nothing wider than what was seen."""
    redactor = Redactor(settings_from(config).audit.redact)
    found = _read(files, Identity(team=team, agent=agent), good=good)
    kept, others = _split(found, hold_out)
    wanted = LearnSettings(min_runs, Thresholds(choices), examples, origins)
    try:
        learned = learned_from(_answers(kept, "Learning"), wanted, redactor)
        if not learned:
            stop(["there is no call in these runs"], FOUND_WRONG)
        same = replayed(learned, _answers(kept, "Holding it against the runs"))
        rest = replayed(learned, _answers(others, "Judging the others")) if hold_out else None
    except Fault as fault:
        stop(str(fault).splitlines(), FOUND_WRONG)
    try:
        _write(learned, rego, output, as_json_=json_)
    except (OSError, ValueError) as fault:
        stop([str(fault)], WRONG_USAGE)
    _report(learned, same, "of these runs")
    if rest is not None:
        _report(learned, rest, "of runs that were held out")
    if set(same.refused) - {"allowed_tools"}:
        raise typer.Exit(FOUND_WRONG)


def _read(files: Sequence[Path], identity: Identity, *, good: bool) -> Recordings:
    found = Recordings()
    try:
        for file in files:
            found += read_recordings(file)
    except (OSError, BadRecording) as fault:
        stop([str(fault)], WRONG_USAGE)
    kept = (each for each in found.conversations if not good or each.reward == 1)
    # Each line is a run of its own: two of one name would count as one long turn.
    named = tuple(
        replace(each, id=f"{each.id}#{place}", identity=_identity(each, identity))
        for place, each in enumerate(kept)
    )
    audited = tuple(replace(each, identity=identity) for each in found.audited) if not good else ()
    return Recordings(named, audited)


def _identity(conversation: Conversation, default: Identity) -> Identity:
    own = conversation.identity
    if own.agent or (own.team and not default.agent):
        return own
    return replace(own, team=own.team or default.team, agent=default.agent)


def _layer(identity: Identity) -> str:
    """The narrowest layer that the caller has."""
    if identity.agent:
        return f"agent.{identity.agent}"
    return f"team.{identity.team}" if identity.team else "org"


def _split(found: Recordings, percent: int) -> tuple[Recordings, Recordings]:
    """What is learned from, and what is held out: spread evenly."""
    out_: list[bool] = [
        place * percent // 100 != (place + 1) * percent // 100 for place in range(len(found.conversations))
    ]
    pairs = list(zip(found.conversations, out_, strict=True))
    kept = tuple(each for each, is_out in pairs if not is_out)
    return Recordings(kept, found.audited), Recordings(tuple(each for each, is_out in pairs if is_out))


def _answers(found: Recordings, doing: str) -> Iterator[tuple[str, SeenAnswer]]:
    now = time.time()
    with Progress(console=complaints, transient=True) as bar:
        task = bar.add_task(doing, total=len(found.conversations) + len(found.audited))
        for conversation in found.conversations:
            for answer in calls_of(conversation, conversation.identity, now):
                yield _layer(conversation.identity), answer
            bar.advance(task)
        for run in found.audited:
            for answer in audited_calls(run):
                yield _layer(run.identity), answer
            bar.advance(task)


def _write(learned: Learned, rego: Path | None, output: Path | None, *, as_json_: bool) -> None:
    if rego is not None:
        for name, text in as_rego(learned).items():
            path = rego / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        return
    text = as_json(learned) if as_json_ else as_yaml(learned)
    if output is None:
        out.print(text, markup=False, end="")
    else:
        output.write_text(text, encoding="utf-8")


def _report(learned: Learned, done: Replayed, which: str) -> None:
    tools = sum(len(layer.tools) for layer in learned.values())
    complaints.print(
        f"{tools} tools in {', '.join(learned)}. {done.calls} calls {which}: {done.refused_calls} refused, "
        f"{done.over_limit} beyond a limit, in {len(done.refused_runs)} of {len(done.runs)} runs.",
        markup=False,
    )
    complain(f"  {rule}: {count}" for rule, count in done.refused.most_common(20))
