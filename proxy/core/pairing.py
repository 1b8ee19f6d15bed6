"""Which result answers which call in a history (A3, C7, C10, E1).

Laws: an id is unique only among the calls still open; a result answers the nearest earlier assistant turn with an
open call of its id (C006), within that turn the first such call. Order is kept. One pass over the messages.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .messages import Role, ToolKind

if TYPE_CHECKING:
    from collections.abc import Iterable

    from .messages import Message, ToolCall, ToolResult


@dataclass(frozen=True, slots=True)
class Pair:
    """A call of the history, where it stands, and its result, if one came."""

    message_index: int
    call: ToolCall
    result: ToolResult | None = None
    result_index: int | None = None
    """Index of the message that carries the result."""


@dataclass(frozen=True, slots=True)
class LooseResult:
    """A result that answers no open call. `before` is the result that its call had already, if it had one."""

    message_index: int
    result: ToolResult
    before: ToolResult | None = None


@dataclass(frozen=True, slots=True)
class Pairing:
    """A history's calls and results, each side in order."""

    pairs: tuple[Pair, ...] = ()
    """Every call, in the order of the history."""
    foreign: tuple[LooseResult, ...] = ()
    """Results whose id no earlier call has."""
    duplicates: tuple[LooseResult, ...] = ()
    """Further results for calls that had theirs."""

    @property
    def missing(self) -> tuple[Pair, ...]:
        """Calls that need a result and have none. What the provider ran itself needs none, and text never does."""
        return tuple(
            pair
            for pair in self.pairs
            if pair.result is None and pair.call.kind is not ToolKind.HOSTED and not pair.call.channel
        )

    @property
    def call_ids(self) -> frozenset[str]:
        """The ids of all calls."""
        return frozenset(pair.call.id for pair in self.pairs)


def paired(messages: Iterable[Message]) -> Pairing:
    """The pairing of a history. Never fails; what does not fit is in `missing`, `foreign` and `duplicates`."""
    walk = _Walk()
    for index, message in enumerate(messages):
        walk.read(index, message)
    pairs = (Pair(at, call, *answer) for (at, call), answer in zip(walk.calls, walk.answers, strict=True))
    return Pairing(tuple(pairs), tuple(walk.foreign), tuple(walk.duplicates))


class _Walk:
    """The calls still open, by id: a stack of assistant turns, each a queue of places in `calls`."""

    def __init__(self) -> None:
        self.calls: list[tuple[int, ToolCall]] = []
        self.answers: list[tuple[ToolResult | None, int | None]] = []
        self.foreign: list[LooseResult] = []
        self.duplicates: list[LooseResult] = []
        self._open: dict[str, list[tuple[int, deque[int]]]] = {}
        self._answered: dict[str, ToolResult] = {}
        self._turn = 0
        self._speaks = False

    def read(self, index: int, message: Message) -> None:
        # Some dialects have a message a call: assistant messages in a row are one turn.
        speaks = message.role is Role.ASSISTANT and not message.results
        if not (speaks and self._speaks):
            self._turn += 1
        self._speaks = speaks
        for call in message.calls:
            self._open_call(index, call)
        for result in message.results:
            self._close_call(index, result)

    def _open_call(self, index: int, call: ToolCall) -> None:
        turns = self._open.setdefault(call.id, [])
        if not turns or turns[-1][0] != self._turn:
            turns.append((self._turn, deque()))
        turns[-1][1].append(len(self.calls))
        self.calls.append((index, call))
        self.answers.append((None, None))

    def _close_call(self, index: int, result: ToolResult) -> None:
        turns = self._open.get(result.call_id)
        if not turns:
            before = self._answered.get(result.call_id)
            loose = LooseResult(index, result, before)
            (self.foreign if before is None else self.duplicates).append(loose)
            return
        places = turns[-1][1]
        self.answers[places.popleft()] = (result, index)
        if not places:
            turns.pop()
        self._answered[result.call_id] = result
