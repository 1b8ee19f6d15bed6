"""The agent's stream of a Responses answer: what is taken out leaves no gap, and several answers become one."""

import json
from collections.abc import Collection, Iterator
from itertools import count
from typing import Any

import pytest

from proxy.core.messages import CallKey, Frame, Problem, Request, Turn
from proxy.core.stream_gate import StreamGate
from proxy.dialects.openai_responses_reader import ResponsesReader
from proxy.dialects.openai_responses_writer import ResponsesWriter
from tests.dialects.responses_agent import HEAD, call, client_of, message, sdk_streams, sse, stream

READ, DELETE = call("call_1", "read_note", '{"id": 4}'), call("call_2", "delete_note", '{"id": 9}')
THOUGHT = {"id": "rs_1", "type": "reasoning", "summary": []}


def ids() -> Iterator[str]:
    return (f"made_{number}" for number in count(1))


def frames_of(body: bytes) -> tuple[list[Frame], Turn]:
    reader = ResponsesReader(ids().__next__)
    frames = reader.feed(body) + reader.end()
    return frames, reader.turn()


def writer() -> ResponsesWriter:
    return ResponsesWriter(Request("openai-responses", "m", (), stream=True), "own_1")


def gated(
    body: bytes, refused: Collection[CallKey], note: str = "", out: ResponsesWriter | None = None
) -> bytes:
    """The stream with these calls taken out when they are judged."""
    gate, out, sent = StreamGate(10**8), out or writer(), b""
    for frame in frames_of(body)[0]:
        passed = gate.feed(frame)
        if passed is not None:
            sent += out.passed(passed)
        elif gate.ready:
            sent += out.resolved(gate.take(), refused, note)
    return sent


def abandoned(body: bytes, out: ResponsesWriter) -> bytes:
    """What an agent gets of an answer whose calls send the model back."""
    gate, sent = StreamGate(10**8), b""
    frames, turn = frames_of(body)
    for frame in frames:
        passed = gate.feed(frame)
        if passed is not None:
            sent += out.passed(passed)
    return sent + out.abandoned(gate.take(), turn)


def events_of(body: bytes) -> list[Any]:
    lines = body.split(b"\n")
    return [json.loads(line[5:]) for line in lines if line.startswith(b"data:")]


def assert_strict(body: bytes) -> None:
    """Numbers without a gap, items in their places, one opening, one end, and the last event names what left."""
    events = events_of(body)
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    kinds = [event["type"] for event in events]
    assert kinds.count("response.created") == kinds.count("response.completed") == 1
    assert kinds[0] == "response.created"
    assert kinds[-1] == "response.completed"
    begun = [event["output_index"] for event in events if event["type"] == "response.output_item.added"]
    done = [event for event in events if event["type"] == "response.output_item.done"]
    assert begun == list(range(len(begun)))
    assert sorted(event["output_index"] for event in done) == begun
    left = [event["item"] for event in sorted(done, key=lambda event: event["output_index"])]
    final = events[-1]["response"]["output"]
    assert [item for item in left if item["type"] != "reasoning"] == [
        item for item in final if item["type"] != "reasoning"
    ]
    assert len({event["response"]["id"] for event in events if "response" in event}) == 1
    with (
        client_of(body, "text/event-stream") as client,
        client.responses.stream(model="m", input="x") as read,
    ):
        # The SDK itself looks at places and identities of all items.
        assert read.get_final_response().id == events[-1]["response"]["id"]


CASES = {
    "the first": {(0, 1)},
    "the second": {(0, 2)},
    "both": {(0, 1), (0, 2)},
}


@pytest.mark.parametrize("note", ["", "Not run."])
@pytest.mark.parametrize("refused", CASES.values(), ids=CASES)
def test_what_is_taken_out_leaves_no_gap(refused: set[CallKey], note: str) -> None:
    """C10, D5: in numbers, in places and in the last event."""
    sent = gated(stream(message("Hi there you."), READ, DELETE), refused, note)
    assert_strict(sent)
    kept = [item for place, item in ((1, READ), (2, DELETE)) if (0, place) not in refused]
    final = events_of(sent)[-1]["response"]["output"]
    assert [item for item in final if item["type"] == "function_call"] == kept
    assert sdk_streams(sent).output_text == "Hi there you." + (f"\n\n{note}" if note else "")
    for item in (READ, DELETE):
        assert (item["call_id"].encode() in sent) is (item in kept)


def test_what_is_kept_keeps_its_own_bytes() -> None:
    """A7: released calls are the provider's own frames."""
    body = stream(message("Hi."), READ, DELETE)
    assert gated(body, ()) == body


