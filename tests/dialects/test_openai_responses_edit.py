"""A request of the Responses API with an edit spliced in, where the agent keeps the history and where the provider does."""

import json
from typing import Any

import pytest

from proxy.core.messages import (
    ChoiceMode,
    Exchange,
    Malformed,
    MissingResult,
    RequestEdit,
    ResultText,
    TextExchange,
    ToolCall,
    ToolChoice,
)
from proxy.demo.strict_responses import Remembered, complaint
from proxy.dialects.openai_responses_edit import edit_request
from proxy.dialects.openai_responses_request import parse_request

USER = {"role": "user", "content": "Hi"}
CALL = {"type": "function_call", "id": "fc_1", "call_id": "c1", "name": "f", "arguments": "{}"}
RESULT = {"type": "function_call_output", "call_id": "c1", "output": "done"}
THOUGHT = {"type": "reasoning", "id": "rs_1", "summary": []}
SEALED = THOUGHT | {"encrypted_content": "abc"}
REFUSED = Exchange(
    json.dumps([THOUGHT, CALL]).encode(), ((ToolCall("c1", "f", "{}"), "Not run."),), answer="resp_2"
)
TOOLS = [{"type": "function", "name": "f"}, {"type": "web_search"}, {"type": "custom", "name": "g"}]


def body_of(*items: object, **more: Any) -> bytes:
    given: Any = items[0] if len(items) == 1 and isinstance(items[0], str) else list(items)
    return json.dumps({"model": "m", "input": given} | more).encode()


def edited(body: bytes, **edit: Any) -> Any:
    return json.loads(edit_request(body, RequestEdit(**edit)))


def outputs(request: Any) -> list[tuple[str, str]]:
    return [(item["call_id"], item["output"]) for item in request["input"] if "output" in item]


def is_sound(request: Any, **remembered: Any) -> bool:
    return complaint(request, Remembered(**remembered)) is None


# --- the agent keeps the history ---


def test_a_refused_turn_and_its_refusal_come_behind_the_history() -> None:
    """A2, C7."""
    request = edited(body_of(USER), exchanges=(REFUSED,), note="Mend it.")
    assert [item.get("type") for item in request["input"]] == [
        None,
        "reasoning",
        "function_call",
        "function_call_output",
        None,
    ]
    assert request["input"][-1] == {"role": "user", "content": "Mend it."}
    assert is_sound(request)


def test_a_text_becomes_an_item_in_front_of_a_refused_turn() -> None:
    """A7: with its own bytes."""
    body = b'{"model":"m","input":"H\\u0069","x":1}'
    sent = edit_request(body, RequestEdit(exchanges=(REFUSED,)))
    assert b'{"role":"user","content":"H\\u0069"}' in sent
    assert json.loads(sent)["x"] == 1


@pytest.mark.parametrize(("thought", "stays"), [(THOUGHT, False), (SEALED, True)])
def test_what_the_provider_did_not_keep_is_not_named(thought: dict[str, Any], stays: bool) -> None:
    """C7: it would not find it."""
    turn = Exchange(json.dumps([thought, CALL]).encode(), REFUSED.results)
    request = edited(body_of(USER, store=False), exchanges=(turn,))
    assert any(item.get("type") == "reasoning" for item in request["input"]) is stays


def test_calls_in_text_are_answered_in_text() -> None:
    """C3."""
    request = edited(body_of(USER), exchanges=(TextExchange("<call/>", "Not run."),))
    assert request["input"][1]["role"] == "assistant"
    assert request["input"][2] == {"role": "user", "content": "Not run."}


def test_a_call_without_a_result_gets_one_right_behind_it() -> None:
    """C7."""
    missing = MissingResult(1, ToolCall("c1", "f", "{}"), "It never came.")
    request = edited(body_of(USER, CALL, USER), missing_results=(missing,))
    assert outputs(request) == [("c1", "It never came.")]
    assert request["input"][2]["call_id"] == "c1"
    assert is_sound(request)


def test_a_result_is_replaced_and_its_pictures_stay() -> None:
    """A5."""
    picture = {"type": "input_image", "image_url": "data:x"}
    parts = [{"type": "input_text", "text": "old"}, picture]
    body = body_of(USER, CALL, RESULT, RESULT | {"output": parts})
    request = edited(body, results=(ResultText(2, 0, "new"), ResultText(3, 0, "new")))
    assert request["input"][2]["output"] == "new"
    assert request["input"][3]["output"] == [{"type": "input_text", "text": "new"}, picture]


# --- the provider keeps it ---


def test_refusals_go_on_from_the_answer_that_holds_the_calls() -> None:
    """C7: and nothing that is there already is said again."""
    body = body_of(USER, previous_response_id="resp_1")
    request = edited(body, exchanges=(REFUSED,), note="Mend it.", owed=((ToolCall("c0", "f", ""), "no"),))
    assert request["previous_response_id"] == "resp_2"
    assert outputs(request) == [("c1", "Not run.")]
    assert request["input"][-1] == {"role": "user", "content": "Mend it."}
    assert is_sound(request, answers={"resp_2": [USER, CALL]})


def test_of_several_refused_turns_the_last_one_is_gone_on_from() -> None:
    second = Exchange(
        json.dumps([CALL | {"call_id": "c2"}]).encode(), ((ToolCall("c2", "f", ""), "No."),), "resp_3"
    )
    later = TextExchange("<call/>", "Not in text.")
    request = edited(body_of(USER, previous_response_id="resp_1"), exchanges=(REFUSED, second, later))
    assert request["previous_response_id"] == "resp_3"
    assert outputs(request) == [("c2", "No.")]
    assert request["input"][-1]["content"] == "Not in text."


