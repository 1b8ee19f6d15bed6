"""HTTP in: reads a request whole and bounded, knows its route and its caller, and writes what the gate answers.

1. Nothing unknown is passed on, and nothing hostile is answered with a 500.
2. A client that hangs up stops its request at once, whether we wait for the provider or for the client.
3. A stream that cannot go on ends with an error of its dialect, never as if it were complete.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import replace
from urllib.parse import unquote

from aiohttp import web
from aiohttp.http import HttpProcessingError, HttpVersion11
from multidict import CIMultiDict, CIMultiDictProxy

from proxy import codings, dialects, tunnel
from proxy.core.messages import Problem
from proxy.dialects import Dialect, RouteKind
from proxy.errors import ClientFault, Fault
from proxy.exchange import Gatekeeper, Incoming, Reply, problem_reply
from proxy.identity import equipped, identify, shown_keys
from proxy.issuer_keys import KeyRing
from proxy.paths import Found, Routes, canonical
from proxy.providers import placed
from proxy.settings import Settings

log = logging.getLogger("callgate.server")

BODY_IDLE_SECONDS = 60.0
"""The longest silence of a client in the middle of its request."""
FAREWELL_SECONDS = 2.0
"""How long a client may take to receive the end of a stream that is cut off."""

_HEADER_BYTES = 32_768
_EVENTS = "text/event-stream"
_BODILESS = frozenset({204, 304})
_JSON_BY_ANOTHER_NAME = frozenset({"", "application/octet-stream", "text/json", "text/plain"})
_CHARSETS = frozenset({"", "ascii", "us-ascii", "utf-8", "utf8"})
_BROKEN = Problem(500, "internal_error", "Callgate failed at this request. Its log says why.")
_NO_HTTP = Problem(
    400, "invalid_http", "This is no sound HTTP request and was not read. Send HTTP/1.1 with a Host header."
)
_GOING = Problem(503, "shutting_down", "Callgate is going away. Send the request again.", retryable=True)


class _Brief(logging.Filter):
    """What is no HTTP is a stranger's affair: one line, no traceback, none of its bytes."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Shortens the record in place."""
        error = record.exc_info[1] if record.exc_info else None
        if isinstance(error, HttpProcessingError):
            record.msg, record.args = "A client sent what is no HTTP (%s).", (type(error).__name__,)
            record.levelno, record.levelname = logging.WARNING, "WARNING"
            record.exc_info = None
        return True


wire_log = logging.getLogger("callgate.server.wire")
wire_log.addFilter(_Brief())


class _HungUpError(Exception):
    """The client is gone."""


