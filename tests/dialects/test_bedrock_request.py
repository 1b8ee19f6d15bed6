"""Requests of the Converse API in neutral words."""

import json
from typing import Any

import pytest

from proxy.core.messages import ChoiceMode, Malformed, Request, Role, ToolKind
from proxy.dialects.bedrock_request import parse_request

Json = dict[str, Any]
PATH = "/model/arn%3Aaws%3Abedrock%3A%3A1%3Ainference-profile%2Fus.maple-v1%3A0/converse-stream"


def parsed(path: str = "", **body: Any) -> Request:
    return parse_request(json.dumps({"messages": [], **body}).encode(), path, "bedrock-converse")


def test_the_path_names_the_model_and_says_whether_it_streams() -> None:
    request = parsed(PATH)
    assert (request.model, request.stream) == ("arn:aws:bedrock::1:inference-profile/us.maple-v1:0", True)
    assert not parsed("/model/m/converse?x=1").stream


def test_cache_marks_are_no_tools_and_no_content() -> None:
    """A2: agents move them from request to request."""
    mark = {"cachePoint": {"type": "default"}}
    spec = {"toolSpec": {"name": "read", "inputSchema": {"json": {"type": "object"}}}}
    hosted = {"systemTool": {"name": "nova_grounding"}}
    request = parsed(
        system=[{"text": "Be brief."}, mark],
        messages=[{"role": "user", "content": [{"text": "Hi"}, mark]}],
        toolConfig={"tools": [spec, hosted, mark], "toolChoice": {"any": {}}},
    )
    assert [(tool.name, tool.kind) for tool in request.tools] == [
        ("read", ToolKind.FUNCTION),
        ("nova_grounding", ToolKind.HOSTED),
    ]
    assert request.tool_choice.mode is ChoiceMode.REQUIRED
    plain = parsed(system=[{"text": "Be brief."}], messages=[{"role": "user", "content": [{"text": "Hi"}]}])
    assert [message.digest for message in plain.messages] == [message.digest for message in request.messages]
    assert [message.role for message in plain.messages] == [Role.SYSTEM, Role.USER]


def test_results_say_what_they_hold() -> None:
    """A3, A5: JSON as text, pictures by what they show."""
    pictures = [{"image": {"format": "png", "source": {"bytes": data}}} for data in ("aa", "bb")]
    texts = []
    for picture in pictures:
        content = [{"text": "a"}, {"json": {"b": 1}}, picture]
        result = {"toolUseId": "x", "content": content, "status": "error"}
        request = parsed(messages=[{"role": "user", "content": [{"toolResult": result}]}])
        (found,) = request.messages[0].results
        assert found.is_error
        assert found.text.startswith('a\n{"b":1}\n[image ')
        assert request.text_size < request.size
        texts.append(found.text)
    assert len(set(texts)) == 2


@pytest.mark.parametrize(
    "body",
    [
        {"messages": [{"role": "system", "content": []}]},
        {"messages": [{"role": "user", "content": "Hi"}]},
        {"messages": [{"role": "user", "content": [{"toolUse": {"name": "x", "toolUseId": "1"}}]}]},
        {"messages": [{"role": "assistant", "content": [{"toolUse": {"name": 1}}]}]},
        {"messages": [{"role": "user", "content": [{"toolResult": {"content": []}}]}]},
        {"toolConfig": {"tools": [{"toolSpec": {}}]}},
        {"toolConfig": {"tools": [{}]}},
        {"toolConfig": {"toolChoice": 1}},
        {"inferenceConfig": {"maxTokens": "many"}},
    ],
)
def test_what_cannot_be_read_is_malformed(body: Json) -> None:
    with pytest.raises(Malformed):
        parsed(**body)
