"""HTTP out: one pooled client behind a small seam, time limits, and no way past the reader.

1. Whatever breaks is an UpstreamFault whose text names no address.
2. An answer that cannot be decoded, or that sends the agent elsewhere, is never passed on.
3. Closing an answer drops its connection at once; nothing is read on.
"""

from __future__ import annotations

import io
import ssl
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Protocol, Self

import aiohttp
from yarl import URL

from proxy import codings
from proxy.errors import UpstreamFault
from proxy.headers import Pairs, downstream_headers, upstream_headers, upstream_path
from proxy.signing import Signers, is_signed_here, refuse_foreign_signature, without_signature

if TYPE_CHECKING:
    from proxy.exchange import Incoming
    from proxy.settings import Settings, Upstream as UpstreamSettings

OVERLOADED = frozenset({429, 503, 529})
"""Statuses (529 is a provider's own) that say: not now."""
UNREACHABLE = "upstream_unreachable"
"""Code of a fault before anything was sent: it cannot have cost anything."""
CLOSED = "upstream_closed"
"""Code of a fault after sending and before any answer: a kept connection had gone stale, or the provider fell over."""

_FIRST_FINAL = 200  # lower statuses are no answers; 101 would turn the connection into something else
_LONGEST_PAUSE = 5.0
_FIRST_PAUSE = 0.5
_SMALL_BODY = 1 << 16
REDIRECTS = frozenset({300, 301, 302, 303, 305, 306, 307, 308})
"""Statuses that send a request elsewhere."""


@dataclass(frozen=True, slots=True)
class UpstreamRequest:
    """One request for a provider, ready to be sent."""

    method: str
    url: str
    headers: Sequence[tuple[str, str]]
    body: bytes
    deadline_seconds: float
    """For the whole answer, its last byte included."""
    signed_for: str = ""
    """Name of the provider whose signer signs it when it is sent; empty: it is not signed."""

    @classmethod
    def of(
        cls,
        incoming: Incoming,
        body: bytes,
        settings: Settings,
        *,
        seconds_left: float | None = None,
        trace_headers: Mapping[str, str] | None = None,
    ) -> Self:
        """What goes to the provider for this request of an agent. Raises ClientFault (a header that cannot travel)
        and UpstreamFault (no time is left, E3)."""
        seconds = settings.upstream.answer_seconds
        if seconds_left is not None:
            seconds = min(seconds, seconds_left)
        if seconds <= 0:
            raise UpstreamFault("No time is left for a further request.", status=504, code="upstream_timeout")
        provider = settings.upstream.provider(incoming.provider)
        path = upstream_path(incoming, settings)
        url = join_url(provider.base_url or incoming.dialect.base_url, path)
        headers = upstream_headers(incoming, settings, trace_headers or {})
        if incoming.caller.credential is not None:
            headers = without_signature(headers)
        refuse_foreign_signature(headers, path, incoming.provider)
        signs = is_signed_here(provider.signer, incoming.caller.credential)
        return cls(incoming.method, url, headers, body, seconds, incoming.provider if signs else "")


class UpstreamAnswer(Protocol):
    """The head of an answer, and its body still to be read."""

    @property
    def status(self) -> int:
        """HTTP status."""

    @property
    def headers(self) -> Pairs:
        """What the agent may see of the headers."""

    async def read(self, limit: int) -> bytes:
        """The rest of the body, decoded. Raises UpstreamFault, also beyond `limit` bytes."""

    async def next_chunk(self) -> bytes:
        """The next bytes of the body, decoded; b"" at its end. A cancelled wait loses nothing. Raises UpstreamFault."""

    def close(self) -> None:
        """Drops the connection at once, unless the answer was read to its end. May be called twice."""


class Upstream(Protocol):
    """Reaches providers."""

    async def send(self, request: UpstreamRequest) -> UpstreamAnswer:
        """The head of the answer. Raises UpstreamFault."""

    async def close(self) -> None:
        """Drops all connections."""


def streams(answer: UpstreamAnswer, stream_type: str) -> bool:
    """The answer is a stream of the media type that was asked for (`Request.stream_type`)."""
    kinds = [value for name, value in answer.headers if name.lower() == "content-type"]
    return bool(kinds) and kinds[0].partition(";")[0].strip().lower() == stream_type


@lru_cache(maxsize=256)
def join_url(base: str, path: str) -> str:
    """The path below the base URL; segments that end the base and begin the path stand once.

    So `/v1/x` fits `https://host`, `https://host/v1` and `https://host/team/v1` alike.
    """
    scheme, _, rest = base.rstrip("/").partition("://")
    host, *above = rest.split("/")
    below = path.lstrip("/").split("/")
    for length in range(min(len(above), len(below)), 0, -1):
        if above[-length:] == below[:length]:
            below = below[length:]
            break
    return f"{scheme}://{'/'.join([host, *above, *below])}"


def may_retry(reason: UpstreamFault | int, attempt: int, settings: Settings) -> bool:
    """Whether a further try may follow this one (`attempt` counts from 1) while nothing has reached the agent.

    `reason` is a fault or a status, also one that came as an event of a stream that began well (C024).
    """
    if attempt > settings.upstream.retries:
        return False
    if isinstance(reason, UpstreamFault):
        return reason.code in {UNREACHABLE, CLOSED} or reason.status in OVERLOADED
    return reason in OVERLOADED


def retry_pause(headers: Sequence[tuple[str, str]], attempt: int) -> float | None:
    """Seconds to wait before the next try; None where the provider asks for more than is worth holding an agent."""
    asked = [value for name, value in headers if name.lower() == "retry-after"]
    if not asked:
        return min(_LONGEST_PAUSE, _FIRST_PAUSE * float(2 ** (attempt - 1)))
    if not asked[0].isdecimal():
        return None
    return float(asked[0]) if int(asked[0]) <= _LONGEST_PAUSE else None


