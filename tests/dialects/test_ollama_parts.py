"""Calls of Ollama's chat API: named by what they say, read to the letter, refused where readers could differ."""

import json

import pytest
from hypothesis import given, strategies as st

from proxy.core import json_text
from proxy.core.messages import Malformed, Problem, Usage
from proxy.dialects.ollama_parts import (
    MESSAGE,
    CallIds,
    WireCall,
    error_body,
    exact,
    history_calls,
    usage_edit,
    wire_calls,
)

READ = WireCall("", "read", '{"id": 1}')


def calls_in(message: bytes) -> list[WireCall]:
    return wire_calls(message, json_text.members(message))


def test_a_call_is_named_by_what_it_says_however_it_is_spelled() -> None:
    """A3: neither servers nor clients keep ids."""
    ids = [
        CallIds().call(WireCall(wire, "read", text), (0, 0)).id
        for wire in ("", "call_1")
        for text in ('{"id": 1}', '{"id":1.0}', '{ "id" : 1 }')
    ]
    assert len(set(ids)) == 1
    assert CallIds().call(WireCall("", "read", '{"id": 2}'), (0, 0)).id not in ids


def test_the_same_call_twice_in_an_answer_has_two_names() -> None:
    """C10."""
    ids = CallIds()
    first, second = ids.call(READ, (0, 0)).id, ids.call(READ, (0, 1)).id
    assert second == f"{first}_1"


@given(st.dictionaries(st.text(max_size=4), st.integers() | st.text(max_size=4), max_size=4))
def test_a_history_names_calls_as_the_answer_did(arguments: dict[str, object]) -> None:
    """A2, A3: whatever the client made of them in between."""
    entry = {"function": {"index": 0, "name": "read", "arguments": arguments}}
    sent = json.dumps({"tool_calls": [entry]}, indent=1).encode()
    del entry["function"]["index"]
    (released,) = calls_in(sent)
    (returned,) = history_calls({"tool_calls": [entry]})
    assert CallIds().call(released, (0, 0)).id == CallIds().call(returned, (0, 0)).id


def test_arguments_are_the_very_stretch_of_the_wire() -> None:
    """The bytes judged are the bytes that the tool gets, also where a key occurs twice."""
    message = b'{"tool_calls":[{"function":{"name":"x","arguments":{"a": 1, "a": 2e0}}}]}'
    assert calls_in(message)[0].arguments == '{"a": 1, "a": 2e0}'


@pytest.mark.parametrize(
    "entry",
    [
        b"1",
        b"{}",
        b'{"function":1}',
        b'{"function":{"name":1}}',
        b'{"function":{"name":"a","name":"b"}}',
        b'{"function":{"name":"a"},"function":{"name":"b"}}',
        b'{"Function":{"name":"a"},"function":{"name":"b"}}',
        b'{"function":{"name":"a","Arguments":{}}}',
    ],
)
def test_what_readers_could_take_differently_is_malformed(entry: bytes) -> None:
    with pytest.raises(Malformed):
        calls_in(b'{"tool_calls":[' + entry + b"]}")


def test_known_keys_are_written_in_exactly_these_letters() -> None:
    """Readers in Go do not mind the case, and some other letters: others do."""
    for key in ("Tool_Calls", "TOOL_CALLS", "tool_call\u017f"):
        with pytest.raises(Malformed):
            exact({key: 1}, MESSAGE)
    exact({"tool_calls": 1, "other": 2}, MESSAGE)


def test_usage_of_other_answers_is_added() -> None:
    body = b'{"eval_count": 3}'
    edited = json_text.spliced(body, usage_edit(body, json_text.members(body), Usage(5, 4)))
    assert json.loads(edited) == {"eval_count": 7, "prompt_eval_count": 5}


def test_an_error_is_a_text_with_fields_for_programs_beside_it() -> None:
    body = error_body(Problem(403, "used_up", "No more.", {"limit": 3, "error": "x"}))
    assert json.loads(body) == {"error": "No more.", "code": "used_up", "limit": 3}
