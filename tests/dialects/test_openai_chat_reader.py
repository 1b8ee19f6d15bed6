"""How streamed chunks become calls: joined as they were meant, ready only when whole, never passed over."""

import json
from typing import Any

import pytest

from proxy.core.messages import (
    CallDelta,
    CallReady,
    ChoiceEnded,
    HostedCall,
    StreamEnded,
    StreamFailed,
    TextDelta,
    ToolKind,
    TurnStarted,
    Usage,
    UsageSeen,
)
from tests.dialects.chat_agent import (
    DONE,
    calls_of,
    chunk,
    ending,
    events_of,
    frames_of,
    opening,
    piece,
    pieces,
    reader,
    said,
    sse,
    usage,
)

Short = list[tuple[str, str, str]]


def short(stream: bytes) -> Short:
    return [(call.id, call.name, call.arguments) for call in calls_of(stream)]


def message_of(stream: bytes) -> dict[str, Any]:
    read = reader()
    read.feed(stream)
    message: dict[str, Any] = json.loads(read.turn().message)
    return message


def test_a_stream_says_what_happens_in_order() -> None:
    stream = (
        b": opening\n\n"
        + opening()
        + said("Look")
        + pieces(piece(0, "", "c1", "f"))
        + pieces(piece(0, "{}"))
        + ending()
        + usage(8, 2)
        + DONE
    )
    frames = frames_of(stream)
    assert [[type(event) for event in frame.events] for frame in frames] == [
        [],
        [TurnStarted],
        [TextDelta],
        [CallDelta],
        [CallDelta],
        [CallReady, ChoiceEnded],
        [UsageSeen],
        [StreamEnded],
    ]
    assert [frame.usage_only for frame in frames] == [False] * 6 + [True, False]
    read = reader()
    read.feed(stream)
    turn = read.turn()
    assert (turn.id, turn.model, turn.text, turn.finish) == (
        "chatcmpl-k1",
        "maple-1",
        "Look",
        ("tool_calls",),
    )
    assert turn.usage == Usage(8, 2)


@pytest.mark.parametrize(
    ("stream", "expected"),
    [
        pytest.param(
            pieces(piece(0, '{"id":4}', "c1", "read")) + pieces(piece(0, '{"id":9}', "c2", "drop")),
            [("c1", "read", '{"id":4}'), ("c2", "drop", '{"id":9}')],
            id="C001 a new id on the same index",
        ),
        pytest.param(
            pieces(piece(0, "{}", None, "read")) + pieces(piece(0, "{}", None, "drop")),
            [("made_1", "read", "{}"), ("made_2", "drop", "{}")],
            id="a new name on the same index",
        ),
        pytest.param(
            pieces(piece(0, '{"a":1}', None, "f")) + pieces(piece(0, '{"a":2}', None, "f")),
            [("made_1", "f", '{"a":1}'), ("made_2", "f", '{"a":2}')],
            id="the same name again when the first is whole",
        ),
        pytest.param(
            pieces(piece(0, '{"a":', None, "f")) + pieces(piece(0, "1}", None, "f")),
            [("made_1", "f", '{"a":1}')],
            id="the same name again in the middle",
        ),
        pytest.param(
            pieces(piece(0, "", "h", "set"))
            + pieces(piece(1, "", "v", "set"))
            + pieces(piece(0, '{"r":"ha'))
            + pieces(piece(1, '{"r":"va'))
            + pieces(piece(0, 'll"}'), piece(1, 'ult"}')),
            [("h", "set", '{"r":"hall"}'), ("v", "set", '{"r":"vault"}')],
            id="C002 interleaved by index",
        ),
        pytest.param(pieces(piece(0, None, "q", "list")), [("q", "list", "")], id="C004 no arguments at all"),
        pytest.param(
            chunk({"tool_calls": [{"id": "c1", "function": {"name": "f", "arguments": None}, "index": 0}]}),
            [("c1", "f", "")],
            id="null arguments",
        ),
        pytest.param(
            pieces(piece(None, "{}", "c1", "f"), piece(None, "{}", "c2", "f"))
            + pieces(piece(None, "{}", "c3", "g")),
            [("c1", "f", "{}"), ("c2", "f", "{}"), ("c3", "g", "{}")],
            id="no index",
        ),
        pytest.param(
            pieces(piece(None, '{"a"', "c1", "f")) + pieces(piece(None, ":1}")),
            [("c1", "f", '{"a":1}')],
            id="no index in later pieces",
        ),
        pytest.param(
            pieces(piece(0, "", "c1", "f")) + pieces(piece(0, "{}", "", "")),
            [("c1", "f", "{}")],
            id="empty id and name later",
        ),
        pytest.param(
            pieces(piece(0, "", None, "f")) + pieces(piece(0, "{}", "c1")),
            [("c1", "f", "{}")],
            id="the id comes later",
        ),
        pytest.param(
            pieces(piece(0, '{"a":', "c1", "f")) + pieces(piece(0, "1}", "c1", "f")),
            [("c1", "f", '{"a":1}')],
            id="id and name in every piece",
        ),
        pytest.param(
            pieces(piece(3, "{}", "c1", "f")) + pieces(piece(5, "{}", "c2", "f")),
            [("c1", "f", "{}"), ("c2", "f", "{}")],
            id="indices from anywhere",
        ),
    ],
)
def test_pieces_are_joined_to_the_calls_they_belong_to(stream: bytes, expected: Short) -> None:
    """C1, C10."""
    assert short(opening() + stream + ending() + DONE) == expected


