"""The dialect of the Messages API as a whole: what it is called, whole answers, what is said by program."""

import json
from typing import Any

import anthropic
import pytest

from proxy.core.json_text import read_object
from proxy.core.messages import Malformed, Problem, ToolCall, ToolKind, Usage
from proxy.dialects import Dialect, RouteKind
from proxy.dialects.anthropic import ANTHROPIC
from tests.dialects.messages_agent import ASKED, frames_of, recordings, sdk_reads

Json = dict[str, Any]


def whole(content: object, **more: Any) -> bytes:
    body = {"id": "msg", "type": "message", "role": "assistant", "model": "m", "content": content} | more
    return json.dumps(body).encode()


def fresh() -> str:
    return "toolu_made"


def test_it_is_a_dialect() -> None:
    dialect: Dialect = ANTHROPIC
    assert (dialect.name, dialect.provider) == ("anthropic-messages", "anthropic")
    by_kind = {kind: [route.path for route in dialect.routes if route.kind is kind] for kind in RouteKind}
    assert by_kind[RouteKind.GUARDED] == ["/v1/messages"]
    assert by_kind[RouteKind.KEPT] == []
    assert by_kind[RouteKind.PASSED] == ["/v1/messages/count_tokens", "/v1/models", "/v1/models/{model}"]
    assert {"/v1/messages/batches", "/v1/complete", "/v1/files"} <= set(by_kind[RouteKind.REFUSED])
    assert all(route.reason for route in dialect.routes if route.kind is RouteKind.REFUSED)
    assert dialect.credential("k") == {"x-api-key": "k"}
    assert set(dialect.credential_headers) == {"x-api-key", "authorization"}


def test_a_whole_answer_is_read_with_the_exact_text_of_its_inputs() -> None:
    """The bytes judged are the bytes delivered (design §4)."""
    body = (
        b'{"id":"msg","model":"m","content":[{"type":"text","text":"So "},'
        b'{"type":"tool_use","id":"t1","name":"read","input":{ "a" : 1.0, "b":"\\u00e9" }},'
        b'{"type":"tool_use","name":"list","input":{}},'
        b'{"type":"server_tool_use","id":"s","name":"web_search","input":{"q":1}},'
        b'{"type":"text","text":"it is."}],"stop_reason":"end_turn","usage":{"input_tokens":3,"output_tokens":4}}'
    )
    turn = ANTHROPIC.parse_response(body, fresh)
    assert (turn.id, turn.model, turn.text, turn.finish) == ("msg", "m", "So it is.", ("end_turn",))
    assert turn.calls == (
        ToolCall("t1", "read", '{ "a" : 1.0, "b":"\\u00e9" }', (0, 0)),
        ToolCall("toolu_made", "list", "", (0, 1), made_id=True),
    )
    assert turn.hosted_calls == (ToolCall("s", "web_search", '{"q":1}', (0, -1), ToolKind.HOSTED),)
    assert turn.usage == Usage(3, 4)
    message = json.loads(turn.message)
    assert message["content"][2] == {"type": "tool_use", "name": "list", "id": "toolu_made", "input": {}}


def test_a_key_that_occurs_twice_in_an_input_is_no_object_to_anyone() -> None:
    """C027."""
    body = b'{"content":[{"type":"tool_use","id":"t","name":"n","input":{"a":1,"a":2}}]}'
    assert ANTHROPIC.parse_response(body, fresh).calls[0].arguments == '{"a":1,"a":2}'
    twice = b'{"content":[{"type":"tool_use","id":"t","name":"n","input":{"a":1},"input":{"a":2}}]}'
    with pytest.raises(ValueError, match="starts as other text"):
        read_object(ANTHROPIC.parse_response(twice, fresh).calls[0].arguments)


def test_the_same_answer_means_the_same_streamed_or_not() -> None:
    block = {"type": "tool_use", "id": "t", "name": "n", "input": {"a": 1}}
    delta: Json = {"type": "input_json_delta", "partial_json": '{"a": 1}'}
    events: list[Json] = [
        {"type": "message_start", "message": {"id": "msg", "model": "m", "content": []}},
        {"type": "content_block_start", "index": 0, "content_block": block | {"input": {}}},
        {"type": "content_block_delta", "index": 0, "delta": delta},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 1}},
        {"type": "message_stop"},
    ]
    stream = "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events).encode()
    read = ANTHROPIC.reader(fresh)
    read.feed(stream)
    assert len(frames_of(stream)) == 6
    turn = ANTHROPIC.parse_response(whole([block], stop_reason="tool_use", usage={"output_tokens": 1}), fresh)
    streamed = read.turn()
    assert (streamed.calls, streamed.finish, streamed.usage) == (turn.calls, turn.finish, turn.usage)
    assert json.loads(streamed.message) == json.loads(turn.message)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"<html>",
        b"[]",
        b"{}",
        b'{"content":"x"}',
        b'{"content":[],"content":[]}',
        b'{"content":[NaN]}',
    ],
)
def test_what_is_no_answer_is_refused(body: bytes) -> None:
    with pytest.raises(Malformed):
        ANTHROPIC.parse_response(body, fresh)


