"""What models cost, as an operator writes it."""

from __future__ import annotations

from datetime import date
from typing import Annotated, Literal

from pydantic import Field

from proxy.setting_kinds import Part

Price = Annotated[float, Field(ge=0, le=1_000_000, allow_inf_nan=False)]


class ModelPrice(Part):
    """Prices of one model or of all whose names begin alike, in US dollars per million tokens."""

    model: Annotated[str, Field(min_length=1, max_length=256)]
    """Name of the model as agents send it; `name*` stands for every name that begins like it."""
    provider: str = ""
    """Name of the provider in `upstream`; empty: any."""
    since: date | None = None
    """The first day (UTC) on which this price holds; of several that hold the newest counts."""
    input: Price
    """Tokens read."""
    output: Price
    """Tokens written, reasoning included."""
    cache_read: Price | None = None
    """Tokens read from the prompt cache; null: as `input`."""
    cache_write: Price | None = None
    """Tokens written to the prompt cache; null: as `input`."""
    cache_write_1h: Price | None = None
    """Tokens written to the prompt cache for an hour; null: as `cache_write`."""
    input_audio: Price | None = None
    """Audio tokens read; null: as `input`."""
    output_audio: Price | None = None
    """Audio tokens written; null: as `output`."""


class PriceSettings(Part):
    """What models cost. What is not said here is in the price list that comes with Callgate (genai-prices)."""

    models: tuple[ModelPrice, ...] = ()
    """Prices of one's own, before those of the list."""
    unknown: Literal["refuse", "count", "untracked"] = "refuse"
    """A model without a price, where money is limited: `refuse` the request, `count` it at `unknown_input` and
    `unknown_output`, marked as unverified, or leave it `untracked`. Where money is not limited, nothing is refused."""
    unknown_input: Price = 10
    """US dollars per million tokens read by a model without a price (`unknown: count`)."""
    unknown_output: Price = 50
    """US dollars per million tokens written by a model without a price (`unknown: count`)."""
    fit_output: Literal["lower", "refuse"] = "lower"
    """Less money is left than a request may cost: `lower` the most that it may write to what is left, or `refuse` it."""
