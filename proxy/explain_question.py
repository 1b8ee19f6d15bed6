"""The question that `callgate explain` puts to the policies: an input document from what a person typed."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from .conversation_files import Conversation, read_recordings
from .core.json_text import NotOneObject, read_object
from .core.messages import Message, Request, Role, Tool, ToolCall, Turn
from .core.recognition import prefix_chain, rebuilt
from .core.runs import Identity, Run
from .engines.document import build_input
from .seen_calls import calls_of

PHASES = ("request", "calls", "answer")


class BadQuestion(ValueError):
    """What was typed is no question. The text says what is wrong."""


@dataclass(frozen=True, slots=True)
class Typed:
    """What a person typed."""

    tool: str = ""
    arguments: str = ""
    """JSON, or `@` and the name of a file with JSON."""
    identity: Identity = field(default_factory=Identity)
    said: str = ""
    """What the user says, behind the history."""
    history: Path | None = None
    input: Path | None = None
    phase: str = ""


def document_of(typed: Typed, now: float) -> Mapping[str, Any]:
    """The input document. `now` is in epoch seconds.

    Raises BadQuestion, BadRecording, OSError, and EngineFault for what no policy can judge.
    """
    if typed.input is not None:
        return _given(typed.input)
    conversation = _conversation(typed)
    if typed.tool:
        return _asked(typed, conversation, now)
    phase = typed.phase or ("calls" if typed.history is not None else "request")
    if phase != "calls":
        return _without_calls(phase, typed, conversation, now)
    seen = [answer for answer in calls_of(conversation, typed.identity, now) if answer.document is not None]
    if not seen:
        raise BadQuestion("there is no call in it: name one with --tool")
    newest: Mapping[str, Any] = seen[-1].document or {}
    return newest


def _given(path: Path) -> Mapping[str, Any]:
    try:
        document = read_object(path.read_text(encoding="utf-8"))
    except (NotOneObject, UnicodeDecodeError) as fault:
        msg = f"{path}: {fault}"
        raise BadQuestion(msg) from None
    if document.get("phase") not in PHASES:
        msg = f"{path}: is no input document: its phase is one of {', '.join(PHASES)}"
        raise BadQuestion(msg)
    return document


def _conversation(typed: Typed) -> Conversation:
    found = read_recordings(typed.history).conversations if typed.history is not None else ()
    if typed.history is not None and not found:
        msg = f"{typed.history}: there is no conversation in it"
        raise BadQuestion(msg)
    conversation = found[-1] if found else Conversation("explained", Request("", "", ()))
    if typed.said:
        messages = (*conversation.request.messages, Message(Role.USER, typed.said))
        conversation = replace(conversation, request=replace(conversation.request, messages=messages))
    return conversation


def _without_calls(phase: str, typed: Typed, conversation: Conversation, now: float) -> Mapping[str, Any]:
    """Before the model is asked; or, in phase answer, with the newest text of the assistant as its final answer."""
    request, answer = conversation.request, None
    if phase == "answer":
        texts = [
            place for place, each in enumerate(request.messages) if each.role is Role.ASSISTANT and each.text
        ]
        if not texts:
            raise BadQuestion("there is no answer in it: phase answer needs a --history with one")
        answer = Turn(text=request.messages[texts[-1]].text)
        request = replace(request, messages=request.messages[: texts[-1]])
        conversation = replace(conversation, request=request)
    run = _run(conversation, typed, now)
    return build_input(phase, typed.identity, request, run, now=now, answer=answer)


def _asked(typed: Typed, conversation: Conversation, now: float) -> Mapping[str, Any]:
    request = conversation.request
    if request.tool(typed.tool) is None:
        request = replace(request, tools=(*request.tools, Tool(typed.tool)))
    conversation = replace(conversation, request=request)
    arguments = typed.arguments or "{}"
    if arguments.startswith("@"):
        arguments = Path(arguments[1:]).read_text(encoding="utf-8")
    try:
        parsed = read_object(arguments)
    except NotOneObject as fault:
        msg = f"--arguments: {fault}"
        raise BadQuestion(msg) from None
    call = ToolCall("call_explained", typed.tool, arguments)
    run = _run(conversation, typed, now)
    return build_input("calls", typed.identity, request, run, [call], [parsed], now=now)


def _run(conversation: Conversation, typed: Typed, now: float) -> Run:
    request = conversation.request
    run = Run(conversation.id, typed.identity.key, started_at=now, turn_started_at=now)
    return rebuilt(run, request, prefix_chain(request.messages), now)


def claims_of(pairs: list[str]) -> dict[str, Any]:
    """Claims from `name=value`, values in JSON where they are JSON. Raises BadQuestion."""
    claims: dict[str, Any] = {}
    for pair in pairs:
        name, mark, value = pair.partition("=")
        if not name or not mark:
            msg = f"--claim {pair}: is written name=value"
            raise BadQuestion(msg)
        try:
            claims[name] = json.loads(value)
        except ValueError:
            claims[name] = value
    return claims
