"""Ways round the guard, and how streams end: C020, C023, C024."""

import hashlib
from pathlib import Path

import pytest

from proxy.core.runs import Outcome
from proxy.demo import Answer, Call, Raw
from tests.cases.clients import MESSAGES, Json
from tests.cases.harness import load, raw_of, rules_of, staged, text_of
from tests.span_tree import Told

LAST = "I was not allowed to do that."


def own_keys(**agents: str) -> Json:
    """Keys of Callgate's own, one an agent."""
    keys = [
        {"name": name, "agent": name, "hash": "sha256:" + hashlib.sha256(key.encode()).hexdigest()}
        for name, key in agents.items()
    ]
    return {"identity__api_keys": keys, "upstream__openai_chat__credential": "provider-key"}


@pytest.mark.parametrize("reasks", [0, 1])
@pytest.mark.parametrize("bytewise", [False, True])
async def test_an_argument_spread_over_fragments_is_judged_as_one(
    tmp_path: Path, reasks: int, *, bytewise: bool
) -> None:
    """C020. C3, D2, F2: the same decision and the same text, streamed or not; another key's stream is untouched.
    With a re-ask the model answers once more, and that is what is shown."""
    rules = {"agents": {"guarded": rules_of(load("c020").config)["org"]}}
    keys = own_keys(guarded="guard-k-1", free="guard-k-2")
    async with staged("c020", tmp_path, rules, reask__per_turn=reasks, **keys) as stage:
        case = stage.case
        found = []
        for asked, answer in zip(case.requests, case.upstream, strict=True):
            stage.tell(answer, cuts=range(1, 3000) if bytewise and "sse" in answer else None)
            if reasks and asked is not case.requests[2]:
                stage.provider.script(Answer(LAST))
            found.append(await stage.send(asked))
        streamed, whole, free = found

        case.holds("response1.client.bytes", streamed.raw.decode())
        case.holds("response1.client.tool_calls", streamed.tool_calls)
        case.holds("response2.client.tool_calls", whole.tool_calls)
        case.holds("response1.client.content", streamed.text)
        assert (streamed.text, streamed.finish) == (whole.text, whole.finish)
        assert (LAST if reasks else '"run_cmd" was not run') in whole.text
        decisions = await stage.decisions()
        refused = [(entry["outcome"], entry["reason_class"]) for entry in decisions]
        case.holds("decisions", says=refused == [("block", "argument_rule")] * 2)
        case.holds("response3.client.bytes")
        assert free.raw == text_of(case.upstream[2])
        ended = Outcome.COMPLETED if reasks else Outcome.DENIED
        assert stage.run(streamed).outcome is stage.run(whole).outcome is ended


@pytest.mark.parametrize("reasks", [0, 1])
@pytest.mark.parametrize("stream", [True, False])
async def test_a_stream_whose_only_call_is_blocked_ends_properly(
    tmp_path: Path, reasks: int, *, stream: bool
) -> None:
    """C023. C1, C2, D5, F1. What the model said behind the blocked call stays, unless it is asked again."""
    async with staged("c023", tmp_path, reask__per_turn=reasks) as stage:
        case, (asked,) = stage.case, stage.case.requests
        stage.tell(case.upstream[0], stream=stream, dialect=MESSAGES)
        if reasks:
            stage.provider.script(Answer(LAST))
        found = await stage.send(asked, stream=stream)

        # That the strict reader took it says that there is one beginning, that blocks have no gap and are stopped.
        case.holds("client.stream", says=not found.error)
        kinds = [event["type"] for event in found.events]
        proper = not stream or (kinds[0] == "message_start" and kinds.count("message_start") == 1)
        case.holds("client.events", says=proper)
        for finish in found.finish:
            case.holds("client.stop_reason", finish)
        case.holds("client.bytes", found.raw.decode())
        case.holds("client.content", found.text)
        assert len(found.finish) == 1
        assert (LAST if reasks else '"drop_note" was not run') in found.text
        if not reasks:
            assert "Done soon." in found.text