@pytest.mark.parametrize("finish", ["stop", "tool_calls", "length", "content_filter"])
def test_calls_are_ready_at_any_finish_word(finish: str) -> None:
    """C11."""
    assert short(pieces(piece(0, "{}", "c1", "f")) + ending(finish)) == [("c1", "f", "{}")]


@pytest.mark.parametrize("finish", [None, ""])
def test_without_a_finish_word_calls_are_ready_at_the_end_and_not_before(finish: str | None) -> None:
    stream = pieces(piece(0, "{}", "c1", "f"), finish=finish)
    assert short(stream) == []
    assert short(stream + DONE) == [("c1", "f", "{}")]


def test_a_repeated_finish_is_said_once() -> None:
    events = events_of(pieces(piece(0, "{}", "c1", "f")) + ending() + ending() + DONE)
    assert sum(isinstance(event, ChoiceEnded) for event in events) == 1
    assert sum(isinstance(event, CallReady) for event in events) == 1


def test_what_comes_for_a_call_that_was_judged_is_another_call() -> None:
    """A call cannot grow behind its own judgement."""
    stream = pieces(piece(0, '{"a":1}', "c1", "f")) + ending() + pieces(piece(0, ',"b":2}', "c1"))
    assert short(stream) == [("c1", "f", '{"a":1}')]
    assert short(stream + ending()) == [("c1", "f", '{"a":1}'), ("c1", "", ',"b":2}')]


def test_choices_are_told_apart_also_with_equal_ids() -> None:
    """C10: n > 1."""
    stream = b"".join(pieces(piece(0, "{}", "c1", "f"), choice=choice) for choice in (0, 1))
    stream += ending(choice=1) + ending(choice=0)
    assert [(call.key, call.id) for call in calls_of(stream)] == [((1, 0), "c1"), ((0, 0), "c1")]


def test_free_form_and_unknown_kinds_are_calls() -> None:
    """C3: a kind that nobody knows is judged, not passed over."""
    custom = [
        {"index": 0, "id": "c1", "type": "custom", "custom": {"name": "calc", "input": "4 "}},
        {"index": 0, "custom": {"input": "+ 4"}},
        {"index": 1, "id": "c2", "type": "shell", "action": "ls"},
    ]
    calls = calls_of(pieces(*custom) + ending())
    assert [(call.id, call.name, call.arguments, call.kind) for call in calls] == [
        ("c1", "calc", "4 + 4", ToolKind.CUSTOM),
        ("c2", "shell", '{"action":"ls"}', ToolKind.CUSTOM),
    ]


