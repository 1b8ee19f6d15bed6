"""A streamed answer of the Responses API: what its events mean, and what it is as a whole."""

import json
from collections.abc import Iterator
from itertools import count
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from proxy.core.messages import (
    CallDelta,
    CallReady,
    ChoiceEnded,
    Event,
    HostedCall,
    StreamEnded,
    StreamFailed,
    TextDelta,
    ToolKind,
    Turn,
    TurnStarted,
    Usage,
    UsageSeen,
)
from proxy.demo import Answer, Call
from proxy.demo.answers import Ids
from proxy.demo.wire_responses import Responses
from proxy.dialects.openai_responses_reader import ResponsesReader
from tests.dialects.responses_agent import HEAD, call, message, response, sse, stream

READ = call("call_1", "read_note", '{"id": 4}')
SQL = {"id": "ctc_1", "type": "custom_tool_call", "call_id": "call_1", "name": "sql", "input": "SELECT 1"}
CREATED = ("response.created", {"response": HEAD})


def ids() -> Iterator[str]:
    return (f"made_{number}" for number in count(1))


def read(*chunks: bytes) -> tuple[list[Event], Turn]:
    reader = ResponsesReader(ids().__next__)
    frames = [frame for chunk in chunks for frame in reader.feed(chunk)] + reader.end()
    assert b"".join(frame.raw for frame in frames) == b"".join(chunks)
    return [event for frame in frames for event in frame.events], reader.turn()


def said(*events: tuple[str, dict[str, Any]]) -> bytes:
    return b"".join(sse(kind, number, **body) for number, (kind, body) in enumerate(events))


def added(item: dict[str, Any], place: int = 0) -> tuple[str, dict[str, Any]]:
    return "response.output_item.added", {"output_index": place, "item": item}


def done(item: dict[str, Any], place: int = 0) -> tuple[str, dict[str, Any]]:
    return "response.output_item.done", {"output_index": place, "item": item}


def ended(*items: dict[str, Any], **more: Any) -> tuple[str, dict[str, Any]]:
    return "response.completed", {"response": response(*items, **more)}


def only(events: list[Event], kind: type) -> list[Any]:
    return [event for event in events if isinstance(event, kind)]


def test_the_events_of_an_answer_in_their_order() -> None:
    """C10: text at once, the call when its item is done, the end last."""
    events, turn = read(stream(message("Hi there you."), READ))
    kinds = [type(event) for event in events]
    assert kinds[0] is TurnStarted
    assert only(events, TextDelta) == [TextDelta(0, "Hi there"), TextDelta(0, " you.")]
    assert kinds.index(CallDelta) < kinds.index(CallReady) < kinds.index(ChoiceEnded)
    (ready,) = only(events, CallReady)
    assert (ready.call.id, ready.call.name, ready.call.arguments) == ("call_1", "read_note", '{"id": 4}')
    assert only(events, UsageSeen) == [UsageSeen(Usage(200, 30))]
    assert (turn.id, turn.text, turn.finish) == ("resp_1", "Hi there you.", ("completed",))
    assert json.loads(turn.message) == [message("Hi there you."), READ]


def test_every_piece_of_a_call_is_marked_as_one() -> None:
    """C10: nothing of it may pass."""
    reader = ResponsesReader(ids().__next__)
    for frame in reader.feed(stream(READ)):
        if b"output_index" in frame.raw:
            assert any(isinstance(event, CallDelta | CallReady) for event in frame.events), frame.raw


def test_a_call_that_comes_whole_or_without_pieces() -> None:
    """C003: `.done` alone, an item that only ends, one that only the last event names."""
    whole = ("response.function_call_arguments.done", {"output_index": 0, "arguments": READ["arguments"]})
    for events in (
        [added(READ | {"arguments": ""}), whole, done(READ)],
        [done(READ)],
        [],
    ):
        found, turn = read(said(CREATED, *events, ended(READ)))
        assert [one.id for one in turn.calls] == ["call_1"]
        assert len(only(found, CallReady)) == 1


def test_free_text_is_a_call() -> None:
    """C022."""
    pieces = [
        ("response.custom_tool_call_input.delta", {"output_index": 0, "delta": piece})
        for piece in ("SELE", "CT 1")
    ]
    events, turn = read(
        said(
            CREATED,
            added(SQL | {"input": ""}),
            *pieces,
            ("response.custom_tool_call_input.done", {"output_index": 0, "input": "SELECT 1"}),
            done(SQL),
            ended(SQL),
        )
    )
    (one,) = turn.calls
    assert (one.name, one.arguments, one.kind) == ("sql", "SELECT 1", ToolKind.CUSTOM)
    assert not only(events, StreamFailed)


