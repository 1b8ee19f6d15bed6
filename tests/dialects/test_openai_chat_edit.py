"""What is changed in a Chat Completions request, and what stays where it was."""

import json
from typing import Any

import pytest

from proxy.core.messages import (
    ChoiceMode,
    Exchange,
    Malformed,
    MissingResult,
    RequestEdit,
    ToolCall,
    ToolChoice,
    ToolKind,
)
from proxy.dialects.openai_chat_edit import edit_request

Json = dict[str, Any]
USER: Json = {"role": "user", "content": "Hi"}
NONE = ToolChoice(ChoiceMode.NONE)


def function(name: str) -> Json:
    return {"type": "function", "function": {"name": name, "parameters": {"type": "object"}}}


DELETE, READ, FORK = map(function, ("delete_repo", "read_repo", "fork_repo"))
CUSTOM = {"type": "custom", "custom": {"name": "calc"}}


def body_of(**more: Any) -> bytes:
    return json.dumps({"model": "m", "messages": [USER]} | more).encode()


def edited(edit: RequestEdit, **more: Any) -> Json:
    result: Json = json.loads(edit_request(body_of(**more), edit))
    return result


def keeping(*names: str) -> RequestEdit:
    return RequestEdit(keep_tools=frozenset(names))


def test_with_no_tool_left_nothing_speaks_of_tools() -> None:
    """D1, D15: a provider refuses a tool choice without tools."""
    more: Json = {"tools": [DELETE], "tool_choice": "required", "parallel_tool_calls": True}
    assert edited(keeping("read_repo"), **more) == {"model": "m", "messages": [USER]}
    legacy: Json = {"functions": [{"name": "delete_repo"}], "function_call": "auto"}
    assert edited(keeping("read_repo"), **legacy) == {"model": "m", "messages": [USER]}
    both = edited(keeping("read_repo"), **more, functions=[{"name": "read_repo"}])
    assert both == {"model": "m", "messages": [USER], "functions": [{"name": "read_repo"}]}


def test_a_forced_tool_that_is_gone_is_forced_no_more() -> None:
    """D15."""
    more: Json = {
        "tools": [DELETE, READ, FORK],
        "tool_choice": {"type": "function", "function": {"name": "delete_repo"}},
    }
    result = edited(keeping("read_repo"), **more)
    assert (result["tools"], result["tool_choice"]) == ([READ], "auto")
    assert list(result) == ["model", "messages", "tools", "tool_choice"]
    stays = {"type": "function", "function": {"name": "read_repo"}}
    assert edited(keeping("read_repo"), tools=[DELETE, READ], tool_choice=stays)["tool_choice"] == stays


def test_the_list_of_permitted_tools_is_narrowed_too() -> None:
    choice = {
        "type": "allowed_tools",
        "allowed_tools": {
            "mode": "auto",
            "tools": [DELETE, {"type": "custom", "custom": {"name": "calc"}}, READ],
        },
    }
    result = edited(keeping("read_repo", "calc"), tools=[DELETE, READ, CUSTOM], tool_choice=choice)
    assert result["tool_choice"]["allowed_tools"]["tools"] == [CUSTOM, READ]
    only = {"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": [DELETE]}}
    assert edited(keeping("read_repo"), tools=[DELETE, READ], tool_choice=only)["tool_choice"] == "auto"


def test_kept_tools_keep_their_bytes() -> None:
    """A7."""
    body = b'{"tools": [ {"type":"function","function":{"name":"a"}} ,  {"function": {"name":"b","x": 1.0}, "type":"function"}]}'
    assert edit_request(body, keeping("b")) == (
        b'{"tools": [ {"function": {"name":"b","x": 1.0}, "type":"function"}]}'
    )
    assert edit_request(body, keeping("a", "b", "c")) is body


