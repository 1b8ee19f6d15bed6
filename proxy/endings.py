"""How a turn ends: with the model's own answer, with one made by program, or with an error; and what is written
down about it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from .core.actions import Answer, outcome_of
from .core.approvals import PENDING_CODE, waits_for_person
from .core.messages import Exchange, Problem, TextExchange
from .core.reports import refusal_text, stop_report
from .core.runs import STOPPED, KeptAnswer, Outcome
from .exchange import Reply, problem_reply

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from .core.messages import CallKey, ToolCall, Turn
    from .core.verdicts import Verdict
    from .dialects import Writer
    from .errors import Fault
    from .ledger import Ledger
    from .settings import Settings
    from .turn_state import State

OK = 200
JSON_HEADERS = (("content-type", "application/json"),)


class Endings:
    """Ends turns and records how."""

    def __init__(self, settings: Settings, ledger: Ledger, clock: Callable[[], float]) -> None:
        """`clock` gives epoch seconds."""
        self._settings = settings
        self._ledger = ledger
        self._clock = clock

    async def answered(self, state: State, turn: Turn, refused: Mapping[CallKey, Verdict]) -> None:
        """The model's answer went out, less the calls that were refused for these reasons. Without calls the turn is
        over: completed, denied where all it wanted was refused, waiting for a person who was asked, or what its last
        answer was for."""
        owed = tuple((call, refusal_text(refused[call.key])) for call in turn.calls if call.key in refused)
        await self.keep(state, turn, state.shown_as(turn), owed)
        is_final = len(turn.calls) == len(refused)
        if turn.calls:
            state.recorder.answer_judged(replace(state.facts, answer=turn, calls=()), ())
        if not is_final:
            return
        if state.last is None and waits_for_person(state.run):
            await self.conclude(state, turn.text, Outcome.NEEDS_INPUT, PENDING_CODE)
        elif refused:
            worst = max(refused.values(), key=lambda verdict: verdict.action)
            await self.conclude(state, turn.text, Outcome.DENIED, worst.code, stops=False)
        elif state.last is None:
            detail = state.flag.code if state.flag is not None else ""
            await self.conclude(state, turn.text, Outcome.COMPLETED, detail)
        else:
            report = stop_report(state.run, state.last)
            await self.conclude(state, turn.text, outcome_of(state.last), state.last.code, report)

    async def conclude(
        self,
        state: State,
        text: str,
        outcome: Outcome,
        detail: str = "",
        report: str = "",
        *,
        stops: bool = True,
    ) -> None:
        """The turn is over with this text (of the last answer) and outcome. A run that is stopped says `report` (else
        the text) again and again, and is told of once."""
        said = "\n\n".join(part for part in (state.earlier_text, text) if part)
        was_stopped = state.run.is_stopped
        report = (report or text) if stops and outcome in STOPPED else ""
        state.run = await self._ledger.record_answer(state.run, said, outcome, detail, report)
        if not was_stopped:
            state.recorder.concluded(state.run)

    async def failed(self, state: State, fault: Fault) -> Reply:
        """A round could not be had, before anything of it reached the agent. After a refusal in this turn the refusal is
        said by program (E7); else the fault is an error in the dialect's own shape."""
        if state.reservation is not None:
            state.run = await self._ledger.give_back(state.reservation)
        if state.exchanges:
            return await self.say(state, gave_up(state, fault.message))
        if state.last is not None:
            report = stop_report(state.run, state.last)
            return await self.say(state, Answer(report, outcome_of(state.last), state.last.code))
        await self.conclude(state, "", Outcome.FAILED, fault.code)
        return self._error(state, Problem(fault.status, fault.code, fault.message))

    async def cut_short(self, state: State, writer: Writer, why: str) -> bytes:
        """The end of a stream whose further answer failed: what was refused before is said by program (E7)."""
        return await self.closed(state, writer, gave_up(state, why))

    async def closed(self, state: State, writer: Writer, answer: Answer) -> bytes:
        """The end, by program, of a stream of which all answers are among the earlier ones."""
        await self._keep_refused(state, answer)
        await self.conclude(state, answer.text, answer.outcome, answer.detail)
        problem = self.problem_of(answer)
        return writer.closing(answer.text) if problem is None else writer.failed(problem)

    async def _keep_refused(self, state: State, answer: Answer) -> None:
        """What the provider keeps where the agent gets an answer made by program: the newest answer of the model with
        all its calls refused, or nothing yet."""
        if not state.earlier:
            await self.keep(state, None, state.answer_id, ())
            return
        turn = state.earlier[-1]
        newest = state.exchanges[-1] if state.exchanges else None
        said = dict(newest.results) if isinstance(newest, Exchange) and newest.answer == turn.id else {}
        why = f"[callgate] This call was not run ({answer.detail})."
        shown = state.earlier[0].id if state.request.stream else state.answer_id
        await self.keep(state, turn, shown, tuple((call, said.get(call, why)) for call in turn.calls))

    async def keep(
        self, state: State, turn: Turn | None, shown: str, owed: tuple[tuple[ToolCall, str], ...]
    ) -> None:
        """The model's answer goes out, or one in its place. Remembers under which id the provider keeps what the agent knows by another, and which results it waits for.
        `turn` None: no model was asked, so what was kept before is what is gone on from."""
        request = state.request
        if turn is None and (request.store or request.previous):
            named = state.incoming.named
            before = state.run.kept_as(request.previous) or KeptAnswer("", request.previous, provider=named)
            kept = [replace(before, shown=shown)]
        elif turn is not None and turn.is_kept:
            refused = {call.key for call, _ in owed}
            left = tuple(call for call in turn.calls if call.key not in refused)
            kept = [KeptAnswer(shown, turn.id, owed, left, state.incoming.named)]
            if turn.id != shown:  # It says its own id where it is fetched.
                kept.append(replace(kept[0], shown=turn.id))
            if request.previous and request.previous == request.conversation:
                kept.append(replace(kept[0], shown=request.previous, actual=request.previous))
        else:
            return
        state.run = await self._ledger.keep_answers(state.run, kept)

    def problem_of(self, answer: Answer) -> Problem | None:
        """The error as which this answer is to be said; None: it is said as an answer."""
        if (
            answer.problem is None
            and self._settings.denied == "error"
            and answer.outcome is not Outcome.COMPLETED
        ):
            return Problem(403, answer.detail, answer.text)
        return answer.problem

    async def say(self, state: State, answer: Answer) -> Reply:
        """An answer made by program, streamed or whole as the agent asked; or an error where so decided."""
        await self._keep_refused(state, answer)
        await self.conclude(state, answer.text, answer.outcome, answer.detail)
        problem = self.problem_of(answer)
        if problem is not None:
            return self._error(state, problem)
        state.recorder.finish(OK)
        if state.request.stream:
            stream = state.listener.writer(state.dialect.writer(state.request, state.answer_id))
            closing = stream.closing(answer.text)
            return Reply(OK, [*_stream_headers(state.request.stream_type), *headers_of(state)], closing)
        text = "\n\n".join(part for part in (state.earlier_text, answer.text) if part)
        now = int(self._clock())
        text = state.listener.answer(text)
        body = state.dialect.render_answer(state.request, state.answer_id, text, state.earlier_usage, now)
        return Reply(OK, [*JSON_HEADERS, *headers_of(state)], body)

    def _error(self, state: State, problem: Problem) -> Reply:
        state.recorder.finish(problem.status, problem.code)
        reply = problem_reply(state.dialect, problem)
        return Reply(reply.status, [*reply.headers, *headers_of(state)], reply.body)


