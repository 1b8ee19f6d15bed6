"""A running provider, and the official clients that talk to it."""

from collections.abc import AsyncIterator

import aiohttp
import pytest
from anthropic import AsyncAnthropic
from openai import AsyncOpenAI

from proxy.demo import ScriptedProvider


@pytest.fixture
async def provider() -> AsyncIterator[ScriptedProvider]:
    async with ScriptedProvider() as running:
        yield running


@pytest.fixture
async def openai(provider: ScriptedProvider) -> AsyncIterator[AsyncOpenAI]:
    async with AsyncOpenAI(base_url=f"{provider.url}/v1", api_key="test", max_retries=0) as client:
        yield client


@pytest.fixture
async def anthropic(provider: ScriptedProvider) -> AsyncIterator[AsyncAnthropic]:
    async with AsyncAnthropic(base_url=provider.url, api_key="test", max_retries=0) as client:
        yield client


@pytest.fixture
async def session(provider: ScriptedProvider) -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession(provider.url) as client:
        yield client
