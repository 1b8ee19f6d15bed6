"""What a stream of the Messages API says, frame by frame, however it is cut."""

import itertools
import json

import orjson
import pytest
from hypothesis import given, strategies as st

from proxy.core.json_text import read_object
from proxy.core.messages import (
    CallDelta,
    CallReady,
    ChoiceEnded,
    Event,
    Frame,
    HostedCall,
    Request,
    StreamEnded,
    StreamFailed,
    TextDelta,
    ToolCall,
    TurnStarted,
    UsageSeen,
)
from proxy.dialects.anthropic import ANTHROPIC
from tests.dialects.messages_agent import (
    PING,
    call,
    ending,
    frames_of,
    opening,
    reader,
    recorded_streams,
    sse,
    text,
    thinking,
)


def events_in(frames: list[Frame]) -> list[Event]:
    return [event for frame in frames for event in frame.events]


def calls_in(frames: list[Frame]) -> list[ToolCall]:
    return [event.call for event in events_in(frames) if isinstance(event, CallReady)]


def pieces_in(frames: list[Frame]) -> set[tuple[int, int]]:
    return {event.key for event in events_in(frames) if isinstance(event, CallDelta)}


TWO_CALLS = (
    opening()
    + PING
    + thinking(0, "hm")
    + text(1, "Let me ", "see.")
    + call(2, "toolu_a", "read", "", '{"id": "\\u00', 'e9"}')
    + PING
    + call(3, "toolu_b", "list", "")
    + ending("tool_use")
)


def test_a_stream_is_read_as_text_calls_usage_and_end() -> None:
    """C1: the Messages shape is first class."""
    seen = events_in(frames_of(TWO_CALLS))
    assert seen[0] == TurnStarted("msg_1", "model-x")
    assert isinstance(seen[1], UsageSeen)
    assert seen[1].usage.input_tokens == 110, "what came from or went to a cache is input too"
    assert [event.text for event in seen if isinstance(event, TextDelta)] == ["Let me ", "see."]
    ready = [event.call for event in seen if isinstance(event, CallReady)]
    assert [(one.id, one.name, one.key) for one in ready] == [
        ("toolu_a", "read", (0, 0)),
        ("toolu_b", "list", (0, 1)),
    ]
    assert ready[0].arguments == '{"id": "\\u00e9"}', "the exact text, cut inside an escape or not"
    assert ready[1].arguments == "", "a call without arguments stays as it was sent (C004)"
    assert isinstance(seen[-3], UsageSeen)
    assert (seen[-3].usage.output_tokens, seen[-3].usage.input_tokens) == (20, 110)
    assert seen[-2:] == [ChoiceEnded(0, "tool_use"), StreamEnded()]


def test_a_turn_holds_what_goes_back_into_a_history() -> None:
    """A2: thinking with its signature, text and calls come back as they were."""
    read = reader()
    read.feed(TWO_CALLS)
    turn = read.turn()
    assert (turn.id, turn.model, turn.text, turn.finish) == ("msg_1", "model-x", "Let me see.", ("tool_use",))
    message = json.loads(turn.message)
    assert message["role"] == "assistant"
    assert message["content"] == [
        {"type": "thinking", "thinking": "hm", "signature": "c2ln"},
        {"type": "text", "text": "Let me see."},
        {"type": "tool_use", "name": "read", "id": "toolu_a", "input": {"id": "é"}},
        {"type": "tool_use", "name": "list", "id": "toolu_b", "input": {}},
    ]


def test_a_whole_call_in_the_opening_is_ready_there() -> None:
    """C11: programmatic calls come without block events, with their finish in the opening."""
    block = {"type": "tool_use", "id": "toolu_x", "name": "roll", "input": {"n": 1.0}}
    frames = frames_of(opening([block], "tool_use") + sse({"type": "message_stop"}))
    assert [type(event) for event in frames[0].events] == [
        TurnStarted,
        CallDelta,
        CallReady,
        UsageSeen,
        ChoiceEnded,
    ]
    assert calls_in(frames) == [ToolCall("toolu_x", "roll", '{"n": 1.0}', (0, 0))]


