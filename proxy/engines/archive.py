"""Bundle files: policies in one `tar.gz`, in OPA's layout, read in memory and never unpacked to a disk.

`callgate/**/*.rego` and `rules.yaml` as in a folder, or below one folder more, as `tar` and `opa build` leave it; rule data
also in OPA's `data.json`, where it is `{"callgate": {"rules": …}}`; `.manifest` with `revision` and `roots`. Names may
begin with one slash. A bundle is somebody else's: whatever could mean two things, or hide something, is refused by name.
Source of the layout: https://www.openpolicyagent.org/docs/management-bundles (bundle file format).
"""

from __future__ import annotations

import gzip
import io
import json
import re
import tarfile
import unicodedata
import zlib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import PurePosixPath
from typing import Any

from .findings import LintFault
from .marked import NotReadable, read_marked
from .policy_files import LARGEST_FILE, SUFFIXES, PolicyFile, PolicyFiles

MOST_MEMBERS = 10_000
LONGEST_NAME = 512
MANIFEST = ".manifest"
_BLOCK = 512
_GZIP = b"\x1f\x8b"
_PLAIN = frozenset({tarfile.REGTYPE, tarfile.AREGTYPE})
_UNUSABLE = re.compile(r"[\0-\x1f\x7f-\x9f\\\ud800-\udfff]")
_COMPILED = frozenset({"policy.wasm", "plan.json"})
_REVISION = 200


class BadArchive(Exception):
    """The bundle file is refused; the text says which member and why."""


