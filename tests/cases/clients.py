"""What an agent makes of an answer: strict readers of whole answers and of streams, held against the official SDKs."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.dialects import messages_agent
from tests.dialects.agents import AGENTS, value_of

Json = dict[str, Any]

CHAT = "openai-chat"
RESPONSES = "openai-responses"
MESSAGES = "anthropic-messages"
_LINE_END = re.compile(rb"\r\n|\n|\r")


@dataclass(slots=True)
class Called:
    """A call as the agent would run it."""

    id: str
    name: str
    raw: str
    """The exact text of the arguments; of a whole answer in which they are no text, the value as text."""

    @property
    def shown(self) -> Json:
        """As the cases write it."""
        return {"id": self.id, "name": self.name, "arguments": value_of(self.raw)}


@dataclass(slots=True)
class Read:
    """One answer."""

    status: int
    headers: Mapping[str, str]
    raw: bytes
    text: str = ""
    calls: list[Called] = field(default_factory=list)
    finish: list[str] = field(default_factory=list)
    error: Json = field(default_factory=dict)
    """The inner error object, of an error body or of an error event."""
    message: Any = None
    """What goes back into the history: the assistant message, or the content of one."""
    events: list[Json] = field(default_factory=list)
    """The decoded events of a stream."""

    @property
    def tool_calls(self) -> list[Json]:
        """The calls as the cases write them."""
        return [call.shown for call in self.calls]

    @property
    def run(self) -> str:
        """The id of the run that this answer belongs to."""
        return self.headers.get("x-callgate-run", "")


def read(dialect: str, status: int, headers: Mapping[str, str], raw: bytes) -> Read:
    """The answer as a strict reader of the dialect takes it; an SDK has to come to the same."""
    found = strictly(dialect, status, headers, raw)
    if status == 200 and not found.error:
        agent = AGENTS[dialect]
        taken = (agent.reads_stream if found.events else agent.reads_whole)(raw)
        ours = [(call.name, value_of(call.raw)) for call in found.calls]
        assert [call[1:] for call in taken.calls] == ours, "the SDK reads other calls"
        assert taken.text == found.text, "the SDK reads another text"
    return found


def strictly(dialect: str, status: int, headers: Mapping[str, str], raw: bytes) -> Read:
    """The answer as a strict reader of the dialect takes it."""
    found = Read(status, headers, raw)
    is_stream = headers.get("content-type", "").startswith("text/event-stream")
    if status != 200:
        found.error = json.loads(raw)["error"]
    elif dialect == RESPONSES:
        _read_responses(found, is_stream=is_stream)
    elif is_stream and dialect == CHAT:
        _read_chat_stream(found)
    elif is_stream:
        _read_messages_stream(found)
    elif dialect == CHAT:
        _read_chat(found, json.loads(raw))
    else:
        _read_messages(found, json.loads(raw))
    return found


def lines_of(raw: bytes) -> list[bytes]:
    """The lines of an event stream, whatever ends them."""
    return _LINE_END.split(raw)


def events_of(raw: bytes) -> Iterator[tuple[str, str]]:
    """Name and content of every event, by the rules of event streams; comments have none."""
    name = ""
    parts: list[str] = []
    for line in lines_of(raw):
        if not line:
            if parts:
                yield name, "\n".join(parts)
            name, parts = "", []
            continue
        key, _, value = line.decode("utf-8").partition(":")
        value = value.removeprefix(" ")
        if key == "event":
            name = value
        elif key == "data":
            parts.append(value)
    assert not parts, "the stream ends inside an event"


def comments_of(raw: bytes) -> list[bytes]:
    """The comments of a stream. Each has to stand by itself, never between two lines of an event."""
    lines = lines_of(raw)
    found = [place for place, line in enumerate(lines) if line.startswith(b":")]
    for place in found:
        assert place == 0 or not lines[place - 1] or lines[place - 1].startswith(b":"), (
            "a comment inside an event"
        )
    return [lines[place] for place in found]


def _read_chat(found: Read, body: Json) -> None:
    (choice,) = body["choices"]
    found.message = choice["message"]
    found.text = found.message.get("content") or ""
    found.finish = [choice["finish_reason"]]
    for entry in found.message.get("tool_calls") or ():
        assert entry["type"] == "function"
        found.calls.append(Called(entry["id"], entry["function"]["name"], entry["function"]["arguments"]))
    assert (found.finish == ["tool_calls"]) is bool(found.calls)


def _read_chat_stream(found: Read) -> None:
    contents = [content for _, content in events_of(found.raw)]
    if contents and '"error"' in contents[-1][:10]:
        found.error = json.loads(contents.pop())["error"]
    else:
        assert contents.pop() == "[DONE]", "the stream does not end with [DONE]"
    found.events = [json.loads(content) for content in contents]
    assert len({event["id"] for event in found.events}) == 1, "more than one id"
    choices = [choice for event in found.events for choice in event["choices"]]
    for choice in choices:
        assert choice["index"] == 0
        assert not found.finish, "something follows the finish word"
        found.text += choice["delta"].get("content") or ""
        for entry in choice["delta"].get("tool_calls") or ():
            _join(found.calls, entry)
        found.finish += [choice["finish_reason"]] if choice.get("finish_reason") else []
    found.message = {"role": "assistant", "content": found.text or None}
    if found.calls:
        found.message["tool_calls"] = [
            {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.raw}}
            for call in found.calls
        ]
    if not found.error:
        assert (found.finish == ["tool_calls"]) is bool(found.calls)


def _join(calls: list[Called], entry: Json) -> None:
    """Adds one entry of `tool_calls` as SDKs do; the first of a call has to say everything but all arguments."""
    function = entry.get("function") or {}
    if entry["index"] == len(calls):
        assert isinstance(entry["id"], str), "the first delta of a call has no id"
        assert entry["id"], "the id is empty"
        assert entry["type"] == "function"
        assert function["name"]
        calls.append(Called(entry["id"], function["name"], function.get("arguments") or ""))
    else:
        assert entry["index"] < len(calls), "a gap between the calls"
        assert "name" not in function or not function["name"], "a later delta names the call again"
        calls[entry["index"]].raw += function.get("arguments") or ""


def _read_responses(found: Read, *, is_stream: bool) -> None:
    """A response, or the stream of one: its last event names every item that was said to be done."""
    body: Any = None if is_stream else json.loads(found.raw)
    found.events = [json.loads(content) for _, content in events_of(found.raw)] if is_stream else []
    if is_stream:
        last = found.events[-1]
        if last["type"] == "error":
            found.error = last["error"]
            return
        body = last["response"]
        done = [event["item"] for event in found.events if event["type"] == "response.output_item.done"]
        assert done == body["output"], "the last event names other items"
    found.message = body["output"]
    found.finish = [body["status"]]
    for item in body["output"]:
        if item["type"] == "message":
            found.text += "".join(part["text"] for part in item["content"] if part["type"] == "output_text")
        elif item["type"] in {"function_call", "custom_tool_call"}:
            given = item.get("arguments", item.get("input"))
            found.calls.append(Called(item["call_id"], item["name"], given))


def _read_messages(found: Read, body: Json) -> None:
    found.message = body["content"]
    found.finish = [body["stop_reason"]]
    for block in body["content"]:
        if block["type"] == "text":
            found.text += block["text"]
        elif block["type"] == "tool_use":
            found.calls.append(Called(block["id"], block["name"], json.dumps(block["input"])))
    assert (found.finish == ["tool_use"]) is bool(found.calls)


def _read_messages_stream(found: Read) -> None:
    found.events = [json.loads(content) for _, content in events_of(found.raw)]
    for (name, _), event in zip(events_of(found.raw), found.events, strict=True):
        assert name == event["type"], "the event line says something else"
    if found.events[-1]["type"] == "error":
        found.error = found.events[-1]["error"]
    else:
        messages_agent.read_strictly(found.raw)
    blocks: list[Json] = []
    for event in found.events:
        if event["type"] == "content_block_start":
            blocks.append(dict(event["content_block"]))
        elif event["type"] == "content_block_delta":
            delta = event["delta"]
            key = {"text_delta": "text", "input_json_delta": "partial"}[delta["type"]]
            blocks[event["index"]][key] = (
                blocks[event["index"]].get(key, "") + delta[next(k for k in delta if k != "type")]
            )
        elif event["type"] == "message_delta":
            found.finish.append(event["delta"]["stop_reason"])
    for block in blocks:
        partial = block.pop("partial", "")
        if block["type"] == "text":
            found.text += block["text"]
        elif block["type"] == "tool_use":
            block["input"] = json.loads(partial) if partial else block["input"]
            found.calls.append(Called(block["id"], block["name"], partial or json.dumps(block["input"])))
    found.message = blocks
    if not found.error:
        assert (found.finish == ["tool_use"]) is bool(found.calls)
