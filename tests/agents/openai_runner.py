"""An agent of the OpenAI Agents SDK, on its chat completions model and on its default, the Responses API."""

from __future__ import annotations

import openai
from agents import (
    Agent,
    Model,
    ModelSettings,
    OpenAIChatCompletionsModel,
    OpenAIResponsesModel,
    RunConfig,
    Runner,
    function_tool,
)

from tests.agents.shop import MODELS, MOST_STEPS, Shop

KEY = "sk-test"


async def run(url: str, shop: Shop, task: str, *, stream: bool, key: str = KEY) -> str:
    """Runs to the final output."""
    async with openai.AsyncOpenAI(base_url=f"{url}/v1", api_key=key) as client:
        model = OpenAIChatCompletionsModel(model=MODELS["openai"], openai_client=client)
        return await _run(model, shop, task, stream=stream)


async def run_responses(url: str, shop: Shop, task: str, *, stream: bool, key: str = KEY) -> str:
    """The same on the Responses API."""
    async with openai.AsyncOpenAI(base_url=f"{url}/v1", api_key=key) as client:
        model = OpenAIResponsesModel(model=MODELS["openai"], openai_client=client)
        return await _run(model, shop, task, stream=stream)


async def _run(model: Model, shop: Shop, task: str, *, stream: bool) -> str:
    tools = [
        function_tool(tool, use_docstring_info=False)
        for tool in (shop.get_order, shop.search_policy, shop.refund)
    ]
    agent = Agent(
        name="shop",
        model=model,
        tools=list(tools),
        model_settings=ModelSettings(parallel_tool_calls=True),
    )
    # Its traces would go to the provider's own site.
    quiet = RunConfig(tracing_disabled=True)
    if not stream:
        done = await Runner.run(agent, task, max_turns=MOST_STEPS, run_config=quiet)
        return str(done.final_output)
    streamed = Runner.run_streamed(agent, task, max_turns=MOST_STEPS, run_config=quiet)
    async for _ in streamed.stream_events():
        pass
    return str(streamed.final_output)
