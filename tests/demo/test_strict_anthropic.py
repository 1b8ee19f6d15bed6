"""What Messages refuses, and that it takes whatever the real one took."""

from typing import Any

import pytest
from anthropic import AsyncAnthropic, BadRequestError

from proxy.demo import Answer, Call, ScriptedProvider
from proxy.demo.strict_anthropic import complaint, count_complaint, signature
from tests.demo.recordings import recordings

VERSION = {"anthropic-version": "2023-06-01"}
USER = {"role": "user", "content": "Hi"}
TOOLS = [{"name": "f", "input_schema": {"type": "object"}}]
THINKS = {"thinking": {"type": "enabled", "budget_tokens": 1024}}


def use(key: str = "toolu_1", **more: object) -> dict[str, Any]:
    return {"type": "tool_use", "id": key, "name": "f", "input": {}, **more}


def result(key: object = "toolu_1", **more: object) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": key, "content": "done", **more}


def text(words: object = "Hi") -> dict[str, Any]:
    return {"type": "text", "text": words}


def thought(mark: object = None) -> dict[str, Any]:
    return {"type": "thinking", "thinking": "So", "signature": signature("So") if mark is None else mark}


def model(*blocks: object) -> dict[str, Any]:
    return {"role": "assistant", "content": list(blocks)}


def user(*blocks: object) -> dict[str, Any]:
    return {"role": "user", "content": list(blocks)}


def said(*messages: object, **more: Any) -> dict[str, Any]:
    return {"model": "m", "max_tokens": 10, "messages": [USER, *messages], **more}


PROGRAMS = use(caller={"type": "code_execution_20250825", "tool_id": "srv_1"})
ACCEPTED = {
    "plain": said(),
    "system text": said(system="Be brief."),
    "system blocks": said(system=[text()]),
    "parallel": said(model(text(), use("a"), use("b")), user(result("b"), result("a"), text())),
    "results in two messages": said(model(use("a"), use("b")), user(result("a")), user(result("b"))),
    "uses in two messages": said(model(use("a")), model(use("b")), user(result("a"), result("b"))),
    "ids used again later": said(model(use()), user(result()), model(use()), user(result())),
    "result without content": said(model(use()), user({"type": "tool_result", "tool_use_id": "toolu_1"})),
    "system within": said(model(text()), USER, {"role": "system", "content": [{"type": "tool_addition"}]}),
    "prefill": said({"role": "assistant", "content": "It is"}),
    "empty final turn": said({"role": "assistant", "content": ""}),
    "blank text beside a use": said(model(text(" "), use()), user(result())),
    "thinking kept": said(model(thought(), use()), user(result()), **THINKS),
    "thinking signed elsewhere": said(model(thought("abc"), text()), USER, **THINKS),
    "no thinking outside a loop": said(model(text()), USER, **THINKS),
    "choice none": said(tools=TOOLS, tool_choice={"type": "none"}),
    "named choice": said(tools=TOOLS, tool_choice={"type": "tool", "name": "f"}),
    "no tools at all": said(tools=[]),
    "a program in its container": said(model(PROGRAMS), user(result()), container="c1"),
    "a direct call": said(model(use(caller={"type": "direct"})), user(result(), text())),
    "hosted tool": said(tools=[{"type": "web_search_20250305", "name": "web_search"}]),
}
UNANSWERED = "`tool_use` ids were found without `tool_result` blocks immediately after: toolu_1."
REFUSED = {
    "no object": ([], "not valid JSON"),
    "no container": (said(model(PROGRAMS), user(result())), "container_id is required"),
    "text for a program": (
        said(model(PROGRAMS), user(result(), text()), container="c1"),
        "only tool_result blocks",
    ),
    "no model": ({"max_tokens": 1, "messages": [USER]}, "model: Field required"),
    "no messages": ({"model": "m", "max_tokens": 1}, "messages: Field required"),
    "no max_tokens": ({"model": "m", "messages": [USER]}, "max_tokens: Field required"),
    "max_tokens no number": ({**said(), "max_tokens": "9"}, "max_tokens: Input should be a valid int"),
    "max_tokens zero": ({**said(), "max_tokens": 0}, "greater than or equal to 1"),
    "empty messages": ({**said(), "messages": []}, "at least one message is required"),
    "model first": ({**said(), "messages": [model(text())]}, 'first message must use the "user" role'),
    "message no object": (said("Hi"), "messages.1: Input should be a valid dictionary"),
    "unknown field": (said({**USER, "name": "x"}), "messages.1.name: Extra inputs are not permitted"),
    "unknown role": (said({"role": "tool", "content": "x"}), "messages.1.role: Input should be"),
    "no content": (said({"role": "user"}), "messages.1.content: Field required"),
    "content no text": (said({"role": "user", "content": 1}), "messages.1.content: Input should be"),
    "empty content": (said({"role": "assistant", "content": ""}, USER), "must have non-empty content"),
    "empty text": (said(user(text(""))), "messages: text content blocks must be non-empty"),
    "blank text": (said(user(text(" \n"))), "must contain non-whitespace text"),
    "text no text": (said(user(text(None))), "messages.1.content.0.text.text: Field required"),
    "empty system": (said(system=[text("")]), "system: text content blocks must be non-empty"),
    "system no text": (said(system=1), "system: Input should be a valid string"),
    "block no object": (said(user("Hi")), "messages.1.content.0.type: Field required"),
    "trailing space": (said(model(text("It is "))), "cannot end with trailing whitespace"),
    "use last": (said(model(use())), UNANSWERED),
    "use unanswered": (said(model(use()), USER), "messages.1: " + UNANSWERED),
    "answered late": (said(model(use()), USER, model(text()), user(result())), UNANSWERED),
    "one of two unanswered": (said(model(use("a"), use("b")), user(result("a"))), "immediately after: b."),
    "text before the result": (said(model(use()), user(text(), result())), UNANSWERED),
    "result without use": (said(user(result())), "unexpected `tool_use_id` found in `tool_result` blocks"),
    "foreign result": (said(model(use()), user(result("x"))), "messages.2.content.0: unexpected"),
    "result twice": (said(model(use()), user(result(), result())), "Found multiple `tool_result` blocks"),
    "same id twice in a turn": (said(model(use(), use()), user(result())), "ids must be unique"),
    "use of a user": (said(user(use())), "messages.1: `tool_use` blocks can only be in `assistant`"),
    "result of a model": (said(model(result())), "messages.1: `tool_result` blocks can only be in `user`"),
    "use with odd id": (said(model(use("a b")), user(result("a b"))), "tool_use.id: String should match"),
    "use without name": (said(model(use(name="")), user(result())), "tool_use.name: String should have"),
    "input as text": (said(model(use(input="{}")), user(result())), "tool_use.input: Input should be"),
    "result without id": (said(model(use()), user(result(None))), "tool_result.tool_use_id: Field required"),
    "empty text in a result": (said(model(use()), user(result(content=[text("")]))), "must be non-empty"),
    "unsigned thinking": (said(model(thought(1)), USER), "thinking.signature: Field required"),
    "altered thinking": (said(model({**thought(), "thinking": "No"}), USER), "Invalid `signature`"),
    "thinking dropped": (said(model(use()), user(result()), **THINKS), "but found `tool_use`"),
    "tools no list": (said(tools={"f": 1}), "tools: Input should be a valid list"),
    "tool without name": (said(tools=[{"input_schema": {}}]), "tools.0.custom.name: Field required"),
    "tool with odd name": (said(tools=[{"name": "a b", "input_schema": {}}]), "String should match pattern"),
    "tool without schema": (said(tools=[{"name": "f"}]), "tools.0.custom.input_schema: Field required"),
    "tool twice": (said(tools=TOOLS * 2), "Tool names must be unique"),
    "choice without tools": (
        said(tool_choice={"type": "none"}),
        "may only be specified while providing tools",
    ),
    "choice with empty tools": (said(tools=[], tool_choice={"type": "auto"}), "while providing tools"),
    "unknown choice": (said(tools=TOOLS, tool_choice="auto"), "does not match any of the expected tags"),
    "choice names a missing tool": (
        said(tools=TOOLS, tool_choice={"type": "tool", "name": "g"}),
        "Tool 'g' not found in provided tools",
    ),
    "forced while thinking": (
        said(tools=TOOLS, tool_choice={"type": "any"}, **THINKS),
        "Thinking may not be enabled when tool_choice forces tool use.",
    ),
}


