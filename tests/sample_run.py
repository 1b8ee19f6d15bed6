"""Runs, calls and verdicts for tests that tell of them; every argument has a plain default."""

from types import SimpleNamespace
from typing import Any, cast

from proxy.core.limits import Amounts
from proxy.core.messages import Message, Request, Role, Tool, ToolCall, Turn, Usage
from proxy.core.results import StepStatus
from proxy.core.runs import Run, Step
from proxy.core.verdicts import Action, Mode, Verdict
from proxy.dialects import Dialect, Route

AT = 1_790_000_000.25


def run(**changes: Any) -> Run:
    amounts = Amounts(rounds=2, calls=1, input_tokens=300, output_tokens=40, per_tool={"get_order": 1})
    fields: dict[str, Any] = {
        "id": "run_1",
        "identity_key": "k",
        "started_at": AT,
        "turn_started_at": AT,
        "spent": amounts,
        "turn_spent": amounts,
    }
    return Run(**fields | changes)


def step(**changes: Any) -> Step:
    fields: dict[str, Any] = {
        "number": 1,
        "turn": 1,
        "round": 1,
        "call_id": "call_1",
        "tool": "get_order",
        "arguments": '{"order_id":"A123"}',
        "fingerprint": "f",
        "status": StepStatus.FOUND,
        "released_at": AT + 1,
        "result_at": AT + 3.5,
        "result": '{"found":true,"data":{"status":"sent"}}',
    }
    return Step(**fields | changes)


def call(name: str = "get_order", arguments: str = '{"order_id":"A123"}', **changes: Any) -> ToolCall:
    return ToolCall(**{"id": "call_1", "name": name, "arguments": arguments} | changes)


def verdict(code: str = "tool_not_allowed", **changes: Any) -> Verdict:
    fields: dict[str, Any] = {
        "check": "policy.tools",
        "code": code,
        "action": Action.REASK,
        "message": "CANARY-MESSAGE",
        "call": 0,
        "layer": "org",
        "rule": "allow_list",
        "reason_class": "allow_list",
        "mode": Mode.ENFORCE,
    }
    return Verdict(**fields | changes)


def request(**changes: Any) -> Request:
    fields: dict[str, Any] = {
        "dialect": "sample-chat",
        "model": "maple-1",
        "messages": (Message(Role.USER, "where is my order CANARY-QUESTION"),),
        "tools": (Tool("get_order", size=200), Tool("search", size=100)),
        "stream": True,
        "max_output": 100,
    }
    return Request(**fields | changes)


def turn(**changes: Any) -> Turn:
    fields: dict[str, Any] = {
        "id": "chatcmpl-1",
        "model": "maple-1-2026",
        "text": "CANARY-ANSWER",
        "finish": ("stop",),
        "usage": Usage(200, 30, cache_read_tokens=150, cache_write_tokens=10, reasoning_tokens=5),
    }
    return Turn(**fields | changes)


def dialect(provider: str = "openai") -> Dialect:
    plain = SimpleNamespace(
        name="sample-chat",
        provider=provider,
        base_url="https://models.example/v1",
        routes=(Route("POST", "/v1/chat"), Route("POST", "/v1/models/{model}:generate")),
    )
    return cast("Dialect", plain)


def arrival(headers: dict[str, str] | None = None, path: str = "/v1/chat?key=CANARY-KEY") -> Any:
    return SimpleNamespace(
        dialect=dialect(),
        method="POST",
        path=path,
        headers=headers or {},
        peer="127.0.0.1",
        body=b"",
    )
