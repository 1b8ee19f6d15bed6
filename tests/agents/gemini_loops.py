"""An agent loop on Google's own client for Gemini's API."""

from __future__ import annotations

from typing import Any

import httpx
from google import genai
from google.genai import types

from tests.agents.local_and_cloud import SCHEMA, TOOLS, done

MODEL = "gemini-3-pro"
"""One that wants its signatures back."""


def client_of(url: str, http: httpx.AsyncClient) -> genai.Client:
    """The client as an agent sets it up: only the base URL is new."""
    options = types.HttpOptions(base_url=url, httpx_async_client=http)
    return genai.Client(api_key="key-of-the-agent", http_options=options)


async def gemini_loop(url: str, task: str, ran: list[str], *, stream: bool) -> str:
    """Works on the task; `ran` gets what the agent's tools did."""
    declared = [types.FunctionDeclaration(name=name, parameters_json_schema=SCHEMA) for name in TOOLS]
    config = types.GenerateContentConfig(
        tools=[types.Tool(function_declarations=declared)],
        automatic_function_calling=types.AutomaticFunctionCallingConfig(disable=True),
    )
    contents: list[Any] = [types.Content(role="user", parts=[types.Part(text=task)])]
    async with httpx.AsyncClient() as http, client_of(url, http).aio as client:
        while True:
            parts = await _parts(client, contents, config, stream=stream)
            contents.append(types.Content(role="model", parts=parts))
            calls = [part.function_call for part in parts if part.function_call is not None]
            if not calls:
                return "".join(part.text or "" for part in parts if not part.thought)
            results = []
            for call in calls:
                ran.append(done(call.name or "", dict(call.args or {})))
                results.append(
                    types.Part.from_function_response(name=call.name or "", response={"result": ran[-1]})
                )
            contents.append(types.Content(role="user", parts=results))


async def _parts(client: Any, contents: list[Any], config: Any, *, stream: bool) -> list[types.Part]:
    asked = {"model": MODEL, "contents": contents, "config": config}
    if not stream:
        answer = await client.models.generate_content(**asked)
        return list(answer.candidates[0].content.parts)
    found: list[types.Part] = []
    async for piece in await client.models.generate_content_stream(**asked):
        for candidate in piece.candidates or []:
            found += [
                part for part in (candidate.content.parts if candidate.content else None) or [] if _says(part)
            ]
    return found


def _says(part: types.Part) -> bool:
    return bool(part.text or part.function_call)
