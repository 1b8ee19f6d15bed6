"""What policies read of a tool that the provider runs: what the agent set for it, less the secrets it gave along."""

from __future__ import annotations

import re

from .typed import Json

MAX_DEPTH = 8
"""Levels that are shown; what is deeper is left out."""
_SECRET = re.compile(
    r"authorization|authentication|(api_?)?auth(_?config)?|headers?|cookies?|key|.*api_?key.*"
    r"|.*(_token|secret|password|credential|connection_?string)|(access|auth|bearer|refresh|api|id)?token",
    re.IGNORECASE,
)


def options_of(entry: Json) -> Json:
    """The entry without members that are named like secrets, at any depth (headers and keys for the provider to use)."""
    return {key: _shown(value, 1) for key, value in entry.items() if not _SECRET.fullmatch(key)}


def _shown(value: object, depth: int) -> object:
    if isinstance(value, dict):
        if depth >= MAX_DEPTH:
            return {}
        return {key: _shown(inner, depth + 1) for key, inner in value.items() if not _SECRET.fullmatch(key)}
    if isinstance(value, list):
        return [_shown(inner, depth + 1) for inner in value] if depth < MAX_DEPTH else []
    return value


def server_tool(label: str) -> str:
    """The name under which all tools of an MCP server are offered; no function's name can hold a dot."""
    return f"mcp.{label}"