def test_input_that_came_with_the_start_counts_where_no_piece_follows() -> None:
    frames = frames_of(opening() + call(0, "t", "read", given={"id": 1}) + ending("tool_use"))
    assert [one.arguments for one in calls_in(frames)] == ['{"id": 1}']


def test_input_that_came_twice_makes_no_whole_call() -> None:
    """Clients differ in which of the two they take."""
    frames = frames_of(opening() + call(0, "t", "read", '{"id":2}', given={"id": 1}) + ending("tool_use"))
    assert not calls_in(frames)
    assert pieces_in(frames) == {(0, 0)}


@pytest.mark.parametrize("call_id", ["", None, 5])
def test_a_call_without_an_id_gets_one(call_id: object) -> None:
    block = {"type": "tool_use", "id": call_id, "name": "read", "input": {}}
    start = sse({"type": "content_block_start", "index": 0, "content_block": block})
    frames = frames_of(opening() + start + sse({"type": "content_block_stop", "index": 0}))
    assert [(one.id, one.made_id) for one in calls_in(frames)] == [("toolu_made_1", True)]


def test_a_piece_of_arguments_without_a_call_is_a_call_that_never_becomes_whole() -> None:
    piece = {"type": "content_block_delta", "delta": {"type": "input_json_delta", "partial_json": "{}"}}
    stray = sse(piece | {"index": 7})
    late = sse(piece | {"index": 0})
    for stream in (
        opening() + stray,
        opening() + call(0, "t", "read", "{}") + late,
        opening() + text(0) + late,
    ):
        frames = frames_of(stream + ending("tool_use"))
        assert CallDelta in {type(event) for event in frames[-3].events}
        assert len(pieces_in(frames)) == len(calls_in(frames)) + 1


def test_a_piece_that_names_its_block_by_another_spelling_of_the_number_is_held() -> None:
    """Some clients take `"0"` for 0."""
    piece = {
        "type": "content_block_delta",
        "index": "0",
        "delta": {"type": "input_json_delta", "partial_json": "{}"},
    }
    frames = frames_of(opening() + call(0, "t", "read", "") + sse(piece))
    assert len(pieces_in(frames)) == 2


def test_a_block_of_an_unknown_kind_that_looks_like_a_call_is_a_call() -> None:
    frames = frames_of(opening() + call(0, "t", "read", '{"a":1}', kind="future_tool_use") + ending())
    assert [(one.name, one.arguments) for one in calls_in(frames)] == [("read", '{"a":1}')]


def test_calls_that_the_provider_ran_itself_are_seen_and_not_held() -> None:
    stream = opening() + call(0, "srv", "web_search", '{"query":', '"x"}', kind="server_tool_use")
    frames = frames_of(stream + call(1, "mcp", "ask", given={"q": 1}, kind="mcp_tool_use") + ending())
    hosted = [event.call for event in events_in(frames) if isinstance(event, HostedCall)]
    assert [(one.name, one.arguments) for one in hosted] == [
        ("web_search", '{"query":"x"}'),
        ("ask", '{"q": 1}'),
    ]
    assert not pieces_in(frames)


def test_a_member_of_a_toolset_is_named_with_its_family() -> None:
    block = {"type": "tool_use", "id": "t", "name": "left_click", "toolset_name": "computer", "input": {}}
    frames = frames_of(opening([block]))
    assert [one.name for one in calls_in(frames)] == ["computer.left_click"]


