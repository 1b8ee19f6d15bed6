"""A request as a model sees it, whatever its wire format: what the user asked, what was called, what came of it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from proxy.demo.provider import Seen

SIGN = "[callgate]"
"""How everything begins that Callgate itself says to the model."""

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Made:
    """A call of this conversation and its result."""

    id: str
    tool: str
    arguments: Json
    result: str = ""

    @property
    def was_refused(self) -> bool:
        """Callgate said no, and the model was told."""
        return self.result.startswith(SIGN)

    @property
    def found(self) -> Json | None:
        """What the tool found; None for an error, nothing found, or a refusal."""
        if self.was_refused:
            return None
        # A note may stand behind the tool's own JSON.
        result = json.JSONDecoder().raw_decode(self.result)[0]
        found: Json | None = result.get("data")
        return found

    @property
    def error(self) -> str:
        """The error code of the tool's own, or nothing."""
        if self.was_refused:
            return ""
        return str(json.JSONDecoder().raw_decode(self.result)[0].get("error", ""))


@dataclass(frozen=True, slots=True)
class Talk:
    """What the model has before it."""

    user: str
    offered: tuple[str, ...]
    may_call: bool
    """False: tool choice `none`."""
    made: tuple[Made, ...]
    notes: tuple[str, ...]
    """What Callgate itself said, wherever it stands, the newest last; without its sign."""

    @classmethod
    def of(cls, seen: Seen) -> Talk:
        """Reads a request."""
        body: Json = seen.json or {}
        tools = [tool.get("function", tool) for tool in body.get("tools") or ()]
        messages: list[Json] = body.get("messages") or []
        asked = [text for message in messages if message["role"] == "user" for text in _texts(message)]
        written = "\n\n".join(text for message in messages for text in _written(message))
        return cls(
            user=next((text for text in asked if not text.startswith(SIGN)), ""),
            offered=tuple(tool["name"] for tool in tools),
            may_call=_choice(body) != "none",
            made=tuple(_made(messages)),
            notes=tuple(said.strip() for block in written.split("\n\n") for said in block.split(SIGN)[1:]),
        )

    def calls_of(self, tool: str) -> list[Made]:
        """The calls of this tool that were executed."""
        return [call for call in self.made if call.tool == tool and not call.was_refused]

    def was_refused(self, tool: str) -> bool:
        """Whether the model was told that a call of this tool was refused, as its result or in its own text."""
        told = f'The call to "{tool}" was not run'
        return any(note.startswith(told) for note in self.notes) or any(
            call.tool == tool and call.was_refused for call in self.made
        )


def _choice(body: Json) -> str:
    choice = body.get("tool_choice")
    return str(choice.get("type", "")) if isinstance(choice, dict) else str(choice or "auto")


def _texts(message: Json) -> Iterator[str]:
    content = message.get("content")
    if isinstance(content, str):
        yield content
    for part in content if isinstance(content, list) else ():
        if part["type"] == "text":
            yield part["text"]


def _written(message: Json) -> Iterator[str]:
    """Texts and results, in order."""
    content = message.get("content")
    for part in content if isinstance(content, list) else ():
        yield from _texts(part) if part["type"] == "tool_result" else _texts({"content": [part]})
    if isinstance(content, str):
        yield content


def _made(messages: list[Json]) -> Iterator[Made]:
    results = dict(_results(messages))
    for message in messages:
        if message["role"] != "assistant":
            continue
        for call in message.get("tool_calls") or ():
            function = call["function"]
            yield Made(
                call["id"], function["name"], json.loads(function["arguments"]), results.get(call["id"], "")
            )
        content = message.get("content")
        for part in content if isinstance(content, list) else ():
            if part["type"] == "tool_use":
                yield Made(part["id"], part["name"], part["input"], results.get(part["id"], ""))


def _results(messages: list[Json]) -> Iterator[tuple[str, str]]:
    for message in messages:
        if message["role"] == "tool":
            yield message["tool_call_id"], "".join(_texts(message))
        content = message.get("content")
        for part in content if isinstance(content, list) else ():
            if part["type"] == "tool_result":
                yield part["tool_use_id"], "".join(_texts(part))