def test_a_legacy_call_is_a_call() -> None:
    stream = (
        chunk({"role": "assistant", "content": None, "function_call": {"name": "f", "arguments": ""}})
        + chunk({"function_call": {"arguments": "{}"}})
        + ending("function_call")
    )
    assert [(call.name, call.arguments, call.made_id) for call in calls_of(stream)] == [("f", "{}", True)]
    assert message_of(stream) == {
        "role": "assistant",
        "content": None,
        "function_call": {"name": "f", "arguments": "{}"},
    }


@pytest.mark.parametrize(
    "delta",
    [
        {"tool_calls": None},
        {"tool_calls": []},
        {"function_call": {"name": ""}},
        {"tool_calls": [{"index": 0, "function": {"name": "", "arguments": ""}}]},
        {"content": ""},
        {"refusal": "I will not."},
    ],
)
def test_filler_is_no_call_and_no_text(delta: dict[str, Any]) -> None:
    events = events_of(chunk(delta) + ending("stop"))
    assert [type(event) for event in events] == [TurnStarted, ChoiceEnded]


def test_content_in_parts_is_text_without_the_thinking() -> None:
    parts = [
        {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]},
        {"type": "text", "text": "So"},
    ]
    texts = [event for event in events_of(chunk({"content": parts})) if isinstance(event, TextDelta)]
    assert texts == [TextDelta(0, "So")]


@pytest.mark.parametrize(
    "stream",
    [
        usage(8, 2),
        chunk({}, "stop", usage={"prompt_tokens": 8, "completion_tokens": 2}),
        chunk({}, "stop", x_groq={"usage": {"prompt_tokens": 8, "completion_tokens": 2}}),
        chunk({"content": "a"}, usage={"prompt_tokens": 8, "completion_tokens": 1}) + usage(8, 2),
    ],
)
def test_usage_is_found_in_any_chunk(stream: bytes) -> None:
    """E4."""
    read = reader()
    read.feed(stream)
    assert read.turn().usage == Usage(8, 2)


def test_the_opening_of_a_filter_is_not_usage() -> None:
    frame = frames_of(sse({"id": "", "model": "", "choices": [], "prompt_filter_results": []}))[0]
    assert (frame.events, frame.usage_only) == ((), False)
    assert events_of(sse({"id": "", "choices": []}) + said("Hi"))[0] == TurnStarted("chatcmpl-k1", "maple-1")


@pytest.mark.parametrize(
    "failure",
    [
        sse({"error": {"message": "Busy", "code": 503}}),
        chunk({"content": ""}, error={"message": "Busy", "code": 503}),
        b'event: error\ndata: {"message":"Busy","code":503}\n\n',
        b"data: {broken\n\n",
        b"data: [broken\n\n",
        sse({"choices": {"0": {}}}),
        sse({"choices": ["x"]}),
        sse({"choices": [{"delta": ["x"]}]}),
        chunk({"tool_calls": {"index": 0}}),
        chunk({"tool_calls": ["x"]}),
        sse({"choices": [{"delta": {}, "message": {"tool_calls": [piece(0, "{}", "c1", "f")]}}]}),
        chunk({"function_call": {"name": "a"}}) + chunk({"function_call": {"name": "b"}}),
    ],
)
def test_an_error_or_a_chunk_in_which_a_call_may_hide_fails_the_stream(failure: bytes) -> None:
    """Fail closed: no call that is still open becomes ready after it."""
    events = events_of(pieces(piece(0, "{}", "c1", "f")) + failure + ending() + DONE)
    assert sum(isinstance(event, StreamFailed) for event in events) == 1
    assert not any(isinstance(event, CallReady) for event in events)
    read = reader()
    read.feed(failure)
    assert read.turn().error is not None


def test_an_error_is_told_with_its_own_words() -> None:
    failed = events_of(sse({"error": {"message": "Busy", "code": 503}}))[0]
    assert isinstance(failed, StreamFailed)
    assert (failed.problem.status, failed.problem.message, failed.problem.retryable) == (503, "Busy", True)


