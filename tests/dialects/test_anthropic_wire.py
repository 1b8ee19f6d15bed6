"""Inputs of calls to the letter, and blocks for a history."""

import json

import pytest

from proxy.dialects.anthropic_wire import block_texts, call_block, exact_input, index_of, started_input


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        (b'{"name":"n","input": { "a" : 1e2, "b":"\\u00e9" } }', '{ "a" : 1e2, "b":"\\u00e9" }'),
        (b'{"input":{ }}', ""),
        (b'{"input":null}', ""),
        (b"{}", ""),
        (b'{"input":[1]}', "[1]"),
        (b'{"input":{"a":1},"input":{"a":2}}', "ambiguous"),
    ],
)
def test_an_input_is_the_text_on_the_wire(text: bytes, wanted: str) -> None:
    """The bytes judged are the bytes the tool gets (design §4)."""
    assert exact_input(text, json.loads(text)) == wanted
    event = b'{"index":0, "content_block": ' + text + b"}"
    assert started_input(event, json.loads(text)) == wanted


def test_blocks_stand_as_they_came() -> None:
    event = b'{"message":{"content":[ {"a" :1} ,2]}}'
    assert block_texts(event, "message", "content") == [b'{"a" :1}', b"2"]
    assert block_texts(event, "message", "other") == []
    assert block_texts(b'{"message":{"content":[],"content":[1]}}', "message", "content") == []


@pytest.mark.parametrize(
    ("index", "wanted"), [(1, 1), (1.0, 1), ("1", "1"), (True, None), (None, None), ([1], None), (1.5, None)]
)
def test_a_number_of_a_block_is_what_clients_take_it_for(index: object, wanted: object) -> None:
    assert index_of({"index": index}) == wanted


@pytest.mark.parametrize(
    ("arguments", "wanted"),
    [
        ("", {}),
        (" \n", {}),
        ('{"a": 1.0}', {"a": 1.0}),
        ("[1]", {"INVALID_JSON": "[1]"}),
        ('{"a":', {"INVALID_JSON": '{"a":'}),
    ],
)
def test_a_call_goes_back_with_its_arguments_or_with_what_was_wrong_of_them(
    arguments: str, wanted: object
) -> None:
    """A2, C4."""
    block = {"type": "tool_use", "id": "", "name": "n", "input": {}, "caller": {"type": "direct"}}
    written = json.loads(call_block(block, "t", arguments))
    assert written == {**block, "id": "t", "input": wanted}
