"""Real traffic as a measure: which objects with which keys, in which order, a provider was seen to send.

The recordings are no part of the project. Where the folder beside the checkout is missing, what asks for them
is skipped.
"""

import json
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from tests.conftest import need

WIRE = Path(__file__).resolve().parents[2].parent / "shared" / "wire"
# Written or re-written by people or by a recorder: no proof of what a provider sends.
TOUCHED = {"response-reserialised", "framing-rebuilt", "sdk-mock", "maybe-handmade"}
# A model's own objects, and ours to choose.
FREE = (".input", ".arguments")

Shape = tuple[str, ...]
Shapes = dict[str, set[Shape]]


@dataclass(frozen=True)
class Recording:
    """One exchange."""

    id: str
    stream: bool
    status: int
    tags: frozenset[str]
    request: Any
    body: str


@cache
def recordings(dialect: str, providers: tuple[str, ...]) -> tuple[Recording, ...]:
    """All recordings of a dialect from these providers."""
    need(
        (WIRE / "index.json").exists(), f"no recordings in {WIRE.parent.name}/{WIRE.name} beside the checkout"
    )
    found = []
    for entry in json.loads((WIRE / "index.json").read_text()):
        if entry["dialect"] != dialect or entry["provider"] not in providers:
            continue
        exchange = json.loads((WIRE / entry["file"]).read_text())
        body = exchange["response"].get("body") or ""
        tags = frozenset(entry["tags"])
        request = exchange["request"]["body"]
        found.append(Recording(entry["id"], entry["stream"], entry["status"], tags, request, body))
    return tuple(found)


def recorded(dialect: str, providers: tuple[str, ...], *, stream: bool, status: int = 200) -> Shapes:
    """The shapes of what was really sent."""
    shapes: Shapes = defaultdict(set)
    for recording in recordings(dialect, providers):
        if (recording.stream, recording.status) != (stream, status) or TOUCHED & recording.tags:
            continue
        for kind, found in shapes_of(recording.body, stream=stream).items():
            shapes[kind] |= found
    return shapes


def shapes_of(body: str, *, stream: bool) -> Shapes:
    """Each kind of object in a body, with the key sequences in which it occurs."""
    shapes: Shapes = defaultdict(set)
    documents = events(body) if stream else [json.loads(body)]
    for document in documents:
        for kind, shape in _walk("", document):
            shapes[kind].add(shape)
    return shapes


def events(body: str) -> Iterator[Any]:
    """The documents of an event stream."""
    for line in body.replace("\r\n", "\n").split("\n"):
        if line.startswith("data:") and line != "data: [DONE]":
            yield json.loads(line[5:])


def names(body: str) -> list[str]:
    """The `event:` lines."""
    return [line[7:] for line in body.split("\n") if line.startswith("event: ")]


def _walk(path: str, value: Any) -> Iterator[tuple[str, Shape]]:
    if path.endswith(FREE):
        return
    if isinstance(value, dict):
        kind = value.get("type")
        here = f"{path}<{kind}>" if isinstance(kind, str) and not path.endswith("error") else path
        yield here, tuple(value)
        for key, inner in value.items():
            yield from _walk(f"{here}.{key}", inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _walk(f"{path}[]", inner)


def assert_real(ours: Shapes, real: Shapes) -> None:
    """Every object that we send was seen in this form, and has what every real one has."""
    invented = {kind: shapes - real[kind] for kind, shapes in ours.items() if shapes - real.get(kind, set())}

    assert invented == {}

    for kind, shapes in ours.items():
        always = set.intersection(*(set(shape) for shape in real[kind]))
        assert all(always <= set(shape) for shape in shapes), (kind, always)
