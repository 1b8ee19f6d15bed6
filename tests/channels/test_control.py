"""Control tokens that came through as text (C5, C6)."""

from proxy.channels import ChannelOptions
from proxy.channels.control import ControlTokens
from tests.channels.forms import calls_in, scanned

CHANNEL = ControlTokens(ChannelOptions())


def test_calls_are_written_as_they_are_read() -> None:
    calls = [("read", '{"id": 4}'), ("b", "{}")]
    assert calls_in(scanned("control_tokens", CHANNEL.written(calls))) == calls


def test_what_cannot_be_read_behind_a_token_is_refused_by_its_name() -> None:
    """Fail closed: a mark says that it is a call."""
    for text in ("[TOOL_CALLS]?", "<|tool_call|>{", "<｜tool▁calls▁begin｜>x<｜tool▁calls▁end｜>"):
        assert [name for name, _ in calls_in(scanned("control_tokens", text))] == ["unreadable_call"]


def test_results_that_the_model_made_up_are_cut_off() -> None:
    """C6."""
    found = scanned("control_tokens", '[TOOL_CALLS][{"name":"a","arguments":{}}]</s>[TOOL_RESULTS]7')
    assert found.cut is not None
    assert found.text[found.cut :] == "[TOOL_RESULTS]7"
