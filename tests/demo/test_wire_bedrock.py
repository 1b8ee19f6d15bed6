"""The scripted provider on the Converse API, read by AWS's client."""

import json
from typing import Any

import pytest

from proxy.demo import Answer, Call, wire_bedrock
from proxy.demo.answers import Complaint, Ids
from tests.dialects import bedrock_agent as agent

ANSWER = Answer("Hi there.", calls=(Call("read", {"id": 1}, "tooluse_1"),), text_after="Bye.")
USE = {"toolUse": {"toolUseId": "a", "name": "read", "input": {}}}
RESULT = {"toolResult": {"toolUseId": "a", "content": [{"text": "r"}]}}
HI = {"role": "user", "content": [{"text": "Hi"}]}
ASKED = {"role": "assistant", "content": [USE]}
ANSWERED = {"role": "user", "content": [RESULT]}
TOOLS = {"toolConfig": {"tools": [{"toolSpec": {"name": "read"}}]}}


def test_the_client_reads_the_same_streamed_and_whole() -> None:
    stream = b"".join(wire_bedrock.frames(ANSWER, {}, Ids()))
    whole = agent.sdk_reads(wire_bedrock.body(ANSWER, {}, Ids()))
    assert agent.sdk_streams(stream) == whole
    assert [next(iter(block)) for block in whole["content"]] == ["text", "toolUse", "text"]


@pytest.mark.parametrize(
    "request_",
    [
        1,
        {"messages": [HI, HI]},
        {"messages": [{"role": "user", "content": [{"text": " "}]}]},
        {"messages": [HI, ASKED, HI], **TOOLS},
        {"messages": [HI, ASKED, ANSWERED]},
        {"messages": [HI, {"role": "assistant", "content": [{"text": "x"}]}]},
    ],
)
def test_what_the_provider_would_not_take_is_refused(request_: Any) -> None:
    assert wire_bedrock.complaint(request_, {}) is not None
    assert wire_bedrock.complaint({"messages": [HI, ASKED, ANSWERED], **TOOLS}, {}) is None


def test_errors_name_their_type() -> None:
    assert json.loads(wire_bedrock.error(Complaint("no"), Ids()))["__type"] == "ValidationException"
    assert json.loads(wire_bedrock.models(("m",)))["modelSummaries"][0]["modelId"] == "m"
