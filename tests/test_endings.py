"""How a turn ends: what the agent gets, what is remembered, and what is told."""

import json
from typing import Any

import pytest

from proxy.core.actions import Answer
from proxy.core.messages import Exchange, Problem, ToolCall, Turn, Usage
from proxy.core.runs import Outcome
from proxy.core.verdicts import Action, Verdict
from proxy.endings import Endings, gave_up, headers_of
from proxy.exchange import Reply
from tests.staged import Stage
from tests.talk import ALICE, request, said, user

LIMIT = Verdict(
    "budget.rounds", "budget_rounds", Action.FINISH, "The limit is reached.", reason_class="budget"
)
REFUSED = Verdict("tools.unknown", "tool_unknown", Action.REASK, "No such tool.", 0)
STOPPED = Answer("[callgate] Stopped.", Outcome.DENIED, "tool_not_allowed")


async def staged(*, stream: bool = False, **settings: Any) -> tuple[Stage, Endings]:
    stage = await Stage(**settings).opens(stream=stream)
    return stage, Endings(stage.settings, stage.ledger, stage.clock)


def bytes_of(reply: Reply) -> bytes:
    assert isinstance(reply.body, bytes)
    return reply.body


# ---- the model's own answer ----


async def test_an_answer_without_calls_completes_the_turn() -> None:
    """E8, A1: the normal exit."""
    stage, endings = await staged()
    await endings.answered(stage.state, Turn(text="A is 12."), {})

    run = stage.state.run
    assert (run.outcome, run.outcome_detail, run.stop_report) == (Outcome.COMPLETED, "", "")
    assert len(run.answers) == 1
    assert stage.audit.names() == ["run_ended"]
    assert stage.trace.names() == ["run_ended"]


async def test_released_calls_end_nothing() -> None:
    stage, endings = await staged()
    calls = (ToolCall("c1", "lookup", "{}"), ToolCall("c2", "send", "{}", (0, 1)))
    await endings.answered(stage.state, Turn(text="Let me look.", calls=calls), {(0, 0): REFUSED})

    assert stage.state.run.outcome is Outcome.RUNNING
    assert stage.state.run.answers == ()
    assert stage.trace.names() == []


async def test_an_answer_of_which_every_call_was_refused_is_a_denial_and_no_wall() -> None:
    """E8, D5: the model insisted in this answer; the agent may still go on."""
    stage, endings = await staged()
    turn = Turn(text="Let me look.", calls=(ToolCall("c1", "lookup", "{}"),))
    await endings.answered(stage.state, turn, {(0, 0): REFUSED})

    run = stage.state.run
    assert (run.outcome, run.outcome_detail, run.is_stopped) == (Outcome.DENIED, "tool_unknown", False)


async def test_a_last_answer_ends_the_run_for_its_reason() -> None:
    """B3, B6, E10: the abnormal exit; the report is kept for whoever asks again."""
    stage, endings = await staged()
    stage.state.last = LIMIT
    await endings.answered(stage.state, Turn(text="From what I have: A is 12."), {})

    run = stage.state.run
    assert (run.outcome, run.outcome_detail) == (Outcome.LIMIT_REACHED, "budget_rounds")
    assert run.stop_report.startswith("[callgate] This task was stopped: The limit is reached.")


async def test_calls_that_the_provider_ran_itself_are_told_of() -> None:
    """Recorded as not inspected."""
    stage, endings = await staged()
    left = ToolCall("c1", "lookup", "{}")
    turn = Turn(text="Found.", calls=(left,), hosted_calls=(ToolCall("h1", "web_search", "{}"),))
    await endings.answered(stage.state, turn, {})

    _, named = stage.audit.last("decision")
    assert [call.name for call in named["calls"]] == ["web_search"]
    assert named["phase"] == "answer"


async def test_the_whole_visible_text_is_what_leads_back() -> None:
    """An answer after one that was asked again: the agent has the text of both."""
    stage, endings = await staged()
    stage.state.earlier.append(Turn(text="Let me look."))
    await endings.answered(stage.state, Turn(text="A is 12."), {})
    other = await stage.ledger.open(ALICE, stage.state.request)
    await stage.ledger.record_answer(other.run, "Something else.", Outcome.COMPLETED)
    asked = stage.state.request.messages[0]
    follow_up = request(asked, said("Let me look. A is 12."), user("And B?"))

    assert (await stage.ledger.open(ALICE, follow_up)).run.id == stage.state.run.id


# ---- answers made by program ----


async def test_an_answer_by_program_reads_like_any_other() -> None:
    """F1: status 200, an ordinary end, the outcome in headers for programs."""
    stage, endings = await staged()
    stage.state.earlier.append(Turn(text="Let me look.", usage=Usage(10, 5)))
    reply = await endings.say(stage.state, STOPPED)

    body = json.loads(bytes_of(reply))
    assert reply.status == 200
    assert body["choices"][0]["message"]["content"] == "Let me look.\n\n[callgate] Stopped."
    assert body["usage"]["total_tokens"] == 15
    assert dict(reply.headers) == {
        "content-type": "application/json",
        "x-callgate-request": "req_1",
        "x-callgate-run": stage.state.run.id,
        "x-callgate-outcome": "denied",
    }
    assert stage.state.run.stop_report == "[callgate] Stopped."
    assert stage.trace.last("finish")[0][0] == 200


