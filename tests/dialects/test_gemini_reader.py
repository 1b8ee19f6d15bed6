"""Streams of Gemini's API, read: whole calls, calls in pieces, and what is refused."""

import json
from typing import Any

import pytest

from proxy.core.messages import CallReady, ChoiceEnded, Frame, StreamEnded, StreamFailed, TextDelta
from proxy.dialects.gemini_reader import GeminiReader
from tests.dialects import gemini_agent as agent


def read(stream: bytes) -> tuple[GeminiReader, list[Frame]]:
    reader = GeminiReader()
    return reader, reader.feed(stream) + reader.end()


def happened(stream: bytes, kind: type) -> list[Any]:
    return [event for frame in read(stream)[1] for event in frame.events if isinstance(event, kind)]


def finishes(stream: bytes) -> list[str]:
    return [event.finish for event in happened(stream, ChoiceEnded)]


def raw(text: str) -> bytes:
    return f"data: {text}\n\n".encode()


CALL = agent.call("read", {"id": 1})


@pytest.mark.parametrize("form", [agent.events, agent.array], ids=["events", "array"])
def test_events_and_arrays_read_the_same(form: Any) -> None:
    stream = form(agent.piece({"text": "Hi"}), agent.piece(CALL), agent.piece({"text": ""}, finish="STOP"))
    reader, _ = read(stream)
    turn = reader.turn()
    assert (turn.text, turn.finish, turn.id) == ("Hi", ("STOP",), "resp_1")
    assert [(call.name, call.arguments) for call in turn.calls] == [("read", '{"id": 1}')]
    assert json.loads(turn.message)["parts"] == [{"text": "Hi"}, CALL, {"text": ""}]
    assert [event.text for event in happened(stream, TextDelta)] == ["Hi"]
    assert len(happened(stream, StreamEnded)) == (form is agent.array)


def fragments(*given: dict[str, Any], name: str = "read", more: bool = False) -> dict[str, Any]:
    said: dict[str, Any] = {"partialArgs": list(given)}
    if name:
        said["name"] = name
    return {"functionCall": {**said, "willContinue": True} if more else said}


def part(path: str, more: bool = False, **value: Any) -> dict[str, Any]:
    return {"jsonPath": path, **value, **({"willContinue": True} if more else {})}


def test_a_call_in_pieces_is_whole_when_no_piece_follows() -> None:
    stream = agent.events(
        agent.piece({"functionCall": {"name": "read", "willContinue": True}}),
        agent.piece(fragments(part("$.city", True, stringValue="Os"), name="", more=True)),
        agent.piece(fragments(part("$.city", stringValue="lo"), name="", more=True)),
        agent.piece(
            fragments(part("$.days[0].n", numberValue=2), part("$['a.b']", boolValue=True), more=True)
        ),
        agent.piece(fragments(part("$.none", nullValue="NULL_VALUE"), name="", more=True)),
        agent.piece({"functionCall": {}}),
        agent.piece({"text": ""}, finish="STOP"),
    )
    (ready,) = happened(stream, CallReady)
    assert ready.call.name == "read"
    expected = {"city": "Oslo", "days": [{"n": 2}], "a.b": True, "none": None}
    assert json.loads(ready.call.arguments) == expected
    (said,) = [one for one in json.loads(read(stream)[0].turn().message)["parts"] if "functionCall" in one]
    assert said["functionCall"] == {"name": "read", "args": expected}


def test_a_call_whose_end_never_comes_is_never_ready() -> None:
    """C11."""
    stream = agent.events(
        agent.piece(fragments(part("$.a", stringValue="x"), more=True)),
        agent.piece({"text": ""}, finish="STOP"),
    )
    assert happened(stream, CallReady) == []
    assert happened(stream, StreamFailed)
    assert not happened(stream, ChoiceEnded)


@pytest.mark.parametrize(
    "given",
    [
        [part("$.a", stringValue="x"), part("$.a", stringValue="y")],
        [part("$.a", numberValue=1), part("$.a", True, numberValue=2)],
        [part("a", stringValue="x")],
        [part("$", stringValue="x")],
        [part("$.a b[", stringValue="x")],
        [part("$.a[5]", stringValue="x")],
        [part("$.a[99999999999]", stringValue="x")],
        [part("$.a" * 1, stringValue="x"), part("$.a.b", stringValue="x")],
        [part("$" + ".a" * 5000, stringValue="x")],
        [part("$[0]", stringValue="x")],
        [7],
    ],
)
def test_pieces_that_fit_nowhere_fail_the_stream(given: list[Any]) -> None:
    stream = agent.events(agent.piece(fragments(*given)))
    assert happened(stream, StreamFailed)
    assert not happened(stream, CallReady)


def test_a_call_that_begins_within_another_fails_the_stream() -> None:
    stream = agent.events(
        agent.piece({"functionCall": {"name": "a", "willContinue": True}}), agent.piece(agent.call("b", {}))
    )
    assert happened(stream, StreamFailed)


