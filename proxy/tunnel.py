"""A web socket that the operator opened by name: messages travel both ways, unread.

1. The provider is reached first; where it refuses, the agent gets an ordinary error and no socket.
2. The same headers, keys and redirects as with any request: what does not travel there does not travel here.
3. Whoever closes or hangs up, the other side is told at once; so it is after a long silence and at the end of Callgate.
"""

from __future__ import annotations

import asyncio
import re
from typing import TYPE_CHECKING, Final

import aiohttp
from aiohttp import ClientWSTimeout, WSCloseCode, WSMsgType, web
from yarl import URL

from proxy import codings
from proxy.errors import UpstreamFault
from proxy.identity import holds_own_key
from proxy.upstream import REDIRECTS, UpstreamRequest, fault_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from proxy.exchange import Incoming
    from proxy.settings import Settings

FAREWELL_SECONDS = 2.0
"""How long either side may take to answer that the socket is closed."""

_HANDSHAKE = "sec-websocket-"
_OFFERED = "sec-websocket-protocol"
_MAY_CARRY_KEY = re.compile(r"key|token|bearer|auth", re.IGNORECASE)
_FAULTY = range(400, 600)
_NEVER_SENT: Final = frozenset({1004, 1005, 1006, 1015})
"""Codes that say how a socket ended without being sent over it (RFC 6455, 7.4.1)."""

Socket = web.WebSocketResponse | aiohttp.ClientWebSocketResponse


class Ended(asyncio.CancelledError):
    """The joined sockets were cancelled, and both are closed."""

    def __init__(self, response: web.StreamResponse) -> None:
        """The agent's socket."""
        super().__init__()
        self.response = response


def is_asked_for(request: web.BaseRequest) -> bool:
    """The request wants to become a web socket."""
    return request.method == "GET" and request.headers.get("upgrade", "").strip().lower() == "websocket"


async def carry(request: web.BaseRequest, incoming: Incoming, settings: Settings) -> web.StreamResponse:
    """Joins the agent's socket to one to the provider until either is closed.

    Raises ClientFault and UpstreamFault only while the agent has no socket yet, Ended where it was cancelled then.
    """
    async with aiohttp.ClientSession(
        cookie_jar=aiohttp.DummyCookieJar(),
        skip_auto_headers=("accept", "accept-encoding", "user-agent"),
        trust_env=False,
        middlewares=(_stay,),
        timeout=aiohttp.ClientTimeout(total=None, sock_connect=settings.upstream.connect_seconds),
    ) as session:
        upstream = await _connected(session, incoming, settings)
        try:
            return await _joined(request, upstream, settings)
        finally:
            await upstream.close(code=WSCloseCode.GOING_AWAY)


async def _stay(request: aiohttp.ClientRequest, send: aiohttp.ClientHandlerType) -> aiohttp.ClientResponse:
    """A provider that sends the agent elsewhere is not followed."""
    response = await send(request)
    if response.status in REDIRECTS:
        response.close()
        raise UpstreamFault(
            "The provider sends this request elsewhere, which is not followed.", code="upstream_redirect"
        )
    return response


async def _connected(
    session: aiohttp.ClientSession, incoming: Incoming, settings: Settings
) -> aiohttp.ClientWebSocketResponse:
    outgoing = UpstreamRequest.of(incoming, b"", settings)
    headers = [(name, value) for name, value in outgoing.headers if not name.startswith(_HANDSHAKE)]
    try:
        async with asyncio.timeout(settings.upstream.connect_seconds):
            return await session.ws_connect(
                URL(outgoing.url, encoded=True),
                protocols=_offered(incoming, settings),
                headers=headers,
                timeout=ClientWSTimeout(ws_close=FAREWELL_SECONDS),
                autoclose=False,
                autoping=False,
                max_msg_size=settings.max_body_bytes,
            )
    except aiohttp.WSServerHandshakeError as error:
        status = error.status if error.status in _FAULTY else UpstreamFault.status
        raise UpstreamFault(
            f"The provider opens no web socket here (status {error.status}).", status=status
        ) from None
    except (aiohttp.ClientError, codings.Undecodable, OSError) as error:
        raise fault_of(error) from None


def _offered(incoming: Incoming, settings: Settings) -> Sequence[str]:
    """The protocols that the agent offers; some clients put a key among them, which travels no further than others."""
    offered = ",".join(incoming.headers.getall(_OFFERED, ())).split(",")
    replaced = incoming.caller.credential is not None
    return [
        name
        for name in map(str.strip, offered)
        if name
        and not holds_own_key(name, settings.identity)
        and not (replaced and _MAY_CARRY_KEY.search(name))
    ]


async def _joined(
    request: web.BaseRequest, upstream: aiohttp.ClientWebSocketResponse, settings: Settings
) -> web.StreamResponse:
    agent = web.WebSocketResponse(
        timeout=FAREWELL_SECONDS,
        autoclose=False,
        autoping=False,
        protocols=[upstream.protocol] if upstream.protocol else [],
        compress=False,
        max_msg_size=settings.max_body_bytes,
    )
    await agent.prepare(request)
    heard = _Heard()
    # Kept in this list until they are waited for below.
    loop = asyncio.get_running_loop()
    flows = [
        loop.create_task(_flow(agent, upstream, heard)),
        loop.create_task(_flow(upstream, agent, heard)),
    ]
    try:
        while not any(flow.done() for flow in flows):
            left = heard.at + settings.upstream.idle_seconds - loop.time()
            if left <= 0:
                break
            await asyncio.wait(flows, timeout=left, return_when=asyncio.FIRST_COMPLETED)
        else:
            # The other one ends too, once its side has answered.
            await asyncio.wait(flows, timeout=2 * FAREWELL_SECONDS)
    except asyncio.CancelledError:
        raise Ended(agent) from None
    finally:
        for flow in flows:
            flow.cancel()
        await asyncio.gather(*flows, return_exceptions=True)
        await agent.close(code=WSCloseCode.GOING_AWAY)
    return agent


class _Heard:
    """When either side last said something."""

    def __init__(self) -> None:
        self.at = asyncio.get_running_loop().time()

    def now(self) -> None:
        self.at = asyncio.get_running_loop().time()


async def _flow(source: Socket, sink: Socket, heard: _Heard) -> None:
    """Every message of one side to the other, until one of them closes or breaks off."""
    while True:
        message = await source.receive()
        heard.now()
        try:
            if message.type is WSMsgType.TEXT:
                await sink.send_str(message.data)
            elif message.type is WSMsgType.BINARY:
                await sink.send_bytes(message.data)
            elif message.type is WSMsgType.PING:
                await sink.ping(message.data)
            elif message.type is WSMsgType.PONG:
                await sink.pong(message.data)
            else:
                break
        except (ConnectionError, aiohttp.ClientConnectionResetError):
            break
    if message.type is WSMsgType.CLOSING:
        return  # the other flow is closing this side
    code, text = WSCloseCode.GOING_AWAY, b""
    if message.type is WSMsgType.CLOSE:
        code = WSCloseCode.OK if message.data in _NEVER_SENT else message.data
        text = (message.extra or "").encode()
    await sink.close(code=code, message=text)
    await source.close(code=code)
