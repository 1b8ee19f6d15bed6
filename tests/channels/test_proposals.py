"""Calls as models write them in text."""

import json

import pytest
from hypothesis import given, strategies as st

from proxy.channels.proposals import marked, one_input, proposed, xml_call


@pytest.mark.parametrize(
    ("text", "calls"),
    [
        ('{"name": "a", "arguments": {"x": 1.0}}', [("a", '{"x": 1.0}')]),
        ('{"name": "a", "arguments": "{\\"x\\": 1}"}', [("a", '{"x": 1}')]),
        ('{"function": {"name": "a", "arguments": {}}}', [("a", "{}")]),
        ('{"name": "a", "parameters": null}', [("a", "{}")]),
        ('[{"name": "a", "arguments": {}}, {"name": "b", "args": {}}]', [("a", "{}"), ("b", "{}")]),
        ('[{"name": "a", "arguments": {}}, 7]', []),
        ('{"name": "a"}', []),
        ('{"name": 7, "arguments": {}}', []),
        ('{"name": "a", "name": "b", "arguments": {}}', []),
        ('{"name": "a", "arguments": {}} and', []),
        ("[]", []),
        ("", []),
    ],
)
def test_objects_with_a_name_and_arguments_are_calls(text: str, calls: list[tuple[str, str]]) -> None:
    """Promise 5: the arguments are the very text, and what readers could take differently is no call."""
    assert proposed(text) == calls


def test_what_is_marked_and_cannot_be_read_is_refused() -> None:
    assert marked('{"name": "a", "name": "b", "arguments": {}}')[0][0] == "unreadable_call"
    assert xml_call("")[0][0] == "unreadable_call"


@given(st.text(max_size=60))
def test_any_text_is_read_or_not(text: str) -> None:
    assert isinstance(proposed(text), list)
    assert marked(text)
    assert xml_call(text)
    name, arguments = one_input("a", text)
    assert name == "a"
    assert text.strip().startswith("{") or json.loads(arguments) == {"input": text.strip()}
