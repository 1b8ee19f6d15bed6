"""Messages: the official client reads what is said, and real traffic looks like it."""

from itertools import pairwise
from typing import Any

import pytest
from anthropic import AsyncAnthropic
from anthropic.types import Message

from proxy.demo import Answer, Call, Complaint, ScriptedProvider
from proxy.demo.answers import Ids
from proxy.demo.wire_anthropic import body, error, frames
from tests.demo.recordings import assert_real, events, names, recorded, recordings, shapes_of

ASKED: Any = {
    "model": "scripted-large",
    "max_tokens": 100,
    "messages": [{"role": "user", "content": "Weather?"}],
    "tools": [{"name": "weather", "input_schema": {"type": "object"}}],
}
PARALLEL = (Call("weather", {"city": "Zürich 🌧", "quote": 'a "b" \\'}), Call("weather"), Call("weather", ""))
ANSWERS = {
    "text": Answer("It rains."),
    "call": Answer(calls=PARALLEL[:1]),
    "everything": Answer("Let me see.", calls=PARALLEL, thinking="Rain?", text_after="So."),
    "refusal": Answer(refusal="I will not."),
    "cut short": Answer("It ra", finish="length"),
    "nothing": Answer(),
}


async def completed(client: AsyncAnthropic, *, stream: bool) -> Message:
    if not stream:
        whole: Message = await client.messages.create(**ASKED)
        return whole
    async with client.messages.stream(**ASKED) as opened:
        return await opened.get_final_message()


def streamed(answer: Answer) -> str:
    return b"".join(frames(answer, ASKED, Ids())).decode()


@pytest.mark.parametrize("stream", [False, True])
async def test_the_official_client_reads_text_calls_thinking_and_usage(
    provider: ScriptedProvider, anthropic: AsyncAnthropic, stream: bool
) -> None:
    provider.script(Answer("Let me see.", PARALLEL, thinking="Rain?", text_after="So.", usage=(7, 5)))
    read = await completed(anthropic, stream=stream)
    blocks = [block.model_dump() for block in read.content]

    assert [block["type"] for block in blocks] == ["thinking", "text", *["tool_use"] * 3, "text"]
    assert blocks[0]["thinking"] == "Rain?"
    assert blocks[0]["signature"]
    assert [block["text"] for block in blocks if block["type"] == "text"] == ["Let me see.", "So."]
    assert [(block["name"], block["input"]) for block in blocks[2:5]] == [
        ("weather", {"city": "Zürich 🌧", "quote": 'a "b" \\'}),
        ("weather", {}),
        ("weather", {}),
    ]
    assert len({block["id"] for block in blocks[2:5]}) == 3
    assert read.stop_reason == "tool_use"
    assert (read.usage.input_tokens, read.usage.output_tokens) == (7, 5)
    assert read.model == "scripted-large"


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (Answer("Hi"), "end_turn"),
        (Answer("Hi", finish="length"), "max_tokens"),
        (Answer("Hi", finish="pause_turn"), "pause_turn"),
        (Answer(refusal="No."), "refusal"),
        (Answer(calls=(Call("weather"),), finish="stop"), "end_turn"),
    ],
)
async def test_the_reason_to_stop(
    provider: ScriptedProvider, anthropic: AsyncAnthropic, answer: Answer, reason: str, stream: bool
) -> None:
    provider.script(answer)

    assert (await completed(anthropic, stream=stream)).stop_reason == reason


@pytest.mark.parametrize("arguments", ["{}", ""])
def test_a_call_without_arguments_sends_only_the_empty_fragment(arguments: str) -> None:
    deltas = [
        event["delta"]
        for event in events(streamed(Answer(calls=(Call("f", arguments),))))
        if "index" in event and "delta" in event
    ]

    assert deltas == [{"type": "input_json_delta", "partial_json": ""}]


def test_broken_arguments_stand_in_the_body_as_scripted() -> None:
    broken = '{"a": 1, "a": NaN} trailing'

    assert f'"input":{broken}}}'.encode() in body(Answer(calls=(Call("f", broken),)), ASKED, Ids())


@pytest.mark.parametrize("pieces", [1, 2, 1000])
def test_fragments_join_to_the_scripted_arguments(pieces: int) -> None:
    sent = streamed(Answer(calls=PARALLEL[:1], pieces=pieces))
    fragments = [
        event["delta"]["partial_json"] for event in events(sent) if event["type"] == "content_block_delta"
    ]

    assert fragments[0] == ""
    assert "".join(fragments) == PARALLEL[0].text()


def test_usage_can_be_missing_altogether() -> None:
    silent = Answer("Hi", usage=None)

    assert "usage" not in streamed(silent)
    assert b"usage" not in body(silent, ASKED, Ids())


@pytest.mark.parametrize("name", ANSWERS)
def test_streams_have_the_shape_of_real_ones(name: str) -> None:
    real = recorded("anthropic-messages", ("anthropic",), stream=True)

    assert_real(shapes_of(streamed(ANSWERS[name]), stream=True), real)


@pytest.mark.parametrize("name", ANSWERS)
def test_bodies_have_the_shape_of_real_ones(name: str) -> None:
    real = recorded("anthropic-messages", ("anthropic",), stream=False)

    assert_real(shapes_of(body(ANSWERS[name], ASKED, Ids()).decode(), stream=False), real)


# No recording has a stream without a block.
@pytest.mark.parametrize("name", set(ANSWERS) - {"nothing"})
def test_events_follow_each_other_as_in_real_streams(name: str) -> None:
    real = recordings("anthropic-messages", ("anthropic",))
    seen = {pair for recording in real if recording.stream for pair in pairwise(names(recording.body))}
    ours = names(streamed(ANSWERS[name]))

    assert set(pairwise(ours)) - seen == set()
    assert (ours[0], ours[-1], ours.count("ping")) == ("message_start", "message_stop", 1)


def test_errors_have_the_shape_of_real_ones() -> None:
    real = recorded("anthropic-messages", ("anthropic",), stream=False, status=404)

    assert_real(shapes_of(error(Complaint("no"), Ids()).decode(), stream=False), real)
