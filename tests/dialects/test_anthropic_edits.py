"""Edits of requests and whole answers of the Messages API: valid to the provider, and no byte moved without need."""

import json
from typing import Any

import pytest
from hypothesis import given, strategies as st

from proxy.core.messages import (
    ChoiceMode,
    Exchange,
    Malformed,
    MissingResult,
    RequestEdit,
    ToolCall,
    ToolChoice,
    Turn,
    Usage,
)
from proxy.demo.strict_anthropic import complaint
from proxy.dialects.anthropic import ANTHROPIC
from proxy.dialects.anthropic_edits import rewritten
from tests.dialects.messages_agent import recordings, sdk_reads

Json = dict[str, Any]
VERSION = {"anthropic-version": "2023-06-01"}
READ = {"name": "read", "description": "r", "input_schema": {"type": "object"}}
DROP = {"name": "drop", "input_schema": {"type": "object"}, "cache_control": {"type": "ephemeral"}}
NONE = ToolChoice(ChoiceMode.NONE)


def use(call_id: str, name: str = "read") -> Json:
    return {"type": "tool_use", "id": call_id, "name": name, "input": {"x": 1.0}}


def result(call_id: str) -> Json:
    return {"type": "tool_result", "tool_use_id": call_id, "content": "ok"}


def body_of(**members: Any) -> bytes:
    body = {"model": "m", "max_tokens": 100, "messages": [{"role": "user", "content": "Hi"}]} | members
    return json.dumps(body).encode()


def edited(body: bytes, **edit: Any) -> Json:
    """The edited request, which the provider takes; what stands before the first change is as it was."""
    change = RequestEdit(**edit)
    text = ANTHROPIC.edit_request(body, change)
    read: Json = json.loads(text)
    found = complaint(read, VERSION)
    assert found is None, found
    ANTHROPIC.parse_request(text)
    return read


def test_no_edit_leaves_the_same_object() -> None:
    """C007: byte for byte."""
    body = body_of(tools=[READ])
    assert ANTHROPIC.edit_request(body, RequestEdit()) is body
    assert ANTHROPIC.edit_request(body, RequestEdit(keep_tools=frozenset({"read"}), ask_usage=True)) == body


# --- tools ------------------------------------------------------------------------------------------------------


def test_dropped_tools_leave_the_others_bytes_and_order() -> None:
    """A7, C026."""
    body = body_of(tools=[DROP, READ, {**DROP, "name": "drop2"}, {**READ, "name": "list"}])
    text = ANTHROPIC.edit_request(body, RequestEdit(keep_tools=frozenset({"read", "list"})))
    first, second = json.dumps(READ).encode(), json.dumps({**READ, "name": "list"}).encode()
    assert text == body[: body.index(b'[{"name"') + 1] + first + b", " + second + b"]}"


def test_nothing_left_means_no_tools_and_no_choice() -> None:
    """C026, D1."""
    body = body_of(tools=[DROP], tool_choice={"type": "tool", "name": "drop"}, mcp_servers=[{"name": "wiki"}])
    read = edited(body, keep_tools=frozenset({"read"}))
    assert not {"tools", "tool_choice", "mcp_servers"} & set(read)
    read = edited(
        body_of(tools=[DROP], tool_choice={"type": "any"}), keep_tools=frozenset(), tool_choice=NONE
    )
    assert not {"tools", "tool_choice"} & set(read)


def test_a_choice_that_names_a_dropped_tool_becomes_free() -> None:
    """C026, D15."""
    body = body_of(tools=[DROP, READ], tool_choice={"type": "tool", "name": "drop"})
    read = edited(body, keep_tools=frozenset({"read"}))
    assert read["tool_choice"] == {"type": "auto"}
    assert read["tools"] == [READ]
    kept = body_of(tools=[DROP, READ], tool_choice={"type": "tool", "name": "read"})
    assert edited(kept, keep_tools=frozenset({"read"}))["tool_choice"] == {"type": "tool", "name": "read"}


