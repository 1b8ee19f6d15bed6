"""Agent loops on Ollama's own client, and on AWS's for Bedrock."""

from __future__ import annotations

import asyncio
import json
from contextlib import closing
from typing import Any

import botocore.session
import ollama
from botocore.client import BaseClient
from botocore.config import Config

Json = dict[str, Any]
MODEL = "us.maple.large-v1:0"
PROFILE = "arn:aws:bedrock:us-east-1:123456789012:inference-profile/us.maple.large-v1:0"
SCHEMA = {"type": "object", "properties": {"order_id": {"type": "string"}}, "required": ["order_id"]}
TOOLS = ("get_order", "search_policy", "refund")


def done(name: str, arguments: Json) -> str:
    """What a tool of the agent gives back."""
    return f"{name} of {arguments['order_id']}: done"


async def ollama_loop(url: str, task: str, ran: list[str], *, stream: bool) -> str:
    """Works on the task with Ollama's client; `ran` gets what the agent's tools did."""
    tools: list[Json] = [
        {"type": "function", "function": {"name": name, "description": name, "parameters": SCHEMA}}
        for name in TOOLS
    ]
    messages: list[Any] = [{"role": "user", "content": task}]
    client = ollama.AsyncClient(url)
    async with client._client:
        while True:
            answer = await _ollama_answer(client, messages, tools, stream=stream)
            messages.append(answer)
            if not answer.tool_calls:
                return answer.content or ""
            for call in answer.tool_calls:
                said = done(call.function.name, dict(call.function.arguments))
                ran.append(said)
                messages.append({"role": "tool", "tool_name": call.function.name, "content": said})


async def _ollama_answer(
    client: Any, messages: list[Any], tools: list[Json], *, stream: bool
) -> ollama.Message:
    if not stream:
        whole = await client.chat("maple-1", messages=messages, tools=tools)
        message: ollama.Message = whole.message
        return message
    said = ""
    calls: list[ollama.Message.ToolCall] = []
    async for part in await client.chat("maple-1", messages=messages, tools=tools, stream=True):
        said += part.message.content or ""
        calls += part.message.tool_calls or []
    return ollama.Message(role="assistant", content=said, tool_calls=calls or None)


def converse_client(url: str) -> BaseClient:
    """AWS's client. It signs its requests: over plain HTTP it sends no bearer key."""
    return botocore.session.Session().create_client(
        "bedrock-runtime",
        region_name="us-east-1",
        endpoint_url=url,
        aws_access_key_id="AKIDOFTHEAGENT",
        aws_secret_access_key="secret of the agent",
        config=Config(retries={"total_max_attempts": 1}),
    )


async def converse_loop(url: str, task: str, ran: list[str], *, stream: bool, model: str = MODEL) -> str:
    """Works on the task with AWS's client, in a thread since it blocks."""
    return await asyncio.to_thread(_converse_loop, url, task, ran, model, stream=stream)


def _converse_loop(url: str, task: str, ran: list[str], model: str, *, stream: bool) -> str:
    tools = [{"toolSpec": {"name": name, "inputSchema": {"json": SCHEMA}}} for name in TOOLS]
    messages: list[Json] = [{"role": "user", "content": [{"text": task}]}]
    with closing(converse_client(url)) as client:
        while True:
            asked = {"modelId": model, "messages": messages, "toolConfig": {"tools": tools}}
            message = _streamed(client, asked) if stream else client.converse(**asked)["output"]["message"]
            messages.append(message)
            uses = [block["toolUse"] for block in message["content"] if "toolUse" in block]
            if not uses:
                return "\n".join(block["text"] for block in message["content"] if "text" in block)
            results = []
            for use in uses:
                ran.append(done(use["name"], use["input"]))
                content = [{"text": ran[-1]}]
                results.append({"toolResult": {"toolUseId": use["toolUseId"], "content": content}})
            messages.append({"role": "user", "content": results})


def _streamed(client: Any, asked: Json) -> Json:
    """The message, as agents without an accumulator of the SDK put it together: each piece belongs to what began last."""
    blocks: list[Json] = []
    pieces = ""
    fresh = True
    with closing(client.converse_stream(**asked)["stream"]) as events:
        for one in events:
            if "contentBlockStart" in one:
                blocks.append({"toolUse": {**one["contentBlockStart"]["start"]["toolUse"], "input": {}}})
                pieces, fresh = "", False
            elif "contentBlockDelta" in one:
                delta = one["contentBlockDelta"]["delta"]
                if "toolUse" in delta:
                    pieces += delta["toolUse"]["input"]
                elif delta.get("text"):
                    if fresh:
                        blocks.append({"text": ""})
                        fresh = False
                    blocks[-1]["text"] += delta["text"]
            elif "contentBlockStop" in one:
                if blocks and "toolUse" in blocks[-1]:
                    blocks[-1]["toolUse"]["input"] = json.loads(pieces or "{}")
                fresh = True
    return {"role": "assistant", "content": blocks}