def test_odd_blocks_are_read_without_a_fault() -> None:
    turn = ANTHROPIC.parse_response(
        whole(["x", None, {}, {"type": "text", "text": ""}, {"type": "fallback"}]), fresh
    )
    assert (turn.calls, turn.text, turn.usage) == ((), "", None)


def test_an_error_in_place_of_an_answer_is_reported() -> None:
    error = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
    problem = ANTHROPIC.parse_response(json.dumps(error).encode(), fresh).error
    assert problem is not None
    assert (problem.code, problem.status) == ("overloaded_error", 529)


def test_every_recorded_answer_is_read_as_an_independent_reader_read_it() -> None:
    for entry in recordings():
        if "non-stream" not in entry["tags"] or entry["response"]["status"] != 200:
            continue
        turn, seen = ANTHROPIC.parse_response(entry["response"]["body"].encode(), fresh), entry["observed"]
        assert [(one.id, one.name) for one in turn.calls] == [
            (one["id"], one["name"]) for one in seen["tool_calls"]
        ]
        for one, other in zip(turn.calls, seen["tool_calls"], strict=True):
            assert read_object(one.arguments) == json.loads(other["arguments"] or "{}"), entry["id"]
        assert [one.name for one in turn.hosted_calls] == seen["server_tools"], entry["id"]
        assert list(turn.finish) == seen["finish"], entry["id"]
        assert len(turn.text) == seen["text_chars"], entry["id"]
        json.loads(turn.message)


def test_an_answer_by_program_reads_as_an_ordinary_end() -> None:
    """E7, F1."""
    body = ANTHROPIC.render_answer(ASKED, "msg_own", "Stopped.", Usage(10, 2, 3, 1), 0)
    message = sdk_reads(body)
    assert (message.id, message.model, message.stop_reason) == ("msg_own", "model-x", "end_turn")
    assert [block.to_dict()["text"] for block in message.content] == ["Stopped."]
    usage = message.usage
    assert (usage.input_tokens, usage.output_tokens, usage.cache_read_input_tokens) == (6, 2, 3)
    assert sdk_reads(ANTHROPIC.render_answer(ASKED, "msg_own", "", Usage(), 0)).content == []


@pytest.mark.parametrize(
    ("status", "kind", "raised"),
    [
        (400, "invalid_request_error", anthropic.BadRequestError),
        (401, "authentication_error", anthropic.AuthenticationError),
        (403, "permission_error", anthropic.PermissionDeniedError),
        (404, "not_found_error", anthropic.NotFoundError),
        (429, "rate_limit_error", anthropic.RateLimitError),
        (503, "api_error", anthropic.InternalServerError),
    ],
)
def test_an_error_is_what_the_sdk_expects(
    status: int, kind: str, raised: type[anthropic.APIStatusError]
) -> None:
    """F1, C4: with the fields for programs inside."""
    problem = Problem(status, "callgate_code", "No.", {"budget": "rounds", "limit": 3})
    with pytest.raises(raised) as caught:
        sdk_reads(ANTHROPIC.render_problem(problem), status)
    error = {"budget": "rounds", "limit": 3, "type": kind, "message": "No."}
    assert caught.value.body == {"type": "error", "error": error}


def test_a_call_in_what_calls_itself_an_error_is_a_call() -> None:
    """D5: the official SDK reads every answer of status 200 as a message, whatever its type is."""
    used = {"type": "tool_use", "id": "t", "name": "drop", "input": {}}
    turn = ANTHROPIC.parse_response(whole([used], type="error", error={"type": "x"}), fresh)
    assert [call.name for call in turn.calls] == ["drop"]


def test_a_block_that_is_a_call_to_some_readers_only_is_refused() -> None:
    """D5: of two types of one block a reader may take the first."""
    body = whole(["?"]).replace(
        b'"?"', b'{"type":"tool_use","id":"t","name":"drop","input":{},"type":"server_tool_use"}'
    )
    with pytest.raises(Malformed, match="twice"):
        ANTHROPIC.parse_response(body, fresh)
