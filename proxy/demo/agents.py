"""The demo's agents: the loop that everybody writes first, once on each official SDK, streamed.

Of Callgate they know a base URL and a key. A tap beside the SDK keeps the very bytes that came back.
"""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import anthropic
import httpx2
import openai

from proxy.demo.shop import SYSTEM, TOOLS, Shop

MODEL = "scripted-large"
MOST_ROUNDS = 8
"""The agent's own brake is loose, so that the demo shows Callgate's."""
MAX_TOKENS = 512


@dataclass(slots=True)
class Got:
    """One reply as it came over the wire."""

    status: int
    headers: dict[str, str]
    body: bytearray = field(default_factory=bytearray)


@dataclass(slots=True)
class Played:
    """What an agent came home with."""

    said: list[str] = field(default_factory=list)
    """The text of each answer, in order; the last one ended the run."""
    replies: list[Got] = field(default_factory=list)
    fault: str = ""
    """What the SDK raised, if it did."""


class Tap(httpx2.AsyncBaseTransport):
    """Keeps every reply, and reads each to its end, as a client does that wants the connection again."""

    def __init__(self, replies: list[Got]) -> None:
        """`replies` is filled."""
        self._replies = replies
        # Loopback speaks no TLS. An empty list of authorities spares the time that reading the system's would take.
        self._inner = httpx2.AsyncHTTPTransport(verify=ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT))

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Sends it on."""
        response = await self._inner.handle_async_request(request)
        got = Got(response.status_code, dict(response.headers))
        self._replies.append(got)
        stream = response.stream
        if not isinstance(stream, httpx2.AsyncByteStream):
            raise TypeError("an asynchronous transport gives an asynchronous stream")
        return httpx2.Response(
            response.status_code,
            headers=response.headers,
            stream=_Tapped(stream, got.body),
            extensions=response.extensions,
        )

    async def aclose(self) -> None:
        """Closes the connections."""
        await self._inner.aclose()


class _Tapped(httpx2.AsyncByteStream):
    def __init__(self, inner: httpx2.AsyncByteStream, body: bytearray) -> None:
        self._inner = inner
        self._body = body
        self._parts = self._tapped()

    async def _tapped(self) -> AsyncIterator[bytes]:
        async for part in self._inner:
            self._body.extend(part)
            yield part

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self._parts

    async def aclose(self) -> None:
        async for _ in self._parts:
            pass
        await self._inner.aclose()


Run = Callable[[str, str, str, Shop, Played], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Sdk:
    """An official SDK and the loop on it."""

    name: str
    run: Run
    """Base URL, key, task, tools, and the record to be filled."""


async def play_agent(sdk: Sdk, url: str, key: str, task: str, shop: Shop) -> Played:
    """Runs an agent until the model asks for no more tools; what the SDK raises is part of the record."""
    played = Played()
    try:
        await sdk.run(url, key, task, shop, played)
    except (openai.OpenAIError, anthropic.AnthropicError) as fault:
        played.fault = f"{type(fault).__name__}: {fault}"
    return played


async def _chat(url: str, key: str, task: str, shop: Shop, played: Played) -> None:
    tools: Any = [
        {
            "type": "function",
            "function": {"name": each.name, "description": each.description, "parameters": each.schema},
        }
        for each in TOOLS
    ]
    messages: list[Any] = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": task}]
    http = openai.DefaultAsyncHttpxClient(transport=Tap(played.replies), trust_env=False)
    async with openai.AsyncOpenAI(
        base_url=f"{url}/v1", api_key=key, max_retries=0, http_client=http
    ) as client:
        for _ in range(MOST_ROUNDS):
            async with client.chat.completions.stream(model=MODEL, messages=messages, tools=tools) as events:
                answer = await events.get_final_completion()
            message = answer.choices[0].message
            played.said.append(message.content or "")
            if not message.tool_calls:
                return
            calls = [
                {
                    "id": call.id,
                    "type": "function",
                    "function": {"name": call.function.name, "arguments": call.function.arguments},
                }
                for call in message.tool_calls
            ]
            messages.append({"role": "assistant", "content": message.content, "tool_calls": calls})
            for call in message.tool_calls:
                result = await shop.call(call.function.name, call.function.arguments)
                messages.append({"role": "tool", "tool_call_id": call.id, "content": result})
    played.fault = f"the agent gave up after {MOST_ROUNDS} rounds"


async def _messages(url: str, key: str, task: str, shop: Shop, played: Played) -> None:
    tools: Any = [
        {"name": each.name, "description": each.description, "input_schema": each.schema} for each in TOOLS
    ]
    messages: list[Any] = [{"role": "user", "content": task}]
    http = anthropic.DefaultAsyncHttpxClient(transport=Tap(played.replies), trust_env=False)
    async with anthropic.AsyncAnthropic(base_url=url, api_key=key, max_retries=0, http_client=http) as client:
        for _ in range(MOST_ROUNDS):
            async with client.messages.stream(
                model=MODEL, max_tokens=MAX_TOKENS, system=SYSTEM, messages=messages, tools=tools
            ) as events:
                answer = await events.get_final_message()
            played.said.append("".join(block.text for block in answer.content if block.type == "text"))
            calls = [block for block in answer.content if block.type == "tool_use"]
            if not calls:
                return
            messages.append({"role": "assistant", "content": answer.content})
            results: list[Any] = []
            for call in calls:
                result = await shop.call(call.name, call.input)
                results.append({"type": "tool_result", "tool_use_id": call.id, "content": result})
            messages.append({"role": "user", "content": results})
    played.fault = f"the agent gave up after {MOST_ROUNDS} rounds"


SDKS = (Sdk("openai", _chat), Sdk("anthropic", _messages))
