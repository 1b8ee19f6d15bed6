"""Whole Chat Completions answers: what is read, what is taken out, what is put in."""

import json
from itertools import count
from typing import Any

import pytest

from proxy.core.messages import Malformed, Request, ToolKind, Turn, Usage
from proxy.dialects.openai_chat_answer import edit_response, parse_response, render_answer
from tests.dialects.chat_agent import sdk_calls, sdk_reads

Json = dict[str, Any]
USAGE = {"prompt_tokens": 200, "completion_tokens": 30, "total_tokens": 230}


def entry(id_: str | None, name: str = "f", arguments: str = "{}") -> Json:
    function = {"name": name, "arguments": arguments}
    return ({} if id_ is None else {"id": id_}) | {"type": "function", "function": function}


def choice(number: int = 0, finish: str = "tool_calls", **message: Any) -> Json:
    whole = {"role": "assistant", "content": None} | message
    return {"index": number, "message": whole, "finish_reason": finish}


def answer(*choices: Json, **more: Any) -> bytes:
    head = {"id": "chatcmpl-k1", "object": "chat.completion", "created": 1790000000, "model": "maple-1"}
    return json.dumps(head | {"choices": list(choices), "usage": USAGE} | more, indent=1).encode()


def parse(body: bytes) -> Turn:
    numbers = count(1)
    return parse_response(body, lambda: f"made_{next(numbers)}")


def edit(body: bytes, refused: set[tuple[int, int]], note: str = "", earlier: tuple[Turn, ...] = ()) -> Json:
    changed: Json = json.loads(edit_response(body, parse(body), refused, note, earlier))
    return changed


def test_all_of_an_answer_is_read() -> None:
    body = answer(
        choice(content="Look.", tool_calls=[entry("c1", "f", '{"a": 1.0}'), entry(None, "g")], refusal=None),
        choice(1, "stop", content="Or not.", executed_tools=[{"type": "search", "arguments": "{}"}]),
    )
    turn = parse(body)
    assert (turn.id, turn.model, turn.text, turn.finish) == (
        "chatcmpl-k1",
        "maple-1",
        "Look.",
        ("tool_calls", "stop"),
    )
    assert [(call.id, call.name, call.arguments, call.key, call.made_id) for call in turn.calls] == [
        ("c1", "f", '{"a": 1.0}', (0, 0), False),
        ("made_1", "g", "{}", (0, 1), True),
    ]
    assert [(call.name, call.kind) for call in turn.hosted_calls] == [("search", ToolKind.HOSTED)]
    assert turn.usage == Usage(200, 30)
    assert json.loads(turn.message) == {
        "role": "assistant",
        "content": "Look.",
        "tool_calls": [entry("c1", "f", '{"a": 1.0}'), entry("made_1", "g")],
    }


def test_calls_count_whatever_the_finish_word_says() -> None:
    """C11."""
    for finish in ("stop", "", "length", "tool_calls"):
        assert len(parse(answer(choice(finish=finish, tool_calls=[entry("c1")]))).calls) == 1


def test_what_the_provider_wants_to_see_again_is_kept() -> None:
    signed = entry("c1") | {"index": 0, "extra_content": {"google": {"thought_signature": "x"}}}
    silent = {"id": "c2", "type": "function", "function": {"name": "g"}}
    message = json.loads(parse(answer(choice(tool_calls=[signed, silent], reasoning_content="hm"))).message)
    assert message["reasoning_content"] == "hm"
    assert message["tool_calls"][0]["extra_content"] == signed["extra_content"]
    assert "index" not in message["tool_calls"][0]
    assert message["tool_calls"][1]["function"] == {"name": "g", "arguments": "{}"}


def test_a_legacy_call_is_a_call() -> None:
    body = answer(choice(finish="function_call", function_call={"name": "f", "arguments": "{}"}))
    turn = parse(body)
    assert [(call.name, call.made_id) for call in turn.calls] == [("f", True)]
    assert json.loads(turn.message)["function_call"] == {"name": "f", "arguments": "{}"}
    assert edit(body, set()) == json.loads(body)
    changed = edit(body, {(0, 0)}, "No.")["choices"][0]
    assert changed == {
        "index": 0,
        "message": {"role": "assistant", "content": "No."},
        "finish_reason": "stop",
    }


def test_of_two_calls_one_is_taken_out() -> None:
    """C10, C7: the other keeps its bytes, and the finish word its truth."""
    body = answer(choice(tool_calls=[entry("c1", "read"), entry("c2", "drop", '{"id":9}')]))
    changed = edit(body, {(0, 1)})["choices"][0]
    assert changed == choice(tool_calls=[entry("c1", "read")])
    assert edit(body, {(0, 0)})["choices"][0] == choice(tool_calls=[entry("c2", "drop", '{"id":9}')])