def test_hosted_tools_and_servers_are_dropped_like_others() -> None:
    search = {"type": "web_search_20250305", "name": "web_search"}
    wiki, docs = {"type": "url", "name": "wiki", "url": "u"}, {"type": "url", "name": "docs", "url": "u"}
    toolset = {"type": "mcp_toolset", "mcp_server_name": "wiki"}
    body = body_of(tools=[READ, search, toolset], mcp_servers=[wiki, docs])
    read = edited(body, keep_tools=frozenset({"read", "mcp.docs"}))
    assert (read["tools"], read["mcp_servers"]) == ([READ], [docs])
    assert edited(body, keep_tools=frozenset({"mcp.wiki"}))["tools"] == [toolset]


def test_skills_are_dropped_like_tools() -> None:
    """D1: what else is said of the container stays."""
    pdf, xlsx = ({"type": "anthropic", "skill_id": name} for name in ("pdf", "xlsx"))
    body = body_of(tools=[READ], container={"id": "c1", "skills": [pdf, xlsx]})
    some = edited(body, keep_tools=frozenset({"read", "skills.xlsx"}))
    assert some["container"] == {"id": "c1", "skills": [xlsx]}
    assert edited(body, keep_tools=frozenset({"read"}))["container"] == {"id": "c1"}
    all_of_it = body_of(tools=[READ], container={"skills": [pdf]})
    assert "container" not in edited(all_of_it, keep_tools=frozenset({"read"}))
    assert edited(body, keep_tools=frozenset({"read", "skills.pdf", "skills.xlsx"})) == json.loads(body)


def test_a_toolset_stays_while_one_of_its_members_may_be_used() -> None:
    computer = {"type": "computer_toolset_20260801"}
    body = body_of(tools=[READ, computer])
    assert edited(body, keep_tools=frozenset({"computer.zoom"}))["tools"] == [computer]
    assert edited(body, keep_tools=frozenset({"read"}))["tools"] == [READ]


def test_a_dropped_tool_is_not_added_in_mid_conversation() -> None:
    """D1: tools can be offered outside the list of tools."""
    definition = {"type": "tool_definition", "definition": DROP}
    added = {"type": "tool_addition", "tool": definition}
    named = {"type": "tool_addition", "tool": {"type": "tool_reference", "name": "read"}}
    server = {"type": "tool_addition", "tool": {"type": "mcp_toolset_reference", "mcp_server_name": "wiki"}}
    messages = [
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": "Ho"},
        {"role": "system", "content": [added, named, server]},
        {"role": "system", "content": [added]},
        {"role": "user", "content": "Go"},
    ]
    read = edited(body_of(tools=[READ], messages=messages), keep_tools=frozenset({"read"}))
    assert read["messages"] == [*messages[:2], {"role": "system", "content": [named]}, messages[4]]


def test_no_further_calls_keeps_the_tools_for_the_cache() -> None:
    """B3, A7: `tool_choice` none is allowed, with thinking too."""
    thinking = {"type": "enabled", "budget_tokens": 2000}
    body = body_of(tools=[READ], max_tokens=3000, thinking=thinking, tool_choice={"type": "auto"})
    read = edited(body, tool_choice=NONE)
    assert (read["tools"], read["tool_choice"]) == ([READ], {"type": "none"})
    assert "tool_choice" not in edited(body_of(), tool_choice=NONE)
    assert edited(body_of(tools=[READ]), tool_choice=ToolChoice(ChoiceMode.REQUIRED))["tool_choice"] == {
        "type": "any"
    }
    named = edited(body_of(tools=[READ]), tool_choice=ToolChoice(ChoiceMode.NAMED, ("read",)))
    assert named["tool_choice"] == {"type": "tool", "name": "read"}


def test_a_new_member_stands_behind_all_others() -> None:
    """A7: nothing before it moves."""
    body = body_of(tools=[READ])
    assert (
        ANTHROPIC.edit_request(body, RequestEdit(tool_choice=NONE))
        == body[:-1] + b',"tool_choice":{"type":"none"}}'
    )


# --- output -----------------------------------------------------------------------------------------------------


def test_the_output_is_lowered_and_never_raised() -> None:
    body = body_of(max_tokens=100)
    assert edited(body, max_output=40)["max_tokens"] == 40
    assert ANTHROPIC.edit_request(body, RequestEdit(max_output=400)) == body