@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        (NONE, "none"),
        (ToolChoice(), "auto"),
        (ToolChoice(ChoiceMode.REQUIRED), "required"),
        (
            ToolChoice(ChoiceMode.NAMED, ("read_repo",)),
            {"type": "function", "function": {"name": "read_repo"}},
        ),
        (ToolChoice(ChoiceMode.NAMED, ("calc",)), {"type": "custom", "custom": {"name": "calc"}}),
        (
            ToolChoice(ChoiceMode.AUTO, ("read_repo",)),
            {
                "type": "allowed_tools",
                "allowed_tools": {
                    "mode": "auto",
                    "tools": [{"type": "function", "function": {"name": "read_repo"}}],
                },
            },
        ),
    ],
)
def test_the_tool_choice_is_set(choice: ToolChoice, expected: Any) -> None:
    """B3, D15."""
    edit = RequestEdit(tool_choice=choice)
    assert edited(edit, tools=[READ, CUSTOM], tool_choice="required")["tool_choice"] == expected
    inserted = edited(edit, tools=[READ, CUSTOM])
    assert (list(inserted)[-1], inserted["tool_choice"]) == ("tool_choice", expected)


def test_without_tools_there_is_no_tool_choice() -> None:
    assert edited(RequestEdit(tool_choice=NONE)) == {"model": "m", "messages": [USER]}
    edit = RequestEdit(keep_tools=frozenset(), tool_choice=NONE)
    assert edited(edit, tools=[READ]) == {"model": "m", "messages": [USER]}
    legacy = edited(RequestEdit(tool_choice=NONE), functions=[{"name": "f"}], function_call={"name": "f"})
    assert legacy["function_call"] == "none"


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, {"include_usage": True}),
        ({"stream_options": None}, {"include_usage": True}),
        ({"stream_options": {"x": 1}}, {"x": 1, "include_usage": True}),
        ({"stream_options": {"include_usage": False, "x": 1}}, {"include_usage": True, "x": 1}),
    ],
)
def test_usage_is_asked_for_in_streams(options: Json, expected: Json) -> None:
    """E4: what a stream costs is known."""
    edit = RequestEdit(ask_usage=True)
    assert edited(edit, stream=True, **options)["stream_options"] == expected
    asks = body_of(stream=True, stream_options={"include_usage": True})
    assert edit_request(asks, edit) is asks
    whole = body_of()
    assert edit_request(whole, edit) is whole


@pytest.mark.parametrize(
    ("newest", "expected"),
    [
        ([{"role": "user", "content": "Hi"}], [{"role": "user", "content": "Hi\n\nAnswer."}]),
        ([{"role": "user", "content": ""}], [{"role": "user", "content": "Answer."}]),
        (
            [{"role": "tool", "tool_call_id": "c1", "content": 'a "b"\\'}],
            [{"role": "tool", "tool_call_id": "c1", "content": 'a "b"\\\n\nAnswer.'}],
        ),
        (
            [{"role": "user", "content": [{"type": "text", "text": "Hi"}]}],
            [
                {
                    "role": "user",
                    "content": [{"type": "text", "text": "Hi"}, {"type": "text", "text": "Answer."}],
                }
            ],
        ),
        (
            [{"role": "assistant", "content": "So"}],
            [{"role": "assistant", "content": "So"}, {"role": "user", "content": "Answer."}],
        ),
        ([{"role": "user"}], [{"role": "user"}, {"role": "user", "content": "Answer."}]),
        ([], [{"role": "user", "content": "Answer."}]),
    ],
)
def test_a_note_joins_the_newest_message_if_that_is_not_the_models(
    newest: list[Json], expected: list[Json]
) -> None:
    """A7: a note at the tail breaks no cache."""
    assert edited(RequestEdit(note="Answer."), messages=newest)["messages"] == expected


def call(id_: str, name: str = "f", choice: int = 0, kind: ToolKind = ToolKind.FUNCTION) -> ToolCall:
    return ToolCall(id_, name, "{}", (choice, 0), kind)


def asking(*ids: str) -> Json:
    calls = [{"id": id_, "type": "function", "function": {"name": "f", "arguments": "{}"}} for id_ in ids]
    return {"role": "assistant", "content": None, "tool_calls": calls}


def result(id_: str, text: str) -> Json:
    return {"role": "tool", "tool_call_id": id_, "content": text}


def test_missing_results_come_behind_their_calls() -> None:
    """C7."""
    messages = [USER, asking("c1", "c2"), result("c1", "x"), USER, asking("c3", "c4")]
    edit = RequestEdit(
        missing_results=(
            MissingResult(1, call("c2"), "lost"),
            MissingResult(4, call("c3"), "lost"),
            MissingResult(4, call("c4"), "lost"),
        ),
        note="Go on.",
    )
    assert edited(edit, messages=messages)["messages"] == [
        *messages[:2],
        result("c2", "lost"),
        *messages[2:],
        result("c3", "lost"),
        result("c4", "lost\n\nGo on."),
    ]


