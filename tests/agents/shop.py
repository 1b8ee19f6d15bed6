"""The tools that all agents offer: two that read, one that acts. What was really called is written down."""

from __future__ import annotations

import json
from dataclasses import dataclass, field

MOST_STEPS = 12
"""No agent here goes on for longer; a test that gets there fails."""
MODELS = {"openai": "scripted-large", "anthropic": "scripted-large"}
ORDER_SCHEMA = {
    "type": "object",
    "properties": {"order_id": {"type": "string"}},
    "required": ["order_id"],
    "additionalProperties": False,
}
TOPIC_SCHEMA = {
    "type": "object",
    "properties": {"topic": {"type": "string"}},
    "required": ["topic"],
    "additionalProperties": False,
}
SCHEMAS = {"get_order": ORDER_SCHEMA, "search_policy": TOPIC_SCHEMA, "refund": ORDER_SCHEMA}


@dataclass(slots=True)
class Shop:
    """A small shop."""

    called: list[tuple[str, str]] = field(default_factory=list)
    """Name and argument of every call that was executed, in order."""

    async def get_order(self, order_id: str) -> str:
        """Reads an order."""
        self.called.append(("get_order", order_id))
        return f"Order {order_id}: two lamps, on the way."

    async def search_policy(self, topic: str) -> str:
        """Searches the rules of the shop."""
        self.called.append(("search_policy", topic))
        return f"About {topic}: within 14 days."

    async def refund(self, order_id: str) -> str:
        """Pays an order back."""
        self.called.append(("refund", order_id))
        return f"Order {order_id} was paid back."

    async def call(self, name: str, arguments: str | dict[str, str]) -> str:
        """Executes a call as a plain loop does."""
        values = json.loads(arguments) if isinstance(arguments, str) else arguments
        result: str = await getattr(self, name)(**values)
        return result
