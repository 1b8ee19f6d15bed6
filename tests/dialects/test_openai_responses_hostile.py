"""Answers of the Responses API in which a call hides: where no reader looks for it, or where two readers would see two
different ones. None of it may reach an agent unjudged."""

import json
from collections.abc import Iterator
from itertools import count
from typing import Any

import pytest

from proxy.core.messages import Frame, Malformed, Request, StreamFailed, ToolKind
from proxy.core.stream_gate import StreamGate
from proxy.dialects.openai_responses import OPENAI_RESPONSES

SECRET = "rm -rf secret"
CALL: dict[str, Any] = {
    "id": "fc_1",
    "type": "function_call",
    "status": "completed",
    "arguments": json.dumps({"run": SECRET}),
    "call_id": "call_1",
    "name": "shell",
}
HEAD: dict[str, Any] = {"id": "resp_1", "object": "response", "status": "in_progress", "model": "m"}
DONE = {"type": "response.output_item.done", "output_index": 0, "item": CALL}
ADDED = {"type": "response.output_item.added", "output_index": 0, "item": CALL | {"arguments": ""}}
OPENING = {"type": "response.created", "response": HEAD | {"output": []}}
END = {"type": "response.completed", "response": HEAD | {"status": "completed", "output": []}}


def ids() -> Iterator[str]:
    return (f"made_{number}" for number in count(1))


def sse(*events: object) -> bytes:
    return b"".join(
        event if isinstance(event, bytes) else b"data: " + json.dumps(event).encode() + b"\n\n"
        for event in events
    )


def frames_of(stream: bytes) -> list[Frame]:
    reader = OPENAI_RESPONSES.reader(ids().__next__)
    return reader.feed(stream) + reader.end()


def seen_with_all_refused(stream: bytes) -> bytes:
    """What an agent gets where every call that is seen is refused."""
    writer = OPENAI_RESPONSES.writer(Request("openai-responses", "m", (), stream=True), "own")
    gate, sent = StreamGate(10**8), b""
    for frame in frames_of(stream):
        passed = gate.feed(frame)
        if passed is not None:
            sent += writer.passed(passed)
        elif gate.ready or gate.failed:
            keys = {*(call.key for call in gate.calls), *gate.broken}
            sent += writer.resolved(gate.take(), keys, "")
    return sent


def done_with(**changed: Any) -> dict[str, Any]:
    return DONE | {"item": CALL | changed}


HIDING = {
    "in an opening": [OPENING | {"response": HEAD | {"output": [CALL]}}, END],
    "in progress": [OPENING, {"type": "response.in_progress", "response": HEAD | {"output": [CALL]}}, END],
    "in a failure": [OPENING, {"type": "response.failed", "response": HEAD | {"output": [CALL]}}],
    "in an event of tomorrow": [OPENING, {"type": "response.saved", "response": HEAD | {"output": [CALL]}}],
    "in the last event alone": [OPENING, END | {"response": HEAD | {"output": [CALL]}}],
    "as an item of an unknown event": [OPENING, {"type": "response.item", "output_index": 0, "item": CALL}],
    "by the name of its event": [OPENING, b"event: response.output_item.done\n" + sse(DONE | {"type": "x"})],
    "without a type": [
        OPENING,
        b"event: response.output_item.done\n" + sse({"output_index": 0, "item": CALL}),
    ],
    "beside the mark of the end": [OPENING, sse(DONE)[6:-1] + b"data: [DONE]\n\n"],
    "behind an equal key": [
        OPENING,
        sse({"type": "response.output_text.delta", "delta": "x", "output_index": 1})[:-3]
        + b',"item":'
        + json.dumps(CALL).encode()
        + b',"type":"response.output_item.done"}\n\n',
    ],
    "in other letters": [OPENING, END | {"response": HEAD | {"Output": [CALL]}}],
    "without a place": [OPENING, {"type": "response.output_item.done", "item": CALL}, END],
    "at no number": [OPENING, DONE | {"output_index": "0"}, END],
    "of an unknown kind": [
        OPENING,
        done_with(type="quantum_tool", input=SECRET, arguments=None),
        END,
    ],
    "of an unknown call": [OPENING, done_with(type="quantum_call"), END],
    "after the end": [OPENING, END, DONE],
    "in the last event, another": [
        OPENING,
        done_with(arguments="{}"),
        END | {"response": HEAD | {"output": [CALL]}},
    ],
    "in a shell at no place": [
        OPENING,
        done_with(type="shell_call", action={"commands": [SECRET]}, environment={"type": "here"}),
        END,
    ],
    "as a part of a message": [
        OPENING,
        {
            "type": "response.output_item.done",
            "output_index": 0,
            "item": {"type": "message", "role": "assistant", "content": [CALL]},
        },
        END,
    ],
}


@pytest.mark.parametrize("events", HIDING.values(), ids=HIDING)
def test_a_call_that_hides_never_reaches_the_agent(events: list[Any]) -> None:
    """C10, C11: it is seen and refused, or the stream fails."""
    assert SECRET.encode() not in seen_with_all_refused(sse(*events))