@pytest.mark.parametrize(
    ("most", "wanted"),
    [
        (4000, {"type": "enabled", "budget_tokens": 3000}),
        (2400, {"type": "enabled", "budget_tokens": 1200}),
        (1500, {"type": "enabled", "budget_tokens": 1024}),
        (500, {"type": "disabled"}),
    ],
)
def test_the_thinking_budget_stays_below_the_output(most: int, wanted: Json) -> None:
    body = body_of(max_tokens=9000, thinking={"type": "enabled", "budget_tokens": 3000})
    read = edited(body, max_output=most)
    assert (read["max_tokens"], read["thinking"]) == (most, wanted)


# --- the conversation -------------------------------------------------------------------------------------------

REFUSED = json.dumps(
    {"role": "assistant", "content": [{"type": "text", "text": "So"}, use("t1"), use("t2")]}
).encode()
EXCHANGE = Exchange(
    REFUSED, ((ToolCall("t1", "read", "{}"), "no"), (ToolCall("t2", "read", "{}"), "nor this"))
)


def test_a_refused_turn_goes_back_with_its_refusals_in_order() -> None:
    """C7, C10: both halves of each pair."""
    body = body_of(tools=[READ])
    read = edited(body, exchanges=(EXCHANGE,))
    assert read["messages"][1] == json.loads(REFUSED)
    assert read["messages"][2] == {
        "role": "user",
        "content": [
            {"type": "tool_result", "tool_use_id": "t1", "is_error": True, "content": "no"},
            {"type": "tool_result", "tool_use_id": "t2", "is_error": True, "content": "nor this"},
        ],
    }
    assert ANTHROPIC.edit_request(body, RequestEdit(exchanges=(EXCHANGE,))).startswith(
        body[: body.index(b'"}]')]
    )


def test_the_note_stands_behind_the_newest_refusals() -> None:
    read = edited(body_of(tools=[READ]), exchanges=(EXCHANGE, EXCHANGE), note="Stop now.")
    assert len(read["messages"]) == 5
    assert read["messages"][4]["content"][-1] == {"type": "text", "text": "Stop now."}
    assert len(read["messages"][2]["content"]) == 2


def test_a_note_joins_the_last_user_message_behind_all_else() -> None:
    """A7: only the tail grows."""
    body = body_of()
    text = ANTHROPIC.edit_request(body, RequestEdit(note='Say "so".'))
    assert json.loads(text)["messages"][0]["content"] == 'Hi\n\nSay "so".'
    assert text.startswith(body[: body.index(b'Hi"') + 2])
    blocks = body_of(messages=[{"role": "user", "content": [{"type": "text", "text": "Hi"}]}])
    assert edited(blocks, note="N")["messages"][0]["content"][1] == {"type": "text", "text": "N"}


def test_a_note_after_an_assistants_message_is_a_message_of_its_own() -> None:
    messages = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Ho"}]
    read = edited(body_of(messages=messages), note="N")
    assert read["messages"] == [*messages, {"role": "user", "content": [{"type": "text", "text": "N"}]}]


def test_missing_results_stand_at_the_head_of_the_next_user_message() -> None:
    """C7: an interrupted call has a result too."""
    asked = [
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": [use("t1"), use("t2"), use("t3")]},
    ]
    missing = tuple(MissingResult(1, ToolCall(one, "read", "{}"), "gone") for one in ("t1", "t2"))
    answered = [*asked, {"role": "user", "content": [result("t3"), {"type": "text", "text": "And?"}]}]
    read = edited(body_of(tools=[READ], messages=answered), missing_results=missing)
    assert [block.get("tool_use_id") for block in read["messages"][2]["content"]] == ["t1", "t2", "t3", None]
    everything = (*missing, MissingResult(1, ToolCall("t3", "read", "{}"), "gone"))
    for content in ("Stop!", [{"type": "text", "text": "Stop!"}]):
        spoken = [*asked, {"role": "user", "content": content}]
        read = edited(body_of(tools=[READ], messages=spoken), missing_results=everything, note="N")
        last = read["messages"][2]["content"]
        assert [block.get("tool_use_id") for block in last[:3]] == ["t1", "t2", "t3"]
        assert "".join(block["text"] for block in last[3:]).replace("\n\n", "") == "Stop!N"
        assert len(read["messages"]) == 3


