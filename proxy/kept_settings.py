"""What agents may leave with the provider: answers that it keeps and makes later."""

from __future__ import annotations

from typing import Literal

from proxy.setting_kinds import Part


class KeptSettings(Part):
    """Answers and conversations that the provider keeps under an id."""

    store: Literal["allow", "refuse"] = "allow"
    """Requests whose answer the provider is to keep."""
    background: Literal["allow", "refuse"] = "refuse"
    """Requests whose answer is made later and fetched; its calls are then judged each time it is fetched."""
    unknown: Literal["allow", "refuse"] = "allow"
    """Requests that go on from, or look into, what this Callgate knows no owner of; what another caller owns is refused always."""
