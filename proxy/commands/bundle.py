"""`callgate bundle`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from proxy.engines import Bundle, opa_bundle, open_policies
from proxy.errors import Fault
from proxy.policy_settings import Policy
from proxy.terminal import FOUND_WRONG, ConfigFile, out, run_loop, settings_from, stop


def bundle(
    file: Annotated[Path, typer.Argument(help="File to write, a tar.gz.")],
    config: ConfigFile = None,
) -> None:
    """Write the configured policies as a bundle that an OPA server loads by itself (`policy.opa.manage: false`)."""
    try:
        proven = run_loop(_proven(settings_from(config).policy))
        file.write_bytes(opa_bundle(proven))
    except Fault as fault:
        stop(str(fault).splitlines(), FOUND_WRONG)
    except OSError as error:
        stop([f"{file}: cannot be written: {error.strerror}"], FOUND_WRONG)
    out.print(f"{file}: revision {proven.revision}", markup=False)


async def _proven(policy: Policy) -> Bundle:
    """The configured policies, once they have decided samples in the embedded engine."""
    policies = await open_policies(policy.model_copy(update={"engine": "embedded"}))
    await policies.close()
    return policies.bundle
