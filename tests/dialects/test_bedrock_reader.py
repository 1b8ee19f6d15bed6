"""Streams of the Converse API: calls are whole only where all clients read them alike."""

import pytest

from proxy.core.messages import CallDelta, CallReady, Event, Frame, StreamFailed
from proxy.core.stream_gate import StreamGate
from proxy.dialects.bedrock_frames import event, exception, written
from proxy.dialects.bedrock_reader import ConverseReader
from tests.dialects import bedrock_agent as agent

START = agent.said(
    "contentBlockStart", contentBlockIndex=0, start={"toolUse": {"toolUseId": "a", "name": "read"}}
)
OTHER = agent.said(
    "contentBlockStart", contentBlockIndex=1, start={"toolUse": {"toolUseId": "b", "name": "delete"}}
)
STOP = agent.said("contentBlockStop", contentBlockIndex=0)
OTHER_STOP = agent.said("contentBlockStop", contentBlockIndex=1)


def piece(index: int, text: object = "{}") -> bytes:
    return agent.said("contentBlockDelta", contentBlockIndex=index, delta={"toolUse": {"input": text}})


def said(index: int) -> bytes:
    return agent.said("contentBlockDelta", contentBlockIndex=index, delta={"text": "x"})


def read(stream: bytes) -> tuple[list[Frame], list[Event]]:
    frames = ConverseReader(lambda: "made").feed(stream)
    return frames, [one for frame in frames for one in frame.events]


@pytest.mark.parametrize(
    "stream",
    [
        START + OTHER + piece(0) + STOP + OTHER_STOP,  # whose piece is it?
        START + piece(0) + OTHER + piece(0) + STOP + OTHER_STOP,
        START + piece(1) + STOP,
        START + said(0) + STOP,
        START + piece(0) + STOP + piece(0),
        START + STOP + said(0),
        said(0) + STOP + START + STOP,  # an index that was a text's
        START + STOP + START + STOP,
        START + piece(0, {}) + STOP,
        piece(0) + STOP,
        agent.ending() + START + STOP,  # behind the end
    ],
)
def test_a_call_that_clients_could_take_differently_never_becomes_whole(stream: bytes) -> None:
    """C11: fail closed. Some go by indices, some by order."""
    gate = StreamGate(10**6)
    for frame in read(stream + agent.ending())[0]:
        gate.feed(frame)
    assert gate.broken or not gate.calls


def test_a_call_that_came_right_is_whole_at_its_stop() -> None:
    """C10."""
    _, events = read(START + piece(0, '{"id":') + piece(0, " 1}") + STOP)
    assert [one.call.arguments for one in events if isinstance(one, CallReady)] == ['{"id": 1}']


@pytest.mark.parametrize(
    "raw",
    [
        event("contentBlockStart", b'{"contentBlockIndex":0,"start":{},"start":{"toolUse":{"name":"x"}}}'),
        event("contentBlockStart", b'{"start":{"toolUse":{"name":"x"}}}'),
        event("contentBlockStart", b'{"contentBlockIndex":0,"start":{"toolUse":{"name":1}}}'),
        event("contentBlockDelta", b"[]"),
        event("contentBlockDelta", b"{"),
        written({":event-type": "contentBlockStart"}, b'{"contentBlockIndex":0}'),
    ],
)
def test_what_cannot_be_read_fails_the_stream(raw: bytes) -> None:
    _, events = read(raw)
    assert any(isinstance(one, StreamFailed) for one in events)
    assert not any(isinstance(one, CallDelta) for one in events)


def test_an_exception_says_what_it_is_and_whether_to_try_again() -> None:
    """C4, C024."""
    _, (failed,) = read(exception("throttlingException", b'{"message":"Too many"}'))
    assert isinstance(failed, StreamFailed)
    assert (failed.problem.status, failed.problem.message, failed.problem.retryable) == (
        429,
        "Too many",
        True,
    )


def test_a_call_that_the_provider_ran_itself_is_not_judged() -> None:
    use = {"toolUse": {"toolUseId": "a", "name": "search", "type": "server_tool_use"}}
    stream = agent.said("contentBlockStart", contentBlockIndex=0, start=use) + piece(0, '{"q":1}') + STOP
    reader = ConverseReader(lambda: "made")
    events = [one for frame in reader.feed(stream) for one in frame.events]
    assert not any(isinstance(one, CallDelta | CallReady) for one in events)
    assert [(call.name, call.arguments) for call in reader.turn().hosted_calls] == [("search", '{"q":1}')]
