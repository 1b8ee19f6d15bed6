"""What happens to final answers that a check or a policy objects to, as an operator writes it (E15)."""

from __future__ import annotations

from typing import Literal

from proxy.setting_kinds import Count, Part


class AnswerSettings(Part):
    """Final answers."""

    hold: bool = False
    """Final answers are held until they are judged: nothing of one that is objected to reaches the agent before the model
    was asked again. False: they leave at once, and an objection is only recorded."""
    reask: Count = 1
    """How often in a turn the model is told what was objected to, and asked again; needs `hold`."""
    after: Literal["flag", "refuse"] = "flag"
    """An answer that is still objected to: it leaves and is flagged, or an answer by program takes its place; needs
    `hold`."""