def as_shown(state: State, body: bytes, turn: Turn, refused: Collection[CallKey], note: str) -> Turn:
    """The turn with the text that the agent gets, and will send back, where all its calls are refused."""
    if not note or len(refused) < len(turn.calls):
        return turn
    shown = state.listener.edited(state.dialect, body, turn, refused, note, ())
    return replace(turn, text=state.dialect.parse_response(shown, lambda: "").text)


def _stream_headers(media_type: str) -> list[tuple[str, str]]:
    charset = "; charset=utf-8" if media_type.startswith("text/") else ""
    return [("content-type", f"{media_type}{charset}"), ("cache-control", "no-cache")]


def headers_of(state: State) -> list[tuple[str, str]]:
    """What programs can read of the run in every reply."""
    run = state.run
    found = [
        ("x-callgate-request", state.id),
        ("x-callgate-run", run.id),
        ("x-callgate-outcome", run.outcome),
    ]
    if state.flag is not None:
        found.append(("x-callgate-answer", f"flagged; code={state.flag.code}"))
    return found


def gave_up(state: State, why: str) -> Answer:
    """A further round inside this turn failed: what was refused is said by program instead (E7)."""
    reasons = dict.fromkeys(text for exchange in state.exchanges for text in _reasons_in(exchange))
    outcome = outcome_of(state.last) if state.last else Outcome.FAILED
    return Answer(
        "\n".join([*reasons, f"[callgate] No further answer could be had: {why.rstrip('.')}."]),
        outcome,
        "no_answer",
    )


def _reasons_in(exchange: Exchange | TextExchange) -> list[str]:
    """Why the calls of a turn were refused."""
    return [exchange.reply] if isinstance(exchange, TextExchange) else [said for _, said in exchange.results]
