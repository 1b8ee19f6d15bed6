"""Recorded conversations played through a running Callgate: the agent sends what it sent, the provider answers as it did.

What comes out of both ends is compared with what went in, byte for byte, every verdict is counted, and every call that
the model proposed is told with what refused it. So one sees what the configured checks and policies would have done to
real runs before they guard one.

The recorded run goes on whatever Callgate said: after an answer that it did not let through, the next request comes from
a caller that it has never seen, so that the run is rebuilt from the recorded history and judged by that alone.
"""

from __future__ import annotations

import hashlib
import json
import tempfile
from collections import Counter
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import aiohttp

from proxy.assembly import running
from proxy.audit import read_journal
from proxy.demo.answers import Raw
from proxy.demo.provider import ScriptedProvider, Seen

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from proxy.audit_records import DecisionRecord
    from proxy.settings import Settings

PATH = "/v1/chat/completions"
MODEL = "recorded"
_REFUSING = frozenset({"reask", "finish", "deny"})


class BadRecording(ValueError):
    """A line of the file is no conversation. The text says which line and why."""


@dataclass(frozen=True, slots=True)
class Conversation:
    """One recorded run in Chat Completions form."""

    id: str
    messages: Sequence[dict[str, Any]]
    reward: float | None = None
    """How well the run ended, where the recording says so; 1 is right."""
    expected: Sequence[tuple[str, object]] | None = None
    """Name and arguments of the calls that were wanted of this run, where the recording says so."""


@dataclass(frozen=True, slots=True)
class Caller:
    """As whom the conversations are played: the layers of policy that hold for them."""

    team: str = ""
    agent: str = ""


@dataclass(slots=True)
class JudgedCall:
    """One call that the model proposed, and what became of it."""

    round: int
    """From 1."""
    tool: str
    arguments: object
    """As read from JSON; the text itself where it is none."""
    result: str | None
    """As recorded; None: there is none."""
    released: bool = True
    refused_by: tuple[str, ...] = ()
    """What refused it, the code of the denial where policy did, else the name of the check."""


@dataclass(slots=True)
class Played:
    """What became of one conversation."""

    conversation: Conversation
    rounds: int = 0
    altered: list[int] = field(default_factory=list)
    """Rounds (from 1) in which a request or an answer was not the recorded one any more."""
    verdicts: Counter[tuple[str, str]] = field(default_factory=Counter)
    """(check, action) of every verdict that is more than a remark."""
    calls: list[JudgedCall] = field(default_factory=list)
    """Every proposed call, in order."""

    @property
    def is_flagged(self) -> bool:
        """Something was said about it or done to it."""
        return bool(self.altered or self.verdicts)


def read_conversations(path: Path) -> list[Conversation]:
    """Reads JSON lines with `messages` (and `id`, `reward`, `expected_actions` where known). Raises BadRecording, OSError."""
    found = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
            messages = row["messages"]
            roles = [message["role"] for message in messages]
            wanted = row.get("expected_actions")
            expected = None if wanted is None else [(str(one["name"]), one["arguments"]) for one in wanted]
        except (ValueError, KeyError, TypeError) as fault:
            msg = f"{path}, line {number}: no conversation (JSON object with `messages`): {fault}"
            raise BadRecording(msg) from None
        if not all(isinstance(role, str) for role in roles):
            msg = f"{path}, line {number}: a message whose role is not text"
            raise BadRecording(msg)
        found.append(Conversation(str(row.get("id", number)), messages, row.get("reward"), expected))
    return found


async def play_conversations(
    conversations: Sequence[Conversation],
    tools: Sequence[object],
    settings: Settings,
    *,
    caller: Caller = Caller(),
    progress: Callable[[Played], None] = lambda _: None,
) -> list[Played]:
    """Plays each conversation through a Callgate with these settings; `progress` hears of each one that is done."""
    rounds = sum(message["role"] == "assistant" for each in conversations for message in each.messages)
    keys = [f"recorded-{number}" for number in range(rounds + len(conversations))]
    with tempfile.TemporaryDirectory() as folder:
        journal = Path(folder) / "audit.jsonl"
        async with (
            ScriptedProvider(strict=False) as provider,
            aiohttp.ClientSession() as http,
            running(_settings(settings, provider.url, journal, caller, keys)) as callgate,
        ):
            stage = _Stage(tools, provider, http, callgate.url, keys)
            played = []
            for conversation in conversations:
                played.append(await stage.play(conversation))
                progress(played[-1])
        _tell_verdicts(journal, stage.asked)
        return played


def _settings(
    settings: Settings, provider: str, journal: Path, caller: Caller, keys: Sequence[str]
) -> Settings:
    plain = settings.model_dump(mode="python")
    plain["listen"] |= {"host": "127.0.0.1", "port": 0}
    plain["admin"] |= {"host": "127.0.0.1", "port": 0}
    plain["audit"] |= {"path": str(journal), "max_bytes": 1 << 40}
    plain["upstream"]["openai_chat"] = {"base_url": provider, "credential": "recorded"}
    plain["identity"]["api_keys"] = [
        {
            "name": key,
            "hash": f"sha256:{hashlib.sha256(key.encode()).hexdigest()}",
            "team": caller.team,
            "agent": caller.agent,
        }
        for key in keys
    ]
    return type(settings).model_validate(plain)