DIFFERING = {
    "other arguments": [OPENING, ADDED, done_with(arguments="{}")],
    "another name": [OPENING, ADDED | {"item": CALL | {"name": "ls"}}, DONE],
    "another kind": [OPENING, ADDED | {"item": CALL | {"type": "custom_tool_call", "input": ""}}, DONE],
    "pieces that say something else": [
        OPENING,
        ADDED,
        {"type": "response.function_call_arguments.delta", "output_index": 0, "delta": "{}"},
        DONE,
    ],
    "a whole that says something else": [
        OPENING,
        ADDED,
        {"type": "response.function_call_arguments.done", "output_index": 0, "arguments": "{}"},
        DONE,
    ],
    "twice at one place": [OPENING, DONE, done_with(call_id="call_2")],
    "begun with arguments of its own": [OPENING, ADDED | {"item": CALL | {"arguments": '{"a":1}'}}, DONE],
}
del DIFFERING["other arguments"]  # an empty beginning is no difference


@pytest.mark.parametrize("events", DIFFERING.values(), ids=DIFFERING)
def test_a_call_that_clients_would_read_differently_fails_the_stream(events: list[Any]) -> None:
    """C10: nobody knows which of the two would be run."""
    assert any(isinstance(event, StreamFailed) for frame in frames_of(sse(*events)) for event in frame.events)
    assert SECRET.encode() not in seen_with_all_refused(sse(*events))


def test_an_error_without_a_type_fails_the_stream() -> None:
    """C4: the official SDK raises whatever has a member `error`."""
    frames = frames_of(sse(OPENING, {"error": {"message": "Overloaded", "code": 503}}))
    (failed,) = [event for frame in frames for event in frame.events if isinstance(event, StreamFailed)]
    assert (failed.problem.status, failed.problem.message) == (503, "Overloaded")


def whole(*items: object, **more: Any) -> bytes:
    return json.dumps(HEAD | {"status": "completed", "output": list(items)} | more).encode()


UNSOUND = {
    "a key twice": whole(CALL)[:-1] + b',"output":[]}',
    "a key twice in an item": whole(CALL).replace(b'"name": "shell"', b'"name": "ls", "name": "shell"'),
    "other letters": whole(CALL | {"Arguments": "{}"}),
    "output in other letters": whole(OUTPUT=[CALL]),
    "a call in a message": whole({"type": "message", "role": "assistant", "content": [CALL]}),
    "no object": whole(3),
}


@pytest.mark.parametrize("body", UNSOUND.values(), ids=UNSOUND)
def test_an_answer_that_clients_would_read_differently_is_none(body: bytes) -> None:
    """C10, fail closed."""
    with pytest.raises(Malformed):
        OPENAI_RESPONSES.parse_response(body, ids().__next__)


@pytest.mark.parametrize("kind", ["quantum_call", "quantum_tool", "function_tool"])
def test_an_item_of_an_unknown_kind_is_a_call_of_that_name(kind: str) -> None:
    """C022: it is judged, and refused for it is not on offer."""
    item = {"type": kind, "id": "x_1", "call_id": "call_1", "input": SECRET}
    (call,) = OPENAI_RESPONSES.parse_response(whole(item), ids().__next__).calls
    assert call.name == kind
    assert SECRET in call.arguments


@pytest.mark.parametrize("kind", ["reasoning", "compaction", "message_note"])
def test_an_item_that_can_be_no_call_passes(kind: str) -> None:
    item = {"type": kind, "id": "x_1", "status": "completed", "summary": [], "encrypted_content": "abc"}
    turn = OPENAI_RESPONSES.parse_response(whole(item), ids().__next__)
    assert (turn.calls, turn.hosted_calls) == ((), ())


def test_both_actions_of_a_computer_are_judged() -> None:
    """C022: what is read is all that a client may run."""
    item = {"type": "computer_call", "id": "cu_1", "call_id": "c", "action": {"type": "wait"}}
    (call,) = OPENAI_RESPONSES.parse_response(
        whole(item | {"actions": [{"type": "type", "text": SECRET}]}), ids().__next__
    ).calls
    assert SECRET in call.arguments


@pytest.mark.parametrize("kind", ["function_call", "custom_tool_call"])
def test_a_call_that_was_cut_off_is_never_a_whole_one(kind: str) -> None:
    """C10: at the limit of its output a model ends in the middle of a call."""
    item = CALL | {"type": kind, "input": "*** Begin Pa", "status": "incomplete", "arguments": '{"a'}
    (call,) = OPENAI_RESPONSES.parse_response(whole(item), ids().__next__).calls
    assert call.kind is ToolKind.FUNCTION
    assert call.arguments in {'{"a', "*** Begin Pa"}
    stream = sse(OPENING, DONE | {"item": item}, END)
    frames = frames_of(stream)
    assert not any(type(event).__name__ == "CallReady" for frame in frames for event in frame.events)
    assert b"Begin Pa" not in seen_with_all_refused(stream)
