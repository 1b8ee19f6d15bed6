"""How an OPA server is reached: opa-python-client's asynchronous client, with what it lacks.

One session with one pool, over TCP, TLS with an own CA, or a Unix socket; no retries and no redirects; answers of
bounded size; and what the server says about an error, which that client drops.
"""

from __future__ import annotations

import asyncio
import re
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import orjson
from opa_client.errors import PolicyNotFoundError
from opa_client.opa_async import AsyncOpaClient

from proxy.errors import EngineFault

LARGEST_ANSWER = 4 * 1024 * 1024
_LARGEST_LIST = 64 * 1024 * 1024
"""What is not a decision: a list of what is on the server."""
_LONGEST_MESSAGE = 500


@dataclass(frozen=True, slots=True)
class OpaServer:
    """Where the OPA server is and how it is asked. Times in seconds."""

    url: str
    """`http://`, `https://` or `unix:///path`."""
    token: str = field(default="", repr=False)
    ca_file: Path | None = None
    cert_file: Path | None = None
    key_file: Path | None = None
    timeout: float = 1.0
    """For one decision, whatever happens meanwhile."""
    manage: bool = True
    """Policies are put there by us."""
    breaker_failures: int = 5
    breaker_seconds: float = 2.0
    connections: int = 100
    start_wait: float = 10.0
    """For a server that is not there yet."""
    write_wait: float = 5.0
    """For one change of, or look at, what is on the server."""


class ServerFault(EngineFault):
    """The server does not work: no answer, a refusal, or something that is no answer."""


@dataclass(frozen=True, slots=True)
class Said:
    """One thing that the server says is wrong."""

    code: str
    message: str
    file: str = ""
    line: int = 0
    column: int = 0


class Refused(ServerFault):
    """The server answered with an error."""

    def __init__(self, http: int, code: str, message: str, errors: tuple[Said, ...]) -> None:
        """`http` is its status."""
        super().__init__(f"the OPA server says {http}: {message}"[:_LONGEST_MESSAGE], code="opa_error")
        self.http = http
        self.opa_code = code
        self.errors = errors


class OpaClient(AsyncOpaClient):  # type: ignore[misc]  # published without types
    """One pooled session. Everything raises ServerFault, and Refused where the server answers with an error."""

    def __init__(self, server: OpaServer) -> None:
        """Opens nothing yet."""
        super().__init__(token=server.token or None, retries=0, timeout=server.timeout)
        self._session: aiohttp.ClientSession | None = None
        self._server = server
        self._socket = server.url.removeprefix("unix://") if server.url.startswith("unix:") else ""
        self.root_url = f"{'http://localhost' if self._socket else server.url.rstrip('/')}/v1"

    async def open(self) -> None:
        """Makes the session, once. Raises EngineFault where certificates cannot be read."""
        if self._session is None:
            await self._init_session()

    async def _init_session(self) -> None:
        self._connector = self._connection()
        self._session = aiohttp.ClientSession(
            # OPA packs longer answers where it may; on the way to a neighbour that costs more than it saves.
            headers={**(self.headers or {}), "accept-encoding": "identity"},
            connector=self._connector,
            cookie_jar=aiohttp.DummyCookieJar(),
            timeout=aiohttp.ClientTimeout(total=None),
            json_serialize=lambda body: orjson.dumps(body).decode(),
        )

    def _connection(self) -> aiohttp.BaseConnector:
        if self._socket:
            return aiohttp.UnixConnector(self._socket, limit=self._server.connections)
        if not self._server.url.startswith("https:"):
            return aiohttp.TCPConnector(limit=self._server.connections)
        return aiohttp.TCPConnector(ssl=_tls(self._server), limit=self._server.connections)

    @asynccontextmanager
    async def _request(self, method: str, url: str, **more: Any) -> AsyncIterator[_Answer]:
        """In the place of the client's own, through which everything goes."""
        if self._session is None:
            raise EngineFault("the policy engine is closed")
        is_decision = method == "POST"
        wait = self._server.timeout if is_decision else self._server.write_wait
        most = _LARGEST_LIST if method == "GET" else LARGEST_ANSWER
        try:
            async with (
                asyncio.timeout(wait),
                self._session.request(method, url, allow_redirects=False, **more) as response,
            ):
                answer = _Answer(response.status, await _body(response, most))
        except TimeoutError:
            raise ServerFault(
                f"the OPA server did not answer in time ({wait:g} s)", code="opa_timeout"
            ) from None
        except (aiohttp.ClientError, OSError, ValueError, RuntimeError) as error:
            why = type(error).__name__
            raise ServerFault(f"the OPA server cannot be reached ({why})", code="opa_unreachable") from error
        answer.raise_for_status()
        yield answer

    async def ask(
        self, path: str, document: Mapping[str, object], *, provenance: bool = False
    ) -> dict[str, Any]:
        """What the server answers about `data.<path>` (with slashes) for this input. No `result` in it: undefined."""
        parameters = {"strict-builtin-errors": "true"} | ({"provenance": "true"} if provenance else {})
        answer = await self.query_rule(document, path, query_params=parameters)
        if not isinstance(answer, dict):
            raise ServerFault("the OPA server gave no answer of its kind", code="opa_error")
        return answer

    async def read(self, path: str) -> object:
        """What `data.<path>` (with slashes) is, without input; None where there is nothing."""
        try:
            answer = await self.get_data(path)
        except PolicyNotFoundError:
            return None
        return answer["result"] if isinstance(answer, dict) else None


