"""Builders of what checks read, for tests: each part has a plain default, so that a test names only what matters."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace

from proxy.core.fingerprint import call_fingerprint, result_identity
from proxy.core.json_text import NotOneObject, read_object
from proxy.core.limits import Brakes, Limits, Shortage
from proxy.core.messages import Message, Request, Role, Tool, ToolCall, ToolChoice, ToolKind, ToolResult
from proxy.core.results import StepStatus, ToolTraits, classify
from proxy.core.runs import Identity, Run, Step
from proxy.core.verdicts import Action, CheckSettings, Decision, Facts, Mode, Verdict

NOW = 1_790_000_000.0


def call(name: str = "lookup", arguments: object = None, id: str = "c1", **more: object) -> ToolCall:  # noqa: A002 - the field's own name
    """A call; `arguments` is JSON text, or anything else to be written as JSON."""
    text = arguments if isinstance(arguments, str) else json.dumps({} if arguments is None else arguments)
    return replace(ToolCall(id, name, text), **more)  # type: ignore[arg-type]  # the test names real fields


def user(text: str = "Please do it.") -> Message:
    """A user's message."""
    return Message(Role.USER, text)


def assistant(*calls: ToolCall, text: str = "") -> Message:
    """An assistant's message."""
    return Message(Role.ASSISTANT, text, calls)


def result(call_id: str = "c1", text: str = "fine", *, is_error: bool = False) -> Message:
    """A message with one result."""
    return Message(Role.TOOL, results=(ToolResult(call_id, text, is_error),))


def request(*messages: Message, tools: Sequence[Tool | str] = ("lookup",), **more: object) -> Request:
    """A request; tools may be names."""
    offered = tuple(tool if isinstance(tool, Tool) else Tool(tool) for tool in tools)
    whole = Request("plain", "model-1", messages or (user(),), tools=offered)
    return replace(whole, **more)  # type: ignore[arg-type]  # the test names real fields


def step(tool: str = "lookup", arguments: object = None, text: str | None = "fine", **more: object) -> Step:
    """A released call with its result (None: still open), classified as the ledger does it."""
    written = arguments if isinstance(arguments, str) else json.dumps({} if arguments is None else arguments)
    traits = ToolTraits()
    made = Step(
        number=0,
        turn=1,
        round=0,
        call_id="c1",
        tool=tool,
        arguments=written,
        fingerprint=call_fingerprint(tool, written),
    )
    if text is not None:
        status = classify(ToolResult("c1", text), traits)
        identity = result_identity(text, traits)
        made = replace(made, status=status, result=text, result_identity=identity, result_at=NOW)
    return replace(made, **more)  # type: ignore[arg-type]  # the test names real fields


def refused(
    tool: str = "lookup", code: str = "tool_not_allowed", arguments: object = None, **more: object
) -> Step:
    """A refused call."""
    return step(tool, arguments, None, status=StepStatus.REFUSED, refused_as=code, **more)


def run(*steps: Step, **more: object) -> Run:
    """A run; steps without a number or round get theirs in order, each a round of its own."""
    numbered = tuple(
        replace(
            each,
            number=each.number or place,
            round=each.round or place,
            result_at=None if each.result_at is None else each.result_at + place,
        )
        for place, each in enumerate(steps, 1)
    )
    whole = Run("run_1", "someone", NOW, steps=numbered)
    return replace(whole, **more)  # type: ignore[arg-type]  # the test names real fields


def facts(
    *calls: ToolCall,
    request: Request | None = None,
    run: Run | None = None,
    decision: Decision | None = None,
    brakes: Brakes | None = None,
    traits: Mapping[str, ToolTraits] | None = None,
    settings: CheckSettings | None = None,
    **more: object,
) -> Facts:
    """Facts of the phase that the given parts imply; arguments are read as the gate does it."""
    names = dict.fromkeys(each.name for each in calls) or {"lookup": None}
    settings = settings or CheckSettings()
    whole = Facts(
        identity=Identity(),
        request=request or Request("plain", "model-1", (user(),), tools=tuple(Tool(name) for name in names)),
        run=run or Run("run_1", "someone", NOW),
        decision=decision or Decision(traits=traits or {}),
        limits=Limits(brakes=brakes or Brakes()),
        now=NOW,
        settings=settings,
        calls=calls,
        parsed=tuple(parsed(each, settings) for each in calls),
    )
    return replace(whole, **more)  # type: ignore[arg-type]  # the test names real fields


def parsed(each: ToolCall, settings: CheckSettings) -> Mapping[str, object] | None:
    """The arguments as the gate puts them into facts."""
    if each.kind is not ToolKind.FUNCTION:
        return None
    try:
        return read_object(each.arguments, settings.max_argument_depth)
    except NotOneObject:
        return None


def enforced(verdicts: Sequence[Verdict]) -> list[tuple[str, Action]]:
    """Code and action of what acts, in order."""
    return [
        (verdict.code, verdict.action)
        for verdict in verdicts
        if verdict.mode is Mode.ENFORCE and verdict.action > Action.PASS
    ]


def codes(verdicts: Sequence[Verdict]) -> list[str]:
    """The codes, in order."""
    return [verdict.code for verdict in verdicts]


def short(unit: str = "calls", scope: str = "run", limit: float = 10, used: float = 10) -> Shortage:
    """A limit that is reached."""
    return Shortage(scope, unit, limit, used)


__all__ = [
    "NOW",
    "Message",
    "Role",
    "Tool",
    "ToolChoice",
    "assistant",
    "call",
    "codes",
    "enforced",
    "facts",
    "parsed",
    "refused",
    "request",
    "result",
    "run",
    "short",
    "step",
    "user",
]
