"""What most channels have in common."""

from proxy.channels import ChannelOptions
from proxy.channels.plain import PlainChannel

CHANNEL = PlainChannel(ChannelOptions())


def test_results_are_observations() -> None:
    assert CHANNEL.results("Observation: 7\n") == ["7"]
    assert CHANNEL.results("7") == []
    assert CHANNEL.refusal([("a", "no")]) == "Observation: no"


def test_nothing_else_is_special() -> None:
    assert CHANNEL.answer("x") == "x"
    assert CHANNEL.past("x") == ("x", [])
    assert CHANNEL.whole is None
    assert CHANNEL.written([("a", "{}")]) == '{"name": "a", "arguments": {}}'