class _Answer:
    """A whole answer, in the form in which opa-python-client looks at one."""

    def __init__(self, status: int, body: bytes) -> None:
        self.status = status
        self._body = body

    async def json(self) -> Any:
        """Raises ServerFault where it is no JSON."""
        try:
            return orjson.loads(self._body)
        except ValueError:
            raise ServerFault("the OPA server gave no JSON", code="opa_error") from None

    def raise_for_status(self) -> None:
        """Raises Refused, with what the server says."""
        if self.status < 300:  # noqa: PLR2004 - HTTP: it worked
            return
        try:
            said = orjson.loads(self._body)
        except ValueError:
            said = None
        body: Mapping[str, Any] = said if isinstance(said, dict) else {}
        errors = body.get("errors")
        found = tuple(map(_said, errors)) if isinstance(errors, list) else ()
        message = " ".join(_text(body, "message").split()) or "no reason"
        raise Refused(self.status, _text(body, "code"), message, found)


def _said(error: object) -> Said:
    body: Mapping[str, Any] = error if isinstance(error, dict) else {}
    location = body.get("location")
    place: Mapping[str, Any] = location if isinstance(location, dict) else {}
    message = " ".join(_text(body, "message").split())[:_LONGEST_MESSAGE]
    return Said(
        _text(body, "code"), message, _text(place, "file"), _number(place, "row"), _number(place, "col")
    )


def _text(body: Mapping[str, Any], name: str) -> str:
    value = body.get(name)
    return re.sub(r"[\0-\x1f\x7f-\x9f]", " ", value) if isinstance(value, str) else ""


def _number(body: Mapping[str, Any], name: str) -> int:
    value = body.get(name)
    return value if isinstance(value, int) and value > 0 else 0


async def _body(response: aiohttp.ClientResponse, most: int) -> bytes:
    body = bytearray()
    async for piece in response.content.iter_any():
        body += piece
        if len(body) > most:
            raise ServerFault("the OPA server answers more than a decision can hold", code="opa_error")
    return bytes(body)


def _tls(server: OpaServer) -> ssl.SSLContext:
    try:
        trusted = ssl.create_default_context(cafile=server.ca_file)
        if server.cert_file is not None:
            trusted.load_cert_chain(server.cert_file, server.key_file)
    except (OSError, ValueError) as error:
        files = ", ".join(str(each) for each in (server.ca_file, server.cert_file, server.key_file) if each)
        raise EngineFault(f"the certificates for the OPA server cannot be read ({files}): {error}") from None
    return trusted
