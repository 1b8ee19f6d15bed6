"""Recorded exchanges, where a folder of them lies beside the checkout. They are no part of the project."""

import json
from base64 import b64decode
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from tests.conftest import skip_or_fail

FOLDERS = {"ollama": "ollama-native", "gemini": "gemini-generate"}
"""Where they are not named as the dialect is."""
WIRE = Path(__file__).resolve().parents[3] / "shared" / "wire"


@dataclass(frozen=True)
class Exchange:
    """One recorded exchange. `request` is the body as JSON text (its white space was never recorded), or empty."""

    id: str
    is_stream: bool
    tags: frozenset[str]
    request: bytes
    answer: bytes
    observed: dict[str, Any]
    """What an independent reader found in it."""
    status: int = 200
    headers: tuple[tuple[str, str], ...] = ()
    """Of the answer, as far as they were recorded."""
    path: str = ""
    """Of the request."""


def recorded(dialect: str) -> tuple[Exchange, ...]:
    """All exchanges of a dialect that the provider answered with 200. Skips where there are no recordings."""
    return tuple(one for one in every(dialect) if one.status == 200)


@cache
def every(dialect: str) -> tuple[Exchange, ...]:
    """All exchanges of a dialect, errors included. Skips where there are no recordings."""
    folder = WIRE / FOLDERS.get(dialect, dialect)
    if not folder.is_dir():
        skip_or_fail(f"no recordings beside the checkout ({WIRE.parent.name}/{WIRE.name}/{dialect})")
    found = []
    for path in sorted(folder.glob("*.json")):
        entry = json.loads(path.read_text("utf-8"))
        body, answer = entry["request"]["body"], entry["response"]
        if answer.get("body") is None and answer.get("body_base64") is None:
            continue
        binary = answer.get("body_base64")
        found.append(
            Exchange(
                id=entry["id"],
                is_stream="stream" in entry["tags"],
                tags=frozenset(entry["tags"]),
                request=json.dumps(body, ensure_ascii=False).encode() if isinstance(body, dict) else b"",
                answer=answer["body"].encode() if binary is None else b64decode(binary),
                observed=entry["observed"],
                status=answer["status"],
                headers=tuple(answer["headers"].items()),
                path=(entry["request"]["path"] or "").removeprefix("/bedrock"),  # of a gateway
            )
        )
    return tuple(found)
