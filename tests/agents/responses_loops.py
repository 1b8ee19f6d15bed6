"""The loop of the official SDK on the Responses API: the history kept by hand, or left with the provider."""

from __future__ import annotations

from typing import Any

import openai

from tests.agents.shop import MODELS, MOST_STEPS, SCHEMAS, Shop

KEY = "sk-test"
TOOLS: list[Any] = [
    {"type": "function", "name": name, "parameters": schema, "strict": True}
    for name, schema in SCHEMAS.items()
]


async def run_by_hand(url: str, shop: Shop, task: str, *, stream: bool, key: str = KEY) -> str:
    """Every item is sent back; the provider keeps nothing."""
    items: list[Any] = [{"role": "user", "content": task}]
    async with openai.AsyncOpenAI(base_url=f"{url}/v1", api_key=key) as client:
        for _ in range(MOST_STEPS):
            answer = await _asked(client, stream=stream, input=items, store=False)
            results = await _results(answer, shop)
            if not results:
                return str(answer.output_text)
            items += [*(item.to_dict() for item in answer.output), *results]
    raise AssertionError("the loop does not end")


async def run_stored(url: str, shop: Shop, task: str, *, stream: bool, key: str = KEY) -> str:
    """Only what is new is sent, with the id of the answer before."""
    new: Any = task
    more: dict[str, Any] = {}
    async with openai.AsyncOpenAI(base_url=f"{url}/v1", api_key=key) as client:
        for _ in range(MOST_STEPS):
            answer = await _asked(client, stream=stream, input=new, **more)
            new = await _results(answer, shop)
            if not new:
                return str(answer.output_text)
            more = {"previous_response_id": answer.id}
    raise AssertionError("the loop does not end")


async def run_conversation(url: str, shop: Shop, task: str, *, stream: bool, key: str = KEY) -> str:
    """Only what is new is sent, into a conversation that the provider keeps."""
    new: Any = task
    async with openai.AsyncOpenAI(base_url=f"{url}/v1", api_key=key) as client:
        for _ in range(MOST_STEPS):
            answer = await _asked(client, stream=stream, input=new, conversation="conv_shop")
            new = await _results(answer, shop)
            if not new:
                return str(answer.output_text)
    raise AssertionError("the loop does not end")


async def _asked(client: openai.AsyncOpenAI, *, stream: bool, **more: Any) -> Any:
    asked: dict[str, Any] = {"model": MODELS["openai"], "tools": TOOLS, **more}
    if not stream:
        return await client.responses.create(**asked)
    async with client.responses.stream(**asked) as events:
        return await events.get_final_response()


async def _results(answer: Any, shop: Shop) -> list[Any]:
    return [
        {
            "type": "function_call_output",
            "call_id": item.call_id,
            "output": await shop.call(item.name, item.arguments),
        }
        for item in answer.output
        if item.type == "function_call"
    ]