def test_the_note_stands_before_the_first_call_that_stays() -> None:
    """D5."""
    sent = gated(stream(READ, DELETE), {(0, 0)}, "Not run.")
    assert [item["type"] for item in events_of(sent)[-1]["response"]["output"]] == [
        "message",
        "function_call",
    ]


def test_another_answer_continues_the_stream_under_the_first_id() -> None:
    """C2, E12: text and usage of both, calls of the last."""
    out = writer()
    sent = abandoned(stream(THOUGHT, message("Hi there you."), READ), out)
    sent += gated(stream(message("So be it.", "msg_2"), DELETE, id="resp_2"), (), out=out)
    assert_strict(sent)
    read = sdk_streams(sent)
    assert (read.id, read.output_text) == ("resp_1", "Hi there you.\n\nSo be it.")
    assert [item.type for item in read.output] == ["reasoning", "message", "message", "function_call"]
    assert read.usage
    assert read.usage.output_tokens == 60


def test_reasoning_that_led_to_what_never_left_is_not_named_at_the_end() -> None:
    """C7: without what it led to, nobody takes it back."""
    out = writer()
    sent = abandoned(stream(THOUGHT, READ), out)
    sent += gated(stream(message("So be it.", "msg_2"), id="resp_2"), (), out=out)
    final = events_of(sent)[-1]["response"]["output"]
    assert [item["type"] for item in final] == ["message"]
    assert sdk_streams(sent).output_text == "So be it."


def test_what_has_begun_is_finished_before_another_answer() -> None:
    """C1: an item in the middle of its text."""
    body = stream(message("Hi there you."))
    frames, turn = frames_of(body)
    cut = next(at for at, frame in enumerate(frames) if b"output_text.delta" in frame.raw) + 1
    out = writer()
    sent = b"".join(map(out.passed, frames[:cut])) + out.abandoned([], turn)
    sent += gated(stream(message("So be it.", "msg_2"), id="resp_2"), (), out=out)
    assert_strict(sent)
    assert sdk_streams(sent).output_text == "Hi there\n\nSo be it."


def test_a_stream_is_ended_by_program_at_any_place() -> None:
    """B3, E10: before the first event too."""
    frames, _ = frames_of(stream(message("Hi there you.")))
    for at in range(len(frames)):
        out = writer()
        sent = b"".join(map(out.passed, frames[:at])) + out.closing("Stopped.")
        assert events_of(sent)[-1]["type"] == "response.completed"
        assert sdk_streams(sent).output_text.endswith("Stopped."), at
        assert out.closing("Again.") == out.passed(frames[-1]) == b""


def test_other_text_stands_in_every_event_that_says_it() -> None:
    """C3: pieces, ends, items and the last event."""
    body = stream(message("<call/> and more"))
    out, sent = writer(), b""
    for frame in frames_of(body)[0]:
        if b"output_text.delta" in frame.raw:
            sent += out.rewritten(frame, "" if b"<call/>" in frame.raw else "So.")
        else:
            sent += out.passed(frame)
    assert_strict(sent)
    assert b"<call/>" not in sent
    assert sdk_streams(sent).output_text == "So."


def test_a_call_without_an_id_has_one_wherever_it_stands() -> None:
    """C003."""
    bare = {key: value for key, value in READ.items() if key != "call_id"}
    bare["id"] = ""
    sent = gated(stream(bare), ())
    found = {item["call_id"] for item in _items(events_of(sent))}
    assert found == {"made_1"}


def _items(events: list[Any]) -> Iterator[Any]:
    for event in events:
        if "item" in event:
            yield event["item"]
        yield from event.get("response", {}).get("output", ())


def test_an_error_is_raised_by_the_sdk_and_nothing_follows_it() -> None:
    """C4."""
    frames, _ = frames_of(stream(message("Hi.")))
    out = writer()
    sent = out.passed(frames[0]) + out.failed(Problem(403, "denied", "No more.", {"budget": "rounds"}))
    with pytest.raises(Exception, match="No more"):
        sdk_streams(sent)
    assert out.failed(Problem(500, "x", "y")) == out.closing("z") == out.passed(frames[1]) == b""
    assert events_of(sent)[-1]["error"]["budget"] == "rounds"


def test_an_event_that_nobody_can_read_is_an_error_and_leaves_nothing() -> None:
    """Fail closed."""
    frames, _ = frames_of(sse("response.created", 0, response=HEAD) + b'data: {"type": "response.output\n\n')
    out = writer()
    sent = b"".join(map(out.passed, frames))
    assert b"cannot be read" in sent
    assert b'"response.output\n' not in sent
