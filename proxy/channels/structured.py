"""A whole answer in JSON that stands for a call: structured output that names an action, or a model's bare call."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .plain import PlainChannel
from .proposals import ARGUMENTS, NAMES, proposed
from .scanner import Rule

if TYPE_CHECKING:
    from collections.abc import Sequence

    from . import ChannelOptions
    from .scanner import Proposed

_FINISH = frozenset({"finish", "final", "final answer", "final_answer", "answer", "respond"})


class Structured(PlainChannel):
    """See the file's head."""

    name = "structured"

    def __init__(self, options: ChannelOptions) -> None:
        """`name_field` and `arguments_field` say where the call stands; else the usual places are looked at."""
        super().__init__(options)
        self._names = (options.name_field,) if options.name_field else NAMES
        self._arguments = (options.arguments_field,) if options.arguments_field else ARGUMENTS
        self.rules: Sequence[Rule] = (
            Rule("{", (), self._object, at_start=True),
            Rule("[", (), self._list, at_start=True),
        )

    def _object(self, text: str) -> list[Proposed] | None:
        return self._calls("{" + text)

    def _list(self, text: str) -> list[Proposed] | None:
        return self._calls("[" + text)

    def _calls(self, text: str) -> list[Proposed] | None:
        calls = proposed(text, self._names, self._arguments)
        return [call for call in calls if call[0].lower() not in _FINISH] or None
