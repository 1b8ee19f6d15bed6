"""Both wire formats read as the same conversation."""

import json
from typing import Any

import pytest
from multidict import CIMultiDict, CIMultiDictProxy

from proxy.demo import Seen
from proxy.demo.talk import Made, Talk

FOUND = '{"found": true, "data": {"item": "lamp"}}'
REFUSED = "[callgate] This call was not run (tool_not_allowed). Not here."
NOTE = "[callgate] Stop looking."
TEXT = '[callgate] The call to "refund" was not run: Not here.'


def seen(body: dict[str, Any]) -> Seen:
    headers: CIMultiDict[str] = CIMultiDict()
    return Seen("POST", "/", CIMultiDictProxy(headers), json.dumps(body).encode(), body, 0.0)


def call(key: str, name: str) -> dict[str, Any]:
    return {"id": key, "type": "function", "function": {"name": name, "arguments": '{"order_id":"A1"}'}}


CHAT: dict[str, Any] = {
    "tool_choice": "none",
    "tools": [{"type": "function", "function": {"name": "get_order"}}],
    "messages": [
        {"role": "system", "content": "Be kind."},
        {"role": "user", "content": "Where is A1?"},
        {"role": "assistant", "content": TEXT, "tool_calls": [call("c1", "get_order"), call("c2", "pay")]},
        {"role": "tool", "tool_call_id": "c1", "content": FOUND},
        {"role": "tool", "tool_call_id": "c2", "content": f"{REFUSED}\n\n{NOTE}"},
    ],
}
MESSAGES: dict[str, Any] = {
    "tool_choice": {"type": "none"},
    "tools": [{"name": "get_order"}],
    "system": "Be kind.",
    "messages": [
        {"role": "user", "content": "Where is A1?"},
        {
            "role": "assistant",
            "content": [
                {"type": "text", "text": TEXT},
                {"type": "tool_use", "id": "c1", "name": "get_order", "input": {"order_id": "A1"}},
                {"type": "tool_use", "id": "c2", "name": "pay", "input": {"order_id": "A1"}},
            ],
        },
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "c1", "content": FOUND},
                {"type": "tool_result", "tool_use_id": "c2", "content": [{"type": "text", "text": REFUSED}]},
                {"type": "text", "text": NOTE},
            ],
        },
    ],
}
each = pytest.mark.parametrize("body", [CHAT, MESSAGES], ids=["chat", "messages"])


@each
def test_a_model_sees_what_was_asked_what_it_called_and_what_came_of_it(body: dict[str, Any]) -> None:
    talk = Talk.of(seen(body))

    assert talk.user == "Where is A1?"
    assert talk.offered == ("get_order",)
    assert not talk.may_call
    assert [(made.id, made.tool, made.arguments) for made in talk.made] == [
        ("c1", "get_order", {"order_id": "A1"}),
        ("c2", "pay", {"order_id": "A1"}),
    ]
    assert talk.made[0].found == {"item": "lamp"}


@each
def test_what_callgate_said_comes_in_the_order_in_which_it_stands(body: dict[str, Any]) -> None:
    notes = Talk.of(seen(body)).notes

    assert notes == (
        'The call to "refund" was not run: Not here.',
        "This call was not run (tool_not_allowed). Not here.",
        "Stop looking.",
    )


@each
def test_a_refusal_is_seen_as_a_result_and_in_a_text(body: dict[str, Any]) -> None:
    talk = Talk.of(seen(body))

    assert talk.was_refused("pay")
    assert talk.was_refused("refund")
    assert not talk.was_refused("get_order")
    assert [made.id for made in talk.calls_of("get_order")] == ["c1"]
    assert talk.calls_of("pay") == []


def test_without_a_choice_tools_may_be_called() -> None:
    assert Talk.of(seen({"messages": []})).may_call
    assert Talk.of(seen({"messages": [], "tool_choice": {"type": "auto"}})).may_call


def test_a_note_behind_a_result_does_not_hide_it() -> None:
    made = Made("c1", "get_order", {}, f'{{"error": "DB_TIMEOUT"}}\n\n{NOTE}')

    assert made.error == "DB_TIMEOUT"
    assert made.found is None
    assert not made.was_refused
