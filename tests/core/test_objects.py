"""What a call is about is found in its arguments, whatever the tool calls it (D2, D6)."""

import pytest
from hypothesis import given, strategies as st

from proxy.core.objects import objects


@pytest.mark.parametrize(
    ("arguments", "found"),
    [
        ({"order": "A123"}, {"A123"}),
        ({"orderId": 7}, {"7"}),
        ({"user_id": "mia_li_3668"}, {"mia_li_3668"}),
        ({"reservation": "HATHAT"}, {"HATHAT"}),
        ({"to": "mia@example.com"}, {"mia@example.com"}),
        ({"account": "main"}, {"main"}),
        ({"ids": ["a", "b"]}, {"a", "b"}),
        ({"target": 4711001}, {"4711001"}),
        ({"filter": {"invoice": {"number": "INV-20"}}}, {"INV-20"}),
    ],
)
def test_identifying_values_are_found(arguments: dict[str, object], found: set[str]) -> None:
    """D2, D6."""
    assert objects(arguments) == found


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"q": "reset token 5"},
        {"page": 2, "limit": 50},
        {"from": "JFK"},
        {"cabin": "economy"},
        {"date": "2024-05-20"},
        {"when": "2024-05-20T15:00:00Z"},
        {"at": "15:30"},
        {"amount": "12.50"},
        {"on": True, "user_id": True},
        {"user_id": None},
        {"ratio": 123456.5},
        {"order": "A" * 200},
        {"n": 10**60},
    ],
)
def test_words_dates_measures_and_sizes_are_no_objects(arguments: dict[str, object]) -> None:
    assert objects(arguments) == frozenset()


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    )
)
def test_any_arguments_can_be_asked(value: object) -> None:
    for found in objects({"order_id": value}):
        assert found
        assert not any(sign.isspace() for sign in found)
