"""Recorded exchanges on a stage: each agent sends its recorded request through a running Callgate, and the provider
answers with what was recorded, cut as the network might have.
"""

from __future__ import annotations

import asyncio
import json
import random
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from proxy.demo import Answer, Raw, ScriptedProvider, Seen
from proxy.dialects.bedrock_frames import MessageSplitter
from proxy.stores.memory import MemoryStore
from tests.dialects import wire
from tests.dialects.agents import SDK_FAULTS, Read
from tests.dialects.wire import Exchange
from tests.playbook import CHAT, MESSAGES, RESPONSES, Answered, Play
from tests.shelf import Shelf

PATHS = {
    "openai-chat": CHAT,
    "openai-responses": RESPONSES,
    "anthropic-messages": MESSAGES,
    "gemini": "",
    "ollama": "/api/chat",
    "bedrock-converse": "",
}
"""Empty: each recording's own path, since it names the model."""
STREAMS = {"ollama": "application/x-ndjson", "bedrock-converse": "application/vnd.amazon.eventstream"}
EACH = pytest.mark.parametrize("dialect", PATHS)
NAME = "x-recording"
LABEL = "zip1"
"""The one server of tools that asked for approval in a recording."""
SPACES = {"or-c240f929": "tools."}
"""Calls of tools that were offered in a namespace."""
AT_ONCE = 8
NO_CUT = 12
"""Shorter stretches of arguments occur anywhere."""


REFUSED = {
    "am-0e6a402d": "messages[0]: an object is required",  # its provider refused it too
    "am-3b4e14b4": "no call before it has this id",  # a result of a call that was never made (A3, E1)
    "am-92157c36": "no call before it has this id",
    "ge-4ef8cdf9": "role has to be user or model",  # its provider refused it too
}
"""Requests that are no sound ones: status 400 with these words, and the provider sees nothing of them."""
UNREADABLE = {
    "oc-11997f59": "the answer holds no choices",  # status 200, but no chat at all
    "oc-7a222433": "the answer is not valid JSON",
    "or-7617e6ca": "the answer holds no output",  # a chat answer, in another dialect
    "ge-83d25cac": "the answer holds no candidates",  # a count of tokens, in place of an answer
    "ge-c4d4f8ed": "the answer holds no candidates",  # no answer at all
}
"""Answers that cannot be judged: status 502 with these words (fail closed)."""
UNOFFERED = {
    "oc-f82d92ea",
    *(
        "ge-157a8569",
        "ge-19ce02e8",
        "ge-2da7cb47",
        "ge-2e9d9ec2",
        "ge-5ebe1d84",
        "ge-88bc39be",
        "ge-acfc1e51",
    ),
}
"""Answers that call what their recorded request does not offer: another request is sent."""
LOOPING = {"ge-0c17657c", "ge-0fe112f8", "ge-10b67a5a", "ge-1f1c95bb", "ge-49863113"}
"""Requests after which the same call is made once too often (D9): another request is sent."""


def asked(dialect: str, one: Exchange) -> bytes:
    """The recorded request; where none was recorded, one that such an answer may follow."""
    if one.request and one.id not in UNOFFERED | LOOPING:
        return one.request
    if dialect == "openai-responses":
        tools = [declared(call) for call in one.observed["tool_calls"]]
        return json.dumps({"model": "m", "input": "Go.", "stream": one.is_stream, "tools": tools}).encode()
    if dialect == "bedrock-converse":
        offered = dict.fromkeys(call["name"] for call in one.observed["tool_calls"])
        tools = [{"toolSpec": {"name": name}} for name in offered]
        said = [{"role": "user", "content": [{"text": "Go."}]}]
        return json.dumps({"messages": said, "toolConfig": {"tools": tools}}).encode()
    names = dict.fromkeys(call["name"] for call in one.observed["tool_calls"])
    if dialect == "gemini":
        said = [{"role": "user", "parts": [{"text": "Go."}]}]
        tools = [{"functionDeclarations": [{"name": name} for name in names]}] if names else []
        return json.dumps({"contents": said, "tools": tools}).encode()
    body: dict[str, Any] = {"model": "m", "messages": [{"role": "user", "content": "Go."}]}
    if dialect == "openai-chat":
        body["tools"] = [{"type": "function", "function": {"name": name}} for name in names]
        body |= {"stream": True, "stream_options": {"include_usage": True}} if one.is_stream else {}
    else:
        body["tools"] = [{"name": name, "input_schema": {"type": "object"}} for name in names]
        body |= {"max_tokens": 100, "stream": one.is_stream}
    return json.dumps(body).encode()


