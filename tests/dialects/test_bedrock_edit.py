"""Edits of requests of the Converse API, which has no tool choice `none` and wants a tool where the history has calls."""

import json
from typing import Any

from proxy.core.messages import ChoiceMode, RequestEdit, ToolChoice
from proxy.dialects.bedrock_edit import edit_request
from proxy.dialects.bedrock_request import parse_request

Json = dict[str, Any]
MARK = {"cachePoint": {"type": "default"}}
CALL = {"toolUse": {"toolUseId": "a", "name": "read", "input": {}}}
RESULT = {"toolResult": {"toolUseId": "a", "content": [{"text": "r"}]}}
HISTORY = [
    {"role": "user", "content": [{"text": "Hi"}]},
    {"role": "assistant", "content": [CALL]},
    {"role": "user", "content": [RESULT, MARK]},
]


def tool(name: str) -> Json:
    return {"toolSpec": {"name": name, "inputSchema": {"json": {"type": "object"}}}}


def edited(edit: RequestEdit, **body: Any) -> Json:
    changed = edit_request(json.dumps({"messages": HISTORY, **body}).encode(), edit)
    parse_request(changed, "", "bedrock-converse")
    found: Json = json.loads(changed)
    return found


def test_a_choice_of_a_tool_that_is_gone_goes_with_it_and_cache_marks_stay() -> None:
    """D1."""
    config = {"tools": [tool("read"), MARK, tool("write")], "toolChoice": {"tool": {"name": "write"}}}
    left = edited(RequestEdit(keep_tools=frozenset({"read"})), toolConfig=config)
    assert left["toolConfig"] == {"tools": [tool("read"), MARK]}


def test_with_no_tool_left_a_history_with_calls_gets_one_that_is_nobodys() -> None:
    """D15: it counts as none."""
    config = {"tools": [tool("read")]}
    edit = RequestEdit(keep_tools=frozenset())
    body = edit_request(json.dumps({"messages": HISTORY, "toolConfig": config}).encode(), edit)
    assert json.loads(body)["toolConfig"]["tools"][0]["toolSpec"]["name"] == "callgate_no_tool"
    assert parse_request(body, "", "bedrock-converse").tools == ()
    assert "toolConfig" not in edited(edit, messages=HISTORY[:1], toolConfig=config)


def test_a_model_that_may_not_call_is_told_so_and_not_forced_to() -> None:
    """B3: tools stay for the cache; the note comes behind what is cached."""
    config = {"tools": [tool("read")], "toolChoice": {"any": {}}}
    edit = RequestEdit(tool_choice=ToolChoice(ChoiceMode.NONE), note="Answer now.")
    left = edited(edit, toolConfig=config)
    assert left["toolConfig"] == {"tools": [tool("read")]}
    assert left["messages"][-1]["content"] == [RESULT, MARK, {"text": "Answer now."}]


def test_a_choice_can_be_set() -> None:
    config = {"tools": [tool("read")]}
    for mode, word in ((ChoiceMode.REQUIRED, "any"), (ChoiceMode.AUTO, "auto")):
        left = edited(RequestEdit(tool_choice=ToolChoice(mode)), toolConfig=config)
        assert left["toolConfig"]["toolChoice"] == {word: {}}
    named = edited(RequestEdit(tool_choice=ToolChoice(ChoiceMode.NAMED, ("read",))), toolConfig=config)
    assert named["toolConfig"]["toolChoice"] == {"tool": {"name": "read"}}


def test_a_budget_of_thinking_stays_below_the_cap() -> None:
    """E4: the provider would refuse it."""
    fields = {"thinking": {"type": "enabled", "budget_tokens": 8000}}
    for most, left in ((4000, {"type": "enabled", "budget_tokens": 2000}), (500, {"type": "disabled"})):
        body = edited(RequestEdit(max_output=most), additionalModelRequestFields=fields)
        assert body["additionalModelRequestFields"]["thinking"] == left
        assert body["inferenceConfig"]["maxTokens"] == most
