"""The tools of the demo's agent: ordinary functions over a small shop. What was really executed is written down."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

Json = dict[str, Any]

SYSTEM = (
    "You are the refund assistant of a lamp shop. Use the tools, then answer the customer in plain words."
)
CUSTOMER = "ann"
ORDERS: Mapping[str, Json] = {
    "A123": {"order_id": "A123", "customer_id": CUSTOMER, "item": "desk lamp", "price": "49.00 EUR"},
    "B456": {"order_id": "B456", "customer_id": "bob", "item": "chandelier", "price": "950.00 EUR"},
}
LOCKED = frozenset({"C900"})
"""Orders that the shop's own system lets nobody read."""
POLICIES: Mapping[str, str] = {
    "refund period": "Goods can be returned within 30 days of delivery for a full refund.",
    "return shipping": "Return shipping is free within the EU.",
}
"""Others are not in the store."""


def _schema(**properties: str) -> Json:
    return {
        "type": "object",
        "properties": {name: {"type": kind} for name, kind in properties.items()},
        "required": [name for name in properties if name != "order_id" or len(properties) == 1],
        "additionalProperties": False,
    }


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """A tool as the agent declares it."""

    name: str
    description: str
    schema: Json


TOOLS = (
    ToolSpec("get_order", "Read one order.", _schema(order_id="string")),
    ToolSpec("search_policy", "Search the shop's rules.", _schema(topic="string", order_id="string")),
    ToolSpec("create_refund", "Pay an order back.", _schema(order_id="string", amount="string")),
)


@dataclass(slots=True)
class Shop:
    """The shop, and what an agent did in it."""

    timeouts: int = 0
    """How often the policy store does not answer before it is well again."""
    pace: float = 0.0
    """Seconds that each tool takes."""
    executed: list[tuple[str, Json]] = field(default_factory=list)
    """Name and arguments of every call that was executed, in order."""

    async def call(self, name: str, arguments: str | Mapping[str, Any]) -> str:
        """Executes a call; the result is JSON."""
        values: Json = json.loads(arguments) if isinstance(arguments, str) else dict(arguments)
        self.executed.append((name, values))
        await asyncio.sleep(self.pace)
        tools: dict[str, Callable[..., Json]] = {
            "get_order": self.get_order,
            "search_policy": self.search_policy,
            "create_refund": self.create_refund,
        }
        return json.dumps(tools[name](**values))

    def get_order(self, order_id: str) -> Json:
        """Reads an order."""
        if order_id in LOCKED:
            return {"error": "FORBIDDEN", "message": "this order is locked"}
        order = ORDERS.get(order_id)
        return {"found": True, "data": order} if order else {"found": False, "reason": "no such order"}

    def search_policy(self, topic: str, order_id: str = "") -> Json:
        """Searches the rules, which are the same for every order."""
        del order_id
        if self.timeouts > 0:
            self.timeouts -= 1
            return {"error": "DB_TIMEOUT", "message": "the policy store did not answer"}
        text = POLICIES.get(topic)
        return (
            {"found": True, "data": {"topic": topic, "text": text}}
            if text
            else {"found": False, "reason": "no rule"}
        )

    def create_refund(self, order_id: str, amount: str) -> Json:
        """Pays back."""
        return {"paid": amount, "order_id": order_id}