@cache
def gone_on_from(dialect: str) -> frozenset[str]:
    """Ids of answers and conversations of which some recorded request goes on."""
    requests = [json.loads(one.request) for one in wire.every(dialect) if one.request]
    kept = ("previous_response_id", "conversation")
    return frozenset(str(request[name]) for request in requests for name in kept if request.get(name))


def caller_of(dialect: str, one: Exchange) -> str:
    """Who asks: each recording is a caller of its own, but for those that belong together at the provider."""
    kept = gone_on_from(dialect)
    asked = json.loads(one.request or b"{}")
    if asked.get("previous_response_id") or asked.get("conversation"):
        return "one-for-all-that-is-kept"
    return "one-for-all-that-is-kept" if any(key.encode() in one.answer for key in kept) else one.id


def declared(call: dict[str, Any]) -> dict[str, Any]:
    """A tool of the Responses API that may be called so."""
    kind, name = call.get("kind"), call["name"]
    if kind in {None, "custom"}:
        return {"type": kind or "function", "name": name}
    if kind == "mcp-approval":
        return {"type": "mcp", "server_label": LABEL, "server_url": "https://mcp.example.test"}
    more = {"execution": "client"} if kind == "tool-search" else {}
    return {"type": name.removesuffix("_call"), **more}


def tool_of(one: Exchange, call: dict[str, Any]) -> str:
    """The name under which a recorded call is judged."""
    kind, name = call.get("kind"), str(call["name"])
    if kind == "mcp-approval":
        return f"mcp.{LABEL}.{name}"
    if kind not in {None, "custom"}:
        return name.removesuffix("_call")
    return SPACES.get(one.id, "") + name


def answer_of(dialect: str, one: Exchange, cuts: Iterable[int]) -> Raw:
    """The recorded answer, cut so."""
    kind = STREAMS.get(dialect, "text/event-stream") if one.is_stream else "application/json"
    headers = {name: value for name, value in one.headers if name != "transfer-encoding"}
    return Raw(one.answer, one.status, {"content-type": kind} | headers, tuple(cuts))


def anywhere(chance: random.Random) -> Callable[[Exchange], list[int]]:
    """Cuts of the network at a few random places."""
    return lambda one: chance.sample(range(len(one.answer)), min(12, len(one.answer)))


class Stage:
    """A Callgate in front of a provider that answers each agent with its recording."""

    def __init__(self, dialect: str, play: Play) -> None:
        self.dialect = dialect
        self.play = play

    async def all(self, ones: Iterable[Exchange], body: Callable[[Exchange], bytes]) -> dict[str, Answered]:
        """What the agents got, by recording. Each is a caller of its own."""
        free = asyncio.Semaphore(AT_ONCE)
        found: dict[str, Answered] = {}

        async def ask(one: Exchange) -> None:
            async with free, asyncio.timeout(30):
                headers = {NAME: one.id, "authorization": f"Bearer key-of-{caller_of(self.dialect, one)}"}
                found[one.id] = await self.play.post(PATHS[self.dialect] or one.path, body(one), headers)

        await asyncio.gather(*map(ask, ones))
        return found

    @property
    def seen(self) -> dict[str, list[Seen]]:
        """What the provider got, by recording, in order."""
        found: dict[str, list[Seen]] = defaultdict(list)
        for one in self.play.provider.seen:
            found[one.headers[NAME]].append(one)
        return found

    def assert_settled(self) -> None:
        store: Any = self.play.callgate.parts.ledger._store
        memory = getattr(store, "_store", store)
        assert isinstance(memory, MemoryStore)
        assert not memory._reserved


