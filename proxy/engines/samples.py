"""Inputs that any policies have to be able to decide before they are put in force: one for each phase and layer."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from proxy.core.messages import Message, Request, Role, Tool, ToolCall, Turn
from proxy.core.results import StepStatus
from proxy.core.runs import Identity, Run, Step

from .bundle import Bundle
from .document import build_input

_NOW = 1_800_000_000.0
_TOOL = "sample_tool"


def sample_inputs(bundle: Bundle) -> Iterator[dict[str, Any]]:
    """Documents for the organisation alone and for every team and agent that the policies know."""
    names = sorted(_described(bundle.data["rules"]))[:20]
    request = Request(
        dialect="sample",
        model="sample-model",
        messages=(Message(Role.USER, text="Please look up sample A123."),),
        tools=tuple(Tool(name) for name in (_TOOL, *names)),
    )
    for layer in ("", *(layer for layer in bundle.layers if layer != "org")):
        kind, _, name = layer.partition(".")
        identity = Identity(
            key="sample",
            organisation="sample",
            team=name if kind == "team" else "sample",
            agent=name if kind == "agent" else "sample",
            user="sample",
            roles=("sample",),
        )
        for phase in ("request", "calls", "answer"):
            yield _sample(phase, identity, request)


def _sample(phase: str, identity: Identity, request: Request) -> dict[str, Any]:
    step = Step(
        number=1,
        turn=1,
        round=1,
        call_id="sample_1",
        tool=_TOOL,
        arguments='{"id": "A123"}',
        fingerprint="",
        status=StepStatus.FOUND,
        released_at=_NOW - 2,
        result_at=_NOW - 1,
        result='{"id": "A123", "found": true}',
    )
    run = Run(
        id="sample", identity_key="sample", started_at=_NOW - 10, turn_started_at=_NOW - 10, steps=(step,)
    )
    calls = tuple(ToolCall(f"sample_{place}", tool.name, "{}") for place, tool in enumerate(request.tools))
    asked = calls if phase == "calls" else ()
    answer = Turn(text="Sample A123 was found.") if phase == "answer" else None
    return build_input(phase, identity, request, run, asked, [{} for _ in asked], now=_NOW, answer=answer)


def _described(rules: dict[str, Any]) -> set[str]:
    parts = [rules["org"], *rules["teams"].values(), *rules["agents"].values()]
    return {name for part in parts for name in part.get("tools", {})}
