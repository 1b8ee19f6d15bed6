"""A whole answer in JSON that stands for a call: structured output that names an action, or a model's bare call. It may stand
in a fence."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from .plain import PlainChannel
from .proposals import USUAL, Fields, suspected
from .scanner import Rule

if TYPE_CHECKING:
    from collections.abc import Sequence

    from . import ChannelOptions
    from .scanner import Proposed

_RESULT = "TOOL RESPONSE:"
_BEHIND_RESULT = "\nUSER'S INPUT\n"
_BEHIND = " \t\r\n`"


class Structured(PlainChannel):
    """See the file's head."""

    name = "structured"

    def __init__(self, options: ChannelOptions) -> None:
        """`name_field` and `arguments_field` say where the call stands; else the usual places are looked at."""
        super().__init__(options)
        self._said = options.name_field or "action", options.arguments_field or "action_input"
        names = (options.name_field,) if options.name_field else USUAL.names
        given = (options.arguments_field,) if options.arguments_field else USUAL.arguments
        self._fields = Fields(names, given, names if options.name_field else USUAL.enough)
        self.rules: Sequence[Rule] = (
            Rule("{", (), self._object, at_start=True),
            Rule("[", (), self._list, at_start=True),
            *self.json_fences(self._fields),
        )

    def results(self, text: str) -> list[str]:
        """What stands behind `Observation:`, or in LangChain's form."""
        bare = text.lstrip()
        if not bare.startswith(_RESULT):
            return super().results(text)
        result = bare.removeprefix(_RESULT).partition(_BEHIND_RESULT)[0]
        return [result.lstrip(" \t\r\n-").rstrip()]

    def answer(self, text: str) -> str:
        """As a call that ends the agent's loop, where one is named."""
        if not self.options.final:
            return text
        name, arguments = self._said
        return json.dumps({name: self.options.final, arguments: text}, ensure_ascii=False)

    def _object(self, text: str) -> list[Proposed] | None:
        return self.acting(suspected("{" + text.rstrip(_BEHIND), self._fields))

    def _list(self, text: str) -> list[Proposed] | None:
        return self.acting(suspected("[" + text.rstrip(_BEHIND), self._fields))
