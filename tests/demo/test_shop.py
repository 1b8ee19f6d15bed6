"""The demo's tools: results of each kind that a brake can tell apart, and a record of what was really done."""

import json

import pytest

from proxy.demo.shop import Shop


@pytest.mark.parametrize(
    ("name", "arguments", "said"),
    [
        ("get_order", {"order_id": "A123"}, ("found", True)),
        ("get_order", {"order_id": "X1"}, ("found", False)),
        ("get_order", {"order_id": "C900"}, ("error", "FORBIDDEN")),
        ("search_policy", {"topic": "refund period"}, ("found", True)),
        ("search_policy", {"topic": "weather"}, ("found", False)),
        ("create_refund", {"order_id": "A123", "amount": "1.00 EUR"}, ("paid", "1.00 EUR")),
    ],
)
async def test_a_result_says_of_which_kind_it_is(
    name: str, arguments: dict[str, str], said: tuple[str, object]
) -> None:
    """A5."""
    result = json.loads(await Shop().call(name, arguments))

    assert result[said[0]] == said[1]


async def test_the_policy_store_is_down_as_often_as_it_was_told() -> None:
    shop = Shop(timeouts=1)

    first = json.loads(await shop.call("search_policy", {"topic": "refund period"}))
    second = json.loads(await shop.call("search_policy", {"topic": "refund period"}))

    assert first["error"] == "DB_TIMEOUT"
    assert second["found"] is True


async def test_what_was_executed_is_written_down_in_order_whatever_came_of_it() -> None:
    shop = Shop(timeouts=1)

    await shop.call("search_policy", '{"topic": "refund period"}')
    await shop.call("get_order", {"order_id": "C900"})

    assert shop.executed == [
        ("search_policy", {"topic": "refund period"}),
        ("get_order", {"order_id": "C900"}),
    ]
