"""A provider on loopback that says what a script tells it and refuses what a real one would refuse.

1. What goes over the wire is what the real API would send; `wire_*` knows how.
2. What came in stands in `seen`, refused or not, in the order of arrival.
3. A refused request takes nothing from the script.
"""

from __future__ import annotations

import asyncio
import inspect
import re
import socket
import struct
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Protocol, Self

import orjson
from aiohttp import web
from multidict import CIMultiDictProxy

from proxy.demo import wire_anthropic, wire_bedrock, wire_ollama, wire_openai
from proxy.demo.answers import Answer, Complaint, Ids, Raw
from proxy.demo.strict_anthropic import count_complaint
from proxy.demo.wire_gemini import wire_at
from proxy.demo.wire_responses import Responses

_LARGEST_BODY = 1 << 30
_GRACE = 0.02
_RESET = struct.pack("ii", 1, 0)  # SO_LINGER with no time: closing sends RST instead of FIN

Responder = Callable[["Seen"], "Answer | Raw | Awaitable[Answer | Raw]"]


class Wire(Protocol):
    """A dialect: a module that renders what is said in it."""

    def headers(self, ids: Ids) -> dict[str, str]:
        """Headers of every response."""

    def body(self, answer: Answer, request: Mapping[str, Any], ids: Ids) -> bytes:
        """The whole response."""

    def frames(self, answer: Answer, request: Mapping[str, Any], ids: Ids) -> list[bytes]:
        """The stream, one element an event."""

    def error(self, found: Complaint, ids: Ids) -> bytes:
        """The error body."""

    def models(self, names: tuple[str, ...]) -> bytes:
        """The list of models."""

    def complaint(self, request: object, headers: Mapping[str, str]) -> Complaint | None:
        """What the provider would object to first."""


_OPENAI: Wire = wire_openai
_ANTHROPIC: Wire = wire_anthropic
_TURNS: Mapping[str, Wire] = {
    "/v1/chat/completions": _OPENAI,
    "/chat/completions": _OPENAI,
    "/v1/messages": _ANTHROPIC,
}
_RESPONSES = re.compile(r"(?:/openai|/api)?(?:/v1)?/responses(?:/([^/]+)(/cancel|/input_items)?)?")
"""Where answers are asked for; behind it, one that is kept."""
_CHAT_IN_LINES = "/api/chat"
_CONVERSE = re.compile(r"/model/[^/]+/converse(-stream)?")
_COUNT = "/v1/messages/count_tokens"
_MODELS = "/v1/models"
_EMPTY = Complaint("script is empty", status=500, kind="api_error")


_STREAM_TYPES = ("text/event-stream", "application/x-ndjson", "application/vnd.amazon.eventstream")


def _is_turn(path: str) -> bool:
    """The path is one on which a model is asked."""
    return (
        path in _TURNS
        or path == _CHAT_IN_LINES
        or _CONVERSE.fullmatch(path) is not None
        or wire_at(path) is not None
    )


def _stream_type(path: str, request: Mapping[str, Any]) -> str:
    """The media type of the stream that is asked for; empty: a whole answer is."""
    route = path.partition("?")[0]
    events, lines, binary = _STREAM_TYPES
    if route == _CHAT_IN_LINES:
        return lines if request.get("stream") is not False else ""
    if found := _CONVERSE.fullmatch(route):
        return binary if found[1] else ""
    if gemini := wire_at(path):
        return gemini.stream_type
    return f"{events}; charset=utf-8" if request.get("stream") else ""


@dataclass(slots=True, eq=False)
class Seen:
    """One request as it arrived, and what became of it."""

    method: str
    path: str
    """With its query, as on the wire."""
    headers: CIMultiDictProxy[str]
    body: bytes
    json: Any | None
    """None: the body is no JSON."""
    arrived: float
    """Loop time."""
    status: int | None = None
    """The status sent; None before."""
    refused: str | None = None
    """Why a real provider would not have taken the request."""
    finished: bool = False
    """The whole answer was written (and an ending `reset` carried out)."""
    hung_up: bool = False
    """The peer closed before the answer was finished."""
    hung_up_after: float | None = None
    """Seconds from arrival to that."""


@dataclass(slots=True)
class _Exchange:
    request: web.Request
    wire: Wire
    seen: Seen
    headers: dict[str, str] = field(default_factory=dict)