class _Member(tarfile.TarInfo):
    def _block(self, count: int) -> int:
        # A size below nothing makes older tarfile modules read the same member forever (CVE-2025-8194).
        if count < 0:
            raise tarfile.InvalidHeaderError("a size below 0")  # type: ignore[attr-defined]  # the stubs lack this class
        return -(-count // _BLOCK) * _BLOCK


# --- reading ------------------------------------------------------------------------------------------------------


def read_archive(raw: bytes, title: str, most: int) -> PolicyFiles:
    """The policies in a bundle file, unpacked at most `most` bytes. Files are called `title/…`.

    Raises nothing: what is wrong with the file as a whole is its only fault, and then there are no files.
    """
    try:
        return _policies(_members(_unpacked(raw, most)), title)
    except BadArchive as bad:
        return PolicyFiles(faults=(LintFault(title, 0, 0, str(bad)),))


def _unpacked(raw: bytes, most: int) -> bytes:
    """The tar. Some servers pack what is packed once more."""
    if not raw.startswith(_GZIP):
        raise BadArchive("is no tar.gz")
    for _ in range(2):
        try:
            with gzip.GzipFile(fileobj=io.BytesIO(raw)) as stream:
                raw = stream.read(most + 1)
        except (OSError, EOFError, zlib.error):
            raise BadArchive("is damaged, or only a part of a tar.gz") from None
        if len(raw) > most:
            raise BadArchive(f"holds more than {most} bytes (policy.bundle.max_bytes)")
        if not raw.startswith(_GZIP):
            break
    return raw


def _members(tar: bytes) -> dict[str, bytes]:
    """The files by name. Raises BadArchive."""
    found: dict[str, bytes] = {}
    folded: dict[str, str] = {}
    try:
        with tarfile.open(
            fileobj=io.BytesIO(tar), mode="r:", encoding="utf-8", errors="surrogateescape", tarinfo=_Member
        ) as archive:
            for count, member in enumerate(archive):
                if count >= MOST_MEMBERS:
                    raise BadArchive(f"has more than {MOST_MEMBERS} members")
                name = _name(member)
                if member.isdir():
                    continue
                key = unicodedata.normalize("NFC", name).casefold()
                if key in folded:
                    raise BadArchive(f"{name!a}: is there twice, as {folded[key]!a} too")
                folded[key] = name
                found[name] = _content(archive, member)
            rest = tar[archive.offset :]
    except (tarfile.TarError, EOFError, OSError, ValueError, OverflowError, RecursionError) as error:
        raise BadArchive(f"cannot be read as a tar ({type(error).__name__})") from None
    # Where the module finds no further header it stops in silence; what is behind it would be left out.
    if len(rest) < _BLOCK or rest.strip(b"\0"):
        raise BadArchive("is damaged: it does not end where a tar ends")
    return found


def _name(member: tarfile.TarInfo) -> str:
    """The member's name, without what tools put before it. Raises BadArchive for what is no plain file or folder."""
    name = member.name
    plain = name.removeprefix("./").removeprefix("/")
    shown = ascii(name[:LONGEST_NAME])
    if len(name) > LONGEST_NAME:
        raise BadArchive(f"{shown}: has too long a name")
    if _UNUSABLE.search(name):
        raise BadArchive(f"{shown}: is no name: not UTF-8, or control characters or \\ in it")
    parts = plain.split("/")
    if member.isdir() and plain in {"", "."}:
        return ""
    if any(part in {"", ".", ".."} or part.endswith((" ", ".")) for part in parts) or ":" in parts[0]:
        raise BadArchive(f"{shown}: is no path below the top of the bundle")
    if not member.isdir() and (member.type not in _PLAIN or member.issparse()):
        raise BadArchive(f"{shown}: is no plain file (a link, a device or the like)")
    return plain


def _content(archive: tarfile.TarFile, member: tarfile.TarInfo) -> bytes:
    stream = archive.extractfile(member)
    content = stream.read() if stream is not None else b""
    if len(content) != member.size:
        raise BadArchive(f"{member.name!a}: is cut off")
    return content


# --- what is in it ------------------------------------------------------------------------------------------------


def _policies(members: Mapping[str, bytes], title: str) -> PolicyFiles:
    revision, roots = _manifest(members.get(MANIFEST, b"{}"))
    for name in sorted(members):
        if name in _COMPILED:
            raise BadArchive(f"{name}: compiled policies are not read: build the bundle without a target")
    wanted = {name: content for name, content in members.items() if _is_wanted(name)}
    top = _top(name for name in wanted if not _is_document(name))
    files = [
        file
        for name in sorted(wanted)
        if (file := _file(name.removeprefix(top), wanted[name], f"{title}/{name}")) is not None
    ]
    if not files:
        raise BadArchive("there are no policies in it: they are below callgate/")
    for file in files:
        if not _is_below(file.place, roots):
            raise BadArchive(f"{file.name}: is outside the roots of the manifest")
    return PolicyFiles(tuple(files), revision=revision)


def _is_wanted(name: str) -> bool:
    path = PurePosixPath(name)
    return path.suffix in SUFFIXES and not any(part.startswith(".") for part in path.parts)


def _is_document(name: str) -> bool:
    return PurePosixPath(name).name in {"data.json", "data.yaml", "data.yml"}


def _top(names: Iterable[str]) -> str:
    """What stands before `callgate/` in all names, with its slash. Raises BadArchive."""
    tops: dict[str, str] = {}
    for name in names:
        before, found, _ = f"/{name}".partition("/callgate/")
        if found:
            tops.setdefault(before.removeprefix("/"), name)
        elif name.endswith(".rego"):
            raise BadArchive(f"{name}: is not below callgate/: the folder names the package")
    if len(tops) > 1:
        one, other, *_ = tops.values()
        raise BadArchive(f"{one} and {other}: there are several folders callgate in it")
    top = next(iter(tops), "")
    return f"{top}/" if top else ""


def _file(name: str, content: bytes, shown: str) -> PolicyFile | None:
    place = PurePosixPath(name)
    if _is_document(name):
        return _document(place, content, shown)
    return PolicyFile(place, shown, content) if place.parts[0] == "callgate" else None


def _document(place: PurePosixPath, content: bytes, shown: str) -> PolicyFile | None:
    """OPA's data document as a file of rule data. Raises BadArchive where it holds anything else."""
    try:
        if len(content) > LARGEST_FILE:
            raise BadArchive(f"{shown}: is larger than 2 MiB")
        tree: Any = read_marked(shown, content.decode("utf-8")).value
    except UnicodeDecodeError:
        raise BadArchive(f"{shown}: is not UTF-8 text") from None
    except NotReadable as error:
        raise BadArchive(str(error.fault)) from None
    for part in reversed(place.parent.parts):
        tree = {part: tree}
    if tree == {}:
        return None
    rules = tree["callgate"] if isinstance(tree, dict) and tree.keys() == {"callgate"} else None
    if not isinstance(rules, dict) or rules.keys() != {"rules"}:
        raise BadArchive(f'{shown}: the only data that is read is {{"callgate": {{"rules": …}}}}')
    return PolicyFile(PurePosixPath("callgate/rules.json"), shown, json.dumps(rules["rules"]).encode())


def _manifest(raw: bytes) -> tuple[str, tuple[tuple[str, ...], ...]]:
    """The revision, and the roots as paths. Raises BadArchive."""
    try:
        said = read_marked(f"{MANIFEST}.json", raw.decode("utf-8")).value
    except (NotReadable, UnicodeDecodeError):
        said = None
    if not isinstance(said, dict):
        raise BadArchive(f"{MANIFEST}: is no JSON object")
    revision, roots = said.get("revision", ""), said.get("roots", [""])
    if not isinstance(revision, str) or len(revision) > _REVISION or not revision.isprintable():
        raise BadArchive(f"{MANIFEST}: revision should be one line of at most {_REVISION} characters")
    if not isinstance(roots, list) or not all(isinstance(root, str) for root in roots):
        raise BadArchive(f"{MANIFEST}: roots should be a list of paths")
    if said.get("rego_version", 1) != 1 or said.get("wasm"):
        raise BadArchive(f"{MANIFEST}: only Rego v1 that is not compiled is read")
    return revision, tuple(tuple(part for part in root.split("/") if part) for root in roots)


def _is_below(place: PurePosixPath, roots: Iterable[tuple[str, ...]]) -> bool:
    # A file speaks for its folder, and callgate/rules.json for callgate/rules.
    parts = (*place.parent.parts, place.stem)
    return any(parts[: len(root)] == root for root in roots)


# --- writing ------------------------------------------------------------------------------------------------------


def written_archive(found: PolicyFiles, revision: str) -> bytes:
    """A bundle file with these files: the same ones and the same revision give the same bytes."""
    manifest = {"revision": revision, "roots": ["callgate"], "rego_version": 1}
    packed = io.BytesIO()
    with (
        gzip.GzipFile(filename="", fileobj=packed, mode="wb", compresslevel=9, mtime=0) as stream,
        tarfile.open(fileobj=stream, mode="w", format=tarfile.PAX_FORMAT) as archive,
    ):
        for name, content in _entries(found, json.dumps(manifest, separators=(",", ":")).encode()):
            member = tarfile.TarInfo(name)
            member.size, member.mode = len(content), 0o644
            archive.addfile(member, io.BytesIO(content))
    return packed.getvalue()


def _entries(found: PolicyFiles, manifest: bytes) -> Iterator[tuple[str, bytes]]:
    yield MANIFEST, manifest
    for file in sorted(found.files, key=lambda file: file.place.as_posix()):
        yield file.place.as_posix(), file.content