@dataclass(slots=True)
class _Stage:
    """An agent, a Callgate and a provider."""

    tools: Sequence[object]
    provider: ScriptedProvider
    http: aiohttp.ClientSession
    url: str
    keys: Sequence[str]
    """One a caller that Callgate has never seen."""
    asked: dict[str, tuple[Played, list[JudgedCall]]] = field(default_factory=dict)
    """By Callgate's id of the request: the conversation, and the calls of the recorded answer."""
    _next: Iterator[int] = field(default_factory=count)

    async def play(self, conversation: Conversation) -> Played:
        played = Played(conversation)
        key = self.keys[next(self._next)]
        for place, body in _requests(conversation, self.tools):
            played.rounds += 1
            recorded = _answer(conversation, place)
            self.provider.respond(_always(Raw(recorded)))
            headers = {
                "content-type": "application/json",
                "authorization": f"Bearer {key}",
                "x-callgate-run": conversation.id,
            }
            async with self.http.post(self.url + PATH, data=body, headers=headers) as answer:
                came = await answer.read()
            calls = list(_calls(conversation, place, played.rounds))
            played.calls += calls
            self.asked[answer.headers.get("x-callgate-request", "")] = (played, calls)
            sent = [seen.body for seen in self.provider.seen]
            self.provider.seen.clear()
            if came != recorded or sent != [body]:
                played.altered.append(played.rounds)
            if came != recorded:
                key = self.keys[next(self._next)]
                _refuse(calls, ())
        return played


def _requests(conversation: Conversation, tools: Sequence[object]) -> Iterator[tuple[int, bytes]]:
    for place, message in enumerate(conversation.messages):
        if message["role"] == "assistant":
            request: dict[str, object] = {"model": MODEL, "messages": conversation.messages[:place]}
            if tools:
                request["tools"] = tools
            yield place, json.dumps(request).encode()


def _always(answer: Raw) -> Callable[[Seen], Raw]:
    return lambda _: answer


def _answer(conversation: Conversation, place: int) -> bytes:
    message = conversation.messages[place]
    finish = "tool_calls" if message.get("tool_calls") else "stop"
    usage = {"prompt_tokens": 1000, "completion_tokens": 50, "total_tokens": 1050}
    choice = {"index": 0, "message": message, "finish_reason": finish}
    answer = {"id": f"chatcmpl-{place}", "object": "chat.completion", "created": 0, "model": MODEL}
    return json.dumps({**answer, "choices": [choice], "usage": usage}).encode()


def _calls(conversation: Conversation, place: int, model_round: int) -> Iterator[JudgedCall]:
    """The calls of the answer at this place, each with the result that follows before the next answer: ids may repeat."""
    results: dict[str, str] = {}
    for message in conversation.messages[place + 1 :]:
        if message["role"] != "tool":
            break
        results[str(message.get("tool_call_id"))] = str(message.get("content") or "")
    for call in conversation.messages[place].get("tool_calls") or ():
        text = call["function"]["arguments"]
        try:
            arguments = json.loads(text)
        except ValueError:
            arguments = text
        yield JudgedCall(model_round, call["function"]["name"], arguments, results.get(call["id"]))


def _refuse(calls: Sequence[JudgedCall], reasons: Sequence[str]) -> None:
    for call in calls:
        call.released, call.refused_by = False, (*call.refused_by, *reasons)


def _tell_verdicts(journal: Path, asked: dict[str, tuple[Played, list[JudgedCall]]]) -> None:
    """Joins the decisions with what they were about, by the id of the request."""
    judged: set[str] = set()
    for record in read_journal(journal):
        if record["kind"] != "decision" or record["request_id"] not in asked:
            continue
        played, calls = asked[record["request_id"]]
        for verdict in record["verdicts"]:
            if verdict["action"] != "pass":
                played.verdicts[verdict["check"], verdict["action"]] += 1
        # Asked again, the recorded model says the same again.
        if record["phase"] == "calls" and record["request_id"] not in judged:
            judged.add(record["request_id"])
            _tell_calls(record, calls)


def _tell_calls(record: DecisionRecord, calls: Sequence[JudgedCall]) -> None:
    for place, (call, told) in enumerate(zip(calls, record["calls"], strict=True)):
        call.released = told["released"]
        reasons = [
            verdict["code"] if verdict["check"].startswith("policy") else verdict["check"]
            for verdict in record["verdicts"]
            if verdict["call"] in {place, None}
            and verdict["mode"] == "enforce"
            and verdict["action"] in _REFUSING
        ]
        call.refused_by = () if call.released else tuple(dict.fromkeys(reasons))