def test_interleaved_blocks_are_told_apart_by_index() -> None:
    """C10: several calls in one turn keep their order."""

    def start(index: int) -> bytes:
        block = {"type": "tool_use", "id": f"t{index}", "name": "read", "input": {}}
        return sse({"type": "content_block_start", "index": index, "content_block": block})

    def piece(index: int, words: str) -> bytes:
        delta = {"type": "input_json_delta", "partial_json": words}
        return sse({"type": "content_block_delta", "index": index, "delta": delta})

    def stop(index: int) -> bytes:
        return sse({"type": "content_block_stop", "index": index})

    stream = (
        start(0)
        + start(1)
        + piece(1, '{"b"')
        + piece(0, '{"a"')
        + piece(1, ":1}")
        + stop(1)
        + piece(0, ":2}")
    )
    frames = frames_of(opening() + stream + stop(0) + ending("tool_use"))
    assert {one.id: one.arguments for one in calls_in(frames)} == {"t0": '{"a":2}', "t1": '{"b":1}'}


def test_a_block_that_begins_at_a_taken_index_leaves_the_first_call_unfinished() -> None:
    block = {"type": "tool_use", "id": "one", "name": "read", "input": {}}
    start = sse({"type": "content_block_start", "index": 0, "content_block": block})
    frames = frames_of(opening() + start + call(0, "two", "read", "{}") + ending("tool_use"))
    assert [one.id for one in calls_in(frames)] == ["two"]


def test_an_error_event_fails_the_stream_under_the_providers_own_type() -> None:
    """C024: not a made-up type."""
    error = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
    failed = frames_of(opening() + sse(error))[-1].events[0]
    assert isinstance(failed, StreamFailed)
    assert (failed.problem.status, failed.problem.code, failed.problem.message) == (
        529,
        "overloaded_error",
        "Overloaded",
    )
    assert failed.problem.retryable


@pytest.mark.parametrize("junk", [b"{", b"[1]", b'{"type":"content_block_start","x":NaN}', b"\xff"])
def test_an_event_that_cannot_be_read_fails_the_stream(junk: bytes) -> None:
    """A more lenient reader might see a call in it."""
    frames = frames_of(opening() + b"event: content_block_start\ndata: " + junk + b"\n\n")
    assert isinstance(frames[-1].events[0], StreamFailed)


def test_an_event_beyond_the_size_limit_fails_the_stream() -> None:
    read = reader()
    frames = read.feed(b"data: " + b"x" * (17 * 1024 * 1024))
    assert isinstance(frames[0].events[0], StreamFailed)
    assert read.feed(TWO_CALLS) == []
    assert read.end() == []


@pytest.mark.parametrize("name", ["ping", "content_block_stop", "surprise", ""])
def test_an_event_whose_name_says_another_thing_than_its_data_fails_the_stream(name: str) -> None:
    """C3: some clients go by the one, some by the other. Nor may a stream name only some of its events."""
    block = {"type": "tool_use", "id": "t", "name": "read", "input": {}}
    start = {"type": "content_block_start", "index": 0, "content_block": block}
    event = f"data: {json.dumps(start)}\n\n"
    frames = frames_of(opening() + (f"event: {name}\n" if name else "").encode() + event.encode())
    assert [isinstance(one, StreamFailed) for one in frames[-1].events] == [True]
    assert pieces_in(frames) == set()


@pytest.mark.parametrize("kind", [b'{"type": "surprise"}', b'{"type": null}', b"{}"])
def test_a_name_that_means_something_on_data_that_does_not_fails_the_stream(kind: bytes) -> None:
    frames = frames_of(opening() + b"event: content_block_delta\ndata: " + kind + b"\n\n")
    assert [isinstance(one, StreamFailed) for one in frames[-1].events] == [True]


def test_a_stream_without_any_names_is_read_by_its_data() -> None:
    stream = opening() + call(0, "t", "read", '{"a":1}') + ending("tool_use")
    nameless = b"".join(line for line in stream.splitlines(keepends=True) if not line.startswith(b"event:"))
    assert pieces_in(frames_of(nameless)) == {(0, 0)}


