"""The calls of recorded runs, each with the input document that policies would have been asked about when it was made."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from .core.json_text import NotOneObject, read_object
from .core.messages import Message, Role, ToolCall, ToolKind
from .core.recognition import prefix_chain, rebuilt
from .core.results import StepStatus
from .core.runs import Run
from .engines.document import build_input
from .errors import EngineFault
from .redaction import REDACTED

if TYPE_CHECKING:
    from .conversation_files import AuditedRun, Conversation, RecordedInput
    from .core.runs import Identity

_DEEPEST = 64


@dataclass(frozen=True, slots=True)
class SeenAnswer:
    """The calls that a model made in one answer."""

    run: str
    turn: int
    calls: tuple[tuple[str, Mapping[str, Any] | None], ...]
    """Tool and arguments, as policies read them; None: they cannot be told."""
    document: Mapping[str, Any] | None = None
    """What policies would have been asked; None: it is not recorded, or cannot be judged at all."""


def calls_of(conversation: Conversation, identity: Identity, now: float) -> Iterator[SeenAnswer]:
    """Every answer with calls, in order. `now` is in epoch seconds."""
    messages = conversation.request.messages
    start = 0
    while start < len(messages):
        end = start + 1
        if messages[start].role is Role.ASSISTANT:
            # Some dialects have a message a call: assistant messages in a row are one answer.
            while end < len(messages) and messages[end].role is Role.ASSISTANT and not messages[end].results:
                end += 1
            calls = [call for message in messages[start:end] for call in message.calls]
            if calls:
                yield _answer(conversation, identity, messages[:start], calls, now)
        start = end


def _answer(
    conversation: Conversation,
    identity: Identity,
    before: Sequence[Message],
    calls: Sequence[ToolCall],
    now: float,
) -> SeenAnswer:
    request = replace(conversation.request, messages=tuple(before), previous="")
    run = Run(id=conversation.id, identity_key=identity.key, started_at=now, turn_started_at=now)
    run = rebuilt(run, request, prefix_chain(request.messages), now)
    parsed = [_arguments(call) for call in calls]
    try:
        document = build_input("calls", identity, request, run, calls, parsed, now=now)
    except EngineFault:
        return SeenAnswer(conversation.id, run.turn, tuple((call.name, None) for call in calls))
    read = [(entry["name"], _read(entry)) for entry in document["calls"]]
    return SeenAnswer(conversation.id, run.turn, tuple(read), document)


def _arguments(call: ToolCall) -> dict[str, object] | None:
    if call.kind is ToolKind.CUSTOM:
        return None
    try:
        return read_object(call.arguments, _DEEPEST)
    except NotOneObject:
        return None


def _read(entry: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """A free text is the one argument `text` of its call."""
    if entry["arguments"] is None and "text" in entry:
        return {"text": entry["text"]}
    arguments: Mapping[str, Any] | None = entry["arguments"]
    return arguments


def recorded_calls(recorded: RecordedInput) -> SeenAnswer:
    """The calls of one answer, as the journal has them with all that policies read."""
    entries = [entry for entry in recorded.document["calls"] if isinstance(entry, dict)]
    calls = tuple((str(entry.get("name", "")), _read({"arguments": None} | entry)) for entry in entries)
    return SeenAnswer(recorded.run, recorded.turn, calls, recorded.document)


def audited_calls(run: AuditedRun) -> Iterator[SeenAnswer]:
    """The calls that left, one an answer. Arguments that the journal cut or redacted cannot be told."""
    for step in run.steps:
        if step["status"] != StepStatus.REFUSED:
            yield SeenAnswer(run.id, step["turn"], ((step["tool"], _whole(step["arguments"])),))


def _whole(text: str) -> Mapping[str, Any] | None:
    """None also for what was cut: that is no JSON any more."""
    try:
        value = json.loads(text) if text.strip() else {}
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) and REDACTED not in text else None
