"""What most channels have in common: results as they stand behind `Observation:`, answers as they are."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .proposals import FINISH, USUAL, in_fence, written
from .scanner import Rule

if TYPE_CHECKING:
    from collections.abc import Sequence

    from . import ChannelOptions, Past
    from .proposals import Fields
    from .scanner import Proposed, Whole

OBSERVATION = "Observation:"


class PlainChannel:
    """A channel without forms of its own for refusals, answers and results."""

    name = ""

    def __init__(self, options: ChannelOptions) -> None:
        """The options that concern it."""
        self.options = options

    @property
    def whole(self) -> Whole | None:
        """A text without a mark is text."""
        return None

    def acting(self, calls: Sequence[Proposed] | None) -> list[Proposed] | None:
        """These calls without those that say the agent is done; None: there is none."""
        known, final = self.options.tools, self.options.final
        done = {final.lower()} if final else FINISH
        return [call for call in calls or () if call[0] in known or call[0].lower() not in done] or None

    def json_fences(self, fields: Fields = USUAL) -> tuple[Rule, ...]:
        """Calls as JSON in fences, with or without the word."""

        def read(text: str) -> list[Proposed] | None:
            return self.acting(in_fence(text, fields))

        fence, closers = "```", ("\n```",)
        return (
            Rule(f"{fence}json", closers, read),
            Rule(fence, closers, read, then="{"),
            Rule(fence, closers, read, then="["),
        )

    def written(self, calls: Sequence[Proposed]) -> str:
        """The calls as JSON."""
        return written(calls)

    def refusal(self, refusals: Sequence[tuple[str, str]]) -> str:
        """One line a call."""
        return "\n".join(f"{OBSERVATION} {said}" for _, said in refusals)

    def answer(self, text: str) -> str:
        """The text as it is."""
        return text

    def results(self, text: str) -> list[str]:
        """What stands behind `Observation:`."""
        bare = text.lstrip()
        return [bare.removeprefix(OBSERVATION).strip()] if bare.startswith(OBSERVATION) else []

    def past(self, text: str) -> tuple[str, list[Past]]:
        """None: a message is one thing."""
        return text, []
