"""What Callgate does in which dialect, as the README says it. `tests/test_features.py` plays every cell."""

from __future__ import annotations

from typing import Any

from proxy.dialects import DIALECTS

Json = dict[str, Any]

FEATURES = {
    "streaming gate": "text leaves at once, a call waits until it is judged",
    "re-ask": "the model is told why a call was refused, and answers again",
    "last answer": "at a limit one last answer comes, without calls",
    "partial refusal": "of several calls the refused ones go, the others arrive",
    "stored state": "what the provider keeps is gone on from by its id, and fetched, judged",
    "hosted tools": "tools that the provider runs are judged when they are offered",
}
NO: dict[tuple[str, str], str] = {
    ("openai-chat", "stored state"): "the provider keeps nothing to go on from",
    ("anthropic-messages", "stored state"): "the provider keeps nothing to go on from",
    ("gemini", "stored state"): "the provider keeps nothing to go on from",
    ("ollama", "stored state"): "the server keeps nothing to go on from",
    ("ollama", "hosted tools"): "the server runs none",
    ("bedrock-converse", "stored state"): "the provider keeps nothing to go on from",
}
"""The cells that are no, and why."""

HOSTED: dict[str, tuple[Json, str]] = {
    "openai-chat": ({"web_search_options": {"search_context_size": "low"}}, "web_search_options"),
    "openai-responses": ({"tools": [{"type": "web_search"}]}, "web_search"),
    "anthropic-messages": (
        {"tools": [{"type": "web_search_20250305", "name": "web_search"}]},
        "web_search_20250305",
    ),
    "gemini": ({"tools": [{"googleSearch": {}}]}, "googleSearch"),
    "bedrock-converse": (
        {"toolConfig": {"tools": [{"systemTool": {"name": "nova_grounding"}}]}},
        "nova_grounding",
    ),
}
"""By dialect: what a request has to hold for the provider to run a tool, and a word that is in it."""


def rows() -> list[tuple[str, ...]]:
    """The table: a dialect a row, a feature a column."""
    return [
        (f"`{dialect.name}`", *("no" if (dialect.name, feature) in NO else "yes" for feature in FEATURES))
        for dialect in DIALECTS
    ]
