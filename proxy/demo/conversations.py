"""Recorded conversations played through a running Callgate: the agent sends what it sent, the provider answers as it did.

What comes out of both ends is compared with what went in, byte for byte, and every verdict is counted. So one sees
what the configured checks would have done to real runs before they guard one.
"""

from __future__ import annotations

import json
import tempfile
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import aiohttp

from proxy.assembly import running
from proxy.audit import read_journal
from proxy.demo.answers import Raw
from proxy.demo.provider import ScriptedProvider, Seen

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from proxy.settings import Settings

PATH = "/v1/chat/completions"
MODEL = "recorded"


class BadRecording(ValueError):
    """A line of the file is no conversation. The text says which line and why."""


@dataclass(frozen=True, slots=True)
class Conversation:
    """One recorded run in Chat Completions form."""

    id: str
    messages: Sequence[dict[str, Any]]
    reward: float | None = None
    """How well the run ended, where the recording says so; 1 is right."""


@dataclass(slots=True)
class Played:
    """What became of one conversation."""

    conversation: Conversation
    rounds: int = 0
    altered: list[int] = field(default_factory=list)
    """Rounds (from 1) in which a request or an answer was not the recorded one any more."""
    verdicts: Counter[tuple[str, str]] = field(default_factory=Counter)
    """(check, action) of every verdict that is more than a remark."""

    @property
    def is_flagged(self) -> bool:
        """Something was said about it or done to it."""
        return bool(self.altered or self.verdicts)


def read_conversations(path: Path) -> list[Conversation]:
    """Reads JSON lines with `messages` (and `id`, `reward` where known). Raises BadRecording, OSError."""
    found = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
            messages = row["messages"]
            roles = [message["role"] for message in messages]
        except (ValueError, KeyError, TypeError) as fault:
            msg = f"{path}, line {number}: no conversation (JSON object with `messages`): {fault}"
            raise BadRecording(msg) from None
        if not all(isinstance(role, str) for role in roles):
            msg = f"{path}, line {number}: a message whose role is not text"
            raise BadRecording(msg)
        found.append(Conversation(str(row.get("id", number)), messages, row.get("reward")))
    return found


async def play_conversations(
    conversations: Sequence[Conversation],
    tools: Sequence[object],
    settings: Settings,
    *,
    progress: Callable[[Played], None] = lambda _: None,
) -> list[Played]:
    """Plays each conversation through a Callgate with these settings; `progress` hears of each one that is done."""
    with tempfile.TemporaryDirectory() as folder:
        journal = Path(folder) / "audit.jsonl"
        played = []
        async with (
            ScriptedProvider(strict=False) as provider,
            aiohttp.ClientSession() as http,
            running(_settings(settings, provider.url, journal)) as callgate,
        ):
            for conversation in conversations:
                played.append(await _play(conversation, tools, provider, http, callgate.url))
                progress(played[-1])
        _count_verdicts(journal, played)
        return played


def _settings(settings: Settings, provider: str, journal: Path) -> Settings:
    plain = settings.model_dump(mode="python")
    plain["listen"] |= {"host": "127.0.0.1", "port": 0}
    plain["admin"] |= {"host": "127.0.0.1", "port": 0}
    plain["audit"] |= {"path": str(journal), "max_bytes": 1 << 40}
    plain["upstream"]["openai_chat"] = {"base_url": provider}
    return type(settings).model_validate(plain)


async def _play(
    conversation: Conversation,
    tools: Sequence[object],
    provider: ScriptedProvider,
    http: aiohttp.ClientSession,
    url: str,
) -> Played:
    played = Played(conversation)
    headers = {"content-type": "application/json", "x-callgate-run": conversation.id}
    for place, body in _requests(conversation, tools):
        played.rounds += 1
        recorded = _answer(conversation, place)
        provider.respond(_always(Raw(recorded)))
        async with http.post(url + PATH, data=body, headers=headers) as answer:
            came = await answer.read()
        sent = [seen.body for seen in provider.seen]
        provider.seen.clear()
        if came != recorded or sent != [body]:
            played.altered.append(played.rounds)
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


def _count_verdicts(journal: Path, played: Sequence[Played]) -> None:
    """Verdicts are joined by the order of runs: each conversation was played to its end before the next began."""
    runs: dict[str, Counter[tuple[str, str]]] = {}
    for record in read_journal(journal):
        if record["kind"] != "lost":
            runs.setdefault(record["run"], Counter())
        if record["kind"] == "decision":
            counts = runs[record["run"]]
            for verdict in record["verdicts"]:
                if verdict["action"] != "pass":
                    counts[verdict["check"], verdict["action"]] += 1
    if len(runs) != len(played):
        msg = f"{len(played)} conversations were taken for {len(runs)} runs"
        raise AssertionError(msg)
    for each, counts in zip(played, runs.values(), strict=True):
        each.verdicts = counts
