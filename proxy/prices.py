"""What a model request costs, in whole nanodollars: the operator's own prices, then the list of genai-prices (E4).

A figure that contradicts itself (more tokens from a cache than were read) is priced the dearer way, never dropped.
"""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime
from decimal import ROUND_CEILING, Decimal
from typing import TYPE_CHECKING

from cachetools import LRUCache
from genai_prices import Usage as Units, calc_price
from genai_prices.types import ModelPrice as Tariff

from proxy.core.limits import NANO
from proxy.core.spending import Cost

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from proxy.core.messages import Usage
    from proxy.core.spending import Meter
    from proxy.price_settings import ModelPrice, PriceSettings

_NOT_LISTED = 4096
"""How many names of models without a price are remembered: agents choose them."""


class PriceList:
    """Prices of models by provider and day."""

    def __init__(self, settings: PriceSettings) -> None:
        """Prices that are set beat those of the list."""
        self._settings = settings
        self._own = [(price, _tariff(price)) for price in settings.models]
        self._unlisted: LRUCache[tuple[str, str], bool] = LRUCache(_NOT_LISTED)

    def cost(self, usage: Usage, model: str, *, provider: str, base_url: str, at: float) -> Cost | None:
        """What this usage costs; None: the model has no price and is not to be counted.

        `provider` is its name in the settings, `base_url` where it is reached, `at` epoch seconds.
        """
        own = self._own_tariff(model, provider, at)
        if own is not None:
            return Cost(_priced(usage, lambda units: own.calc_price(units)["total_price"]), is_sure=True)
        if (base_url, model) not in self._unlisted:
            listed = self._listed(usage, model, base_url, at)
            if listed is not None:
                return Cost(listed, is_sure=True)
            self._unlisted[base_url, model] = True
        if self._settings.unknown != "count":
            return None
        per_input, per_output = self._settings.unknown_input, self._settings.unknown_output
        dollars = (usage.input_tokens * per_input + usage.output_tokens * per_output) / 1_000_000
        return Cost(round(dollars * NANO), is_sure=False)

    def meter(self, model: str, *, provider: str, base_url: str, at: float) -> Meter:
        """What usage of this model costs; the parameters are those of `cost`."""
        return lambda usage: self.cost(usage, model, provider=provider, base_url=base_url, at=at)

    def _own_tariff(self, model: str, provider: str, at: float) -> Tariff | None:
        day = datetime.fromtimestamp(at, UTC).date()
        holding = [
            (price, tariff)
            for price, tariff in self._own
            if _is_named(price.model, model)
            and price.provider in {"", provider}
            and (price.since is None or price.since <= day)
        ]
        if not holding:
            return None
        # The most exact name first, then the newest; of equals the one that is written first.
        best = max(holding, key=lambda each: (_exactness(each[0]), each[0].since or day.min))
        return best[1]

    def _listed(self, usage: Usage, model: str, base_url: str, at: float) -> int | None:
        asked = datetime.fromtimestamp(at, UTC)
        for url in (base_url or None, None):
            with suppress(LookupError):
                return _priced(
                    usage,
                    lambda units, url=url: (
                        calc_price(  # type: ignore[misc]  # the list names no kind for `url`
                            units, model, provider_api_url=url, genai_request_timestamp=asked
                        ).total_price
                    ),
                )
        return None


def _is_named(pattern: str, model: str) -> bool:
    return model.startswith(pattern[:-1]) if pattern.endswith("*") else model == pattern


def _exactness(price: ModelPrice) -> tuple[bool, int, bool]:
    return not price.model.endswith("*"), len(price.model), bool(price.provider)


def _tariff(price: ModelPrice) -> Tariff:
    read = _or(price.cache_read, price.input)
    written = _or(price.cache_write, price.input)
    written_1h = _or(price.cache_write_1h, written)
    dollars = {
        "input": price.input,
        "output": price.output,
        "cache_read": read,
        "cache_write": written,
        "cache_write_1h": written_1h,
        "input_audio": _or(price.input_audio, price.input),
        "output_audio": _or(price.output_audio, price.output),
        # The list prices nothing where two classes meet that have no price together.
        "cache_audio_read": read,
        "cache_audio_write": written,
        "cache_audio_write_1h": written_1h,
    }
    return Tariff(**{f"{name}_mtok": Decimal(str(each)) for name, each in dollars.items()})


def _or(said: float | None, otherwise: float) -> float:
    return otherwise if said is None else said


def _units(usage: Usage) -> Iterator[Units]:
    """The usage in the list's words, from exact to coarse: the first that the list can price counts."""
    tokens = {"input_tokens": max(usage.input_tokens, 0), "output_tokens": max(usage.output_tokens, 0)}
    kept = {
        "cache_write_tokens": usage.cache_write_tokens,
        "cache_write_1h_tokens": min(usage.cache_write_1h_tokens, usage.cache_write_tokens),
        "output_reasoning_tokens": usage.reasoning_tokens,
    }
    audio = {
        "input_audio_tokens": usage.input_audio_tokens,
        "output_audio_tokens": usage.output_audio_tokens,
    }
    read = {"cache_read_tokens": usage.cache_read_tokens}
    for more in (kept | audio | read, kept | audio, kept | read, kept, {}):
        yield Units(**tokens, **{name: count for name, count in more.items() if count > 0})


def _priced(usage: Usage, price: Callable[[Units], Decimal]) -> int:
    """The price of the most exact form of the usage that has one, rounded up to whole nanodollars."""
    for units in _units(usage):
        with suppress(ValueError):
            return int((price(units) * NANO).to_integral_value(ROUND_CEILING))
    msg = "tokens alone have no price"
    raise LookupError(msg)
