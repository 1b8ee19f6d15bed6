"""A check in shadow is recorded and never acts: agent and provider see what they see where it is off (design 6, F2)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from proxy.checks import CHECKS
from proxy.demo import Answer, Call, Seen
from tests.playbook import CHAT, Play
from tests.shelf import Shelf

pytestmark = pytest.mark.asyncio(loop_scope="module")

RULES = {
    "org": {
        "denied_tools": ["mail"],
        "tools": {
            "pay": {"effect": "write", "idempotency_argument": "key"},
            "look_up": {"effect": "read", "arguments": {"id": {"max_length": 4}}},
        },
        "answers": {"ids": {"ids": "[A-Z][0-9]+"}},
    }
}
SCHEMA = {"type": "object", "properties": {"id": {"type": "string"}}}
TOOLS = [
    {"type": "function", "function": {"name": name, "parameters": SCHEMA}}
    for name in ("look_up", "pay", "mail")
]
ROUNDS: tuple[Call, ...] = (
    Call("look_up", {"id": "A1"}),
    Call("look_up", {"id": "A1"}),
    Call("look_up", {"id": "A1"}),
    Call("look_up", {"id": 7}),
    Call("look_up", {"id": "A123456"}),
    Call("mail", {"id": "A1"}),
    Call("nothing", {}),
    Call("pay", {"id": "A1"}),
    Call("pay", {"id": "A1"}),
    Call("look_up", {"id": "A2"}),
)
ORPHAN = {
    "role": "assistant",
    "content": None,
    "tool_calls": [{"id": "lost", "type": "function", "function": {"name": "look_up", "arguments": "{}"}}],
}
SETTINGS: dict[str, Any] = {"reask__per_turn": 0}


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def shelf(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Shelf]:
    """Policies that stay open for all tests of this file."""
    async with Shelf(tmp_path_factory.mktemp("shelf")) as shelf:
        yield shelf


def always(answer: Answer) -> Callable[[Seen], Answer]:
    return lambda _: answer


async def story(stage: Play) -> tuple[list[Any], list[bytes]]:
    """What the agent got in each round, ids aside, and what the provider was asked."""
    messages: list[dict[str, Any]] = [
        {"role": "user", "content": "Hi"},
        ORPHAN,
        {"role": "user", "content": "Go."},
    ]
    got = []
    for number, call in enumerate(ROUNDS):
        made = Answer("Then:", calls=(call,)) if number < len(ROUNDS) - 1 else Answer("Order C9.")
        stage.provider.respond(always(made))
        answer = await stage.post(CHAT, {"model": "m", "messages": messages, "tools": TOOLS})
        message = answer.json["choices"][0]["message"] if answer.status == 200 else answer.json
        calls = message.get("tool_calls") or []
        got.append((answer.status, message.get("content"), [each["function"] for each in calls]))
        if calls:
            id_ = calls[0]["id"]
            messages += [message, {"role": "tool", "tool_call_id": id_, "content": '{"id": "A1"}'}]
        else:
            messages += [message, {"role": "user", "content": f"Go on, {number}."}]
    return got, [seen.body for seen in stage.provider.seen]


@pytest.mark.parametrize("check", [check.name for check in CHECKS])
async def test_in_shadow_a_check_changes_nothing(shelf: Shelf, tmp_path: Path, check: str) -> None:
    """Byte for byte, over a story in which every check has something to say."""
    seen = {}
    said = {}
    for mode in ("off", "shadow"):
        folder = tmp_path / mode
        folder.mkdir()
        modes = {check: mode}
        settings = SETTINGS | ({"limits__run__calls": 3} if check == "budget" else {})
        async with shelf.play(folder, RULES, checks__modes=modes, **settings) as stage:
            seen[mode] = await story(stage)
            records = await stage.records("decision")
            said[mode] = {
                verdict["mode"]
                for record in records
                if record["kind"] == "decision"
                for verdict in record["verdicts"]
                if verdict["check"].split(".")[0] == check
            }

    assert seen["shadow"] == seen["off"]
    assert said == {"off": set(), "shadow": {"shadow"}}
