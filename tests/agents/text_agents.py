"""Agents that call tools in text: LangChain's ReAct and JSON agents and smolagents' code agent, as they come."""

from __future__ import annotations

import asyncio
import warnings
from typing import Any

from langchain_classic.agents import AgentExecutor, create_json_chat_agent, create_react_agent
from langchain_core.prompts import ChatPromptTemplate, MessagesPlaceholder, PromptTemplate
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI

from tests.agents.shop import MODELS, Shop

KEY = "sk-test"
PROMPT = PromptTemplate.from_template(
    "Answer with these tools:\n{tools}\n\nUse this form:\nThought: what to do\nAction: one of [{tool_names}]\n"
    "Action Input: the input\nObservation: the result\n... (repeated)\nThought: I know\nFinal Answer: the answer\n\n"
    "Question: {input}\nThought:{agent_scratchpad}"
)


JSON_PROMPT = ChatPromptTemplate.from_messages(
    [
        (
            "system",
            "Answer with these tools:\n{tools}\nSay a JSON object: action (one of {tool_names}), action_input.",
        ),
        ("human", "{input}"),
        MessagesPlaceholder("agent_scratchpad"),
    ]
)


async def run_react(url: str, shop: Shop, task: str, *, stream: bool, key: str = KEY) -> str:
    """LangChain's ReAct agent to its final answer; it keeps its scratchpad in one message of the user."""
    return await _langchain(create_react_agent, PROMPT, url, shop, task, stream=stream, key=key)


async def run_json(url: str, shop: Shop, task: str, *, stream: bool, key: str = KEY) -> str:
    """LangChain's JSON agent to its final answer: each answer of the model is an object that names an action."""
    return await _langchain(create_json_chat_agent, JSON_PROMPT, url, shop, task, stream=stream, key=key)


async def _langchain(
    creates: Any, prompt: Any, url: str, shop: Shop, task: str, *, stream: bool, key: str
) -> str:
    @tool
    async def get_order(order_id: str) -> str:
        """Looks up an order."""
        return await shop.get_order(order_id)

    @tool
    async def refund(order_id: str) -> str:
        """Refunds an order."""
        return await shop.refund(order_id)

    model = ChatOpenAI(
        model=MODELS["openai"], base_url=f"{url}/v1", api_key=key, streaming=stream, max_retries=0
    )
    tools = [get_order, refund]
    agent = creates(model, tools, prompt)
    done = await AgentExecutor(agent=agent, tools=tools, max_iterations=6).ainvoke({"input": task})
    return str(done["output"])


async def run_code(url: str, shop: Shop, task: str, *, stream: bool, key: str = KEY) -> str:
    """smolagents' code agent to its final answer: each answer of the model is code that it would run."""
    return await asyncio.to_thread(_code, url, shop, task, stream=stream, key=key)


def _code(url: str, shop: Shop, task: str, *, stream: bool, key: str) -> str:
    with warnings.catch_warnings(action="ignore"):
        import smolagents  # type: ignore[import-untyped]  # it ships no types, and warns as it is imported

        @smolagents.tool  # type: ignore[untyped-decorator]  # as above
        def get_order(order_id: str) -> str:
            """Looks up an order.

            Args:
                order_id: Its number.
            """
            return asyncio.run(shop.get_order(order_id))

        @smolagents.tool  # type: ignore[untyped-decorator]  # as above
        def refund(order_id: str) -> str:
            """Refunds an order.

            Args:
                order_id: Its number.
            """
            return asyncio.run(shop.refund(order_id))

        model: Any = smolagents.OpenAIServerModel(MODELS["openai"], api_base=f"{url}/v1", api_key=key)
        agent = smolagents.CodeAgent(
            tools=[get_order, refund], model=model, max_steps=6, verbosity_level=0, stream_outputs=stream
        )
        return str(agent.run(task))