async def test_an_answer_by_program_is_streamed_to_who_asked_for_a_stream() -> None:
    stage, endings = await staged(stream=True)
    reply = await endings.say(stage.state, STOPPED)

    assert dict(reply.headers)["content-type"].startswith("text/event-stream")
    assert b"[callgate] Stopped." in bytes_of(reply)
    assert bytes_of(reply).endswith(b"data: [DONE]\n\n")


@pytest.mark.parametrize("stream", [True, False])
async def test_a_denial_can_be_an_error_instead(stream: bool) -> None:
    """In the dialect's own shape, not retried by SDKs, for streams too as a plain error."""
    stage, endings = await staged(stream=stream, denied="error")
    reply = await endings.say(stage.state, STOPPED)

    assert reply.status == 403
    assert dict(reply.headers)["x-should-retry"] == "false"
    assert dict(reply.headers)["x-callgate-outcome"] == "denied"
    assert json.loads(bytes_of(reply))["error"]["message"] == "[callgate] Stopped."
    assert stage.trace.last("finish")[0][0] == 403


async def test_what_is_no_denial_stays_an_answer() -> None:
    _, endings = await staged(denied="error")
    refused = Answer("[callgate] Not run.", Outcome.COMPLETED, "tool_unknown")

    assert endings.problem_of(refused) is None


async def test_a_problem_that_was_decided_is_said_as_it_is() -> None:
    """C015, A3: with its own status and fields."""
    problem = Problem(400, "foreign_result", "No call has the id c9.", {"call_id": "c9"})
    stage, endings = await staged()
    reply = await endings.say(stage.state, Answer("x", Outcome.FAILED, "foreign_result", problem))

    assert reply.status == 400
    assert b"No call has the id c9." in bytes_of(reply)
    assert endings.problem_of(Answer("x", Outcome.FAILED, "d", problem)) is problem


# ---- what is remembered ----


async def test_a_stopped_run_is_told_of_once() -> None:
    """C12: every further request of the turn gets the report; the run ended only once."""
    stage, endings = await staged()
    await endings.say(stage.state, STOPPED)
    first = stage.state.run
    again = Answer(first.stop_report, first.outcome, first.outcome_detail)
    reply = await endings.say(stage.state, again)

    assert stage.audit.names() == ["run_ended"]
    assert b"[callgate] Stopped." in bytes_of(reply)
    assert (stage.state.run.outcome, stage.state.run.stop_report) == (Outcome.DENIED, "[callgate] Stopped.")


async def test_an_answer_is_no_report() -> None:
    """E10: what the model said to the user is not kept as the reason why a run stopped."""
    stage, endings = await staged()
    await endings.conclude(stage.state, "Your order A123 is on its way.", Outcome.COMPLETED)
    await endings.conclude(stage.state, "Your order A1", Outcome.FAILED, "upstream_closed")

    assert stage.state.run.stop_report == ""
    assert (stage.state.run.outcome, stage.state.run.outcome_detail) == (Outcome.FAILED, "upstream_closed")


async def test_a_run_that_failed_goes_on_when_the_agent_tries_again() -> None:
    """E8, C12: only what this proxy imposed stays."""
    stage, endings = await staged()
    await endings.conclude(stage.state, "", Outcome.FAILED, "upstream_503")
    assert dict(headers_of(stage.state))["x-callgate-outcome"] == "failed"
    run = await stage.ledger.record_calls(stage.state.run, [ToolCall("c1", "lookup", "{}")], {})
    assert run.outcome is Outcome.RUNNING
    await endings.conclude(stage.state, "Done.", Outcome.COMPLETED)

    assert stage.state.run.outcome is Outcome.COMPLETED
    assert stage.audit.names() == ["run_ended", "run_ended"]


# ---- when a further round fails ----


async def test_giving_up_says_what_was_refused() -> None:
    """E7: no further model call is needed for it."""
    stage, _ = await staged()
    calls = (ToolCall("c1", "a", "{}"), ToolCall("c2", "a", "{}"))
    stage.state.exchanges.append(Exchange(b"{}", ((calls[0], "No such tool."), (calls[1], "No such tool."))))

    assert gave_up(stage.state, "The provider did not answer in time.") == Answer(
        "No such tool.\n[callgate] No further answer could be had: The provider did not answer in time.",
        Outcome.FAILED,
        "no_answer",
    )


async def test_giving_up_on_a_last_answer_keeps_its_reason() -> None:
    """B6"""
    stage, _ = await staged()
    stage.state.last = LIMIT

    assert gave_up(stage.state, "closed").outcome is Outcome.LIMIT_REACHED