def test_calls_of_tools_that_were_not_offered_are_calls() -> None:
    stream = agent.events(agent.piece(CALL, finish="UNEXPECTED_TOOL_CALL"))
    assert [event.call.name for event in happened(stream, CallReady)] == ["read"]
    assert finishes(stream) == ["UNEXPECTED_TOOL_CALL"]


def test_a_blocked_prompt_is_an_end() -> None:
    stream = agent.events({"promptFeedback": {"blockReason": "SAFETY"}, "usageMetadata": agent.USAGE})
    assert finishes(stream) == ["BLOCKED"]


def test_words_may_be_numbers() -> None:
    one = agent.piece(CALL)
    one["candidates"][0]["finishReason"] = 1
    assert finishes(agent.events(one)) == ["1"]


def test_an_error_inside_the_stream_fails_it() -> None:
    error = {"error": {"code": 503, "message": "Overloaded.", "status": "UNAVAILABLE"}}
    for stream in (agent.events(error), agent.array(agent.piece({"text": "a"}), error)):
        (failed,) = happened(stream, StreamFailed)
        assert (failed.problem.status, failed.problem.message) == (503, "Overloaded.")


HIDDEN = '{"functionCall":{"name":"a"}}'


@pytest.mark.parametrize(
    "text",
    [
        "[]",
        "{",
        "7",
        HIDDEN,
        f'{{"promptFeedback":{HIDDEN}}}',
        f'{{"candidates":[{HIDDEN}]}}',
        f'{{"candidates":[{{"content":{HIDDEN}}}]}}',
        f'{{"candidates":[{{"groundingMetadata":{{"x":[{HIDDEN}]}}}}]}}',
        f'{{"Candidates":[{{"content":{{"parts":[{HIDDEN}]}}}}]}}',
        f'{{"candidates":[{{"content":{{"Parts":[{HIDDEN}]}}}}]}}',
        f'{{"candidates":[{{"content":{{"parts":{HIDDEN}}}}}]}}',
        f'{{"candidates":[{{"content":[{HIDDEN}]}}]}}',
        f'{{"candidates":[{{"content":{{"parts":[{{"x":{HIDDEN}}}]}}}}]}}',
        '{"candidates":[{"content":{"parts":[{"FunctionCall":{"name":"a"}}]}}]}',
        '{"candidates":[{"content":{"parts":[{"\\u0046unctionCall":{"name":"a"}}]}}]}',
        '{"candidates":[{"content":{"parts":[{"function_Call":{"name":"a"}}]}}]}',
        '{"candidates":[{"content":{"parts":[{"functioncalls":[{"name":"a"}]}]}}]}',
        f'{{"candidates":[{{"content":{{"parts":[]}},"content":{{"parts":[{HIDDEN}]}}}}]}}',
        '{"candidates":[{"index":0},{"index":0}]}',
        '{"candidates":[{"index":1},{}]}',
        '{"candidates":{"0":1}}',
        '{"candidates":[1]}',
    ],
)
def test_a_piece_that_clients_may_read_differently_fails_the_stream(text: str) -> None:
    """C11: fail closed; and no call is taken for judged."""
    assert happened(raw(text), StreamFailed)
    assert not happened(raw(text), CallReady)


def test_an_event_of_several_lines_is_one_text_and_no_line_of_it_another() -> None:
    """C11: the official client reads line by line."""
    whole = json.dumps(agent.piece(CALL), indent=1).encode()
    lines = b"".join(b"data: " + line + b"\n" for line in whole.splitlines()) + b"\n"
    assert [event.call.name for event in happened(lines, CallReady)] == ["read"]
    inner = json.dumps(agent.piece(agent.call("b", {})))
    split = f'data: {{"candidates":[{{"content":{{"parts":[{{"functionCall":{{"name":"a","args":\ndata: {inner}\ndata: }}}}]}}}}]}}\n\n'
    assert happened(split.encode(), StreamFailed)
    assert not happened(split.encode(), CallReady)


def test_a_key_that_occurs_twice_in_arguments_is_left_to_the_judge() -> None:
    """C3: the arguments are what stands on the wire."""
    text = '{"candidates":[{"content":{"parts":[{"functionCall":{"name":"a","args":{"b":1,"b":2}}}]}}]}'
    (ready,) = happened(raw(text), CallReady)
    assert ready.call.arguments == '{"b":1,"b":2}'


def test_what_a_tool_gave_or_is_asked_may_say_anything() -> None:
    inner = {"functionCall": {"name": "b"}}
    stream = agent.events(agent.piece(agent.call("a", inner)), agent.piece({"text": "functionCall"}))
    assert [event.call.name for event in happened(stream, CallReady)] == ["a"]
    assert not happened(stream, StreamFailed)


def test_several_choices_are_told_apart() -> None:
    one = agent.piece({"text": "a"})
    one["candidates"].append({"index": 1, "content": {"parts": [CALL]}})
    (ready,) = happened(agent.events(one), CallReady)
    assert ready.call.key == (1, 0)


def test_what_broke_off_is_left_out() -> None:
    reader, frames = read(agent.events(agent.piece({"text": "a"})) + b'data: {"candidates":[')
    assert reader.turn().text == "a"
    assert not any(isinstance(event, StreamFailed) for frame in frames for event in frame.events)
