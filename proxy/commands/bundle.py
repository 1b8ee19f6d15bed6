"""`callgate bundle`: policies as one file."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from proxy.engines import Bundle, load_bundle, opa_bundle, open_policies
from proxy.engines.archive import read_archive, written_archive
from proxy.engines.policy_files import PolicyFiles, content_of, files_of
from proxy.errors import Fault
from proxy.policy_settings import Policy
from proxy.terminal import (
    FOUND_WRONG,
    WRONG_USAGE,
    ConfigFile,
    complain,
    out,
    run_loop,
    settings_from,
    stop,
)


class Act(StrEnum):
    """What to do."""

    BUILD = "build"
    SHOW = "show"
    OPA = "opa"


def bundle(
    act: Annotated[Act, typer.Argument(help="build, show or opa.")],
    file: Annotated[Path, typer.Argument(help="The bundle file, a tar.gz.")],
    folders: Annotated[
        list[Path] | None,
        typer.Argument(help="Folders with policies, for build. Default: those of policy.folders."),
    ] = None,
    config: ConfigFile = None,
) -> None:
    """Write policies as one file for `policy.bundle` (build), look into one (show), or write one that an OPA server loads by itself (opa).

    What is written has been loaded and has decided samples before. The same policies give the same bytes.
    """
    settings = settings_from(config)
    try:
        match act:
            case Act.BUILD:
                _build(file, folders or list(settings.policy.folders), settings.policy)
            case Act.SHOW:
                _show(file, settings.policy)
            case Act.OPA:
                proven = run_loop(_proven(settings.policy))
                _write(file, opa_bundle(proven), proven.revision)
    except Fault as fault:
        stop(str(fault).splitlines(), FOUND_WRONG)


def _build(file: Path, folders: list[Path], policy: Policy) -> None:
    if not folders:
        stop(
            ["There is nothing to build from: name folders with policies, or set policy.folders."],
            WRONG_USAGE,
        )
    proven = run_loop(_proven(policy.model_copy(update={"folders": tuple(folders)})))
    found = [files_of(folder) for folder in folders]
    places = [each.place for files in found for each in files.files]
    if twice := sorted({str(place) for place in places if places.count(place) > 1}):
        stop([f"{place}: is in more than one of the folders" for place in twice], FOUND_WRONG)
    together = PolicyFiles(tuple(each for files in found for each in files.files))
    _write(file, written_archive(together, proven.revision), proven.revision)


def _show(file: Path, policy: Policy) -> None:
    most = policy.bundle.max_bytes
    try:
        found = read_archive(content_of(file, most), str(file), most)
    except OSError as error:
        stop([f"{file}: cannot be read: {error.strerror}"], WRONG_USAGE)
    out.print(f"revision {found.revision or 'not said'}, {len(found.files)} files", markup=False)
    for each in found.files:
        out.print(f"  {each.place}  {len(each.content)} bytes", markup=False)
    loaded = load_bundle([found], (), {})
    complain(map(str, loaded.warnings))
    out.print(f"It loads. Layers: {', '.join(loaded.layers) or 'org'}", markup=False)


def _write(file: Path, content: bytes, revision: str) -> None:
    try:
        file.write_bytes(content)
    except OSError as error:
        stop([f"{file}: cannot be written: {error.strerror}"], FOUND_WRONG)
    out.print(f"{file}: revision {revision}", markup=False)


async def _proven(policy: Policy) -> Bundle:
    """The configured policies, once they have decided samples in the embedded engine."""
    policies = await open_policies(policy.model_copy(update={"engine": "embedded"}))
    await policies.close()
    return policies.bundle
