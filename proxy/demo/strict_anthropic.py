"""What Anthropic's Messages API would refuse of a request.

Worded as the provider words it. Fields that the provider may add tomorrow are not judged; the shape of a
conversation is. The judges yield what they object to and go on as if it were well: only the first
complaint is ever taken.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterator, Mapping
from typing import Any

from proxy.demo.answers import Complaint

_NAME = re.compile(r"[a-zA-Z0-9_-]{1,128}")
_ID = re.compile(r"[a-zA-Z0-9_-]+")
_SIGNED = "EsCaLlGaTe"
_CHOICES = ("auto", "any", "tool", "none")

_Block = tuple[str, dict[str, Any]]  # where it stands, and itself
_Turn = tuple[str, int, list[_Block]]  # role, place of its last message, blocks


def signature(thinking: str) -> str:
    """The signature of a thinking block; it shows whether the block came back unaltered."""
    return _SIGNED + base64.b64encode(hashlib.sha512(thinking.encode()).digest()).decode()


def complaint(request: object, headers: Mapping[str, str]) -> Complaint | None:
    """The first thing that the provider would object to."""
    return _first(request, headers, counting=False)


def count_complaint(request: object, headers: Mapping[str, str]) -> Complaint | None:
    """The same for a request that only counts tokens."""
    return _first(request, headers, counting=True)


def _first(request: object, headers: Mapping[str, str], *, counting: bool) -> Complaint | None:
    if "anthropic-version" not in headers:
        return Complaint("anthropic-version: header is required")
    if not isinstance(request, dict):
        return Complaint("The request body is not valid JSON: expected an object")
    return next(_complaints(request, counting=counting), None)


def _complaints(request: dict[str, Any], *, counting: bool) -> Iterator[Complaint]:
    for key, wanted in (("model", str), ("messages", list), ("max_tokens", int)):
        if counting and key == "max_tokens":
            continue
        if key not in request:
            yield Complaint(f"{key}: Field required")
        if not isinstance(request[key], wanted) or isinstance(request[key], bool):
            yield Complaint(f"{key}: Input should be a valid {wanted.__name__}")
    if not counting and request["max_tokens"] < 1:
        yield Complaint("max_tokens: Input should be greater than or equal to 1")
    yield from _tools(request)
    yield from _system(request.get("system"))
    messages: list[Any] = request["messages"]
    if not messages:
        yield Complaint("messages: at least one message is required")
    for place, message in enumerate(messages):
        yield from _message(place, message, final=place == len(messages) - 1)
    turns = _turns(messages)
    if not turns or turns[0][0] != "user":
        yield Complaint('messages: first message must use the "user" role')
    yield from _pairing(turns)
    yield from _thinking(request, turns)
    yield from _programs(request, turns)


def _tools(request: dict[str, Any]) -> Iterator[Complaint]:
    tools = request.get("tools") or []
    if not isinstance(tools, list):
        yield Complaint("tools: Input should be a valid list")
    names: list[str] = []
    for place, tool in enumerate(tools):
        name = tool.get("name") if isinstance(tool, dict) else None
        if not isinstance(tool, dict) or (name is None and tool.get("type", "custom") == "custom"):
            yield Complaint(f"tools.{place}.custom.name: Field required")
        if tool.get("type", "custom") == "custom":
            if not isinstance(name, str) or not _NAME.fullmatch(name):
                pattern = "String should match pattern '^[a-zA-Z0-9_-]{1,128}$'"
                yield Complaint(f"tools.{place}.custom.name: {pattern}")
            if not isinstance(tool.get("input_schema"), dict):
                yield Complaint(f"tools.{place}.custom.input_schema: Field required")
        if name is not None:
            names.append(name)
    if len(set(names)) != len(names):
        yield Complaint("tools: Tool names must be unique.")
    choice = request.get("tool_choice")
    if choice is not None:
        yield from _choice(choice, names if tools else None, request.get("thinking"))


def _choice(choice: object, names: list[str] | None, thinking: object) -> Iterator[Complaint]:
    kind = choice.get("type") if isinstance(choice, dict) else None
    if kind not in _CHOICES:
        tags = ", ".join(f"'{known}'" for known in _CHOICES)
        text = f"Input tag '{kind}' found using 'type' does not match any of the expected tags: {tags}"
        yield Complaint(f"tool_choice: {text}")
    if names is None:
        yield Complaint("tool_choice may only be specified while providing tools")
    elif kind == "tool" and isinstance(choice, dict) and choice.get("name") not in names:
        yield Complaint(f"Tool '{choice.get('name')}' not found in provided tools")
    thinks = isinstance(thinking, dict) and thinking.get("type") == "enabled"
    if thinks and kind in {"any", "tool"}:
        yield Complaint("Thinking may not be enabled when tool_choice forces tool use.")


def _system(system: object) -> Iterator[Complaint]:
    if isinstance(system, list):
        for place, block in enumerate(system):
            yield from _block(f"system.{place}", block, "system")
    elif system is not None and not isinstance(system, str):
        yield Complaint("system: Input should be a valid string")


def _message(place: int, message: object, *, final: bool) -> Iterator[Complaint]:
    path = f"messages.{place}"
    if not isinstance(message, dict):
        yield Complaint(f"{path}: Input should be a valid dictionary")
        return
    for key in message:
        if key not in {"role", "content"}:
            yield Complaint(f"{path}.{key}: Extra inputs are not permitted")
    role, content = message.get("role"), message.get("content")
    if role not in {"user", "assistant", "system"}:
        yield Complaint(f"{path}.role: Input should be 'user' or 'assistant'")
    if not isinstance(content, str | list):
        text = "Field required" if content is None else "Input should be a valid list"
        yield Complaint(f"{path}.content: {text}")
    if not content and not (final and role == "assistant"):
        yield Complaint(
            f"{path}: all messages must have non-empty content except for the optional final assistant message"
        )
    if isinstance(content, list):
        for index, block in enumerate(content):
            yield from _block(f"{path}.content.{index}", block, str(role))
    if final and role == "assistant" and _last_text(content) != _last_text(content).rstrip():
        yield Complaint("messages: final assistant content cannot end with trailing whitespace")


def _last_text(content: object) -> str:
    if isinstance(content, list) and content and isinstance(content[-1], dict):
        content = content[-1].get("text")
    return content if isinstance(content, str) else ""


def _block(path: str, block: object, role: str) -> Iterator[Complaint]:
    if not isinstance(block, dict) or not isinstance(block.get("type"), str):
        yield Complaint(f"{path}.type: Field required")
        return
    judge = _JUDGES.get(block["type"])
    if judge:
        yield from judge(path, block, role)


def _text(path: str, block: dict[str, Any], role: str) -> Iterator[Complaint]:
    top = path.partition(".")[0]
    if not isinstance(block.get("text"), str):
        yield Complaint(f"{path}.text.text: Field required")
    if not block["text"]:
        yield Complaint(f"{top}: text content blocks must be non-empty")
    elif role == "user" and not block["text"].strip():
        yield Complaint(f"{top}: text content blocks must contain non-whitespace text")


def _use(path: str, block: dict[str, Any], role: str) -> Iterator[Complaint]:
    if role != "assistant":
        where = path.rpartition(".content")[0]
        yield Complaint(f"{where}: `tool_use` blocks can only be in `assistant` messages")
    if not isinstance(block.get("id"), str) or not _ID.fullmatch(block["id"]):
        yield Complaint(f"{path}.tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'")
    if not isinstance(block.get("name"), str) or not block["name"]:
        yield Complaint(f"{path}.tool_use.name: String should have at least 1 character")
    if not isinstance(block.get("input"), dict):
        yield Complaint(f"{path}.tool_use.input: Input should be a valid dictionary")


def _result(path: str, block: dict[str, Any], role: str) -> Iterator[Complaint]:
    if role != "user":
        where = path.rpartition(".content")[0]
        yield Complaint(f"{where}: `tool_result` blocks can only be in `user` messages")
    if not isinstance(block.get("tool_use_id"), str):
        yield Complaint(f"{path}.tool_result.tool_use_id: Field required")
    inner = block.get("content")
    for place, part in enumerate(inner if isinstance(inner, list) else ()):
        yield from _block(f"{path}.tool_result.content.{place}", part, "result")


def _thought(path: str, block: dict[str, Any], role: str) -> Iterator[Complaint]:
    mark = block.get("signature")
    if not isinstance(mark, str) or not isinstance(block.get("thinking"), str):
        yield Complaint(f"{path}.thinking.signature: Field required")
    # Only what this provider signed can be checked; a fixture's own signature is let be.
    elif role == "assistant" and mark.startswith(_SIGNED) and mark != signature(block["thinking"]):
        yield Complaint(f"{path}: Invalid `signature` in `thinking` block")


_JUDGES = {"text": _text, "tool_use": _use, "tool_result": _result, "thinking": _thought}


def _turns(messages: list[dict[str, Any]]) -> list[_Turn]:
    """The messages as the provider reads them: neighbours of one role are one turn."""
    turns: list[_Turn] = []
    for place, message in enumerate(messages):
        content, role = message["content"], message["role"]
        if role == "system" and turns:
            continue
        blocks: list[_Block] = []
        if isinstance(content, list):
            blocks = [(f"messages.{place}.content.{index}", block) for index, block in enumerate(content)]
        elif content:
            blocks = [(f"messages.{place}.content.0", {"type": "text", "text": content})]
        if turns and turns[-1][0] == role:
            turns[-1] = (role, place, turns[-1][2] + blocks)
        else:
            turns.append((role, place, blocks))
    return turns


def _pairing(turns: list[_Turn]) -> Iterator[Complaint]:
    """Every use is answered at the head of the next turn, every result has a use, ids are unique in a turn."""
    waiting: list[str] = []
    for role, place, blocks in turns:
        if role == "user":
            yield from _results(waiting, blocks)
        elif waiting:
            yield _unanswered(waiting, place)
        waiting = [block["id"] for _, block in blocks if block["type"] == "tool_use"]
        if len(set(waiting)) != len(waiting):
            yield Complaint("messages: `tool_use` ids must be unique")
        if waiting and turns[-1][1] == place:
            yield _unanswered(waiting, place)


def _results(waiting: list[str], blocks: list[_Block]) -> Iterator[Complaint]:
    open_ids = list(waiting)
    for path, block in blocks:
        if block["type"] != "tool_result":
            continue
        key = block["tool_use_id"]
        if key in open_ids:
            open_ids.remove(key)
        elif key in waiting:
            text = (
                f"each tool_use must have a single result. Found multiple `tool_result` blocks with id: {key}"
            )
            yield Complaint(f"{path}: {text}")
        else:
            text = (
                f"unexpected `tool_use_id` found in `tool_result` blocks: {key}. Each `tool_result` block must "
                "have a corresponding `tool_use` block in the previous message."
            )
            yield Complaint(f"{path}: {text}")
    at_head = {block["tool_use_id"] for _, block in blocks[: len(waiting)] if block["type"] == "tool_result"}
    missing = [key for key in waiting if key not in at_head]
    if missing:
        yield _unanswered(missing, int(blocks[0][0].split(".")[1]) - 1 if blocks else 0)


def _unanswered(missing: list[str], place: int) -> Complaint:
    return Complaint(
        f"messages.{place}: `tool_use` ids were found without `tool_result` blocks immediately after: "
        f"{', '.join(missing)}. Each `tool_use` block must have a corresponding `tool_result` block in the "
        "next message."
    )


def _thinking(request: dict[str, Any], turns: list[_Turn]) -> Iterator[Complaint]:
    """While a tool loop is open, the turn that asked must keep the thinking that it began with."""
    thinking = request.get("thinking")
    if not isinstance(thinking, dict) or thinking.get("type") != "enabled":
        return
    asked = next((turn for turn in reversed(turns) if turn[0] == "assistant"), None)
    if asked is None or not any(block["type"] == "tool_use" for _, block in asked[2]):
        return
    path, first = asked[2][0]
    if first["type"] not in {"thinking", "redacted_thinking"}:
        yield Complaint(
            f"{path}.type: Expected `thinking` or `redacted_thinking`, but found `{first['type']}`. When "
            "`thinking` is enabled, a final `assistant` message must start with a thinking block (preceeding "
            "the lastmost set of `tool_use` and `tool_result` blocks)."
        )


def _programs(request: dict[str, Any], turns: list[_Turn]) -> Iterator[Complaint]:
    """What a program called is answered with results alone, in the container where it waits."""
    asked = turns[-2] if len(turns) > 1 else ("", 0, [])
    callers = [block.get("caller") for _, block in asked[2] if block["type"] == "tool_use"]
    if not any(isinstance(caller, dict) and caller.get("type") != "direct" for caller in callers):
        return
    if not request.get("container"):
        yield Complaint(
            "container_id is required when there are pending tool uses generated by code execution with tools."
        )
    if any(block["type"] != "tool_result" for _, block in turns[-1][2]):
        yield Complaint("messages: only tool_result blocks may answer tool uses that code execution made")