def test_missing_results_where_no_user_message_follows_get_one() -> None:
    uses = {"role": "assistant", "content": [use("t1")]}
    asked = [{"role": "user", "content": "Hi"}, uses]
    missing = (MissingResult(2, ToolCall("t1", "read", "{}"), "gone"),)
    read = edited(body_of(system="S", tools=[READ], messages=asked), missing_results=missing, note="N")
    assert [message["role"] for message in read["messages"]] == ["user", "assistant", "user", "user"]
    inside = [*asked, {"role": "assistant", "content": "Well"}, {"role": "user", "content": "?"}]
    read = edited(body_of(system="S", tools=[READ], messages=inside), missing_results=missing)
    assert [message["role"] for message in read["messages"]] == [
        "user",
        "assistant",
        "user",
        "assistant",
        "user",
    ]


def test_an_empty_text_gives_way_to_the_results() -> None:
    asked = [
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": [use("t1")]},
        {"role": "user", "content": ""},
    ]
    missing = (MissingResult(1, ToolCall("t1", "read", "{}"), "gone"),)
    read = edited(body_of(tools=[READ], messages=asked), missing_results=missing)
    assert len(read["messages"][2]["content"]) == 1


def test_all_edits_at_once_fit_together() -> None:
    asked = [
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": [use("t0")]},
        {"role": "user", "content": "So?"},
    ]
    read = edited(
        body_of(tools=[DROP, READ], tool_choice={"type": "tool", "name": "drop"}, messages=asked, system="S"),
        keep_tools=frozenset({"read"}),
        tool_choice=NONE,
        missing_results=(MissingResult(2, ToolCall("t0", "read", "{}"), "gone"),),
        exchanges=(EXCHANGE,),
        note="N",
        max_output=50,
        ask_usage=True,
    )
    assert (read["tools"], read["tool_choice"], read["max_tokens"]) == ([READ], {"type": "none"}, 50)
    assert [message["role"] for message in read["messages"]] == [
        "user",
        "assistant",
        "user",
        "assistant",
        "user",
    ]


@pytest.mark.parametrize("body", [b"[]", b"{", b'{"model":"m","messages":[],"messages":[]}'])
def test_what_is_no_request_cannot_be_edited(body: bytes) -> None:
    with pytest.raises(Malformed):
        ANTHROPIC.edit_request(body, RequestEdit(note="N"))


TOOL_NAMES = st.sampled_from(["read", "drop", "list", "web_search"])


@given(
    st.lists(TOOL_NAMES, unique=True),
    st.frozensets(TOOL_NAMES),
    st.none() | TOOL_NAMES,
    st.booleans(),
    st.integers(0, 3),
    st.booleans(),
)
def test_whatever_is_narrowed_the_provider_takes_it(
    offered: list[str], keep: frozenset[str], forced: str | None, last: bool, indent: int, note: bool
) -> None:
    """C026: whichever tools go, in whatever layout."""
    members: Json = {"tools": [{**READ, "name": name} for name in offered]} if offered else {}
    if forced in offered:
        members["tool_choice"] = {"type": "tool", "name": forced}
    body = json.dumps(json.loads(body_of(**members)), indent=indent or None).encode()
    choice = NONE if last else None
    read = edited(body, keep_tools=keep, tool_choice=choice, note="N" if note else "")
    assert [tool["name"] for tool in read.get("tools", [])] == [name for name in offered if name in keep]
    assert read["messages"][0]["content"] == ("Hi\n\nN" if note else "Hi")


def test_recorded_requests_stay_whole_under_a_note() -> None:
    for entry in recordings():
        body = entry["request"]["body"]
        if not isinstance(body, dict) or entry["id"] == "am-0e6a402d":
            continue
        text = json.dumps(body, ensure_ascii=False).encode()
        read = json.loads(ANTHROPIC.edit_request(text, RequestEdit(note="N", max_output=1)))
        assert read["messages"][:-1] == body["messages"][: len(read["messages"]) - 1], entry["id"]
        assert "N" in json.dumps(read["messages"][-1])


# --- whole answers ----------------------------------------------------------------------------------------------


