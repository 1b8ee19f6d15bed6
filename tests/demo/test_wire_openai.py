"""Chat Completions: the official client reads what is said, and real traffic looks like it."""

import json
from typing import Any

import pytest
from openai import AsyncOpenAI
from openai.types.chat import ChatCompletion, ChatCompletionMessageFunctionToolCall

from proxy.demo import Answer, Call, Complaint, ScriptedProvider
from proxy.demo.answers import Ids
from proxy.demo.wire_openai import body, error, frames
from tests.demo.recordings import assert_real, events, recorded, shapes_of

ASKED: Any = {
    "model": "scripted-large",
    "messages": [{"role": "user", "content": "Weather?"}],
    "tools": [{"type": "function", "function": {"name": "weather", "parameters": {"type": "object"}}}],
}
WITH_USAGE: Any = {"stream_options": {"include_usage": True}}
PARALLEL = (Call("weather", {"city": "Zürich 🌧", "quote": 'a "b" \\'}), Call("weather"), Call("weather", ""))
ANSWERS = {
    "text": Answer("It rains."),
    "call": Answer(calls=PARALLEL[:1]),
    "calls": Answer(calls=PARALLEL),
    "text and calls": Answer("Let me see.", calls=PARALLEL),
    "refusal": Answer(refusal="I will not."),
    "cut short": Answer("It ra", finish="max_tokens"),
    "nothing": Answer(),
    "without usage": Answer("It rains.", usage=None),
}


async def completed(client: AsyncOpenAI, *, stream: bool, **more: Any) -> ChatCompletion:
    if not stream:
        whole: ChatCompletion = await client.chat.completions.create(**ASKED, **more)
        return whole
    async with client.chat.completions.stream(**ASKED, **WITH_USAGE, **more) as opened:
        return await opened.get_final_completion()


@pytest.mark.parametrize("stream", [False, True])
async def test_the_official_client_reads_text_calls_thinking_and_usage(
    provider: ScriptedProvider, openai: AsyncOpenAI, stream: bool
) -> None:
    provider.script(Answer("Let me see.", PARALLEL, thinking="Rain?", text_after=" So.", usage=(7, 5)))
    read = await completed(openai, stream=stream)
    choice = read.choices[0]
    calls = [
        call
        for call in choice.message.tool_calls or ()
        if isinstance(call, ChatCompletionMessageFunctionToolCall)
    ]

    assert choice.message.content == "Let me see. So."
    assert choice.finish_reason == "tool_calls"
    assert [(call.function.name, call.function.arguments) for call in calls] == [
        ("weather", '{"city":"Zürich 🌧","quote":"a \\"b\\" \\\\"}'),
        ("weather", "{}"),
        ("weather", ""),
    ]
    assert len({call.id for call in calls}) == 3
    assert getattr(choice.message, "reasoning_content", None) == "Rain?"
    assert read.usage
    assert (read.usage.prompt_tokens, read.usage.completion_tokens, read.usage.total_tokens) == (7, 5, 12)
    assert read.model == "scripted-large"


@pytest.mark.parametrize("stream", [False, True])
async def test_refusal_finish_and_several_choices(
    provider: ScriptedProvider, openai: AsyncOpenAI, stream: bool
) -> None:
    provider.script(Answer(refusal="No.", finish="end_turn"), Answer("Hm", choices=3))
    refused, thrice = [await completed(openai, stream=stream) for _ in range(2)]

    assert (refused.choices[0].message.refusal, refused.choices[0].finish_reason) == ("No.", "stop")
    assert [choice.message.content for choice in thrice.choices] == ["Hm"] * 3


async def test_as_many_choices_as_asked_for_share_the_call_id(
    provider: ScriptedProvider, openai: AsyncOpenAI
) -> None:
    provider.script(Answer(calls=(Call("weather"),)))
    read = await completed(openai, stream=True, n=2)

    assert len({call.id for choice in read.choices for call in choice.message.tool_calls or ()}) == 1
    assert len(read.choices) == 2


