"""Streams of Ollama's chat API: lines that are not clear fail, edits stay inside their line."""

import json

import pytest

from proxy.core.messages import Malformed, Problem, Request, StreamFailed
from proxy.dialects.ollama_stream import OllamaReader, OllamaWriter
from proxy.dialects.sse import MAX_EVENT_BYTES
from tests.dialects import ollama_agent as agent

ASKED = Request("ollama", "maple-1", (), stream=True)


@pytest.mark.parametrize(
    "line",
    [
        b"[]\n",
        b"{\n",
        b"data: {}\n",
        b'{"message":{"content":"a"},"message":{"tool_calls":[{"function":{"name":"x"}}]}}\n',
        b'{"Message":{"tool_calls":[{"function":{"name":"x"}}]}}\n',
        b'{"message":{"tool_calls":{"function":{"name":"x"}}}}\n',
        b'{"error":"x","message":{"tool_calls":[]}}\n',
    ],
)
def test_a_line_that_readers_could_take_differently_fails_the_stream_and_never_leaves(line: bytes) -> None:
    """C11: fail closed."""
    (frame,) = OllamaReader().feed(line)
    assert any(isinstance(event, StreamFailed) for event in frame.events)
    assert b"function" not in OllamaWriter(ASKED).passed(frame)


def test_a_line_without_end_that_grows_and_grows_is_refused() -> None:
    with pytest.raises(Malformed):
        OllamaReader().feed(b"x" * (MAX_EVENT_BYTES + 1))


def test_an_error_of_the_server_passes_as_it_came() -> None:
    """C4."""
    raw = b'{"error":"out of memory"}\n'
    (frame,) = OllamaReader().feed(raw)
    assert frame.events == (StreamFailed(Problem(502, "upstream_error", "out of memory")),)
    assert OllamaWriter(ASKED).passed(frame) == raw


def test_calls_that_stay_are_numbered_without_a_gap() -> None:
    """C10."""
    calls = (agent.call("a", {}), agent.call("b", {}, 1), agent.call("c", {}, 2))
    reader = OllamaReader()
    frames = reader.feed(agent.calling(*calls) + agent.ending())
    sent = OllamaWriter(ASKED).resolved(frames, {(0, 0)}, "")
    left = json.loads(sent.split(b"\n")[0])["message"]["tool_calls"]
    assert [(call["function"]["name"], call["function"]["index"]) for call in left] == [("b", 0), ("c", 1)]


def test_lines_by_the_proxy_hold_nothing_that_some_clients_take_for_the_end_of_a_line() -> None:
    said = "one\u2028two\u0085three"
    assert agent.sdk_streams(OllamaWriter(ASKED).closing(said))[0] == said


def test_once_it_is_done_nothing_is_added() -> None:
    out = OllamaWriter(ASKED)
    for frame in OllamaReader().feed(agent.ending()):
        out.passed(frame)
    assert out.closing("More.") == b""
    assert out.keep_alive() == b""


def test_a_call_that_is_json_to_some_readers_only_goes_back_without_its_arguments() -> None:
    """C7: the server reads what is sent back to it more strictly than some clients read it."""
    odd = b'{"message":{"content":"","tool_calls":[{"function":{"name":"x","arguments":{"a":NaN}}}]}}\n'
    reader = OllamaReader()
    reader.feed(odd)
    (call,) = json.loads(reader.turn().message)["tool_calls"]
    assert call == {"function": {"name": "x", "arguments": {}}}
