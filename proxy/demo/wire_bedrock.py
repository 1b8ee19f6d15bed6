"""An answer as Bedrock's Converse API writes it: body, binary event stream, error."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson

from proxy.demo.answers import Answer, Complaint, Ids, cut
from proxy.dialects.bedrock_frames import event

__all__ = ["body", "complaint", "error", "frames", "headers", "models"]

_Json = dict[str, Any]
_FINISH = {"stop": "end_turn", "tool_calls": "tool_use", "length": "max_tokens"}
_PADDING = "abcdefghijklmnop"


def headers(ids: Ids) -> dict[str, str]:
    """Headers of every response."""
    return {"x-amzn-requestid": ids.next("", 32)}


def body(answer: Answer, request: Mapping[str, Any], ids: Ids) -> bytes:
    """The whole response."""
    del request
    content: list[_Json] = []
    if answer.thinking:
        content.append({"reasoningContent": {"reasoningText": {"text": answer.thinking}}})
    content += [{"text": answer.text}] if answer.text else []
    for call in answer.calls:
        use = {"toolUseId": call.id or ids.next("tooluse_", 22), "name": call.name}
        content.append({"toolUse": {**use, "input": orjson.Fragment(call.text())}})
    content += [{"text": answer.text_after}] if answer.text_after else []
    return orjson.dumps(
        {
            "metrics": {"latencyMs": 20},
            "output": {"message": {"content": content, "role": "assistant"}},
            "stopReason": _finish(answer),
            **_usage(answer),
        }
    )


def frames(answer: Answer, request: Mapping[str, Any], ids: Ids) -> list[bytes]:
    """The stream, one element a message. Texts have no start; usage comes behind the end."""
    del request
    out = [_said("messageStart", role="assistant")]
    blocks: list[tuple[_Json | None, list[_Json]]] = []
    for thought in [answer.thinking] if answer.thinking else []:
        pieces = cut(thought, answer.pieces)
        blocks.append((None, [{"reasoningContent": {"text": piece}} for piece in pieces]))
    if answer.text:
        blocks.append((None, [{"text": piece} for piece in cut(answer.text, answer.pieces)]))
    for call in answer.calls:
        use = {"toolUseId": call.id or ids.next("tooluse_", 22), "name": call.name}
        pieces = ["", *cut(call.text(), answer.pieces)]
        blocks.append(({"toolUse": use}, [{"toolUse": {"input": piece}} for piece in pieces]))
    if answer.text_after:
        blocks.append((None, [{"text": piece} for piece in cut(answer.text_after, answer.pieces)]))
    for index, (start, deltas) in enumerate(blocks):
        if start is not None:
            out.append(_said("contentBlockStart", contentBlockIndex=index, start=start))
        out += [_said("contentBlockDelta", contentBlockIndex=index, delta=delta) for delta in deltas]
        out.append(_said("contentBlockStop", contentBlockIndex=index))
    out.append(_said("messageStop", stopReason=_finish(answer)))
    out += [_said("metadata", metrics={"latencyMs": 20}, **_usage(answer))] if answer.usage else []
    return out


def error(found: Complaint, ids: Ids) -> bytes:
    """The error body. The real API names the type in a header; its SDKs read this member as well."""
    del ids
    return orjson.dumps({"__type": "ValidationException", "message": found.message})


def models(names: tuple[str, ...]) -> bytes:
    """The list of models."""
    return orjson.dumps({"modelSummaries": [{"modelId": name} for name in names]})


def complaint(request: object, headers: Mapping[str, str]) -> Complaint | None:
    """What the API would object to first: roles that do not alternate, calls and results that do not pair, blank text,
    calls in a history without tools."""
    del headers
    if not isinstance(request, dict) or not isinstance(request.get("messages"), list):
        return Complaint("The request body is not valid.")
    waiting: list[str] = []
    role = ""
    for message in request["messages"]:
        if message["role"] == role or message["role"] not in {"user", "assistant"}:
            return Complaint("A conversation must alternate between user and assistant roles.")
        role, content = message["role"], message["content"]
        if not content or any(not block.get("text", "x").strip() for block in content):
            return Complaint("The text field in the ContentBlock object is blank.")
        results = [block["toolResult"]["toolUseId"] for block in content if "toolResult" in block]
        uses = [block["toolUse"] for block in content if "toolUse" in block]
        if role == "user" and sorted(results) != sorted(waiting):
            return Complaint("Expected toolResult blocks for the toolUse blocks of the previous turn.")
        if not all(isinstance(use["input"], dict) for use in uses):
            return Complaint("The format of the value at toolUse.input is invalid. Provide a json object.")
        waiting = [use["toolUseId"] for use in uses]
        tools = (request.get("toolConfig") or {}).get("tools")
        if (results or uses) and not tools:
            return Complaint(
                "The toolConfig field must be defined when using toolUse and toolResult content blocks."
            )
    if role != "user":
        return Complaint("A conversation must end with a user message.")
    return None


def _said(kind: str, **payload: Any) -> bytes:
    return event(kind, orjson.dumps({**payload, "p": _PADDING}))


def _finish(answer: Answer) -> str:
    if answer.finish is not None:
        return _FINISH.get(answer.finish, answer.finish)
    return "tool_use" if answer.calls else "end_turn"


def _usage(answer: Answer) -> _Json:
    if answer.usage is None:
        return {}
    given, made = answer.usage
    return {"usage": {"inputTokens": given, "outputTokens": made, "totalTokens": given + made}}
