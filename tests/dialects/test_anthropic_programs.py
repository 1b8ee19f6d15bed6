"""Calls that a program of the model's makes: refused, noted and gone on from as the provider wants it."""

import json
from typing import Any

import pytest

from proxy.core.messages import Exchange, RequestEdit, ResultText, Turn
from proxy.dialects.anthropic import ANTHROPIC
from tests.dialects.messages_agent import PING, call, ending, opening, reader, sdk_reads, sse, text

Json = dict[str, Any]
PROGRAM = {"type": "code_execution_20250825", "tool_id": "srv_1"}
CODE = {"type": "server_tool_use", "id": "srv_1", "name": "code_execution", "input": {"code": "roll()"}}
ROLL = {"type": "tool_use", "id": "t1", "name": "roll", "input": {"n": 1}, "caller": PROGRAM}
BOX = {"id": "container_1", "expires_at": "2026-09-01T10:00:00Z"}
ASK = {"role": "user", "content": "Roll."}


def request(*messages: Json, **more: Any) -> bytes:
    return json.dumps({"model": "m", "max_tokens": 9, "messages": [ASK, *messages], **more}).encode()


def streamed(stream: bytes) -> Turn:
    read = reader()
    read.feed(stream)
    return read.turn()


def whole(**more: Any) -> Turn:
    answer = {
        "id": "m1",
        "type": "message",
        "role": "assistant",
        "model": "m",
        "content": [CODE, ROLL],
        **more,
    }
    return ANTHROPIC.parse_response(json.dumps(answer).encode(), str)


def opened() -> Turn:
    """All in the opening, as it comes when a program asks again."""
    message = json.loads(opening([ROLL], "tool_use").partition(b"data: ")[2])
    message["message"]["container"] = BOX
    return streamed(sse(message) + sse({"type": "message_stop"}))


def ended() -> Turn:
    """The container is named at the end of a stream."""
    last = {"type": "message_delta", "delta": {"stop_reason": "tool_use", "container": BOX}, "usage": {}}
    code = call(0, "srv_1", "code_execution", '{"code":', '"roll()"}', kind="server_tool_use")
    start = {"type": "content_block_start", "index": 1, "content_block": ROLL}
    rolled = sse(start) + PING + sse({"type": "content_block_stop", "index": 1})
    return streamed(opening() + PING + code + PING + rolled + sse(last) + sse({"type": "message_stop"}))


@pytest.mark.parametrize("turn", [whole(container=BOX), opened(), ended()], ids=["whole", "opening", "end"])
@pytest.mark.parametrize(
    "now", [None, "old", {"id": "old", "skills": [{"type": "anthropic", "skill_id": "pdf"}]}]
)
def test_a_refusal_goes_back_into_the_container_where_the_program_waits(turn: Turn, now: object) -> None:
    """C7: the provider refuses a request that does not name it."""
    (asked,) = turn.calls
    edit = RequestEdit(exchanges=(Exchange(turn.message, ((asked, "not allowed"),)),))
    edited = json.loads(ANTHROPIC.edit_request(request(**({} if now is None else {"container": now})), edit))
    assert edited["container"] == (now | {"id": "container_1"} if isinstance(now, dict) else "container_1")
    assistant, results = edited["messages"][1:]
    assert assistant.keys() == {"role", "content"}
    assert assistant["content"][-1] == ROLL
    if len(assistant["content"]) > 1:
        assert assistant["content"][0] == CODE, "what waits there goes back as it was"
    assert results["content"] == [
        {"type": "tool_result", "tool_use_id": "t1", "is_error": True, "content": "not allowed"}
    ]


def test_without_a_container_none_is_named() -> None:
    turn = whole()
    edit = RequestEdit(exchanges=(Exchange(turn.message, ((turn.calls[0], "no"),)),))
    assert "container" not in json.loads(ANTHROPIC.edit_request(request(), edit))


def test_a_note_stands_in_the_result_that_a_program_waits_for() -> None:
    """The provider takes no text beside such results."""
    turn = whole(container=BOX)
    exchange = Exchange(turn.message, ((turn.calls[0], "not allowed"),))
    edited = json.loads(
        ANTHROPIC.edit_request(request(), RequestEdit(exchanges=(exchange,), note="Stop now."))
    )
    (result,) = edited["messages"][-1]["content"]
    assert result["content"] == "not allowed\n\nStop now."


