"""`callgate explain`."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from proxy.conversation_files import BadRecording
from proxy.core.runs import Identity
from proxy.engines.bundle import load_bundle, read_sources
from proxy.engines.explaining import Explanation, explained, flat
from proxy.engines.origins import Origins, Seen
from proxy.engines.worker import RegoError
from proxy.errors import Fault
from proxy.explain_question import PHASES, BadQuestion, Typed, claims_of, document_of
from proxy.explain_report import as_json, is_refused, report_lines, trace_lines
from proxy.policy_settings import Policy
from proxy.redaction import Redactor
from proxy.terminal import FOUND_WRONG, WRONG_USAGE, ConfigFile, out, run_loop, settings_from, stop

Repeated = list[str] | None
_HISTORY = "Request body in any dialect: what came before. Without --tool its newest calls are explained."
_INPUT = "An input document as policies see it, instead of all the above."


def explain(  # noqa: PLR0913, PLR0917 - the options of the command
    tool: Annotated[str, typer.Option(help="The tool that is called.")] = "",
    arguments: Annotated[str, typer.Option(help="Its arguments: JSON, or @ and a file with JSON.")] = "",
    organisation: Annotated[str, typer.Option(help="Who calls.")] = "",
    team: Annotated[str, typer.Option(help="Team of the caller.")] = "",
    agent: Annotated[str, typer.Option(help="Agent that calls.")] = "",
    user: Annotated[str, typer.Option(help="User on whose behalf.")] = "",
    role: Annotated[Repeated, typer.Option(help="Role of the caller; several times.")] = None,
    claim: Annotated[Repeated, typer.Option(help="Claim of the token, name=value; several times.")] = None,
    said: Annotated[str, typer.Option(help="What the user says, behind the history.")] = "",
    history: Annotated[Path | None, typer.Option(help=_HISTORY)] = None,
    input_: Annotated[Path | None, typer.Option("--input", help=_INPUT)] = None,
    phase: Annotated[str, typer.Option(help="request, calls or answer. Default: what fits the rest.")] = "",
    trace: Annotated[
        bool, typer.Option("--trace", help="Show which lines of the layers' Rego were reached.")
    ] = False,
    json_: Annotated[bool, typer.Option("--json", help="Print JSON for programs.")] = False,
    config: ConfigFile = None,
) -> None:
    """Say for one call of one caller which rule of which layer decides, why, and in which line it stands.

    Exit code 1 if policy refuses it.
    """
    settings = settings_from(config)
    if phase and phase not in PHASES:
        stop([f"--phase is one of {', '.join(PHASES)}"], WRONG_USAGE)
    try:
        who = Identity(
            "explained", organisation, team, agent, user, tuple(role or ()), claims_of(claim or [])
        )
        document = document_of(Typed(tool, arguments, who, said, history, input_, phase), time.time())
        found = _explained(settings.policy, document)
    except (BadQuestion, BadRecording, OSError, UnicodeDecodeError) as fault:
        stop([str(fault)], WRONG_USAGE)
    except (Fault, RegoError) as fault:
        stop(str(fault).splitlines(), FOUND_WRONG)
    limits = flat(settings.limits.model_dump(mode="json", include={"turn", "run"}))
    settled = {name: value for name, value in limits.items() if value is not None}
    redactor = Redactor(settings.audit.redact)
    if json_:
        out.print(json.dumps(as_json(found, document, settled, redactor)), markup=False)
    else:
        out.print("\n".join(report_lines(found, document, settled, redactor)), markup=False)
        if trace:
            out.print("\n".join(trace_lines(found)), markup=False)
    raise typer.Exit(FOUND_WRONG if is_refused(found, document) else 0)


def _explained(policy: Policy, document: Mapping[str, Any]) -> Explanation:
    """By the policies that `callgate serve` would load now, wherever they come from."""
    rules = {"profile": policy.profile}
    seen = run_loop(_seen(Origins(policy.folders, policy.data, policy.bundle_source, rules)))
    bundle = load_bundle(seen.folders, seen.rule_data, rules)
    sources = read_sources(seen.folders, seen.rule_data, rules, with_tests=False)
    return explained(bundle, sources, document)


async def _seen(origins: Origins) -> Seen:
    await origins.fetch_first()
    return await origins.look()
