"""The processes of the benchmark: a provider, a bare pass-through and Callgate. Each prints its address when ready."""

from __future__ import annotations

import asyncio
import signal
import sys
from contextlib import AsyncExitStack

import aiohttp
import uvloop
from aiohttp import web

from proxy.assembly import running
from proxy.config import load_settings
from proxy.demo.answers import Answer, Call
from proxy.demo.provider import ScriptedProvider, Seen

LARGEST_BODY = 64 * 1024 * 1024
ANSWER = Answer("Let me look that up for you.", calls=(Call("get_order", {"id": "A123"}),), pieces=10)


def _answer(_: Seen) -> Answer:
    return ANSWER


async def _provider(stack: AsyncExitStack) -> str:
    provider = await stack.enter_async_context(ScriptedProvider(strict=False, remember=False))
    provider.respond(_answer)
    return provider.url


async def _bare(stack: AsyncExitStack, upstream: str) -> str:
    """The least an aiohttp proxy can do: bodies whole, answers chunk by chunk, nothing read."""
    http = await stack.enter_async_context(
        aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0), auto_decompress=False)
    )

    async def passed(request: web.Request) -> web.StreamResponse:
        body = await request.read()
        headers = {
            "content-type": "application/json",
            "authorization": request.headers.get("authorization", ""),
        }
        async with http.request(
            request.method, upstream + request.path_qs, data=body, headers=headers
        ) as answer:
            response = web.StreamResponse(
                status=answer.status, headers={"content-type": answer.headers["content-type"]}
            )
            await response.prepare(request)
            async for chunk in answer.content.iter_any():
                await response.write(chunk)
            await response.write_eof()
            return response

    app = web.Application(client_max_size=LARGEST_BODY)
    app.router.add_route("*", "/{path:.*}", passed)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    stack.push_async_callback(runner.cleanup)
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    host, port = runner.addresses[0][:2]
    return f"http://{host}:{port}"


async def _callgate(stack: AsyncExitStack, upstream: str) -> str:
    settings = load_settings(
        overrides={"listen.port": 0, "admin.port": 0, "upstream.openai_chat.base_url": upstream},
        environment={},
    )
    callgate = await stack.enter_async_context(running(settings))
    return callgate.url


async def _serve(role: str, upstream: str) -> None:
    stop = asyncio.Event()
    async with AsyncExitStack() as stack:
        if role == "provider":
            url = await _provider(stack)
        elif role == "bare":
            url = await _bare(stack, upstream)
        else:
            url = await _callgate(stack, upstream)
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, stop.set)
        print(url, flush=True)
        await stop.wait()


if __name__ == "__main__":
    uvloop.run(_serve(sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else ""))