def test_results_for_thousands_of_calls_are_written_in_one_go() -> None:
    """C7: one small request of an agent must not keep all others waiting; read anew for each call, this takes minutes."""
    ids = [f"call_{number}" for number in range(10_000)]
    missing = tuple(MissingResult(1, call(id_), "lost") for id_ in ids)
    messages = edited(RequestEdit(missing_results=missing), messages=[USER, asking(*ids)])["messages"]
    assert [message["tool_call_id"] for message in messages[2:]] == ids


def test_a_legacy_call_gets_a_legacy_result() -> None:
    asked = {"role": "assistant", "content": None, "function_call": {"name": "f", "arguments": "{}"}}
    lost = {"role": "function", "name": "f", "content": "lost"}
    edit = RequestEdit(missing_results=(MissingResult(1, call("function_call_1"), "lost"),))
    assert edited(edit, messages=[USER, asked])["messages"] == [USER, asked, lost]
    exchange = Exchange(json.dumps(asked).encode(), ((call("made_1"), "lost"),))
    assert edited(RequestEdit(exchanges=(exchange,)))["messages"] == [USER, asked, lost]


def test_of_several_choices_the_first_ones_calls_get_results() -> None:
    """Both choices may carry the same id."""
    refused = ((call("c1"), "no"), (call("c1", choice=1), "no"), (call("c9", choice=1), "no"))
    exchange = Exchange(json.dumps(asking("c1")).encode(), refused)
    assert edited(RequestEdit(exchanges=(exchange,)))["messages"] == [USER, asking("c1"), result("c1", "no")]


def test_an_exchange_keeps_the_bytes_of_the_models_message() -> None:
    message = b'{"role":"assistant","content":"a\\u0301","reasoning_content":"hm"}'
    body = edit_request(body_of(), RequestEdit(exchanges=(Exchange(message, ()),), note="Mend it."))
    assert message in body
    assert json.loads(body)["messages"][-1] == {"role": "user", "content": "Mend it."}


def test_a_cap_on_output_is_lowered_where_it_stands() -> None:
    edit = RequestEdit(max_output=50)
    assert edited(edit, max_tokens=70)["max_tokens"] == 50
    assert edited(edit, max_tokens=30) == json.loads(body_of(max_tokens=30))
    assert edited(edit, max_completion_tokens=70, max_tokens=20)["max_completion_tokens"] == 50
    assert edited(edit)["max_completion_tokens"] == 50
    assert "max_completion_tokens" not in edited(edit, max_tokens=70)


def test_everything_at_once_is_one_valid_request() -> None:
    edit = RequestEdit(
        keep_tools=frozenset({"read_repo"}),
        tool_choice=NONE,
        ask_usage=True,
        exchanges=(Exchange(json.dumps(asking("c1")).encode(), ((call("c1"), "no"),)),),
        note="Answer.",
        max_output=9,
    )
    more: Json = {"tools": [DELETE, READ], "tool_choice": "auto", "stream": True, "max_tokens": 70}
    assert edited(edit, **more) == {
        "model": "m",
        "messages": [USER, asking("c1"), result("c1", "no\n\nAnswer.")],
        "tools": [READ],
        "tool_choice": "none",
        "stream": True,
        "max_tokens": 9,
        "stream_options": {"include_usage": True},
    }


def test_bytes_before_the_first_change_stay() -> None:
    """A7: the prefix cache survives."""
    body = b' {"model" : "m",  "temperature": 1.0, "messages" : [ {"role":"user","content":"caf\\u00e9"} ] , "x":[1, 2]}'
    changed = edit_request(body, RequestEdit(note="Answer."))
    assert changed == body.replace(b"caf\\u00e9", b"caf\\u00e9\\n\\nAnswer.")


@pytest.mark.parametrize(
    "body", [b"[]", b"{", b'{"messages":7}', b'{"messages":[7]}', b'{"tools":[{}],"messages":[]}']
)
def test_what_is_no_request_is_malformed(body: bytes) -> None:
    with pytest.raises(Malformed):
        edit_request(body, RequestEdit(note="x", keep_tools=frozenset({"f"})))
