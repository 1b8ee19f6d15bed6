"""Calls of a history that wait for their results. Results mostly name no call, so they are given to calls by name and order.

Laws: a result without an id belongs to the step before it, never to an older one whose call got none; one with an id
belongs to the newest call of this id. Time is linear in the history.
"""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from dataclasses import dataclass, field

from proxy.core.messages import ToolCall

from .gemini_parts import CallNames


@dataclass(slots=True)
class _Waiting:
    """A call without result so far, or with one."""

    call: ToolCall
    wire_id: str
    step: int
    answered: bool = False


_Queues = defaultdict[str, deque[_Waiting]]


def _queues() -> _Queues:
    return defaultdict(deque)


@dataclass(slots=True)
class WaitingCalls:
    """The calls of a history, as far as it was read."""

    names: CallNames = field(default_factory=CallNames)
    """Of this step: an answer may come back as several contents."""
    _step: int = 0
    _by_id: _Queues = field(default_factory=_queues)
    _by_name: _Queues = field(default_factory=_queues)
    _before: _Queues = field(default_factory=_queues)
    """Of earlier steps, by id."""
    _identified: Counter[str] = field(default_factory=Counter)
    """How many calls of this step and name wait that have an id on the wire."""

    def begin_step(self) -> None:
        """The model speaks again: what still waits can only be named by its id."""
        for id_, queue in self._by_id.items():
            self._before[id_].extendleft(reversed([one for one in queue if not one.answered]))
        self.names = CallNames()
        self._step += 1
        self._by_id, self._by_name, self._identified = _queues(), _queues(), Counter()

    def add(self, wire_id: str, call: ToolCall) -> None:
        """A call of this step; `wire_id` is empty where the wire has none."""
        one = _Waiting(call, wire_id, self._step)
        for id_ in {wire_id, call.id} - {""}:
            self._by_id[id_].append(one)
        self._by_name[call.name].append(one)
        self._identified[call.name] += bool(wire_id)

    def answered(self, wire_id: str, name: str) -> ToolCall | None:
        """The call that a result of this id and name belongs to. It waits no longer."""
        found = (_first(self._by_id, wire_id) or _first(self._before, wire_id)) if wire_id else None
        if found is None and not (wire_id and self._identified[name]):
            found = _first(self._by_name, name)
        if found is None:
            return None
        found.answered = True
        if found.wire_id and found.step == self._step:
            self._identified[found.call.name] -= 1
        return found.call


def _first(queues: _Queues, key: str) -> _Waiting | None:
    """The first that still waits."""
    queue = queues.get(key)
    while queue and queue[0].answered:
        queue.popleft()
    return queue[0] if queue else None
