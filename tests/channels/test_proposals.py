"""Calls as models write them in text."""

import json

import pytest
from hypothesis import given, strategies as st

from proxy.channels.proposals import in_fence, marked, one_input, proposed, suspected, xml_call
from proxy.core.messages import UNREADABLE


@pytest.mark.parametrize(
    ("text", "calls"),
    [
        ('{"name": "a", "arguments": {"x": 1.0}}', [("a", '{"x": 1.0}')]),
        ('{"name": "a", "arguments": "{\\"x\\": 1}"}', [("a", '{"x": 1}')]),
        ('{"function": {"name": "a", "arguments": {}}}', [("a", "{}")]),
        ('{"name": "a", "parameters": null}', [("a", "{}")]),
        ('[{"name": "a", "arguments": {}}, {"name": "b", "args": {}}]', [("a", "{}"), ("b", "{}")]),
        ('[{"name": "a", "arguments": {}}, 7]', [(UNREADABLE, '[{"name": "a", "arguments": {}}, 7]')]),
        ('{"name": "a", "tool": "b", "args": {}}', [(UNREADABLE, '{"name": "a", "tool": "b", "args": {}}')]),
        ('{"tool": "a"}', [("a", "{}")]),
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
    assert text.strip().startswith("{") or json.loads(arguments)["input"] == text.strip().strip('"')


@pytest.mark.parametrize(
    "text",
    [
        '{"tool": "a", "args": {"x": 1}',
        '{"tool": "a", "args": {"x": 1}} and more',
        '{"tool": "a", "tool": "b"}',
        '{"action": "a", "action_input": "two\nlines',
        r'{"\u0061ction": "a", "action_input": {',
        "{'tool': 'a', 'args': {}}",
        '{tool: "a"}',
    ],
)
def test_broken_json_with_the_members_of_a_call_is_one_that_cannot_be_read(text: str) -> None:
    """C5, promise 4: some parsers mend it and run it, so it is never plain text."""
    assert suspected(text) == [(UNREADABLE, text)]
    assert in_fence(f"\n{text}\n") == [(UNREADABLE, text)]


@pytest.mark.parametrize(
    "text", ['{"result": {"tool": "a", "args": {}}}', '{"name": "Ann"', "{}", '{"a": [1']
)
def test_other_json_is_no_call(text: str) -> None:
    assert suspected(text) is None


@pytest.mark.parametrize(
    "text",
    [
        "rm><parameter=path>/etc",
        "rm><parameter=path>a</parameter><parameter=path>b</parameter>",
        "rm>now<parameter=path>a</parameter>",
        "rm><parameter>a</parameter>",
    ],
)
def test_elements_that_parsers_read_in_different_ways_are_refused(text: str) -> None:
    """Promise 5: what is judged is what the tool gets."""
    assert xml_call(text) == [(UNREADABLE, text)]


def test_a_text_for_a_tool_is_judged_as_the_tool_gets_it() -> None:
    """Promise 5: without its quotes; and with the members of an object that some parsers pick out of it."""
    assert one_input("a", '"B456"') == ("a", '{"input": "B456"}')
    assert json.loads(one_input("a", 'go {"id": 4}')[1]) == {"id": 4, "input": 'go {"id": 4}'}
    assert one_input("a", 'go {"input": 4}')[0] == UNREADABLE
    assert json.loads(one_input("a", "f(x) { return }")[1]) == {"input": "f(x) { return }"}