@pytest.mark.parametrize("retries", [0, 2])
async def test_an_overload_at_the_head_of_a_stream_may_be_tried_again(tmp_path: Path, retries: int) -> None:
    """C024, run 1. E2, F1. Without a retry the agent gets the provider's own error."""
    async with staged("c024", tmp_path, upstream__retries=retries) as stage:
        case, (asked,) = stage.case, stage.case.requests
        case.unseen = {at for at in case.unseen if at.startswith("run1")}
        stage.tell(case.upstream[0])
        stage.provider.script(Answer("The three causes are wind, rain and snow."))
        found = await stage.send(asked)
        case.holds("run1.upstream.requests", len(stage.seen))
        assert stage.run(found).spent.rounds == len(stage.seen)
        if retries:
            case.holds("run1.client.text", says=found.text.count("The three causes") == 1 and not found.error)
            assert len(stage.seen) == 2
            assert stage.run(found).outcome is Outcome.COMPLETED
        else:
            case.holds("run1.client.text", says=found.text.count("The three causes") <= 1)
            assert found.error["type"] == "overloaded_error"


async def test_an_overload_behind_text_ends_the_stream(tmp_path: Path) -> None:
    """C024, run 2. E2, E4, E13, F1, F4. A moment of silence lets the text reach the agent before the error comes."""
    heard = Told()
    async with staged("c024", tmp_path, telemetry=heard.telemetry) as stage:
        case, (asked,) = stage.case, stage.case.requests
        case.unseen = {at for at in case.unseen if at.startswith("run2")}
        given = raw_of(case.upstream[1])
        cut = given.body.index(b"event: error")
        stage.provider.script(Raw(steps=(given.body[:cut], 0.05, given.body[cut:]), headers=given.headers))
        found = await stage.send(asked)

        case.holds("run2.upstream.requests", len(stage.seen))
        case.holds("run2.client.last_event.type", found.events[-1]["type"])
        case.holds("run2.client.last_event.error.type", found.error["type"])
        assert found.text == "The three causes are"
        assert found.raw == given.body
        run = stage.run(found)
        assert run.outcome is Outcome.FAILED
        (span,) = [span for span in heard.spans if span.name.startswith("chat ")]
        facts = dict(span.attributes or {})
        case.holds("run2.telemetry.outcome", "upstream_error" if "error.type" in facts else "success")
        assert facts["error.type"] == "overloaded_error"
        case.holds("run2.counters.tokens", run.spent.total_tokens)
        case.holds("run2.counters.reserved", len(stage.store._reserved))
        assert run.spent.unverified_tokens > 0


@pytest.mark.parametrize("number", ["c001", "c023"])
@pytest.mark.parametrize("reasks", [0, 1])
@pytest.mark.parametrize("stream", [True, False])
async def test_the_run_of_a_refused_turn_is_found_by_what_the_agent_got(
    tmp_path: Path, number: str, reasks: int, *, stream: bool
) -> None:
    """Of two equal conversations each goes on as itself, though the refusal stands in the midst of its answer. A2, C7."""
    async with staged(number, tmp_path, reask__per_turn=reasks) as stage:
        stage.case.unseen.clear()
        asked, tool = stage.case.requests[0], "delete_note" if number == "c001" else "drop_note"
        answers = []
        for text in ("One.", "Two."):
            stage.provider.script(Answer(text, (Call(tool, {"id": 9}),), text_after="Later."))
            if reasks:
                stage.provider.script(Answer(f"Sorry for {text}"))
            answers.append(await stage.send(asked, stream=stream))
        assert answers[0].run != answers[1].run
        for answer in answers:
            said = answer.message
            reply = said if number == "c001" else {"role": "assistant", "content": said}
            history = [*asked["body"]["messages"], reply, {"role": "user", "content": "Go on."}]
            stage.provider.script(Answer("Bye."))
            found = await stage.send(asked | {"body": asked["body"] | {"messages": history}}, stream=stream)
            assert found.run == answer.run
