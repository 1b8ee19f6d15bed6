"""What a scripted provider may be told to say, and the small arithmetic of saying it.

Knows nothing of any wire format; `wire_*` renders what stands here.
"""

from __future__ import annotations

import hashlib
import json
import string
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Literal

_ALPHABET = string.digits + string.ascii_letters

Ending = Literal["complete", "reset", "hang"]


@dataclass(frozen=True, slots=True)
class Call:
    """One proposed tool call."""

    name: str
    arguments: str | Mapping[str, object] = "{}"
    """The exact text, or a mapping that is rendered compactly."""
    id: str | None = None
    """None: a fresh id in the provider's manner."""

    def text(self) -> str:
        """The arguments as the text that the model wrote."""
        if isinstance(self.arguments, str):
            return self.arguments
        return json.dumps(self.arguments, ensure_ascii=False, separators=(",", ":"))


@dataclass(frozen=True, slots=True)
class Answer:
    """One turn; rendered in the dialect and mode (stream or not) of the request that it answers."""

    text: str = ""
    calls: tuple[Call, ...] = ()
    thinking: str = ""
    """Anthropic: a signed thinking block. OpenAI: `reasoning_content`, as the compatible servers send it."""
    refusal: str = ""
    finish: str | None = None
    """None: what follows from the rest. The usual words of either dialect are understood by both."""
    usage: tuple[int, int] | None = (200, 30)
    """Input and output tokens; None: never sent."""
    text_after: str = ""
    """Text after the calls."""
    pieces: int = 3
    """Into how many deltas each text and each arguments are cut in a stream."""
    choices: int = 1
    """1: as many as the request asks for. More: so many, whatever the request says."""
    delay: float = 0.0
    """Seconds between stream events; unstreamed, seconds before the body."""


@dataclass(frozen=True, slots=True)
class Raw:
    """Exact bytes on the wire."""

    body: bytes = b""
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    """`content-type` is `application/json` unless given."""
    cuts: tuple[int, ...] = ()
    """Where the network cuts the body into separate writes."""
    delay: float = 0.0
    """Seconds between these writes."""
    ending: Ending = "complete"
    """`reset` aborts the connection after the body; `hang` keeps it open until the client goes."""
    steps: tuple[bytes | float, ...] = ()
    """Instead of `body`: bytes are written, numbers are seconds of silence."""

    def script(self) -> tuple[bytes | float, ...]:
        """The writes and silences in their order."""
        if self.steps:
            return self.steps
        bounds = sorted({0, *(cut for cut in self.cuts if 0 < cut < len(self.body)), len(self.body)})
        steps: list[bytes | float] = []
        for start, end in pairwise(bounds):
            steps += [self.delay, self.body[start:end]] if steps else [self.body[start:end]]
        return tuple(steps)


@dataclass(frozen=True, slots=True)
class Complaint:
    """Why a provider would not take a request."""

    message: str
    param: str | None = None
    code: str | None = None
    status: int = 400
    kind: str = "invalid_request_error"


class Ids:
    """Fresh ids that look like a provider's and are the same in every run of a test."""

    def __init__(self, seed: str = "") -> None:
        self._seed = seed
        self._count = 0

    def next(self, prefix: str, length: int = 24) -> str:
        """The next id with this prefix."""
        self._count += 1
        digest = hashlib.sha256(f"{self._seed}:{self._count}".encode()).digest()
        return prefix + "".join(_ALPHABET[byte % len(_ALPHABET)] for byte in digest[:length])


def cut(text: str, pieces: int) -> list[str]:
    """The text in so many pieces (fewer if it is shorter), none of them empty."""
    count = min(max(pieces, 1), len(text))
    bounds = [len(text) * place // count for place in range(count + 1)] if count else []
    return [text[start:end] for start, end in pairwise(bounds)]
