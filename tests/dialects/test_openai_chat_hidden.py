"""Answers in which a call hides from one reader and not from another: none of them is taken for what it seems to be."""

import json
from typing import Any

import pytest

from proxy.core.messages import Malformed
from proxy.dialects.openai_chat_answer import parse_response
from proxy.dialects.openai_chat_hidden import refuse_hidden
from proxy.dialects.openai_chat_reader import ChatReader

CALL: dict[str, Any] = {
    "index": 0,
    "id": "c1",
    "type": "function",
    "function": {"name": "drop", "arguments": "{}"},
}
TEXT = json.dumps(CALL)
HIDDEN = {
    "calls twice": f'{{"tool_calls":[{TEXT}],"tool_calls":[]}}',
    "calls twice, spelled otherwise": f'{{"tool_calls":[{TEXT}],"tool_call\\u0073":[]}}',
    "a name twice": '{"tool_calls":[{"id":"c","function":{"name":"drop","name":"read","arguments":"{}"}}]}',
    "capitals": f'{{"Tool_Calls":[{TEXT}]}}',
    "no underscore": f'{{"toolCalls":[{TEXT}]}}',
    "only one": f'{{"tool_call":{TEXT}}}',
    "in a part": '{"content":[{"type":"tool_use","id":"c","name":"drop","input":{}}]}',
    "a content": '{"content":{"type":"function_call","name":"drop","arguments":"{}"}}',
    "two forms": '{"tool_calls":[{"id":"c","type":"function","function":{"name":"read"},"custom":{"name":"drop"}}]}',
    "no form": '{"tool_calls":[{"type":"function","name":"drop","arguments":"{}"}]}',
    "a form in capitals": '{"tool_calls":[{"id":"c","Function":{"name":"drop"},"function":{"name":"read"}}]}',
    "a name in capitals": '{"tool_calls":[{"id":"c","function":{"name":"read","Name":"drop"}}]}',
    "a legacy name in capitals": '{"function_call":{"name":"read","NAME":"drop"}}',
}
BESIDE = {
    "beside the delta": f'{{"choices":[{{"index":0,"tool_calls":[{TEXT}]}}]}}',
    "beside the choices": f'{{"choices":[],"tool_calls":[{TEXT}]}}',
    "choices twice": f'{{"choices":[{{"index":0,"delta":{{"tool_calls":[{TEXT}]}}}}],"choices":[]}}',
    "choices in capitals": f'{{"Choices":[{{"index":0,"delta":{{"tool_calls":[{TEXT}]}}}}],"choices":[]}}',
}
PLAIN = {
    "text about them": '{"content":"set \\"tool_calls\\" and tool_use"}',
    "fillers": '{"content":"x","tool_calls":null,"function_call":{"name":"","arguments":""}}',
    "an empty other form": '{"tool_calls":[{"id":"c","function":{"name":"read"},"custom":{"name":"","input":""}}]}',
    "what belongs to it": '{"tool_calls":[{"index":0,"id":"c","extra_content":{"google":{"thought_signature":"x"}},'
    '"function":{"name":"read","arguments":"{}"}}]}',
    "a later piece": '{"tool_calls":[{"index":0,"function":{"arguments":"1"}}]}',
}


def streamed(value: str) -> ChatReader:
    reader = ChatReader(lambda: "made")
    reader.feed(b"data: " + value.encode() + b"\n\n")
    return reader


def within(member: str, message: str) -> str:
    return f'{{"id":"a","choices":[{{"index":0,"{member}":{message},"finish_reason":"tool_calls"}}]}}'


@pytest.mark.parametrize("what", HIDDEN)
def test_a_call_that_only_some_clients_see_is_refused_streamed_or_not(what: str) -> None:
    """D5: hidden from the gate is not hidden from every agent."""
    assert streamed(within("delta", HIDDEN[what])).turn().error is not None
    with pytest.raises(Malformed):
        parse_response(within("message", HIDDEN[what]).encode(), lambda: "made")


@pytest.mark.parametrize("what", BESIDE)
def test_a_call_that_stands_elsewhere_is_refused(what: str) -> None:
    assert streamed(BESIDE[what]).turn().error is not None
    with pytest.raises(Malformed):
        parse_response(BESIDE[what].replace('"delta"', '"message"').encode(), lambda: "made")


@pytest.mark.parametrize("what", PLAIN)
def test_what_hides_nothing_is_read(what: str) -> None:
    raw = within("delta", PLAIN[what])
    refuse_hidden(raw.encode(), json.loads(raw))
    assert streamed(raw).turn().error is None


@pytest.mark.parametrize(
    "line",
    [
        b" data: %s",
        b"\xef\xbb\xbfdata: %s",
        b"DATA: %s",
        b"%s",
        b"data: \xc2\xa0%s",
        b"data: x%s",
        b"data: data: %s",
        b"data: [%s]",
        b"data: {}\n data: %s",
    ],
)
def test_a_chunk_that_only_careless_clients_read_does_not_pass(line: bytes) -> None:
    """D5: the standard skips such a line, and clients that trim it do not."""
    chunk = within("delta", f'{{"tool_calls":[{TEXT}]}}').encode()
    reader = ChatReader(lambda: "made")
    reader.feed(b": hello\n\n" + line % chunk + b"\n\n")
    assert reader.turn().error is not None


def test_an_answer_too_deep_to_be_written_again_is_unreadable() -> None:
    """C4: a provider's rubbish is the provider's fault, never a failure of ours."""
    deep = '{"content":"x","reasoning_details":[' + '{"a":' * 900 + "1" + "}" * 900 + "]}"
    assert streamed(within("delta", deep)).turn().error is not None
    with pytest.raises(Malformed):
        parse_response(within("message", deep).encode(), lambda: "made")