@pytest.mark.parametrize("name", ACCEPTED)
def test_a_sound_request_is_taken(name: str) -> None:
    assert complaint(ACCEPTED[name], VERSION) is None


@pytest.mark.parametrize("name", REFUSED)
def test_a_broken_request_is_refused(name: str) -> None:
    request, message = REFUSED[name]
    found = complaint(request, VERSION)

    assert found is not None
    assert message in found.message
    assert found.status == 400


def test_the_version_header_is_demanded() -> None:
    found = complaint(said(), {})

    assert found is not None
    assert found.message == "anthropic-version: header is required"


def test_counting_needs_no_max_tokens() -> None:
    request = {"model": "m", "messages": [USER]}

    assert count_complaint(request, VERSION) is None
    assert count_complaint({"model": "m"}, VERSION) is not None


async def test_a_refusal_reaches_the_client_and_leaves_the_script_alone(
    provider: ScriptedProvider, anthropic: AsyncAnthropic
) -> None:
    provider.script(Answer("Hi"))
    broken: Any = said(model(use()), USER)
    with pytest.raises(BadRequestError, match="without `tool_result` blocks immediately after: toolu_1"):
        await anthropic.messages.create(**broken)

    assert provider.left == 1
    assert "toolu_1" in (provider.seen[0].refused or "")


async def test_thinking_that_comes_back_as_it_went_is_taken(
    provider: ScriptedProvider, anthropic: AsyncAnthropic
) -> None:
    provider.script(Answer(thinking="Let me see.", calls=(Call("f", id="toolu_1"),)), Answer("Done."))
    asked: Any = said(tools=TOOLS, **THINKS)
    first = await anthropic.messages.create(**asked)
    asked["messages"] += [{"role": "assistant", "content": first.content}, user(result())]
    last = await anthropic.messages.create(**asked)

    assert last.stop_reason == "end_turn"
    assert [seen.refused for seen in provider.seen] == [None, None]


def test_what_the_real_provider_took_is_taken() -> None:
    refused = {
        recording.id: found.message
        for recording in recordings("anthropic-messages", ("anthropic",))
        if recording.status == 200 and recording.request is not None
        # Two bring the result of another call; why they were answered is not known.
        if "history-result-without-call" not in recording.tags
        if (found := complaint(recording.request, VERSION))
    }

    assert refused == {}