@pytest.mark.parametrize("kind", ["nput_json_delta", "text_delta", None])
def test_a_piece_that_only_some_clients_take_for_one_makes_no_call(kind: str | None) -> None:
    """C3: the arguments judged are those of every client, or there is no call."""
    stream = opening() + call(0, "t", "read", '{"a":1}') + ending("tool_use")
    odd = stream.replace(b'"type": "input_json_delta"', b'"type": ' + json.dumps(kind).encode())
    read = reader()
    frames = read.feed(odd)
    assert not any(isinstance(event, CallReady) for frame in frames for event in frame.events)
    assert pieces_in(frames) == {(0, 0)}
    assert read.turn().calls == ()


def test_arguments_that_are_no_object_are_wrapped_for_the_model() -> None:
    """C4: the model sees what it wrote, in a form that the provider takes."""
    read = reader()
    read.feed(opening() + call(0, "t", "read", '{"a":') + ending("tool_use"))
    assert json.loads(read.turn().message)["content"][0]["input"] == {"INVALID_JSON": '{"a":'}


def test_every_recorded_stream_reads_as_an_independent_reader_read_it() -> None:
    for entry in recorded_streams():
        body = entry["response"]["body"].encode()
        read = reader()
        frames = read.feed(body) + read.end()
        assert b"".join(frame.raw for frame in frames) == body, entry["id"]
        turn, seen = read.turn(), entry["observed"]
        assert [(one.id, one.name) for one in turn.calls] == [
            (one["id"], one["name"]) for one in seen["tool_calls"]
        ], entry["id"]
        for one, other in zip(turn.calls, seen["tool_calls"], strict=True):
            assert read_object(one.arguments) == json.loads(other["arguments"] or "{}"), entry["id"]
        assert [one.name for one in turn.hosted_calls] == seen["server_tools"], entry["id"]
        assert list(turn.finish) == seen["finish"], entry["id"]
        assert len(turn.text) == seen["text_chars"], entry["id"]
        assert tuple(calls_in(frames)) == turn.calls
        if turn.usage is not None:
            steps = [step["output_tokens"] for step in seen["usage"].get("iterations") or ()]
            assert turn.usage.output_tokens == (sum(steps) or seen["usage"]["output_tokens"]), entry["id"]
        orjson.loads(turn.message)


@given(st.lists(st.integers(0, len(TWO_CALLS)), max_size=12))
def test_where_the_network_cuts_makes_no_difference(cuts: list[int]) -> None:
    places = [0, *sorted(cuts), len(TWO_CALLS)]
    read = reader()
    frames = [frame for a, b in itertools.pairwise(places) for frame in read.feed(TWO_CALLS[a:b])]
    assert frames + read.end() == frames_of(TWO_CALLS)


def test_a_stream_cut_at_any_byte_makes_no_call_ready_that_was_not_whole() -> None:
    """C7: what broke off is no call."""
    stop = TWO_CALLS.index(b"content_block_stop", TWO_CALLS.index(b"toolu_a"))
    whole = TWO_CALLS.index(b"\n\n", TWO_CALLS.index(b"data", stop)) + 2
    for cut in range(len(TWO_CALLS)):
        frames = frames_of(TWO_CALLS[:cut])
        assert b"".join(frame.raw for frame in frames) == TWO_CALLS[:cut]
        assert bool(calls_in(frames)) == (cut >= whole)


