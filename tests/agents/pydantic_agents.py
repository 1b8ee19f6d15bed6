"""Agents of Pydantic AI, on its OpenAI and Anthropic models."""

from __future__ import annotations

from collections.abc import AsyncIterable
from typing import Any

import anthropic
import openai
from pydantic_ai import Agent
from pydantic_ai.models import Model
from pydantic_ai.models.anthropic import AnthropicModel
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.anthropic import AnthropicProvider
from pydantic_ai.providers.openai import OpenAIProvider

from tests.agents.shop import MODELS, Shop

KEY = "sk-test"


async def _read(_: Any, events: AsyncIterable[Any]) -> None:
    """Asked for with each answer, it makes the agent stream it."""
    async for _event in events:
        pass


async def _run(model: Model, shop: Shop, task: str, *, stream: bool) -> str:
    agent = Agent(model, tools=[shop.get_order, shop.search_policy, shop.refund])
    done = await agent.run(task, event_stream_handler=_read if stream else None)
    return str(done.output)


async def run_openai(url: str, shop: Shop, task: str, *, stream: bool, key: str = KEY) -> str:
    """Chat completions."""
    async with openai.AsyncOpenAI(base_url=f"{url}/v1", api_key=key) as client:
        model = OpenAIChatModel(MODELS["openai"], provider=OpenAIProvider(openai_client=client))
        return await _run(model, shop, task, stream=stream)


async def run_anthropic(url: str, shop: Shop, task: str, *, stream: bool, key: str = KEY) -> str:
    """Messages."""
    async with anthropic.AsyncAnthropic(base_url=url, api_key=key) as client:
        model = AnthropicModel(MODELS["anthropic"], provider=AnthropicProvider(anthropic_client=client))
        return await _run(model, shop, task, stream=stream)