def test_ids_may_change_from_event_to_event() -> None:
    """Items are known by their place."""
    item = message("Hi.")
    delta = {"output_index": 0, "content_index": 0, "item_id": "b", "delta": "Hi."}
    events, turn = read(
        said(
            CREATED,
            added(item | {"id": "a", "content": []}),
            ("response.output_text.delta", delta),
            ("response.output_text.done", {**delta, "item_id": "c", "text": "Hi."}),
            done(item | {"id": "d"}),
            ended(item | {"id": "e"}),
        )
    )
    assert turn.text == "Hi."
    assert not only(events, StreamFailed)


def test_text_that_only_ends_is_said_once() -> None:
    """Some servers send no pieces."""
    part = {"output_index": 0, "content_index": 0}
    for events in (
        [("response.output_text.done", {**part, "text": "Hi."}), done(message("Hi."))],
        [done(message("Hi."))],
    ):
        found, turn = read(said(CREATED, *events, ended(message("Hi."))))
        assert (turn.text, only(found, TextDelta)) == ("Hi.", [TextDelta(0, "Hi.")])


def test_a_call_without_an_id_gets_one() -> None:
    """C003."""
    bare = {key: value for key, value in READ.items() if key not in {"id", "call_id"}}
    _, turn = read(said(CREATED, done(bare), ended(bare)))
    (one,) = turn.calls
    assert one.made_id
    assert json.loads(turn.message)[0]["call_id"] == one.id


def test_what_the_provider_ran_is_told() -> None:
    """C10."""
    item = {"id": "ws_1", "type": "web_search_call", "status": "completed", "action": {"query": "x"}}
    events, turn = read(
        said(
            CREATED,
            added(item | {"status": "in_progress"}),
            ("response.web_search_call.searching", {"output_index": 0, "item_id": "ws_1"}),
            done(item),
            ended(item),
        )
    )
    assert [event.call.name for event in only(events, HostedCall)] == ["web_search"]
    assert turn.calls == ()


def test_an_error_is_the_provider_s_whatever_comes_behind_it() -> None:
    """C4."""
    error = {"code": "rate_limit_exceeded", "message": "Slow down.", "param": None}
    events, turn = read(
        said(
            CREATED,
            ("error", error),
            ("response.failed", {"response": HEAD | {"status": "failed", "error": error}}),
        )
    )
    assert [event.problem.message for event in only(events, StreamFailed)] == ["Slow down."] * 2
    assert turn.error
    assert turn.finish == ()


def test_signs_of_life_mean_nothing() -> None:
    """C031."""
    alive = b': x\n\nevent: keepalive\ndata: {"type":"keepalive","sequence_number":3}\n\n'
    plain, spaced = stream(message("Hi."), READ), b""
    for block in plain.split(b"\n\n")[:-1]:
        spaced += alive + block + b"\n\n"
    assert read(spaced)[1] == read(plain)[1]


def test_the_mark_of_the_end_ends_the_stream() -> None:
    events, _ = read(stream(message("Hi.")) + b"data: [DONE]\n\n")
    assert only(events, StreamEnded)


def test_an_answer_that_was_cut_off_says_so() -> None:
    """C11."""
    end = {"response": response(status="incomplete", incomplete_details={"reason": "max_output_tokens"})}
    events, turn = read(said(CREATED, ("response.incomplete", end)))
    assert turn.finish == ("max_output_tokens",)
    assert only(events, ChoiceEnded)


@pytest.mark.parametrize(("stored", "kept"), [(True, True), (False, False)])
def test_whether_the_provider_keeps_it(stored: bool, kept: bool) -> None:
    assert read(stream(message("Hi."), store=stored))[1].is_kept is kept


def test_a_stream_without_names_is_read_the_same() -> None:
    plain = stream(message("Hi."), READ)
    bare = b"\n".join(line for line in plain.split(b"\n") if not line.startswith(b"event:"))
    assert read(bare)[1] == read(plain)[1]


@settings(max_examples=40, deadline=None)
@given(
    st.text(max_size=20),
    st.lists(st.dictionaries(st.text(max_size=5), st.text(max_size=8), max_size=3), max_size=3),
    st.integers(1, 5),
)
def test_what_was_said_is_what_is_read(text: str, calls: list[dict[str, str]], pieces: int) -> None:
    """C1: whatever the words, and however often they were cut."""
    answer = Answer(text, tuple(Call("read_note", one) for one in calls), pieces=pieces)
    request = {"model": "m", "input": "x"}
    events, turn = read(b"".join(Responses().frames(answer, request, Ids())))
    assert turn.text == text
    assert [json.loads(one.arguments) for one in turn.calls] == calls
    assert not only(events, StreamFailed)