_FOREIGN = (aiohttp.ClientError, codings.Undecodable, OSError)
"""What the client and the decoders raise; a TimeoutError is an OSError."""


def fault_of(error: Exception) -> UpstreamFault:
    """What is foreign, as a fault of ours."""
    if isinstance(error, aiohttp.ConnectionTimeoutError | aiohttp.ClientConnectorError):
        return _unreached(error)
    if isinstance(error, TimeoutError):
        return UpstreamFault("The provider did not answer in time.", status=504, code="upstream_timeout")
    if isinstance(error, codings.Undecodable):
        return UpstreamFault(f"The provider's answer cannot be read. {error}", code="upstream_unreadable")
    if isinstance(error, aiohttp.ClientResponseError):
        return UpstreamFault("The provider's answer is not valid HTTP.", code="upstream_unreadable")
    if isinstance(error, aiohttp.ClientPayloadError | aiohttp.ClientConnectionError | OSError):
        return UpstreamFault("The provider closed the connection too early.", code=CLOSED)
    return UpstreamFault("The request to the provider failed.")


def _unreached(error: Exception) -> UpstreamFault:
    if isinstance(error, aiohttp.ConnectionTimeoutError):
        return UpstreamFault(
            "The provider cannot be reached: no connection in time.", status=504, code=UNREACHABLE
        )
    reasons: tuple[tuple[type[Exception] | tuple[type[Exception], ...], str], ...] = (
        (aiohttp.ClientConnectorDNSError, "its name is not known"),
        (aiohttp.ClientConnectorCertificateError, "its certificate is not trusted"),
        ((aiohttp.ClientSSLError, ssl.SSLError), "no secure connection could be made"),
    )
    why = next((text for kind, text in reasons if isinstance(error, kind)), "the connection was refused")
    return UpstreamFault(f"The provider cannot be reached: {why}.", code=UNREACHABLE)


class PooledUpstream:
    """An aiohttp session: one pool, no cookies, no redirects, headers as given. Made in, and bound to, one loop."""

    def __init__(self, settings: UpstreamSettings) -> None:
        """Connects to nobody yet."""
        self._settings = settings
        self._session: aiohttp.ClientSession | None = None
        self._signers = Signers(settings)

    async def send(self, request: UpstreamRequest) -> UpstreamAnswer:
        """The head of the answer. Raises UpstreamFault."""
        if self._session is None:
            self._session = self._connected()
        request = await self._signers.signed(request)
        connect = self._settings.connect_seconds
        timeout = aiohttp.ClientTimeout(
            total=request.deadline_seconds,
            # The wait for a free connection, where they are limited.
            connect=connect if self._settings.max_connections else None,
            sock_connect=connect,
            sock_read=self._settings.idle_seconds,
        )
        headers = [*request.headers, ("accept-encoding", codings.ACCEPTED)]
        # Bytes beyond a megabyte make aiohttp warn; a stream of them is written in pieces, with back-pressure.
        body = request.body if len(request.body) <= _SMALL_BODY else io.BytesIO(request.body)
        try:
            response = await self._session.request(
                request.method,
                URL(request.url, encoded=True),
                data=body or None,
                headers=headers,
                timeout=timeout,
                allow_redirects=False,
            )
        except _FOREIGN as error:
            raise fault_of(error) from None
        try:
            return _PooledAnswer(response)
        except UpstreamFault:
            response.close()
            raise

    async def close(self) -> None:
        """Drops all connections."""
        if self._session is not None:
            await self._session.close()

    def _connected(self) -> aiohttp.ClientSession:
        return aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=self._settings.max_connections, limit_per_host=0),
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
            skip_auto_headers=("accept", "accept-encoding", "content-type", "user-agent"),
            trust_env=False,
        )


class _PooledAnswer:
    def __init__(self, response: aiohttp.ClientResponse) -> None:
        if response.status in REDIRECTS:
            raise UpstreamFault(
                "The provider sends this request elsewhere, which is not followed. Set the upstream's base_url to the "
                "address it names.",
                code="upstream_redirect",
            )
        if response.status < _FIRST_FINAL:
            raise UpstreamFault("The provider's answer is not valid HTTP.", code="upstream_unreadable")
        self.status = response.status
        self.headers = downstream_headers(response.headers)
        self._response = response
        try:
            self._decoder = codings.decoder(",".join(response.headers.getall("content-encoding", ())))
        except codings.Undecodable as error:
            raise fault_of(error) from None
        self._pieces: Iterator[bytes] = iter(())

    async def next_chunk(self) -> bytes:
        try:
            return await self._next()
        except _FOREIGN as error:
            self.close()
            raise fault_of(error) from None

    async def _next(self) -> bytes:
        while True:
            piece = next(self._pieces, b"")
            if piece:
                return piece
            chunk = await self._response.content.readany()
            if not chunk:
                break
            if self._decoder is None:
                return chunk
            self._pieces = self._decoder.feed(chunk)
        if self._decoder is not None:
            self._decoder.end()
        return b""

    async def read(self, limit: int) -> bytes:
        chunks = []
        size = 0
        while chunk := await self.next_chunk():
            size += len(chunk)
            if size > limit:
                self.close()
                raise UpstreamFault(
                    f"The provider's answer is longer than {limit} bytes.", code="upstream_too_long"
                )
            chunks.append(chunk)
        return b"".join(chunks)

    def close(self) -> None:
        self._response.close()
