"""A bundle file from a web server: asked for anew only where it has changed (ETag, else Last-Modified).

Redirects are not followed: the token is for this server, and a bundle that lies elsewhere is named by its own URL.
Cache-Control is not heeded: how often to look is the operator's word.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

import aiohttp

from proxy.errors import EngineFault

_OK, _NOT_MODIFIED = 200, 304
_REDIRECTS = range(300, 400)
_LONGEST_TAG = 1024


@dataclass(frozen=True, slots=True)
class BundleSource:
    """Where a bundle file is: a file, or a URL and how it is asked for. Times in seconds."""

    path: Path | None = None
    url: str = ""
    token: str = field(default="", repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    ca_file: Path | None = None
    most_bytes: int = 16 * 1024 * 1024
    timeout: float = 10.0
    cache: Path | None = None
    """The last one that was in force is kept here."""
    required: bool = True
    """There is no start without the server; else the kept one serves."""

    @property
    def title(self) -> str:
        """As people are told: never with a query, which may hold a secret."""
        if self.path is not None:
            return str(self.path)
        parts = urlsplit(self.url)
        return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"

    @property
    def short_title(self) -> str:
        """What its files are called by."""
        return self.title.rstrip("/").rpartition("/")[2] or "bundle"


@dataclass(frozen=True, slots=True)
class Fetched:
    """A bundle file as it came, and by what the server knows it."""

    content: bytes = field(repr=False)
    etag: str = ""
    modified: str = ""


async def fetch(source: BundleSource, known: Fetched | None = None) -> Fetched:
    """What is at the URL now; `known` itself where that has not changed.

    Raises EngineFault, without secrets, where it cannot be had within the time.
    """
    verify = _tls(source)
    try:
        async with (
            asyncio.timeout(source.timeout),
            aiohttp.ClientSession(
                auto_decompress=False,
                trust_env=False,
                cookie_jar=aiohttp.DummyCookieJar(),
                timeout=aiohttp.ClientTimeout(total=None),
            ) as http,
            http.get(
                source.url, headers=_headers(source, known), allow_redirects=False, ssl=verify
            ) as answer,
        ):
            return await _answered(source, known, answer)
    except TimeoutError:
        raise _fault(source, f"does not come in time ({source.timeout:g} s)") from None
    except (aiohttp.ClientError, OSError, ValueError) as error:
        raise _fault(source, f"cannot be fetched ({type(error).__name__})") from None


async def _answered(source: BundleSource, known: Fetched | None, answer: aiohttp.ClientResponse) -> Fetched:
    if answer.status == _NOT_MODIFIED and known is not None:
        return known
    if answer.status in _REDIRECTS:
        raise _fault(source, f"is redirected (status {answer.status}): name the URL where it really is")
    if answer.status != _OK:
        raise _fault(source, f"cannot be fetched (status {answer.status})")
    content = bytearray()
    async for piece in answer.content.iter_any():
        content += piece
        if len(content) > source.most_bytes:
            raise _fault(source, f"is larger than {source.most_bytes} bytes (policy.bundle.max_bytes)")
    fresh = Fetched(bytes(content), _tag(answer, "etag"), _tag(answer, "last-modified"))
    return known if known is not None and known == fresh else fresh


def _headers(source: BundleSource, known: Fetched | None) -> dict[str, str]:
    headers = {"accept-encoding": "identity", "accept": "application/gzip, */*", **source.headers}
    if source.token:
        headers["authorization"] = f"Bearer {source.token}"
    if known is not None and known.etag:
        headers["if-none-match"] = known.etag
    elif known is not None and known.modified:
        headers["if-modified-since"] = known.modified
    return headers


def _tag(answer: aiohttp.ClientResponse, header: str) -> str:
    value: str = answer.headers.get(header, "")
    return value if value.isascii() and value.isprintable() and len(value) <= _LONGEST_TAG else ""


def _tls(source: BundleSource) -> ssl.SSLContext | bool:
    if source.ca_file is None:
        return True
    try:
        return ssl.create_default_context(cafile=source.ca_file)
    except (OSError, ValueError) as error:
        raise EngineFault(f"{source.ca_file}: cannot be read as certificates: {error}") from None


def _fault(source: BundleSource, what: str) -> EngineFault:
    return EngineFault(f"{source.title}: the bundle {what}")
