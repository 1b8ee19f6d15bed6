"""The scripted provider on Ollama's chat API, read by the official client."""

import json

import pytest

from proxy.demo import Answer, Call, wire_ollama
from proxy.demo.answers import Complaint, Ids
from tests.dialects import ollama_agent as agent

ANSWER = Answer("Hi there.", calls=(Call("read", {"id": 1}),), thinking="Hm.", text_after="Bye.")


def test_the_client_reads_the_same_streamed_and_whole() -> None:
    stream = b"".join(wire_ollama.frames(ANSWER, {"model": "m"}, Ids()))
    whole = wire_ollama.body(ANSWER, {"model": "m"}, Ids())
    assert agent.sdk_streams(stream) == agent.sdk_reads(whole) == ("Hi there.Bye.", [("read", {"id": 1})])


@pytest.mark.parametrize(
    "request_",
    [1, {}, {"model": "m", "messages": [1]}, {"model": "m", "messages": [{"role": "x"}]}],
)
def test_what_the_server_would_not_take_is_refused(request_: object) -> None:
    assert wire_ollama.complaint(request_, {}) is not None


def test_errors_are_plain_texts() -> None:
    assert json.loads(wire_ollama.error(Complaint("no"), Ids())) == {"error": "no"}
    assert json.loads(wire_ollama.models(("m",)))["models"][0]["name"] == "m"
    assert wire_ollama.headers(Ids()) == {}