def answer(*content: Json, finish: str = "tool_use", output: int = 40) -> bytes:
    usage = {
        "input_tokens": 80,
        "output_tokens": output,
        "cache_read_input_tokens": 5,
        "service_tier": "standard",
    }
    body: Json = {"id": "msg", "type": "message", "role": "assistant", "model": "m", "content": list(content)}
    return json.dumps(
        body | {"stop_reason": finish, "stop_sequence": None, "usage": usage}, indent=1
    ).encode()


def changed(body: bytes, *refused: str, note: str = "", earlier: tuple[Turn, ...] = ()) -> bytes:
    turn = ANTHROPIC.parse_response(body, lambda: "toolu_made")
    keys = {one.key for one in turn.calls if one.id in refused}
    return ANTHROPIC.edit_response(body, turn, keys, note, earlier)


BOTH = answer({"type": "text", "text": "Both now."}, use("toolu_r"), use("toolu_p", "purge"))


def test_of_two_calls_in_a_whole_answer_the_allowed_one_stays() -> None:
    """C005."""
    text = changed(BOTH, "toolu_p", note="Not run.")
    message = sdk_reads(text)
    assert [block.type for block in message.content] == ["text", "text", "tool_use"]
    assert message.content[1].to_dict()["text"] == "Not run."
    assert message.stop_reason == "tool_use"
    assert b"toolu_p" not in text
    assert json.dumps(use("toolu_r"), indent=1).encode().replace(b"\n", b"\n  ") in text


def test_a_whole_answer_without_calls_left_ends_ordinarily() -> None:
    message = sdk_reads(changed(BOTH, "toolu_p", "toolu_r", note="Not run."))
    assert [block.to_dict()["text"] for block in message.content if block.type == "text"] == [
        "Both now.",
        "Not run.",
    ]
    assert message.stop_reason == "end_turn"
    assert sdk_reads(changed(answer(use("t"), finish="max_tokens"), "t")).stop_reason == "max_tokens"


def test_nothing_to_change_leaves_the_same_object() -> None:
    assert changed(BOTH) is BOTH


def test_earlier_answers_stand_in_front_and_are_counted() -> None:
    earlier = (Turn(text="First.", usage=Usage(100, 10, 20, 30)), Turn(text=""), Turn(text="Second."))
    message = sdk_reads(
        changed(answer({"type": "text", "text": "Third."}, finish="end_turn"), earlier=earlier)
    )
    assert [block.to_dict()["text"] for block in message.content] == ["First.\n\nSecond.\n\n", "Third."]
    usage = message.usage
    assert (usage.input_tokens, usage.cache_read_input_tokens) == (130, 25)
    assert (usage.cache_creation_input_tokens, usage.output_tokens) == (30, 50)
    only = sdk_reads(changed(answer(use("t")), "t", note="N", earlier=earlier))
    assert [block.to_dict()["text"] for block in only.content] == ["First.\n\nSecond.\n\n", "N"]
    empty = sdk_reads(changed(answer(finish="end_turn"), earlier=earlier))
    assert [block.to_dict()["text"] for block in empty.content] == ["First.\n\nSecond."]


def test_an_id_that_was_made_is_written_into_the_whole_answer() -> None:
    message = sdk_reads(changed(answer({"type": "tool_use", "name": "read", "input": {"x": 1.0}}, use("t"))))
    assert [block.to_dict()["id"] for block in message.content] == ["toolu_made", "t"]


def test_every_recorded_answer_with_all_calls_refused_can_be_read() -> None:
    for entry in recordings():
        if "non-stream" not in entry["tags"] or entry["response"]["status"] != 200:
            continue
        body = entry["response"]["body"].encode()
        calls = [one["id"] for one in entry["observed"]["tool_calls"]]
        assert changed(body) is body
        text = changed(body, *calls, note="N", earlier=(Turn(text="E"),))
        message = sdk_reads(text)
        assert not any(block.type == "tool_use" for block in message.content), entry["id"]
        assert not any(call_id.encode() in text for call_id in calls), entry["id"]


def test_keys_that_occur_twice_are_written_as_they_were_read() -> None:
    text = b'{"type":"x","index":1,"index":2}'
    assert json.loads(rewritten(text, {"type": "x", "index": 2}, [(("index",), 0), (("a", "b"), 1)])) == {
        "type": "x",
        "index": 0,
        "a": {"b": 1},
    }
