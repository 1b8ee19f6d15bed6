"""The other side of the Converse API for tests: event streams to be read, and the official client that reads them."""

import json
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import botocore.session
from botocore.awsrequest import AWSResponse
from botocore.client import BaseClient
from botocore.config import Config

from proxy.dialects.bedrock_frames import MessageSplitter, event, with_payload

Json = dict[str, Any]
USAGE = {"inputTokens": 200, "outputTokens": 30, "totalTokens": 230}
MODEL = "maple.large-v1:0"


def said(kind: str, **payload: Any) -> bytes:
    """One event as the provider writes it, with the padding that it adds."""
    return event(kind, json.dumps({**payload, "p": "abcd"}, ensure_ascii=False).encode())


def opening() -> bytes:
    return said("messageStart", role="assistant")


def text(index: int, *pieces: str) -> bytes:
    """A block of text, which has no start."""
    deltas = [said("contentBlockDelta", contentBlockIndex=index, delta={"text": piece}) for piece in pieces]
    return b"".join(deltas) + said("contentBlockStop", contentBlockIndex=index)


def call(index: int, call_id: str, name: str, *pieces: str) -> bytes:
    """A block of a call, its arguments in pieces."""
    start = {"toolUse": {"toolUseId": call_id, "name": name}}
    deltas = [
        said("contentBlockDelta", contentBlockIndex=index, delta={"toolUse": {"input": piece}})
        for piece in pieces
    ]
    begun = said("contentBlockStart", contentBlockIndex=index, start=start)
    return begun + b"".join(deltas) + said("contentBlockStop", contentBlockIndex=index)


def ending(reason: str = "tool_use") -> bytes:
    stop = said("messageStop", stopReason=reason)
    return stop + said("metadata", usage=USAGE, metrics={"latencyMs": 20})


def whole(*blocks: Json, reason: str = "tool_use") -> Json:
    """A whole answer."""
    message = {"role": "assistant", "content": list(blocks)}
    return {
        "output": {"message": message},
        "stopReason": reason,
        "usage": USAGE,
        "metrics": {"latencyMs": 20},
    }


def value_in(raw: bytes) -> Any:
    """The JSON in an event."""
    splitter = MessageSplitter()
    (found,) = splitter.feed(raw) + splitter.end()
    return json.loads(found.payload)


def frame_with(raw: bytes, value: Any) -> bytes:
    """The event with other JSON."""
    return with_payload(MessageSplitter().feed(raw)[0], json.dumps(value).encode())


class _Body:
    """What the client takes for the body of a response."""

    def __init__(self, body: bytes) -> None:
        self._body = body

    def stream(self, size: int = 0) -> Iterator[bytes]:
        del size
        yield self._body

    def close(self) -> None:
        """There is nothing to close."""


def client_of(body: bytes, status: int = 200) -> BaseClient:
    """The official client, whose provider answers everything with `body`."""
    session = botocore.session.Session()
    client = session.create_client(
        "bedrock-runtime",
        region_name="us-east-1",
        endpoint_url="http://provider.test",
        aws_access_key_id="AKIDEXAMPLE",
        aws_secret_access_key="secret",
        config=Config(retries={"total_max_attempts": 1}),
    )

    def answer(**_: Any) -> AWSResponse:
        return AWSResponse("http://provider.test", status, {"content-type": "application/json"}, _Body(body))

    client.meta.events.register("before-send.bedrock-runtime", answer)
    return client


_ASKED: Json = {"modelId": MODEL, "messages": [{"role": "user", "content": [{"text": "x"}]}]}


def sdk_streams(stream: bytes) -> Json:
    """The message that an agent puts together from a stream, by the indices of its blocks."""
    client: Any = client_of(stream)
    blocks: dict[int, Json] = {}
    with closing(client.converse_stream(**_ASKED)["stream"]) as events:
        for one in events:
            begun, grown = one.get("contentBlockStart"), one.get("contentBlockDelta")
            if begun is not None and "toolUse" in begun["start"]:
                blocks[begun["contentBlockIndex"]] = {"toolUse": {**begun["start"]["toolUse"], "input": ""}}
            if grown is not None:
                block = blocks.setdefault(grown["contentBlockIndex"], {"text": ""})
                if "toolUse" in grown["delta"]:
                    block["toolUse"]["input"] += grown["delta"]["toolUse"]["input"]
                else:
                    block["text"] = block.get("text", "") + grown["delta"].get("text", "")
    for block in blocks.values():
        if "toolUse" in block:
            block["toolUse"]["input"] = json.loads(block["toolUse"]["input"] or "{}")
    return {"role": "assistant", "content": [blocks[index] for index in sorted(blocks)]}


def sdk_reads(body: bytes, status: int = 200) -> Json:
    """The message in a whole answer as the official client reads it."""
    client: Any = client_of(body, status)
    read: Json = client.converse(**_ASKED)["output"]["message"]
    return read