@asynccontextmanager
async def staged(
    shelf: Shelf,
    tmp_path: Path,
    dialect: str,
    cuts: Callable[[Exchange], Iterable[int]],
    *,
    again: Answer | None = None,
    **rules: object,
) -> AsyncIterator[Stage]:
    """Opens the stage; afterwards nothing is put aside and no task is left. `again`: refused calls go back to the model
    once, and this is what it says then."""
    answers = {one.id: answer_of(dialect, one, cuts(one)) for one in wire.every(dialect)}
    answered: set[str] = set()

    def say(seen: Seen) -> Answer | Raw:
        name = seen.headers[NAME]
        if again is not None and name in answered:
            return again
        answered.add(name)
        return answers[name]

    provider = ScriptedProvider(strict=False)
    provider.respond(say)
    await shelf.policies(rules)
    before = asyncio.all_tasks()
    settings: dict[str, object] = {"reask__per_turn": int(again is not None), "upstream__retries": 0}
    settings["kept__background"] = "allow"
    async with shelf.play(tmp_path, rules, provider=provider, **settings) as play:
        stage = Stage(dialect, play)
        yield stage
        stage.assert_settled()
    assert asyncio.all_tasks() == before


def told_beside(one: Exchange) -> str:
    """The recorded answer without its calls: what a model writes in its text it may also have written in a call."""

    def plain(value: Any) -> Any:
        if isinstance(value, list):
            return [plain(part) for part in value if not is_call(part)]
        if isinstance(value, dict):
            if str(value.get("type")).startswith(("response.function_call", "response.custom_tool")):
                return {}
            return {
                key: None if is_call(part) else plain(part)
                for key, part in value.items()
                if key not in {"tool_calls", "function_call", "partial_json", "toolUse"}
            }
        return value

    def is_call(part: Any) -> bool:
        kind = str(part.get("type")) if isinstance(part, dict) else ""
        return kind == "tool_use" or kind.endswith(("_call", "approval_request"))

    if one.is_stream and one.path.endswith("/converse-stream"):
        said = [plain(json.loads(message.payload)) for message in MessageSplitter().feed(one.answer)]
    elif one.is_stream:
        lines = [line.removeprefix("data:").strip() for line in one.answer.decode().splitlines()]
        said = [plain(json.loads(line)) for line in lines if line[:1] == "{"]
    else:
        said = [plain(json.loads(one.answer))]
    # The refusal names the tool, in quotes.
    said += [f'"{call["name"]}"' for call in one.observed["tool_calls"]]
    return "\n".join(
        json.dumps(part, ensure_ascii=False, separators=between)
        for part in said
        for between in ((", ", ": "), (",", ":"))
    )


def pieces_of(one: Exchange) -> set[str]:
    """Ids, and every stretch of the arguments, as it may stand in JSON text."""
    found = set()
    for call in one.observed["tool_calls"]:
        found |= {call["id"]} if len(call["id"] or "") >= 8 else set()
        arguments = call["arguments"]
        text = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
        for spelled in {text, json.dumps(text, ensure_ascii=False)[1:-1]}:
            found |= {spelled[at : at + NO_CUT] for at in range(len(spelled) - NO_CUT + 1)}
    return found


def sdk(judge: Callable[[bytes], Read], body: bytes) -> Read | None:
    """What the SDK reads; None where it cannot read the provider's own answer."""
    try:
        return judge(body)
    except SDK_FAULTS:
        return None


def traces_left(one: Exchange, got: Answered) -> list[str]:
    """What an agent got of the recorded calls, beside what the model had said in its text as well."""
    beside, body = told_beside(one), got.body.decode(errors="replace")
    return [piece for piece in pieces_of(one) if piece in body and piece not in beside]
