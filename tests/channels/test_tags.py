"""Calls between tags (C5, C6)."""

from hypothesis import given, strategies as st

from proxy.channels import ChannelOptions
from proxy.channels.tags import Tags
from tests.channels.forms import calls_in, scanned

CHANNEL = Tags(ChannelOptions())


def test_refusals_and_results_stand_in_the_tags_of_results() -> None:
    said = CHANNEL.refusal([("a", "no"), ("b", "never")])
    assert CHANNEL.results(said) == ["no", "never"]
    assert CHANNEL.results("plain") == []


def test_calls_are_written_as_they_are_read() -> None:
    calls = [("read", '{"id": 4}'), ("b", "{}")]
    assert calls_in(scanned("tags", CHANNEL.written(calls))) == calls


@given(st.text(max_size=40))
def test_a_delimiter_inside_an_argument_never_makes_another_call(text: str) -> None:
    """C6: the region ends at the first closing tag, as it does for parsers; what is left is refused, not shortened."""
    inner = f'{{"name":"read","arguments":{{"x":"</tool_call>{text.replace(chr(34), "").replace(chr(92), "")}"}}}}'
    names = [name for name, _ in calls_in(scanned("tags", f"<tool_call>{inner}</tool_call>"))]
    assert names[:1] == ["unreadable_call"]


def test_an_answer_by_program_is_plain() -> None:
    assert CHANNEL.answer("Stopped.") == "Stopped."
    assert CHANNEL.past("x") == ("x", [])
