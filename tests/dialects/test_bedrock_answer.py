"""Whole answers of the Converse API."""

import json

import pytest

from proxy.core.messages import Malformed
from proxy.dialects.bedrock_answer import edit_response, parse_response
from tests.dialects import bedrock_agent as agent

CALL = {"toolUse": {"toolUseId": "a", "name": "read", "input": {"id": 1}}}


def body_of(*blocks: agent.Json) -> bytes:
    return json.dumps(agent.whole(*blocks)).encode()


@pytest.mark.parametrize(
    "content",
    [
        b'[{"toolUse":{"name":"x"},"toolUse":{"name":"y"}}]',
        b'[{"toolUse":{"name":"x","input":{},"input":{"a":1}}}]',
        b"[1]",
        b"{}",
    ],
)
def test_what_readers_could_take_differently_is_malformed(content: bytes) -> None:
    """C11: fail closed."""
    with pytest.raises(Malformed):
        parse_response(b'{"output":{"message":{"role":"assistant","content":' + content + b"}}}", str)


def test_arguments_are_the_very_stretch_of_the_wire() -> None:
    body = body_of(CALL).replace(b'{"id": 1}', b'{"id":1e0, "id" : 2}')
    assert parse_response(body, str).calls[0].arguments == '{"id":1e0, "id" : 2}'


def test_a_call_without_id_gets_one_that_is_written_down() -> None:
    """C003."""
    body = body_of({"toolUse": {"name": "read", "input": {}}})
    turn = parse_response(body, lambda: "made_1")
    sent = edit_response(body, turn, (), "", ())
    assert agent.sdk_reads(sent)["content"][0]["toolUse"]["toolUseId"] == "made_1"


def test_cited_text_is_visible_text() -> None:
    cited = {"citationsContent": {"content": [{"text": "It says so."}], "citations": []}}
    assert parse_response(body_of(cited, {"text": " Yes."}), str).text == "It says so. Yes."


def test_calls_that_the_provider_ran_itself_are_not_judged() -> None:
    hosted = {"toolUse": {**CALL["toolUse"], "type": "server_tool_use"}}
    turn = parse_response(body_of(hosted), str)
    assert turn.calls == ()
    assert [call.name for call in turn.hosted_calls] == ["read"]