@given(st.binary(max_size=200))
def test_any_bytes_are_read_without_a_fault(junk: bytes) -> None:
    read = reader()
    frames = read.feed(junk) + read.end()
    assert b"".join(frame.raw for frame in frames) == junk
    read.turn()


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
KINDS = [
    "message_start",
    "content_block_start",
    "content_block_delta",
    "content_block_stop",
    "message_delta",
    "error",
]
BLOCK = st.fixed_dictionaries(
    {"type": st.sampled_from(["text", "tool_use", "x", 5])},
    optional={"name": JSON, "input": JSON, "id": JSON, "text": JSON},
)
EVENT = st.fixed_dictionaries(
    {"type": st.sampled_from(KINDS)},
    optional={
        "index": JSON,
        "delta": JSON
        | st.fixed_dictionaries(
            {"type": st.sampled_from(["text_delta", "input_json_delta"])},
            optional={"text": JSON, "partial_json": JSON},
        ),
        "content_block": JSON | BLOCK,
        "message": JSON
        | st.fixed_dictionaries({"content": JSON | st.lists(BLOCK | JSON)}, optional={"usage": JSON}),
        "usage": JSON,
        "error": JSON,
    },
)


@given(st.lists(EVENT, max_size=8))
def test_events_of_any_shape_are_read_without_a_fault(events: list[dict[str, object]]) -> None:
    read = reader()
    stream = b"".join(b"data: " + orjson.dumps(event) + b"\n\n" for event in events)
    frames = read.feed(stream)
    assert b"".join(frame.raw for frame in frames) == stream
    read.turn()


def test_a_call_that_begins_after_the_finish_word_never_becomes_whole() -> None:
    """What was judged at the finish word is all that there is."""
    finish = ending("tool_use")
    delta, stop = finish[: finish.index(b"event: message_stop")], sse({"type": "message_stop"})
    frames = frames_of(opening() + call(0, "a", "read", "{}") + delta + call(1, "b", "read", "{}") + stop)
    assert [one.id for one in calls_in(frames)] == ["a"]
    assert pieces_in(frames) == {(0, 0), (0, 1)}


def test_many_calls_in_one_opening_take_linear_time() -> None:
    """Each is read once: ten thousand are no attack."""
    block = {"type": "tool_use", "id": "t", "name": "n", "input": {"a": 1}}
    assert len(calls_in(frames_of(opening([block] * 10_000)))) == 10_000


def test_a_block_too_deep_to_be_written_is_left_out_of_the_history() -> None:
    deep = b'{"type":"x","y":' + b"[" * 1000 + b"]" * 1000 + b"}"
    start = b'data: {"type":"content_block_start","index":0,"content_block":' + deep + b"}\n\n"
    read = reader()
    assert read.feed(opening() + start + text(1, "So."))
    assert json.loads(read.turn().message)["content"] == [{"type": "text", "text": "So."}]


BEGUN = '{"type":"content_block_start","index":0,"content_block":%s}'
CALLED = '{"type":"tool_use","id":"t","name":"drop","input":{"a":1}}'


@pytest.mark.parametrize(
    "block",
    [
        "event: error\ndata: " + BEGUN % CALLED,
        'event: error\ndata: {"type":"message_start","message":{"content":[' + CALLED + "]}}",
        'event: message_start\ndata: {"type":"error","message":{"content":[' + CALLED + "]}}",
        " data: " + BEGUN % CALLED,
        BEGUN % CALLED,
        'event: ping\ndata: {"type":"ping"}\n data: ' + BEGUN % CALLED,
        "event: content_block_start\ndata: " + BEGUN % (CALLED[:-1] + ',"type":"server_tool_use"}'),
        "event: content_block_start\ndata: "
        + (BEGUN % CALLED)[:-1]
        + ',"content_block":{"type":"text","text":""}}',
    ],
)
def test_a_call_that_only_some_clients_see_does_not_pass(block: str) -> None:
    """D5: in an error, in a line that the standard skips, behind a key that occurs twice."""
    frames = frames_of(opening() + block.encode() + b"\n\n")
    assert any(isinstance(event, StreamFailed) for event in events_in(frames))
    writer = ANTHROPIC.writer(Request("anthropic-messages", "m", ()), "msg_own")
    sent = b"".join(writer.passed(frame) for frame in frames)
    assert b"drop" not in sent
    assert b"event: error" in sent