@pytest.mark.parametrize("block", [b": c\n\n", b"data: hello\n\n", b"data: 7\n\n", b"event: ping\n\n", b"\n"])
def test_what_is_no_chunk_means_nothing(block: bytes) -> None:
    assert events_of(block) == []


def test_a_lone_surrogate_does_not_hide_a_call() -> None:
    stream = b'data: {"choices":[{"delta":{"content":"\\ud83d","tool_calls":[{"index":0,"id":"c1",'
    stream += b'"function":{"name":"f","arguments":"{}"}}]},"finish_reason":"stop"}]}\n\n'
    assert short(stream) == [("c1", "f", "{}")]


def test_an_unfinished_last_frame_is_read_if_it_is_whole_otherwise() -> None:
    """Some clients read it too, so it is judged."""
    stream = pieces(piece(0, "{}", "c1", "f"))
    assert short(stream + ending().rstrip(b"\n")) == [("c1", "f", "{}")]
    assert short(stream + b"data: [DONE]") == [("c1", "f", "{}")]
    assert short(stream + ending()[:-9]) == []


def test_hosted_calls_are_reported_once() -> None:
    ran = [{"type": "search", "index": 0, "arguments": "{}"}]
    events = events_of(chunk({"executed_tools": ran}) + chunk({"executed_tools": ran}))
    assert [event.call.name for event in events if isinstance(event, HostedCall)] == ["search"]


def test_the_message_for_another_round_is_rebuilt() -> None:
    """A2: with what its provider wants to see again."""
    signed = piece(0, "", "c1", "f") | {"extra_content": {"signature": "x"}}
    detail = {"type": "reasoning.text", "index": 0, "format": None}
    stream = (
        chunk({"role": "assistant", "content": "", "reasoning_content": "h"})
        + chunk({"reasoning_content": "m", "reasoning_details": [detail | {"text": "h"}]})
        + chunk(
            {"reasoning_details": [detail | {"text": "m", "signature": "s"}, {"type": "reasoning.encrypted"}]}
        )
        + said("Look")
        + pieces(signed)
        + ending()
    )
    assert message_of(stream) == {
        "role": "assistant",
        "content": "Look",
        "tool_calls": [
            {
                "id": "c1",
                "type": "function",
                "function": {"name": "f", "arguments": "{}"},
                "extra_content": {"signature": "x"},
            }
        ],
        "reasoning_content": "hm",
        "reasoning_details": [
            detail | {"text": "hm", "signature": "s"},
            {"type": "reasoning.encrypted"},
        ],
    }
    assert message_of(chunk({"refusal": "I "}) + chunk({"refusal": "will not."}))["refusal"] == "I will not."


def test_odd_framing_changes_nothing() -> None:
    """C1: CRLF, comments, several data lines, no blank after the colon."""
    stream = ': keep-alive\r\n\r\ndata:{"id":"k","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"c1",'
    stream += '"function":{"name":"map","arguments":"{\\"place\\":\\"Zü"}}]}}]}\r\n\r\nid: 7\r\nretry: 3\r\nevent: message\r\n'
    stream += 'data: {"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"rich 🏔\\"}"}}]}}]}\r\n\r\n'
    stream += 'data: {\r\ndata: "choices": [\r\ndata: {"delta": {}, "finish_reason": "tool_calls"}\r\ndata: ]}\r\n\r\n'
    stream += "data:[DONE]\r\n\r\n"
    for line_end in ("\r\n", "\n", "\r"):
        assert short(stream.replace("\r\n", line_end).encode()) == [("c1", "map", '{"place":"Zürich 🏔"}')]


def test_a_chunk_that_the_official_sdk_takes_for_something_else_fails_the_stream() -> None:
    """C3: it wraps the data of events with such names, so the pieces in them would be missing from its call."""
    stream = (
        opening() + b"event: thread.message.delta\n" + pieces(piece(0, "{}", "c1", "read")) + ending() + DONE
    )
    assert any(isinstance(event, StreamFailed) for event in events_of(stream))
    assert calls_of(stream) == []