def test_usage_comes_last_and_only_if_asked_for() -> None:
    asked = list(events(b"".join(frames(Answer("Hi"), WITH_USAGE, Ids())).decode()))
    unasked = list(events(b"".join(frames(Answer("Hi"), {}, Ids())).decode()))
    never = list(events(b"".join(frames(Answer("Hi", usage=None), WITH_USAGE, Ids())).decode()))

    assert [chunk["usage"] for chunk in asked[:-1]] == [None] * (len(asked) - 1)
    assert (asked[-1]["choices"], asked[-1]["usage"]["total_tokens"]) == ([], 230)
    assert not any("usage" in chunk for chunk in unasked + never)


@pytest.mark.parametrize("pieces", [1, 2, 1000])
def test_a_stream_begins_with_the_role_and_names_each_call_once(pieces: int) -> None:
    sent = frames(Answer("Hi", PARALLEL, pieces=pieces), {}, Ids())
    deltas = [chunk["choices"][0]["delta"] for chunk in events(b"".join(sent).decode())]
    calls = [delta["tool_calls"][0] for delta in deltas if "tool_calls" in delta]
    named = [call for call in calls if "id" in call]

    assert deltas[0] == {"role": "assistant", "content": "", "refusal": None}
    assert [call["index"] for call in named] == [0, 1, 2]
    assert all(call["function"]["arguments"] == "" for call in named)
    assert deltas[-1] == {}
    assert sent[-1] == b"data: [DONE]\n\n"


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (Answer("Hi"), "stop"),
        (Answer("Hi", finish="max_tokens"), "length"),
        (Answer("Hi", finish="content_filter"), "content_filter"),
        (Answer(calls=(Call("f"),)), "tool_calls"),
        (Answer(calls=(Call("f"),), finish="stop"), "stop"),
    ],
)
def test_the_reason_to_finish(answer: Answer, reason: str) -> None:
    sent = list(events(b"".join(frames(answer, {}, Ids())).decode()))

    assert sent[-1]["choices"][0]["finish_reason"] == reason
    assert json.loads(body(answer, {}, Ids()))["choices"][0]["finish_reason"] == reason


def test_obfuscation_can_be_switched_off() -> None:
    sent = frames(Answer("Hi"), {"stream_options": {"include_obfuscation": False}}, Ids())

    assert not any(b"obfuscation" in frame for frame in sent)


# No recording has a refusal in a stream; its delta is as the documentation has it.
@pytest.mark.parametrize("name", set(ANSWERS) - {"refusal"})
@pytest.mark.parametrize("asked", [WITH_USAGE, {}])
def test_streams_have_the_shape_of_real_ones(name: str, asked: Any) -> None:
    real = recorded("openai-chat", ("openai",), stream=True)

    assert_real(shapes_of(b"".join(frames(ANSWERS[name], asked, Ids())).decode(), stream=True), real)


@pytest.mark.parametrize("name", set(ANSWERS) - {"without usage"})
def test_bodies_have_the_shape_of_real_ones(name: str) -> None:
    real = recorded("openai-chat", ("openai",), stream=False)

    assert_real(shapes_of(body(ANSWERS[name], {}, Ids()).decode(), stream=False), real)


def test_thinking_has_the_shape_that_compatible_servers_send() -> None:
    real = recorded("openai-chat", ("deepseek", "zai", "xai", "moonshot"), stream=True)
    ours = shapes_of(b"".join(frames(Answer("Hi", thinking="So"), {}, Ids())).decode(), stream=True)
    deltas = ".choices[].delta"
    thinking = {shape for shape in ours[deltas] if "reasoning_content" in shape}

    assert thinking
    assert thinking <= real[deltas]


def test_errors_have_the_shape_of_real_ones() -> None:
    real = recorded("openai-chat", ("openai",), stream=False, status=400)

    assert_real(shapes_of(error(Complaint("no"), Ids()).decode(), stream=False), real)
