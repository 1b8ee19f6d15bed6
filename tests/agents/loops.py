"""The loop that everybody writes first: the official SDK, the history kept by hand."""

from __future__ import annotations

from typing import Any

import anthropic
import openai

from tests.agents.shop import MODELS, MOST_STEPS, SCHEMAS, Shop

KEY = "sk-test"
MAX_TOKENS = 512


async def openai_loop(url: str, shop: Shop, task: str, *, stream: bool, key: str = KEY) -> str:
    """Chat completions."""
    tools: Any = [
        {"type": "function", "function": {"name": name, "parameters": schema}}
        for name, schema in SCHEMAS.items()
    ]
    messages: list[Any] = [{"role": "user", "content": task}]
    asked: dict[str, Any] = {"model": MODELS["openai"], "messages": messages, "tools": tools}
    async with openai.AsyncOpenAI(base_url=f"{url}/v1", api_key=key) as client:
        for _ in range(MOST_STEPS):
            if stream:
                async with client.chat.completions.stream(**asked) as events:
                    answer: Any = await events.get_final_completion()
            else:
                answer = await client.chat.completions.create(**asked)
            message = answer.choices[0].message
            if not message.tool_calls:
                return message.content or ""
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
    raise AssertionError("the loop does not end")


async def anthropic_loop(url: str, shop: Shop, task: str, *, stream: bool, key: str = KEY) -> str:
    """Messages."""
    tools: Any = [{"name": name, "input_schema": schema} for name, schema in SCHEMAS.items()]
    messages: list[Any] = [{"role": "user", "content": task}]
    asked: dict[str, Any] = {
        "model": MODELS["anthropic"],
        "messages": messages,
        "tools": tools,
        "max_tokens": MAX_TOKENS,
    }
    async with anthropic.AsyncAnthropic(base_url=url, api_key=key) as client:
        for _ in range(MOST_STEPS):
            if stream:
                async with client.messages.stream(**asked) as events:
                    answer: Any = await events.get_final_message()
            else:
                answer = await client.messages.create(**asked)
            calls = [block for block in answer.content if block.type == "tool_use"]
            if not calls:
                return "".join(block.text for block in answer.content if block.type == "text")
            messages.append({"role": "assistant", "content": answer.content})
            results = [
                {
                    "type": "tool_result",
                    "tool_use_id": call.id,
                    "content": await shop.call(call.name, call.input),
                }
                for call in calls
            ]
            messages.append({"role": "user", "content": results})
    raise AssertionError("the loop does not end")
