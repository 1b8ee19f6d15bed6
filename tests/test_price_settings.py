"""Prices as an operator writes them."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from proxy.price_settings import ModelPrice, PriceSettings


def test_nothing_said_refuses_models_without_a_price_where_money_is_limited() -> None:
    """E4: never silently zero."""
    assert PriceSettings().unknown == "refuse"


@pytest.mark.parametrize("wrong", [{"input": -1}, {"input": float("nan")}, {"model": ""}, {"output": None}])
def test_a_price_that_is_none_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        ModelPrice(**({"model": "m", "input": 1.0, "output": 1.0} | wrong))
