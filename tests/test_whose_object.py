"""Whose object, which task: rule data alone, through the whole gate, over what the run has read."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from proxy.config import load_settings
from proxy.demo.conversations import Caller, Conversation, play_conversations

if TYPE_CHECKING:
    from pathlib import Path

RULES = {
    "agents": {
        "desk": {
            "tools": {
                "get_order": {
                    "effect": "read",
                    "object_arguments": ["order_id"],
                    "arguments": {"order_id": {"named_by": ["user", "list_orders"]}},
                },
                "refund": {
                    "effect": "write",
                    "arguments": {
                        "order_id": {
                            "owned_by": {
                                "tool": "get_order",
                                "object": "order_id",
                                "owner": "customer_id",
                                "equals": "get_customer.customer_id",
                            }
                        },
                        "cents": {
                            "as_shown": {"tool": "get_order", "object": "order_id", "field": "total_cents"}
                        },
                    },
                    "other_arguments": "refuse",
                },
            }
        }
    }
}
NAMES = ("get_customer", "list_orders", "get_order", "refund", "archive")
TOOLS = [{"type": "function", "function": {"name": name, "parameters": {"type": "object"}}} for name in NAMES]
Done = tuple[str, dict[str, object], dict[str, object]]
CUSTOMER: Done = ("get_customer", {"customer_id": "c7"}, {"customer_id": "c7"})
ORDER: Done = (
    "get_order",
    {"order_id": "A1"},
    {"data": {"order_id": "A1", "customer_id": "c7", "total_cents": 500}},
)
FOREIGN: Done = ("get_order", {"order_id": "B2"}, {"order_id": "B2", "customer_id": "c9", "total_cents": 500})
LIST: Done = ("list_orders", {}, {"orders": [{"order_id": "B2"}]})
FORBIDDEN: Done = ("get_order", {"order_id": "A1"}, {"error": "FORBIDDEN"})
PAID: dict[str, object] = {"order_id": "A1", "cents": 500}


async def _last_refused(tmp_path: Path, earlier: list[Done], name: str, arguments: dict[str, object]) -> bool:
    """Whether the last call of a run is refused, in which these calls were made before; those have to pass."""
    rules = tmp_path / "rules.yaml"
    rules.write_text(yaml.safe_dump(RULES))
    messages: list[dict[str, Any]] = [{"role": "user", "content": "I am c7. Refund my order A1."}]
    for number, (tool, said, result) in enumerate([*earlier, (name, arguments, {})]):
        function = {"name": tool, "arguments": json.dumps(said)}
        call = {"id": f"c{number}", "type": "function", "function": function}
        messages.append({"role": "assistant", "content": None, "tool_calls": [call]})
        messages.append({"role": "tool", "tool_call_id": f"c{number}", "content": json.dumps(result)})
    (played,) = await play_conversations(
        [Conversation("run", messages)],
        TOOLS,
        load_settings(environment={"CALLGATE_POLICY__DATA": str(rules)}),
        caller=Caller(agent="desk"),
    )
    assert all(call.released for call in played.calls[:-1])
    return not played.calls[-1].released


@pytest.mark.parametrize(
    ("earlier", "name", "arguments", "refused"),
    [
        ([CUSTOMER, ORDER], "refund", PAID, False),
        ([CUSTOMER], "refund", PAID, True),
        ([ORDER], "refund", PAID, True),
        ([CUSTOMER, ORDER], "refund", PAID | {"cents": 501}, True),
        ([CUSTOMER, ORDER], "refund", PAID | {"to": "me"}, True),
        ([CUSTOMER, ORDER, LIST, FOREIGN], "refund", {"order_id": "B2", "cents": 500}, True),
    ],
    ids=["own", "not read", "of nobody", "another amount", "more than that", "somebody else's"],
)
async def test_a_refund_is_for_an_order_of_the_customers_own_as_it_was_read(
    tmp_path: Path, earlier: list[Done], name: str, arguments: dict[str, object], *, refused: bool
) -> None:
    """D2, D3: a valid id is not enough."""
    assert await _last_refused(tmp_path, earlier, name, arguments) is refused


async def test_what_nobody_has_named_is_not_looked_up(tmp_path: Path) -> None:
    """D2: the user asked about A1; B2 is looked up only once a result has named it."""
    assert await _last_refused(tmp_path, [], "get_order", {"order_id": "B2"})
    assert not await _last_refused(tmp_path, [LIST], "get_order", {"order_id": "B2"})
    assert not await _last_refused(tmp_path, [], "get_order", {"order_id": "A1"})


async def test_what_was_forbidden_stays_closed_for_every_tool(tmp_path: Path) -> None:
    """D6: by whatever name another tool calls it."""
    assert await _last_refused(tmp_path, [FORBIDDEN], "archive", {"document": {"ref": " a1 "}})
    assert not await _last_refused(tmp_path, [FORBIDDEN], "archive", {"document": {"ref": "A2"}})
