"""Everything that policies are read from, and what was found there: folders, a bundle file or URL, a file with rule data.

In this order, later ones over earlier ones: the shipped policies, folders, the bundle, the file with rule data, and
the profile of the settings.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import os
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from proxy.errors import EngineFault

from .archive import read_archive
from .bundle import Bundle, load_bundle, shipped_folder
from .fetching import BundleSource, Fetched, fetch
from .findings import LintFault
from .policy_files import PolicyFiles, content_of, files_of, one_file

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Seen:
    """All files as they were at one look."""

    folders: tuple[PolicyFiles, ...]
    rule_data: tuple[PolicyFiles, ...]
    fetched: Fetched | None = None
    revision: str = ""
    """What the bundle is called by whoever made it."""

    @property
    def digest(self) -> str:
        """The same content has the same one."""
        digests = (found.digest for found in (*self.folders, *self.rule_data))
        return hashlib.sha256("".join(digests).encode()).hexdigest()


class Origins:
    """Where policies come from. What was fetched is remembered; files are read anew at each look."""

    def __init__(
        self,
        folders: Sequence[Path],
        rule_data: Path | None,
        source: BundleSource | None,
        settings: Mapping[str, Any],
    ) -> None:
        """`settings`: rule data that counts last. Reads nothing yet."""
        shipped = shipped_folder().resolve()
        self._folders = tuple(folder for folder in folders if folder.resolve() != shipped)
        self._rule_data = rule_data
        self._settings = settings
        self.source = source
        self._fetched: Fetched | None = None
        self._is_cached = False
        self._fetching = asyncio.Lock()
        self._loaded: tuple[Seen, Bundle | EngineFault] | None = None

    @property
    def loaded(self) -> Seen | None:
        """What was tried last, whether or not it could be loaded."""
        return self._loaded[0] if self._loaded is not None else None

    @property
    def titles(self) -> tuple[str, ...]:
        """All places, in order."""
        named = [*self._folders, *([self.source.title] if self.source else []), self._rule_data]
        return tuple(str(each) for each in named if each is not None)

    @property
    def etag(self) -> str:
        """By which the server knows what was fetched; empty: it said none."""
        return self._fetched.etag if self._fetched is not None else ""

    @property
    def is_cached(self) -> bool:
        """Whether the bundle is the kept one, since the server has never been reached."""
        return self._is_cached

    async def fetch(self) -> bool:
        """Asks the server, where there is one, and remembers what it has: whether that has changed. Raises EngineFault."""
        if self.source is None or not self.source.url:
            return False
        async with self._fetching:
            before, self._fetched = self._fetched, await fetch(self.source, self._fetched)
            self._is_cached = False
            return before is not self._fetched

    async def fetch_first(self) -> None:
        """As `fetch`; without the server, the kept bundle serves where that is configured. Raises EngineFault."""
        try:
            await self.fetch()
        except EngineFault as fault:
            source = self.source
            if source is None or source.required or source.cache is None:
                raise
            try:
                kept = await asyncio.to_thread(content_of, source.cache, source.most_bytes)
            except OSError as error:
                said = f"{fault.message}; {source.cache}: cannot be read: {error.strerror}"
                raise EngineFault(said) from None
            self._fetched, self._is_cached = Fetched(kept), True
            _LOG.error("%s; the bundle kept in %s is used, however old it is", fault.message, source.cache)

    async def look(self) -> Seen:
        """All files as they are now, with what was fetched. Raises nothing."""
        return await asyncio.to_thread(self._look)

    def _look(self) -> Seen:
        folders = [files_of(folder) for folder in self._folders]
        if self.source is not None:
            folders.append(self._bundle_files(self.source))
        rule_data = (one_file(self._rule_data),) if self._rule_data is not None else ()
        revision = folders[-1].revision if self.source is not None else ""
        return Seen(tuple(folders), rule_data, self._fetched, revision)

    def _bundle_files(self, source: BundleSource) -> PolicyFiles:
        if source.path is None:
            raw = self._fetched.content if self._fetched is not None else b""
        else:
            try:
                raw = content_of(source.path, source.most_bytes)
            except OSError as error:
                fault = LintFault(source.title, 0, 0, f"cannot be read: {error.strerror}")
                return PolicyFiles(faults=(fault,))
        return read_archive(raw, source.short_title, source.most_bytes)

    async def bundle(self, seen: Seen | None = None) -> Bundle:
        """The policies that are there now, or that were seen. Raises EngineFault with every reason and its place."""
        found = seen or await self.look()
        if self._loaded is None or self._loaded[0].digest != found.digest:
            self._loaded = found, await asyncio.to_thread(self._load, found)
        outcome = self._loaded[1]
        if isinstance(outcome, EngineFault):
            raise outcome
        return outcome

    def _load(self, found: Seen) -> Bundle | EngineFault:
        try:
            return load_bundle(found.folders, found.rule_data, self._settings)
        except EngineFault as fault:
            return fault

    async def keep(self) -> None:
        """What was loaded last is in force: its bundle is kept for a start without the server. Raises nothing."""
        source, fetched = self.source, self.loaded.fetched if self.loaded is not None else None
        if source is None or source.cache is None or fetched is None or self._is_cached:
            return
        try:
            await asyncio.to_thread(_write, source.cache, fetched.content)
        except OSError as error:
            _LOG.error("%s: the bundle cannot be kept here: %s", source.cache, error.strerror)


def _write(path: Path, content: bytes) -> None:
    """Whole or not at all."""
    number, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(number, "wb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        Path(name).replace(path)
    except BaseException:
        with suppress(OSError):
            Path(name).unlink()
        raise
