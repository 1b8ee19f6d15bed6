"""What a request costs: every class of token once, at its own price (E4, C017)."""

from __future__ import annotations

from datetime import UTC, date, datetime
from typing import Any

import pytest
from hypothesis import given, strategies as st

from proxy.core.messages import Usage
from proxy.core.spending import Cost
from proxy.price_settings import ModelPrice, PriceSettings
from proxy.prices import PriceList

NOW = datetime(2026, 12, 1, tzinfo=UTC).timestamp()
OPENAI = "https://api.openai.com/v1"
COUNTS = st.integers(0, 10**7)
USAGES = st.builds(Usage, *[COUNTS] * 8)


def listed(*models: ModelPrice, **settings: Any) -> PriceList:
    return PriceList(PriceSettings(models=models, **settings))


def cost(prices: PriceList, usage: Usage, model: str = "maple-1", **more: Any) -> Cost | None:
    asked: dict[str, Any] = {"provider": "openai_chat", "base_url": OPENAI, "at": NOW} | more
    return prices.cost(usage, model, **asked)


def price(model: str = "maple-1", **dollars: Any) -> ModelPrice:
    return ModelPrice(model=model, **({"input": 2.0, "output": 8.0} | dollars))


@pytest.mark.parametrize(
    ("dollars", "usage", "millionths"),
    [
        (
            {"input": 3.0, "output": 15.0, "cache_read": 0.3, "cache_write": 3.75},
            Usage(24_012, 250, 20_000, 4_000),
            24_786,
        ),
        ({"cache_read": 0.5}, Usage(10_000, 100, 8_000), 8_800),
        ({}, Usage(10_000, 100, 8_000), 20_800),
        ({"cache_write": 2.5, "cache_write_1h": 4.0}, Usage(100, 0, 0, 50, 0, 20), 100 + 75 + 80),
        ({"input_audio": 30.0, "output_audio": 60.0}, Usage(100, 10, 0, 0, 0, 0, 40, 5), 1_660),
        ({}, Usage(0, 100, 0, 0, 90), 800),
    ],
)
def test_every_class_is_paid_once_at_its_own_price(
    dollars: dict[str, Any], usage: Usage, millionths: int
) -> None:
    """C017: the sums of the case, and of the classes that it does not have."""
    assert cost(listed(price(**dollars)), usage) == Cost(millionths * 1000, is_sure=True)


def test_the_list_knows_models_by_provider_and_by_name() -> None:
    """E4: 24,786 millionths of a dollar, as the provider's own price list says."""
    usage = Usage(24_012, 250, 20_000, 4_000)

    for url in ("https://api.anthropic.com", "http://127.0.0.1:4000", ""):
        assert cost(listed(), usage, "claude-sonnet-4-5", base_url=url) == Cost(24_786_000, is_sure=True)


def test_own_prices_beat_the_list() -> None:
    mine = listed(price("gpt-4o-mini", input=1000.0))

    assert cost(mine, Usage(1), "gpt-4o-mini") == Cost(1_000_000, is_sure=True)


def test_a_price_holds_from_its_day_on() -> None:
    """The newest that holds counts, in whatever order they are written."""
    prices = listed(
        price(since=date(2026, 11, 1), input=3.0),
        price(input=1.0),
        price(since=date(2026, 12, 1), input=4.0),
        price(since=date(2026, 12, 2), input=9.0),
    )
    days = [datetime(2026, month, day, tzinfo=UTC).timestamp() for month, day in ((10, 31), (11, 1), (12, 1))]

    costs = [cost(prices, Usage(1_000_000), at=at) for at in days]
    assert [each.nano_usd // 10**9 if each else None for each in costs] == [1, 3, 4]


def test_the_more_exact_name_counts() -> None:
    prices = listed(
        price("*", input=1.0), price("maple-*", input=2.0), price("maple-1", input=3.0, provider="mine")
    )

    assert cost(prices, Usage(1_000_000), "oak") == Cost(10**9, is_sure=True)
    assert cost(prices, Usage(1_000_000)) == Cost(2 * 10**9, is_sure=True)
    assert cost(prices, Usage(1_000_000), provider="mine") == Cost(3 * 10**9, is_sure=True)


@pytest.mark.parametrize("unknown", ["refuse", "untracked"])
def test_a_model_without_a_price_costs_what_nobody_knows(unknown: str) -> None:
    """Never silently zero."""
    assert cost(listed(unknown=unknown), Usage(1000, 1000)) is None


def test_a_model_without_a_price_may_be_counted_at_a_given_one() -> None:
    counted = listed(unknown="count", unknown_input=10, unknown_output=50)

    assert cost(counted, Usage(1000, 100)) == Cost(15_000_000, is_sure=False)
    assert cost(counted, Usage(1000, 100)) == Cost(15_000_000, is_sure=False)


@given(USAGES, st.sampled_from(["maple-1", "claude-sonnet-4-5", "gpt-4o-mini", "gemini-2.5-flash"]))
def test_whatever_a_provider_reports_has_a_price_of_at_least_its_output(usage: Usage, model: str) -> None:
    """Figures come from outside: those that contradict themselves are no reason to fail, and none is free."""
    found = cost(listed(price(cache_read=0.5)), usage, model)

    assert found is not None
    assert found.nano_usd > 0 or usage.output_tokens == 0
    assert (found.nano_usd == 0) <= (usage.input_tokens == 0 or usage.output_tokens == 0)


@given(USAGES, st.integers(1, 1000))
def test_more_output_never_costs_less(usage: Usage, more: int) -> None:
    prices = listed(price(cache_read=0.5))
    less = cost(prices, usage)
    longer = cost(prices, usage + Usage(0, more))

    assert less is not None
    assert longer is not None
    assert longer.nano_usd >= less.nano_usd or usage.output_audio_tokens > usage.output_tokens