@pytest.mark.parametrize(
    ("content", "noted"),
    [
        ("5", "5\n\nStop."),
        ("", "Stop."),
        ([{"type": "text", "text": "5"}], [{"type": "text", "text": "5\n\nStop."}]),
        (
            [{"type": "image", "source": {"type": "url", "url": "u"}}],
            [{"type": "text", "text": "Stop."}, {"type": "image", "source": {"type": "url", "url": "u"}}],
        ),
    ],
)
def test_a_note_joins_the_newest_result_in_the_history(content: object, noted: object) -> None:
    """A7: nothing in front of it moves, and it can be rendered in the same edit."""
    result = {"type": "tool_result", "tool_use_id": "t1", "content": content}
    body = request(
        {"role": "assistant", "content": [CODE, ROLL]}, {"role": "user", "content": [result]}, system="S"
    )
    (got,) = json.loads(ANTHROPIC.edit_request(body, RequestEdit(note="Stop.")))["messages"][-1]["content"]
    assert got == result | {"content": noted}
    both = RequestEdit(note="Stop.", results=(ResultText(3, 0, "cut"),))
    (got,) = json.loads(ANTHROPIC.edit_request(body, both))["messages"][-1]["content"]
    assert "cut\n\nStop." in json.dumps(got, ensure_ascii=False).replace("\\n", "\n")


def test_a_note_beside_other_results_is_a_text_as_ever() -> None:
    direct = ROLL | {"caller": {"type": "direct"}}
    result = {"type": "tool_result", "tool_use_id": "t1", "content": "5"}
    body = request({"role": "assistant", "content": [direct]}, {"role": "user", "content": [result]})
    edited = json.loads(ANTHROPIC.edit_request(body, RequestEdit(note="Stop.")))
    assert edited["messages"][-1]["content"] == [result, {"type": "text", "text": "Stop."}]
    assert json.loads(ANTHROPIC.edit_request(request(), RequestEdit(note="Stop.")))["messages"] == [
        ASK | {"content": "Roll.\n\nStop."}
    ]


# --- other things that only this provider says ---


def test_what_was_fallen_back_from_is_paid_too() -> None:
    """E4: the record's own counts are those of the model that answered."""
    steps = [
        {
            "type": "message",
            "model": "old",
            "input_tokens": 40,
            "output_tokens": 0,
            "cache_read_input_tokens": 2,
        },
        {"type": "fallback_message", "model": "m", "input_tokens": 41, "output_tokens": 9},
    ]
    usage = {"input_tokens": 41, "output_tokens": 9, "cache_read_input_tokens": 0, "iterations": steps}
    fallback = {"type": "fallback", "from": {"model": "old"}, "to": {"model": "m"}}
    said = {"type": "text", "text": "Blue."}
    answer = {"id": "m1", "type": "message", "role": "assistant", "model": "m", "content": [fallback, said]}
    body = json.dumps(answer | {"stop_reason": "end_turn", "usage": usage}).encode()
    turn = ANTHROPIC.parse_response(body, str)
    assert turn.usage is not None
    assert (turn.text, turn.calls, turn.usage.input_tokens, turn.usage.output_tokens) == ("Blue.", (), 83, 9)
    assert turn.usage.cache_read_tokens == 2
    assert json.loads(turn.message)["content"] == [fallback, said], "it goes back as it came"
    assert ANTHROPIC.edit_response(body, turn, (), "", ()) is body
    assert sdk_reads(body).content[-1].type == "text"
    start = {"type": "content_block_start", "index": 0, "content_block": fallback}
    stream = opening() + sse(start) + sse({"type": "content_block_stop", "index": 0}) + text(1, "Blue.")
    last = {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": usage}
    assert streamed(stream + sse(last) + sse({"type": "message_stop"})).text == "Blue."
    odd = ANTHROPIC.parse_response(
        json.dumps(answer | {"usage": usage | {"iterations": [7, {"input_tokens": "x"}]}}).encode(), str
    )
    assert odd.usage is not None
    assert odd.usage.input_tokens == 41


def test_a_turn_that_pauses_goes_on_with_what_it_has() -> None:
    """A2: what the provider runs itself is no call of the agent's, so nothing is owed for it."""
    code = call(0, "srv_1", "web_search", '{"query":"x"}', kind="server_tool_use")
    turn = streamed(opening() + code + text(1, "So far.") + ending("pause_turn"))
    assert (turn.finish, turn.calls, [one.name for one in turn.hosted_calls]) == (
        ("pause_turn",),
        (),
        ["web_search"],
    )
    history = ANTHROPIC.parse_request(request(json.loads(turn.message)))
    assert history.messages[-1].calls == ()
    assert history.messages[-1].text == "So far."