class ScriptedProvider:
    """The stand-in. `async with ScriptedProvider() as provider: provider.script(Answer("Hi"))`."""

    def __init__(  # noqa: PLR0913 (independent switches, all by name)
        self,
        *,
        strict: bool = True,
        any_path: bool = False,
        remember: bool = True,
        seed: str = "",
        host: str = "127.0.0.1",
        port: int = 0,
        models: Sequence[str] = ("scripted-large", "scripted-small"),
    ) -> None:
        """Choose how it behaves; it listens only once entered.

        Args:
            strict: refuse what the real provider would refuse.
            any_path: answer unknown routes with the script's `Raw` instead of 404.
            remember: keep what is seen; a benchmark would only fill its memory.
            seed: makes the ids of this instance differ from another's.
            host: the address to listen on.
            port: 0 takes a free one.
            models: the ids that `GET /v1/models` lists.
        """
        self.seen: list[Seen] = []
        self.url = ""
        self._strict = strict
        self._any_path = any_path
        self._remember = remember
        self._ids = Ids(seed)
        self._address = (host, port)
        self._models = tuple(models)
        self._script: deque[Answer | Raw] = deque()
        self._responder: Responder | None = None
        self._runner: web.AppRunner | None = None
        self._closing = False
        self._changed = asyncio.Event()
        self._responses = Responses()

    def script(self, *answers: Answer | Raw) -> None:
        """Add answers, given in order, one a request."""
        self._script.extend(answers)

    def respond(self, responder: Responder) -> None:
        """Decide from the request, once the script is used up. The responder may be a coroutine function."""
        self._responder = responder

    @property
    def left(self) -> int:
        """How many scripted answers nobody has asked for yet."""
        return len(self._script)

    async def until(self, true: Callable[[], bool], within: float = 5.0) -> None:
        """Wait until something holds; it is looked at whenever a request arrives, ends or breaks off."""
        async with asyncio.timeout(within):
            while not true():
                self._changed.clear()
                await self._changed.wait()

    async def __aenter__(self) -> Self:
        app = web.Application(client_max_size=_LARGEST_BODY)
        app.router.add_route("*", "/{path:.*}", self._serve)
        # Cancellation is how a hang-up is noticed at once, also in the middle of a pause.
        self._runner = web.AppRunner(app, handler_cancellation=True, access_log=None, shutdown_timeout=0.01)
        await self._runner.setup()
        await web.TCPSite(self._runner, *self._address).start()
        host, port = self._runner.addresses[0][:2]
        self.url = f"http://{host}:{port}"
        self._closing = False
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._closing = True
        if self._runner:
            await self._runner.cleanup()

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        try:
            parsed = orjson.loads(body) if body else None
        except orjson.JSONDecodeError:
            parsed = None
        arrived = asyncio.get_running_loop().time()
        seen = Seen(request.method, request.raw_path, request.headers, body, parsed, arrived)
        if self._remember:
            self.seen.append(seen)
        self._changed.set()
        path = request.raw_path.partition("?")[0]
        speaks_anthropic = path.startswith("/v1/messages") or "anthropic-version" in request.headers
        wire = _TURNS.get(path, _ANTHROPIC if speaks_anthropic else _OPENAI)
        if _RESPONSES.fullmatch(path):
            wire = self._responses
        elif path == _CHAT_IN_LINES:
            wire = wire_ollama
        elif _CONVERSE.fullmatch(path):
            wire = wire_bedrock
        elif gemini := wire_at(seen.path):
            wire = gemini
        exchange = _Exchange(request, wire, seen, wire.headers(self._ids))
        try:
            response = await self._turn(exchange, path)
            seen.finished = not seen.hung_up
        except (asyncio.CancelledError, ConnectionError):
            if not (seen.finished or self._closing):
                seen.hung_up = True
                seen.hung_up_after = asyncio.get_running_loop().time() - arrived
            raise
        finally:
            self._changed.set()
        return response

    async def _turn(self, exchange: _Exchange, path: str) -> web.StreamResponse:
        """Route the request, judge it, say the next thing."""
        seen = exchange.seen
        if seen.method == "GET" and path == _MODELS:
            return await self._whole(exchange, exchange.wire.models(self._models))
        about = _RESPONSES.fullmatch(path)
        if about is not None and about[1] and not self._any_path:
            return await self._kept(exchange, about[1], about[2] or "")
        if seen.method != "POST" or ((about is None or about[1]) and not _is_turn(path) and path != _COUNT):
            return await self._elsewhere(exchange, path)
        found = self._complaint(exchange, path)
        if found:
            seen.refused = found.message
            return await self._error(exchange, found)
        if path == _COUNT:
            # A rough count will do: four bytes a token.
            return await self._whole(exchange, orjson.dumps({"input_tokens": len(seen.body) // 4}))
        answer = await self._next(seen)
        if answer is None:
            # The official clients do not retry what carries this header.
            exchange.headers["x-should-retry"] = "false"
            return await self._error(exchange, _EMPTY)
        if isinstance(answer, Raw):
            return await self._raw(exchange, answer)
        return await self._answer(exchange, answer)

    async def _kept(self, exchange: _Exchange, answer_id: str, rest: str) -> web.StreamResponse:
        found = self._responses.kept(exchange.seen.method, answer_id, rest)
        if isinstance(found, Complaint):
            return await self._error(exchange, found)
        return await self._whole(exchange, found)

    def _complaint(self, exchange: _Exchange, path: str) -> Complaint | None:
        request = exchange.seen.json
        if isinstance(request, dict) and not self._strict:
            return None
        if path == _COUNT:
            return count_complaint(request, exchange.request.headers)
        return exchange.wire.complaint(request, exchange.request.headers)

    async def _next(self, seen: Seen) -> Answer | Raw | None:
        if self._script:
            return self._script.popleft()
        if self._responder is None:
            return None
        answer = self._responder(seen)
        return await answer if inspect.isawaitable(answer) else answer

    async def _elsewhere(self, exchange: _Exchange, path: str) -> web.StreamResponse:
        scripted = isinstance(self._script[0], Raw) if self._script else self._responder is not None
        if self._any_path and scripted:
            answer = await self._next(exchange.seen)
            if isinstance(answer, Raw):
                return await self._raw(exchange, answer)
        kind = "not_found_error" if exchange.wire is _ANTHROPIC else "invalid_request_error"
        text = f"Invalid URL ({exchange.seen.method} {path})"
        return await self._error(exchange, Complaint(text, status=404, kind=kind))

    async def _error(self, exchange: _Exchange, found: Complaint) -> web.StreamResponse:
        return await self._whole(exchange, exchange.wire.error(found, self._ids), found.status)

    async def _whole(self, exchange: _Exchange, body: bytes, status: int = 200) -> web.StreamResponse:
        return await self._raw(exchange, Raw(body, status))

    async def _answer(self, exchange: _Exchange, answer: Answer) -> web.StreamResponse:
        request = exchange.seen.json or {}
        stream_type = _stream_type(exchange.seen.path, request)
        if not stream_type:
            await asyncio.sleep(answer.delay)
            return await self._whole(exchange, exchange.wire.body(answer, request, self._ids))
        frames = exchange.wire.frames(answer, request, self._ids)
        steps: list[bytes | float] = [frames[0]]
        for frame in frames[1:]:
            steps += [answer.delay, frame] if answer.delay else [frame]
        media = {"content-type": stream_type, "cache-control": "no-cache"}
        return await self._raw(exchange, Raw(steps=tuple(steps), headers=media))

    async def _raw(self, exchange: _Exchange, raw: Raw) -> web.StreamResponse:
        headers = {"content-type": "application/json"} | exchange.headers
        headers |= {name.lower(): value for name, value in raw.headers.items()}
        steps = raw.script()
        response = web.StreamResponse(status=raw.status, headers=headers)
        in_one = not raw.steps and len(steps) < 2 and raw.ending == "complete"
        streams = headers["content-type"].startswith(_STREAM_TYPES)
        if in_one and not streams and not {"content-length", "transfer-encoding"} & headers.keys():
            # A body in one piece is announced; what streams, is cut or breaks off goes in chunks.
            response.content_length = len(raw.body)
        exchange.seen.status = raw.status
        await response.prepare(exchange.request)
        for step in steps:
            if isinstance(step, bytes):
                await response.write(step)
            else:
                await asyncio.sleep(step)
        if raw.ending == "hang":
            await asyncio.Event().wait()
        elif raw.ending == "reset":
            await self._reset(exchange)
        else:
            await response.write_eof()
        return response

    async def _reset(self, exchange: _Exchange) -> None:
        """Break the connection, once what was written has left."""
        transport = exchange.request.transport
        if transport is None:
            return
        while transport.get_write_buffer_size():  # noqa: ASYNC110 (a transport offers nothing to wait for)
            await asyncio.sleep(0.001)
        # A client told of a reset throws away what it has not read yet: leave it a moment to read.
        await asyncio.sleep(_GRACE)
        exchange.seen.finished = True
        plug: socket.socket = transport.get_extra_info("socket")
        plug.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        transport.abort()
