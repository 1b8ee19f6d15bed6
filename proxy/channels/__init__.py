"""Only here is text searched for hidden calls. `CHANNELS` is the list.

A channel says which marks stand for a call, how its refusal is worded for the model, in what form an answer by program is
read as a final one, and how results stand in a history. A new one is one file and one line.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from .scanner import Proposed, Rule, Whole


@dataclass(frozen=True, slots=True)
class ChannelOptions:
    """What can be said about a channel."""

    code_tool: str = "python"
    """The name under which code that the agent would run is judged."""
    name_field: str = ""
    arguments_field: str = ""
    """Of a structured answer that stands for a call; empty: the usual ones."""
    final: str = ""
    """The name with which a structured answer ends the agent's loop; empty: the usual ones."""
    tools: tuple[str, ...] = ()
    """Tools that are known by name."""


@dataclass(frozen=True, slots=True)
class Past:
    """A part of a text that holds a whole conversation: what was said, the calls in it, and the result that followed."""

    said: str
    calls: tuple[Proposed, ...]
    result: str


class Channel(Protocol):
    """One textual form of calls. Pure."""

    @property
    def name(self) -> str:
        """For settings and records."""

    @property
    def rules(self) -> Sequence[Rule]:
        """The marks."""

    @property
    def whole(self) -> Whole | None:
        """How a text without any mark is a call, where it may be one."""

    def written(self, calls: Sequence[Proposed]) -> str:
        """Calls in this form, for a region that loses some of its calls."""

    def refusal(self, refusals: Sequence[tuple[str, str]]) -> str:
        """What the model is told in the place of results, as a user's message: (name, refusal) of each call."""

    def answer(self, text: str) -> str:
        """A text by program in the form that the agent reads as a final answer."""

    def results(self, text: str) -> list[str]:
        """The results that a user's (or tool's) message of a history brings; empty: it brings none."""

    def past(self, text: str) -> tuple[str, list[Past]]:
        """A message that holds a conversation so far: what comes before it, and its parts. No parts: it holds none."""


from .control import ControlTokens  # noqa: E402  # only now: they need the words above
from .fences import Fences  # noqa: E402  # as above
from .patches import Patches  # noqa: E402  # as above
from .react import ReAct  # noqa: E402  # as above
from .structured import Structured  # noqa: E402  # as above
from .tags import Tags  # noqa: E402  # as above

CHANNELS: Mapping[str, Callable[[ChannelOptions], Channel]] = {
    "tags": Tags,
    "control_tokens": ControlTokens,
    "react": ReAct,
    "fences": Fences,
    "patches": Patches,
    "structured": Structured,
}
"""All channels, by the name in settings."""
