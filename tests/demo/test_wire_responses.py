"""The Responses API: the official client reads what is said and what is kept, and real traffic looks like it."""

import json
from typing import Any

import pytest
from openai import AsyncOpenAI, BadRequestError, NotFoundError
from openai.types.responses import ParsedResponse, Response, ResponseFunctionToolCall

from proxy.demo import Answer, Call, ScriptedProvider
from proxy.demo.answers import Ids
from proxy.demo.wire_responses import Responses
from tests.demo.recordings import assert_real, events, names, recorded, shapes_of

ASKED: Any = {
    "model": "scripted-large",
    "input": "Weather?",
    "tools": [{"type": "function", "name": "weather", "parameters": {"type": "object"}, "strict": True}],
}
WEATHER = Call("weather", {"city": "Zürich 🌧"})
ANSWERS = {
    "text": Answer("It rains."),
    "call": Answer(calls=(WEATHER,)),
    "text and calls": Answer("Let me see.", calls=(WEATHER, Call("weather", ""))),
    "cut short": Answer("It ra", finish="max_tokens"),
    "nothing": Answer(),
}
BARE: Any = {"model": "scripted-large", "input": "Weather?"}
"""Without tools: their shapes are the agent's."""


async def completed(client: AsyncOpenAI, *, stream: bool, **more: Any) -> Response | ParsedResponse[None]:
    if not stream:
        whole: Response = await client.responses.create(**(ASKED | more))
        return whole
    async with client.responses.stream(**(ASKED | more)) as opened:
        return await opened.get_final_response()


def calls_in(read: Response | ParsedResponse[None]) -> list[ResponseFunctionToolCall]:
    return [item for item in read.output if isinstance(item, ResponseFunctionToolCall)]


@pytest.mark.parametrize("stream", [False, True])
async def test_the_official_client_reads_text_calls_thinking_and_usage(
    provider: ScriptedProvider, openai: AsyncOpenAI, stream: bool
) -> None:
    provider.script(Answer("Let me see.", (WEATHER, Call("weather")), thinking="Rain?", usage=(7, 5)))
    read = await completed(openai, stream=stream)

    assert read.output_text == "Let me see."
    assert [json.loads(call.arguments) for call in calls_in(read)] == [{"city": "Zürich 🌧"}, {}]
    assert len({call.call_id for call in calls_in(read)}) == 2
    assert [item.type for item in read.output] == ["reasoning", "message", "function_call", "function_call"]
    assert read.usage
    assert (read.usage.input_tokens, read.usage.output_tokens, read.usage.total_tokens) == (7, 5, 12)
    assert (read.status, read.model) == ("completed", "scripted-large")


@pytest.mark.parametrize("stream", [False, True])
async def test_a_tool_is_called_in_the_form_in_which_it_was_declared(
    provider: ScriptedProvider, openai: AsyncOpenAI, stream: bool
) -> None:
    tools = [
        {"type": "custom", "name": "sql"},
        {"type": "apply_patch"},
        {"type": "local_shell"},
        {"type": "shell"},
    ]
    patch, run = {"type": "delete_file", "path": "a"}, {"type": "exec", "command": ["ls"], "env": {}}
    provider.script(
        Answer(
            calls=(
                Call("sql", "SELECT 1"),
                Call("apply_patch", patch),
                Call("local_shell", run),
                Call("shell", {"commands": ["ls"]}),
            )
        )
    )
    output: Any = (await completed(openai, stream=stream, tools=tools)).output

    assert [item.type for item in output] == [
        "custom_tool_call",
        "apply_patch_call",
        "local_shell_call",
        "shell_call",
    ]
    assert output[0].input == "SELECT 1"
    assert output[1].operation.path == "a"
    assert output[2].action.command == ["ls"]
    assert output[3].action.commands == ["ls"]


async def test_refusals_and_what_was_cut_short(provider: ScriptedProvider, openai: AsyncOpenAI) -> None:
    provider.script(Answer(refusal="No."), ANSWERS["cut short"], Answer(text_after="So."))
    refused, short, after = [await completed(openai, stream=False) for _ in range(3)]

    part: Any = refused.output[0]
    assert part.content[0].refusal == "No."
    assert (short.status, short.incomplete_details and short.incomplete_details.reason) == (
        "incomplete",
        "max_output_tokens",
    )
    assert after.output_text == "So."


async def test_what_is_stored_is_fetched_listed_gone_on_from_and_deleted(
    provider: ScriptedProvider, openai: AsyncOpenAI
) -> None:
    provider.script(Answer(calls=(WEATHER,)), Answer("It rains."))
    first = await completed(openai, stream=False)
    result = {
        "type": "function_call_output",
        "call_id": calls_in(first)[0].call_id,
        "output": "rain",
    }
    second = await completed(openai, stream=True, previous_response_id=first.id, input=[result])

    assert (second.output_text, second.previous_response_id) == ("It rains.", first.id)
    assert (await openai.responses.retrieve(second.id)).output_text == "It rains."
    listed = await openai.responses.input_items.list(second.id)
    assert [item.type for item in listed.data] == ["function_call_output"]
    await openai.responses.delete(second.id)
    with pytest.raises(NotFoundError, match=f"Response with id '{second.id}' not found"):
        await openai.responses.retrieve(second.id)


async def test_what_is_not_stored_is_not_found_again(provider: ScriptedProvider, openai: AsyncOpenAI) -> None:
    provider.script(Answer("It rains."))
    read = await completed(openai, stream=False, store=False)

    with pytest.raises(BadRequestError, match=f"Previous response with id '{read.id}' not found"):
        await completed(openai, stream=False, previous_response_id=read.id)


async def test_a_conversation_remembers_what_was_said_in_it(
    provider: ScriptedProvider, openai: AsyncOpenAI
) -> None:
    provider.script(Answer(calls=(WEATHER,)))
    asked = await completed(openai, stream=False, conversation="conv_1")

    with pytest.raises(BadRequestError, match=f"No tool output found .* {calls_in(asked)[0].call_id}"):
        await completed(openai, stream=False, conversation={"id": "conv_1"})


@pytest.mark.parametrize("answer", ANSWERS.values(), ids=ANSWERS)
@pytest.mark.parametrize("stream", [False, True])
def test_every_object_is_one_that_the_provider_was_seen_to_send(answer: Answer, stream: bool) -> None:
    wire = Responses()
    ours = wire.body(answer, BARE, Ids()) if not stream else b"".join(wire.frames(answer, BARE, Ids()))
    shapes = shapes_of(ours.decode(), stream=stream)

    assert_real(shapes, recorded("openai-responses", ("openai",), stream=stream))


def test_events_are_named_and_numbered_as_they_say() -> None:
    stream = b"".join(Responses().frames(ANSWERS["text and calls"], ASKED, Ids())).decode()
    read = list(events(stream))

    assert names(stream) == [event["type"] for event in read]
    assert [event["sequence_number"] for event in read] == list(range(len(read)))
