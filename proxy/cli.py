"""The command line: argument parsing, then calls. Exit codes: 0 well, 1 something was found wrong, 2 wrong usage."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import Progress

from . import __version__, logs, route_table, start_report
from .admin import Readiness
from .assembly import parts_of, reloading_on_signal
from .config import SettingsFault, load_settings
from .demo import conversation_table, conversations
from .engines import run_policy_tests
from .errors import Fault
from .gate import Gate
from .serving import Started, serve as serve_forever
from .settings import Settings

app = typer.Typer(
    help="Callgate: a policy sidecar and guard proxy for LLM agents.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

ConfigFile = Annotated[
    Path | None,
    typer.Option(
        "--config", "-c", help="YAML file with settings. Default: callgate.yaml here, if it is there."
    ),
]
out = Console(highlight=False, soft_wrap=True)
complaints = Console(stderr=True, highlight=False, soft_wrap=True)


def _settings(config: Path | None, overrides: dict[str, object]) -> Settings:
    try:
        return load_settings(config, {name: value for name, value in overrides.items() if value is not None})
    except SettingsFault as fault:
        _complain(fault.problems)
        raise typer.Exit(2) from None


def _complain(lines: list[str]) -> None:
    for line in lines:
        complaints.print(line, style="red", markup=False)


def _run(coroutine: Any) -> Any:
    try:
        import uvloop  # noqa: PLC0415 - not to be had on every system
    except ImportError:
        return asyncio.run(coroutine)
    return uvloop.run(coroutine)


@app.command()
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
    settings = _settings(config, {"listen.host": host, "listen.port": port, "policy.profile": profile})
    try:
        _run(_serve(settings))
    except SettingsFault as fault:
        _complain(fault.problems)
        raise typer.Exit(2) from None
    except (Fault, OSError) as fault:
        _complain([str(fault)])
        raise typer.Exit(1) from None


async def _serve(settings: Settings) -> None:
    readiness = Readiness()
    async with parts_of(settings) as parts, asyncio.TaskGroup() as tasks:

        def started(at: Started) -> None:
            out.print(start_report.lines(settings, parts.policies, at), markup=False)

        with reloading_on_signal(parts.policies, readiness, tasks):
            await serve_forever(settings, Gate(parts), readiness=readiness, started=started)


@app.command()
def check(config: ConfigFile = None) -> None:
    """Check settings and policies without serving; say where each fault is, and which routes are guarded or refused."""
    settings = _settings(config, {})
    faults, lines = _run(start_report.examined(settings))
    out.print(lines, markup=False)
    if faults:
        _complain(faults)
        raise typer.Exit(1)
    route_table.print_routes(out, settings)


@app.command("test")
def run_tests(
    folders: Annotated[
        list[Path] | None, typer.Argument(help="Folders with policies. Default: those of policy.folders.")
    ] = None,
    config: ConfigFile = None,
) -> None:
    """Run the Rego tests (`test_*` rules in `*_test.rego`) of the shipped policies and of these folders."""
    try:
        results = run_policy_tests(folders or _settings(config, {}).policy.folders)
    except Fault as fault:
        _complain(str(fault).splitlines())
        raise typer.Exit(1) from None
    failed = [result for result in results if not result.passed]
    for result in failed:
        _complain([f"{result.file}:{result.line}: {result.package}.{result.name}: {result.message}"])
    out.print(f"{len(results) - len(failed)} passed, {len(failed)} failed")
    if failed:
        raise typer.Exit(1)


@app.command()
def demo(
    scene: Annotated[str | None, typer.Option(help="Only the scene whose name contains this.")] = None,
    trace: Annotated[bool, typer.Option(help="Show the trace of every run.")] = True,
) -> None:
    """Play the refund story with real SDK agents against a scripted provider; no key, no network."""
    try:
        from .demo import show  # noqa: PLC0415 - needs the SDKs of the extra `demo`
    except ImportError as missing:
        _complain([f"The demo needs {missing.name}: pip install 'callgate[demo]'"])
        raise typer.Exit(2) from None
    raise typer.Exit(_run(show.play_scenes(out, only=scene, with_trace=trace)))


@app.command()
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
    settings = _settings(config, {})
    try:
        runs = conversations.read_conversations(file)
        declared = json.loads(tools.read_text(encoding="utf-8")) if tools else []
    except (OSError, ValueError) as fault:
        _complain([str(fault)])
        raise typer.Exit(2) from None
    try:
        with Progress(console=complaints, transient=True) as bar:
            task = bar.add_task("Playing", total=len(runs))
            played = _run(
                conversations.play_conversations(
                    runs, declared, settings, progress=lambda _: bar.advance(task)
                )
            )
    except Fault as fault:
        _complain(str(fault).splitlines())
        raise typer.Exit(1) from None
    conversation_table.print_table(out, played)
    if any(each.altered and each.conversation.reward == 1 for each in played):
        raise typer.Exit(1)


@app.command()
def version() -> None:
    """Print the version."""
    out.print(__version__)


def main() -> None:
    """Entry point of the command `callgate`."""
    app()