class AgentSide:
    """Serves agents, and knows which of their requests are open."""

    def __init__(
        self,
        gate: Gatekeeper,
        settings: Settings,
        served: Sequence[Dialect] = dialects.DIALECTS,
        keys: KeyRing | None = None,
    ) -> None:
        """Serves the routes of these dialects; `keys` prove callers' tokens. Run it with `runner_of`."""
        self._keys = keys
        self._gate = gate
        self._settings = settings
        self._routes = Routes(served, settings)
        self._open: set[asyncio.Task[object]] = set()
        self._draining = False
        self._expired = False
        self._quiet = asyncio.Event()
        self._quiet.set()

    @property
    def open_requests(self) -> int:
        """Requests whose answer is not complete."""
        return len(self._open)

    def drain(self) -> None:
        """From now on every answer is the last one of its connection."""
        self._draining = True

    async def quiet(self) -> None:
        """Returns when no request is open."""
        await self._quiet.wait()

    def expire(self) -> None:
        """Ends what is still open: with an error of its dialect, its gate's part settled as cancelled."""
        self._expired = True
        for task in self._open:
            task.cancel()

    async def answer(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answers one request of an agent."""
        task = asyncio.current_task()
        if task is None:  # pragma: no cover
            raise RuntimeError("a request is answered in a task")
        self._open.add(task)
        self._quiet.clear()
        try:
            response = await self._answer(request)
        finally:
            self._open.discard(task)
            if not self._open:
                self._quiet.set()
        # What follows a declined upgrade would be read as a further request.
        if self._draining or request.headers.get("upgrade", "").lower() in {"websocket", "tcp"}:
            response.force_close()
        return response

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        path = canonical(request.raw_path)
        found = self._routes.find(request.method, path, request.headers)
        dialect = found.dialect
        try:
            if found.opened and tunnel.is_asked_for(request):
                return await self._tunnelled(request, found)
            reply = await self._reply(request, path, found)
        except Fault as fault:
            reply = problem_reply(dialect, Problem(fault.status, fault.code, fault.message))
        except asyncio.CancelledError:
            self._stay_if_expired(request)
            reply = problem_reply(dialect, _GOING)
        except Exception:
            log.exception("A request failed.")
            reply = problem_reply(dialect, _BROKEN)
        headers = CIMultiDict(reply.headers)
        if isinstance(reply.body, bytes):
            return web.Response(status=reply.status, body=reply.body, headers=headers)
        if reply.cut_off is not None or headers.get("content-type", "").startswith(_EVENTS):
            headers["cache-control"] = "no-cache"
            headers["x-accel-buffering"] = "no"
        response = web.StreamResponse(status=reply.status, headers=headers)
        return await self._stream(request, response, reply.body, reply.cut_off)

    def _stay_if_expired(self, request: web.BaseRequest) -> None:
        """Called on cancellation: goes on only if it was us, and the client is still there to be told."""
        task = asyncio.current_task()
        if not self._expired or task is None or request.transport is None or request.transport.is_closing():
            raise asyncio.CancelledError
        task.uncancel()

    # --- in -------------------------------------------------------------------------------------------------

    async def _reply(self, request: web.BaseRequest, path: str | None, found: Found) -> Reply:
        route = found.route
        if path is None or route is None or route.kind is RouteKind.REFUSED:
            return self._declined(request.method, path, found)
        incoming = await self._incoming(request, found, guarded=route.guarded)
        headers, body = await self._body(request, guarded=route.guarded)
        incoming = replace(incoming, headers=headers, body=body)
        if route.guarded:
            return await self._gate.reply(incoming)
        if route.kind is RouteKind.KEPT:
            return await self._gate.kept(incoming, unquote(found.holes.get("answer", "")), route)
        return await self._gate.pass_through(incoming)

    async def _incoming(self, request: web.BaseRequest, found: Found, *, guarded: bool) -> Incoming:
        """The request with its caller, its body not read yet. Raises ClientFault."""
        peer = request.remote or ""
        token = None
        if self._keys is not None:
            token = await self._keys.proven(shown_keys(request.headers, found.path, self._settings))
        caller = identify(request.headers, found.path, peer, self._settings, token)
        incoming = Incoming(
            found.dialect, request.method, found.path, request.headers, b"", caller, peer, found.named
        )
        if guarded:
            return placed(incoming, self._settings)
        return replace(incoming, caller=equipped(caller, incoming.provider, self._settings))

    async def _tunnelled(self, request: web.BaseRequest, found: Found) -> web.StreamResponse:
        incoming = await self._incoming(request, found, guarded=False)
        try:
            return await tunnel.carry(request, incoming, self._settings)
        except tunnel.Ended as ended:
            # Both sides were told; what cancelled it was either us, or the agent's hang-up.
            self._stay_if_expired(request)
            return ended.response

    def _declined(self, method: str, path: str | None, found: Found) -> Reply:
        reply = problem_reply(found.dialect, self._routes.problem(method, path, found))
        if found.allowed:
            reply.headers.append(("allow", ", ".join(found.allowed)))
        return reply

    async def _body(self, request: web.BaseRequest, *, guarded: bool) -> tuple[CIMultiDictProxy[str], bytes]:
        """The headers and the body as the gate reads them: not compressed, and called JSON if they are judged."""
        headers = request.headers
        if guarded:
            headers = _called_json(headers)
        limit = self._settings.max_body_bytes
        body = await _read(request, limit)
        coding = ",".join(headers.getall("content-encoding", ()))
        if not coding:
            return headers, body
        try:
            body = codings.decoded(body, coding, limit)
        except codings.Undecodable as error:
            raise ClientFault(
                f"The body cannot be decoded. {error}", status=415, code="unsupported_coding"
            ) from None
        except codings.TooLong:
            raise _too_large(limit) from None
        plain = headers.copy()
        del plain["content-encoding"]
        return CIMultiDictProxy(plain), body

    # --- out ------------------------------------------------------------------------------------------------

    async def _stream(
        self,
        request: web.BaseRequest,
        response: web.StreamResponse,
        body: AsyncIterator[bytes],
        cut_off: Callable[[Problem], bytes] | None,
    ) -> web.StreamResponse:
        problem = None
        try:
            await self._pump(request, response, body)
        except _HungUpError:
            return response
        except asyncio.CancelledError:
            self._stay_if_expired(request)
            problem = _GOING
        except Fault as fault:
            problem = Problem(fault.status, fault.code, fault.message)
        except Exception:
            log.exception("A stream failed.")
            problem = _BROKEN
        finally:
            # Cancelled or not, the gate settles here if it has not yet.
            if close := getattr(body, "aclose", None):
                await close()
        if problem is not None:
            await _cut_off(request, response, cut_off(problem) if cut_off else None)
        return response

    async def _pump(
        self, request: web.BaseRequest, response: web.StreamResponse, body: AsyncIterator[bytes]
    ) -> None:
        """Writes the body as fast as the client takes it, and no faster than it comes."""
        try:
            await response.prepare(request)
        except ConnectionError:
            raise _HungUpError from None
        if response.status in _BODILESS:
            return
        async for chunk in body:
            if chunk:
                try:
                    await response.write(chunk)
                except ConnectionError:
                    raise _HungUpError from None


def _too_large(limit: int) -> ClientFault:
    return ClientFault(
        f"The body is longer than {limit} bytes, the setting max_body_bytes.",
        status=413,
        code="request_too_large",
    )


async def _read(request: web.BaseRequest, limit: int) -> bytes:
    """The whole body as it came. Raises ClientFault."""
    if (request.content_length or 0) > limit:
        raise _too_large(limit)
    chunks = []
    size = 0
    try:
        # Small bodies come with their head: no clock is needed then.
        if request.content.is_eof() and request.content.total_bytes <= limit:
            return request.content.read_nowait()
        await _asked_for(request)
        while True:
            async with asyncio.timeout(BODY_IDLE_SECONDS):
                chunk = await request.content.readany()
            if not chunk:
                break
            size += len(chunk)
            if size > limit:
                raise _too_large(limit)
            chunks.append(chunk)
    except TimeoutError:
        raise ClientFault("The rest of the body did not come.", status=408, code="request_timeout") from None
    except (ConnectionError, HttpProcessingError, web.RequestPayloadError):
        raise ClientFault("The body broke off or is not framed as its headers say.") from None
    return b"".join(chunks)


async def _asked_for(request: web.BaseRequest) -> None:
    """Some clients wait to be asked for a body that will not be refused for what its head says (RFC 9110, 10.1.1)."""
    if request.version == HttpVersion11 and request.headers.get("expect", "").lower() == "100-continue":
        await request.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        # Nothing of the answer itself is written yet.
        request.writer.output_size = 0


def _called_json(headers: CIMultiDictProxy[str]) -> CIMultiDictProxy[str]:
    """Headers that call the body what it is judged as, so that nobody reads it as something else.

    Raises ClientFault for types and character sets that say it is something else.
    """
    media, *parameters = headers.get("content-type", "").lower().split(";")
    media = media.strip()
    charsets = [
        part.partition("=")[2].strip(' "') for part in parameters if part.strip().startswith("charset")
    ]
    is_json = media == "application/json" or (media.startswith("application/") and media.endswith("+json"))
    if not (is_json or media in _JSON_BY_ANOTHER_NAME) or not _CHARSETS.issuperset(charsets):
        raise ClientFault("The body has to be JSON in UTF-8.", status=415, code="unsupported_type")
    if is_json and len(headers.getall("content-type")) == 1:
        return headers
    renamed = headers.copy()
    renamed["content-type"] = "application/json"
    return CIMultiDictProxy(renamed)


async def _cut_off(request: web.BaseRequest, response: web.StreamResponse, last: bytes | None) -> None:
    """Ends a stream that cannot go on. Where nothing can be said in it, it breaks off and is seen to."""
    try:
        if last is not None:
            async with asyncio.timeout(FAREWELL_SECONDS):
                await response.write(last)
                await response.write_eof()
                return
    except (TimeoutError, ConnectionError):
        pass
    if request.transport is not None:
        request.transport.abort()


class _Connection(web.RequestHandler):
    """Answers what is no HTTP in the shape of all errors, and quotes nothing of it: there may be a key in it."""

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """Logs and closes, as inherited."""
        super().handle_error(request, status, exc, message)
        problem = _BROKEN if status >= _BROKEN.status else _NO_HTTP
        reply = problem_reply(dialects.DIALECTS[0], problem)
        response = web.Response(
            status=reply.status,
            body=dialects.DIALECTS[0].render_problem(problem),
            headers=CIMultiDict(reply.headers),
        )
        response.force_close()
        return response


class _Server(web.Server):
    """Makes such connections."""

    def __call__(self) -> web.RequestHandler:
        return _Connection(self, loop=self._loop, **self._kwargs)


def runner_of(side: AgentSide) -> web.ServerRunner:
    """A runner as it has to be: a hang-up cancels, bodies arrive as they were sent.

    aiohttp's low-level server: an application would route a second time, for a tenth of a request's cost.
    """
    server = _Server(
        side.answer,
        handler_cancellation=True,
        auto_decompress=False,
        access_log=None,
        logger=wire_log,
        max_line_size=_HEADER_BYTES,
        max_field_size=_HEADER_BYTES,
    )
    return web.ServerRunner(server, shutdown_timeout=FAREWELL_SECONDS)
