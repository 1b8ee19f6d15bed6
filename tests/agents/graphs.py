"""The ready-made agent of LangGraph, on both of LangChain's models."""

from __future__ import annotations

import warnings
from typing import Any

import httpx
from langchain_anthropic import ChatAnthropic
from langchain_core.language_models import BaseChatModel
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from langgraph.prebuilt import create_react_agent
from langgraph.warnings import LangGraphDeprecationWarning
from pydantic import SecretStr

from tests.agents.shop import MODELS, MOST_STEPS, Shop

KEY = "sk-test"


async def _run(model: BaseChatModel, shop: Shop, task: str) -> str:
    tools = [tool(each) for each in (shop.get_order, shop.search_policy, shop.refund)]
    with warnings.catch_warnings():
        # It moved to a package that brings much more; this is the one which is in LangGraph itself.
        warnings.simplefilter("ignore", LangGraphDeprecationWarning)
        graph: Any = create_react_agent(model, tools)
    said = {"messages": [("user", task)]}
    ended = await graph.ainvoke(said, {"recursion_limit": 2 * MOST_STEPS})
    return str(ended["messages"][-1].text)


async def run_openai(url: str, shop: Shop, task: str, *, stream: bool, key: str = KEY) -> str:
    """Chat completions."""
    async with httpx.AsyncClient() as http:
        model = ChatOpenAI(
            model=MODELS["openai"],
            base_url=f"{url}/v1",
            api_key=SecretStr(key),
            streaming=stream,
            http_async_client=http,
        )
        return await _run(model, shop, task)


async def run_anthropic(url: str, shop: Shop, task: str, *, stream: bool, key: str = KEY) -> str:
    """Messages."""
    model = ChatAnthropic(
        model=MODELS["anthropic"],
        base_url=url,
        api_key=SecretStr(key),
        streaming=stream,
        timeout=None,
        stop=None,
    )
    try:
        return await _run(model, shop, task)
    finally:
        await model._async_client.close()
