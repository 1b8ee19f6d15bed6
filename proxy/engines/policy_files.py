"""Files of policies as bytes with names, wherever they come from: a folder, an archive, a server. What is in them is read
in one place (bundle.py)."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from .findings import LintFault

LARGEST_FILE = 2 * 1024 * 1024
"""Bytes of one file."""
SUFFIXES = frozenset({".rego", ".yaml", ".yml", ".json"})
"""Other files are nobody's business here."""
_NO_FOLDER = "there is no folder callgate in it: policies are in callgate/org, callgate/team/<name> and so on"


@dataclass(frozen=True, slots=True)
class PolicyFile:
    """One file."""

    place: PurePosixPath
    """Below the folder of policies, as in `callgate/org/rules.yaml`."""
    name: str
    """As people are told."""
    content: bytes


@dataclass(frozen=True, slots=True)
class PolicyFiles:
    """What one place holds, and what could not be had of it."""

    files: tuple[PolicyFile, ...] = ()
    faults: tuple[LintFault, ...] = ()
    revision: str = ""
    """What whoever made it calls it; empty: nothing."""

    @property
    def digest(self) -> str:
        """The same content has the same one, wherever it lies."""
        digest = hashlib.sha256()
        for file in self.files:
            for part in (str(file.place).encode("utf-8", "surrogateescape"), file.content):
                digest.update(len(part).to_bytes(8, "big") + part)
        digest.update(repr(self.faults).encode("utf-8", "backslashreplace"))
        return digest.hexdigest()


def files_of(folder: Path, *, is_own: bool = False) -> PolicyFiles:
    """The files below `callgate/` of a folder, without hidden ones, in order. Those of the product (`is_own`) are called
    by their place. Raises nothing."""
    if not (folder / "callgate").is_dir():
        return PolicyFiles(faults=(LintFault(str(folder), 0, 0, _NO_FOLDER),))
    files: list[PolicyFile] = []
    faults: list[LintFault] = []
    for path, place in _paths(folder):
        name = place.as_posix() if is_own else path.as_posix()
        try:
            files.append(PolicyFile(place, name, content_of(path)))
        except OSError as error:
            faults.append(LintFault(name, 0, 0, f"cannot be read: {error.strerror}"))
    return PolicyFiles(tuple(files), tuple(faults))


def one_file(path: Path) -> PolicyFiles:
    """A file that was named. Raises nothing."""
    try:
        return PolicyFiles((PolicyFile(PurePosixPath(path.name), str(path), content_of(path)),))
    except OSError as error:
        return PolicyFiles(faults=(LintFault(str(path), 0, 0, f"cannot be read: {error.strerror}"),))


def content_of(path: Path, most: int = LARGEST_FILE) -> bytes:
    """Its bytes, and one more than `most` where there are more. Raises OSError."""
    with path.open("rb") as stream:
        return stream.read(most + 1)


def _paths(folder: Path) -> Iterator[tuple[Path, PurePosixPath]]:
    for path in sorted((folder / "callgate").rglob("*")):
        place = PurePosixPath(path.relative_to(folder).as_posix())
        is_hidden = any(part.startswith(".") for part in place.parts)
        if not is_hidden and path.suffix in SUFFIXES and path.is_file():
            yield path, place