def test_in_a_conversation_only_the_refusals_are_new() -> None:
    request = edited(body_of(USER, conversation="conv_1"), exchanges=(REFUSED,))
    assert request["conversation"] == "conv_1"
    assert outputs(request) == [("c1", "Not run.")]
    assert "previous_response_id" not in request
    assert is_sound(request, conversations={"conv_1": [USER, CALL]})


def test_an_answer_that_is_not_to_be_kept_is_sent_back_itself() -> None:
    """C7: it goes on from what is kept, and brings the rest along."""
    body = body_of(USER, previous_response_id="resp_1", store=False)
    request = edited(body, exchanges=(REFUSED,))
    assert request["previous_response_id"] == "resp_1"
    assert [item.get("type") for item in request["input"]] == [None, "function_call", "function_call_output"]
    assert is_sound(request, answers={"resp_1": []})


def test_what_is_owed_comes_in_front_of_all_that_is_new() -> None:
    """C7: of calls that the agent never saw."""
    owed = ((ToolCall("c0", "f", "{}"), "Refused."),)
    shell = ((ToolCall("c0", "shell", "{}", form="shell_call"), "Refused."),)
    listed = edited(body_of(RESULT, previous_response_id="resp_1"), owed=owed)
    said = edited(body_of("So?", previous_response_id="resp_1"), owed=owed)
    shelled = edited(body_of(RESULT, previous_response_id="resp_1"), owed=shell)
    assert outputs(listed) == [("c0", "Refused."), ("c1", "done")]
    assert [item.get("role") for item in said["input"]] == [None, "user"]
    assert shelled["input"][0]["type"] == "shell_call_output"


def test_what_is_owed_and_what_is_said_stand_apart_where_the_agent_says_nothing() -> None:
    request = edited(
        json.dumps({"model": "m", "input": []}).encode(),
        owed=((ToolCall("c0", "f", "{}"), "no"),),
        note="So.",
    )
    assert [item.get("role") for item in request["input"]] == [None, "user"]


def test_the_provider_s_own_id_stands_for_the_one_that_the_agent_knows() -> None:
    body = body_of(USER, previous_response_id="shown")
    request = edited(body, previous="actual")
    assert (request["previous_response_id"], request["input"]) == ("actual", [USER])
    assert edited(body, previous="") == {"model": "m", "input": [USER]}


# --- tools ---


def test_tools_are_narrowed_wherever_they_are_offered() -> None:
    """C10, D1: in the input too."""
    hidden = [{"type": "function", "name": "f"}, {"type": "function", "name": "h"}]
    items = [{"type": "additional_tools", "role": "developer", "tools": hidden}, USER]
    space = {"type": "namespace", "name": "n", "tools": hidden}
    request = edited(body_of(*items, tools=[*TOOLS, space]), keep_tools=frozenset({"f", "n.h"}))
    assert request["tools"] == [TOOLS[0], space | {"tools": hidden[1:]}]
    assert request["input"][0]["tools"] == hidden[:1]


def test_with_the_last_tool_goes_what_makes_no_sense_without() -> None:
    """D15."""
    body = body_of(USER, tools=TOOLS, tool_choice="required", parallel_tool_calls=False)
    assert edited(body, keep_tools=frozenset()) == {"model": "m", "input": [USER]}


CHOICES: dict[str, tuple[object, object]] = {
    "of one that stays": ({"type": "function", "name": "f"}, {"type": "function", "name": "f"}),
    "of one that is gone": ({"type": "custom", "name": "g"}, "auto"),
    "of some": (
        {"type": "allowed_tools", "mode": "auto", "tools": [TOOLS[0], TOOLS[2]]},
        {"type": "allowed_tools", "mode": "auto", "tools": [TOOLS[0]]},
    ),
    "a word": ("required", "required"),
}


@pytest.mark.parametrize(("before", "after"), CHOICES.values(), ids=CHOICES)
def test_a_tool_choice_names_nothing_that_is_gone(before: object, after: object) -> None:
    """D15."""
    request = edited(body_of(USER, tools=TOOLS, tool_choice=before), keep_tools=frozenset({"f"}))
    assert request["tool_choice"] == after


def test_the_model_can_be_told_not_to_call_and_to_be_short() -> None:
    """B3, E4."""
    none = ToolChoice(ChoiceMode.NONE)
    request = edited(body_of(USER, tools=TOOLS, max_output_tokens=90), tool_choice=none, max_output=50)
    assert (request["tool_choice"], request["max_output_tokens"], request["tools"]) == ("none", 50, TOOLS)


def test_a_prompt_of_the_provider_that_may_not_be_used_is_an_error() -> None:
    """D1: nothing would be left of the request."""
    body = body_of(USER, prompt={"id": "p1"})
    with pytest.raises(Malformed, match="prompt"):
        edit_request(body, RequestEdit(keep_tools=frozenset({"f"})))
    assert edited(body, keep_tools=frozenset({"prompt.p1"}))["prompt"] == {"id": "p1"}


def test_nothing_to_edit_is_the_very_object_and_a_body_that_is_no_request_malformed() -> None:
    """A7."""
    body = body_of(USER)
    assert edit_request(body, RequestEdit()) is body
    with pytest.raises(Malformed):
        edit_request(b'{"input":3', RequestEdit(note="x"))


def test_a_request_without_input_gets_one() -> None:
    sent = edit_request(b'{"model":"m","previous_response_id":"resp_1"}', RequestEdit(note="Go on."))
    assert parse_request(sent, "openai-responses").messages[-1].text == "Go on."