def test_with_the_last_call_the_promise_of_calls_goes() -> None:
    """D5."""
    body = answer(choice(content="I will tidy up.", tool_calls=[entry("c1"), entry("c2")]))
    changed = edit(body, {(0, 0), (0, 1)}, "Not allowed.")["choices"][0]
    assert changed == choice(finish="stop", content="I will tidy up.\n\nNot allowed.")
    odd = answer(choice(finish="length", tool_calls=[entry("c1")]))
    assert edit(odd, {(0, 0)})["choices"][0] == choice(finish="length")


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (None, "A\n\nB"),
        ("", "A\n\nB"),
        ("x", "A\n\nx\n\nB"),
        (
            [{"type": "text", "text": "x"}],
            [{"type": "text", "text": "A\n\n"}, {"type": "text", "text": "x"}, {"type": "text", "text": "B"}],
        ),
        ([], [{"type": "text", "text": "A"}, {"type": "text", "text": "B"}]),
        ({"t": 1}, 'A\n\n{"t":1}\n\nB'),
    ],
)
def test_text_is_put_before_and_behind_every_form_of_content(content: Any, expected: Any) -> None:
    """C2: what earlier rounds said, and why a call is missing."""
    body = answer(choice(content=content, tool_calls=[entry("c1")]))
    earlier = (Turn(text="A", usage=Usage(10, 5)), Turn(text=""))
    changed = edit(body, {(0, 0)}, "B", earlier)
    assert changed["choices"][0]["message"]["content"] == expected
    assert changed["usage"] == {"prompt_tokens": 210, "completion_tokens": 35, "total_tokens": 245}


def test_a_choice_without_a_message_gets_one_to_hold_the_text() -> None:
    body = answer({"index": 0, "finish_reason": "content_filter"})
    assert parse(body).message == b'{"role":"assistant","content":null}'
    changed = edit(body, set(), "", (Turn(text="A"),))["choices"][0]
    assert changed["message"] == {"role": "assistant", "content": "A"}


def test_made_ids_are_written_into_kept_calls() -> None:
    """C3: never an id-less call."""
    body = answer(choice(tool_calls=[entry(""), entry(None, "g"), entry("c3")]))
    read = sdk_reads(edit_response(body, parse(body), {(0, 0)}, "", ()))
    assert sdk_calls(read) == [("made_2", "g", "{}"), ("c3", "f", "{}")]


def test_each_choice_stands_alone() -> None:
    """C10: both choices may carry the same id."""
    calls = [entry("c1", "f")]
    body = answer(choice(tool_calls=calls), choice(1, tool_calls=calls))
    changed = edit(body, {(1, 0)}, "No.")["choices"]
    assert changed == [choice(tool_calls=calls), choice(1, "stop", content="No.")]


def test_arguments_of_kept_calls_are_the_same_text() -> None:
    """The bytes judged are the bytes that the tool gets."""
    odd = '  {"path" : "\\/srv", "path":"x", "n": 1.0}\n'
    body = answer(choice(tool_calls=[entry("c1", "drop"), entry("c2", "f", odd)]))
    assert parse(body).calls[1].arguments == odd
    assert edit(body, {(0, 0)})["choices"][0]["message"]["tool_calls"][0]["function"]["arguments"] == odd


def test_an_error_with_status_200_is_an_error() -> None:
    turn = parse(b'{"error":{"message":"Overloaded","code":502}}')
    assert turn.error is not None
    assert (turn.error.status, turn.error.message) == (502, "Overloaded")
    assert turn.message == b""


@pytest.mark.parametrize(
    "body",
    [
        b'{"choices":[7]}',
        b'{"choices":[{"message":7}]}',
        b'{"choices":[{"message":{"tool_calls":[7]}}]}',
        b'{"choices":[{"message":{},"delta":{"tool_calls":[{"function":{"name":"f"}}]}}]}',
    ],
)
def test_an_answer_in_which_a_call_may_hide_is_malformed(body: bytes) -> None:
    """Fail closed."""
    with pytest.raises(Malformed):
        parse(body)


def test_an_answer_with_double_keys_cannot_be_edited() -> None:
    body = b'{"choices":[{"message":{"tool_calls":[{"id":"a","function":{"name":"f"}}],"content":"","content":"x"}}]}'
    with pytest.raises(Malformed, match="a key occurs twice"):
        edit_response(body, parse(body), {(0, 0)}, "", ())


def test_an_answer_by_program_fills_every_choice() -> None:
    """E7."""
    request = Request("openai-chat", "maple-1", (), choices=2)
    body = json.loads(render_answer(request, "own_1", "Stopped.", Usage(3, 2, 1), 7))
    assert [one["message"]["content"] for one in body["choices"]] == ["Stopped.", "Stopped."]
    assert (body["created"], body["usage"]["total_tokens"]) == (7, 5)
