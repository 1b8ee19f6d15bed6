"""One turn from request to reply: gather, judge, act, twice. The only file that knows the order.

Laws:
1. Nothing of a call reaches the agent before every check has spoken; a fault in deciding is a refusal.
2. What is reserved is settled on every path; once something reached the agent nothing is retried.
3. The same `calls_move` decides for streams and for whole answers.
"""

from __future__ import annotations

import asyncio
import secrets
from contextlib import ExitStack, aclosing
from dataclasses import replace
from typing import TYPE_CHECKING
from weakref import WeakValueDictionary

from .bodies import chunks_of, only_bytes
from .core.actions import Answer, AskAgain, Release
from .core.limits import Reservation, Shortage, one_round_more
from .core.messages import Problem, TextExchange
from .core.reports import refusal_text
from .core.runs import KeptAnswer, Outcome
from .endings import OK, Endings, as_shown, headers_of
from .errors import ClientFault, Fault, UpstreamFault
from .exchange import Reply, problem_reply
from .judging import UNKNOWN_ANSWER, Judge
from .kept_paths import renamed, unstreamed
from .providers import held_by
from .relay import Relay
from .rounds import Round, being_read, is_answer
from .upstream import UpstreamRequest

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Sequence

    from .core.actions import CallsMove
    from .core.messages import ToolCall, Turn
    from .core.runs import Run
    from .dialects import Reader, Route, Writer
    from .exchange import Incoming
    from .judging import Parts
    from .telemetry import RequestTrace
    from .turn_state import State
    from .upstream import UpstreamAnswer


NOT_RUN = "[callgate] This call was not run."


def fresh_call_id() -> str:
    """An id for a call that came without one (C003)."""
    return f"call_{secrets.token_hex(12)}"


def _letters(call: ToolCall) -> tuple[str, str, str]:
    """What was judged of a call: the same id with other arguments is another call."""
    return call.id, call.name, call.arguments


class Gate:
    """Guards the turns of all agents."""

    def __init__(self, parts: Parts) -> None:
        """All parts are open; closing them is up to who made them."""
        self._parts = parts
        self._settings = parts.settings
        self._ledger = parts.ledger
        self._clock = parts.clock
        self._judge = Judge(parts)
        self._endings = Endings(parts.settings, parts.ledger, parts.clock)
        self._fetching: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def reply(self, incoming: Incoming) -> Reply:
        """Answers one guarded request. A fault becomes an error in the dialect's own shape."""
        trace = self._parts.telemetry.request(incoming)
        try:
            state = await self._judge.open(incoming, trace)
        except Fault as fault:
            trace.finish(fault.status, fault.code)
            return problem_reply(incoming.dialect, Problem(fault.status, fault.code, fault.message))
        with ExitStack() as turn:
            turn.callback(state.policies.let_go)
            try:
                move = await self._judge.request(state)
                if isinstance(move, Answer):
                    return await self._endings.say(state, move)
                state.edit, state.last = move.edit, move.last
                if state.request.stream:
                    return await self._streamed(state, turn.pop_all())
                return await self._whole(state)
            except Fault as fault:
                return await self._endings.failed(state, fault)

    async def pass_through(self, incoming: Incoming) -> Reply:
        """Hands an unguarded request on and its answer back, both unread."""
        trace = self._parts.telemetry.request(incoming)
        try:
            answer = await self._parts.upstream.send(
                UpstreamRequest.of(incoming, incoming.body, self._settings)
            )
        except Fault as fault:
            trace.finish(fault.status, fault.code)
            raise
        trace.finish(answer.status)
        return Reply(answer.status, list(answer.headers), chunks_of(answer))

    async def kept(self, incoming: Incoming, answer_id: str, route: Route) -> Reply:
        """A request about an answer that the provider keeps: for the caller it was made for. Where what comes back is that
        answer, its calls are judged where they were not yet, and refused ones are taken out of it."""
        trace = self._parts.telemetry.request(incoming)
        try:
            if route.made_id is not None:
                reply = await self._made(incoming, route.made_id)
            else:
                unstreamed(incoming.path, route.unstreamed)
                run = await self._judge.keeper(incoming, answer_id, judged=route.judged)
                reply = await self._fetched(incoming, trace, run, answer_id, judged=route.judged)
        except Fault as fault:
            trace.finish(fault.status, fault.code)
            return problem_reply(incoming.dialect, Problem(fault.status, fault.code, fault.message))
        trace.finish(reply.status)
        return reply

    async def _made(self, incoming: Incoming, id_in: Callable[[bytes], str]) -> Reply:
        """Something without calls is made at the provider, and is its caller's from then on."""
        answer, body = await self._asked(incoming)
        if is_answer(answer):
            with being_read():
                made = id_in(body)
            kept = KeptAnswer(made, made, provider=incoming.named)
            await self._ledger.own(incoming.caller.identity, kept, incoming.dialect.name)
        return Reply(answer.status, list(answer.headers), body)

    async def _asked(self, incoming: Incoming) -> tuple[UpstreamAnswer, bytes]:
        sent = UpstreamRequest.of(incoming, incoming.body, self._settings)
        answer = await self._parts.upstream.send(sent)
        return answer, await answer.read(self._settings.max_body_bytes)

    async def _fetched(
        self, incoming: Incoming, trace: RequestTrace, run: Run | None, shown: str, *, judged: bool
    ) -> Reply:
        kept = run.kept_as(shown) if run is not None else None
        if kept is not None and kept.actual:
            incoming = held_by(incoming, kept.provider, self._settings)
            incoming = replace(incoming, path=renamed(incoming.path, shown, kept.actual))
        elif kept is not None or judged:
            raise ClientFault(UNKNOWN_ANSWER, status=404, code="unknown_answer")
        answer, body = await self._asked(incoming)
        if run is None or not judged or not is_answer(answer):
            return Reply(answer.status, list(answer.headers), body)
        # Of several that fetch it at once, one judges its calls; the others find what was decided.
        async with self._fetching.setdefault(run.id, asyncio.Lock()):
            run = await self._ledger.keeper(shown) or run
            body = await self._judged(incoming, trace, run, shown, body)
        return Reply(answer.status, list(answer.headers), body)

    async def _judged(
        self, incoming: Incoming, trace: RequestTrace, run: Run, shown: str, body: bytes
    ) -> bytes:
        """The kept answer less its refused calls. Calls that were judged before, letter by letter, are not judged again."""
        kept = run.kept_as(shown) or KeptAnswer(shown, shown)
        with being_read():
            turn = incoming.dialect.parse_response(body, fresh_call_id)
            state = await self._judge.kept(incoming, trace, run, body)
        refused = {_letters(call): text for call, text in kept.owed}
        known = {*refused, *map(_letters, kept.open)}
        try:
            with being_read():
                turn = state.listener.turn(turn)
            fresh = [call for call in turn.calls if _letters(call) not in known]
            move = await self._judge.calls(state, fresh, others_left=True) if fresh else Release()
        finally:
            state.policies.let_go()
        why = move.refused if isinstance(move, Release) else dict.fromkeys(range(len(fresh)))
        for place, verdict in why.items():
            refused[_letters(fresh[place])] = refusal_text(verdict) if verdict else NOT_RUN
        owed = tuple((call, refused[_letters(call)]) for call in turn.calls if _letters(call) in refused)
        await self._endings.keep(state, replace(turn, is_kept=True), shown, owed)
        note = "\n".join(dict.fromkeys(text for _, text in owed))
        with being_read():
            keys = {call.key for call, _ in owed}
            return state.listener.edited(incoming.dialect, body, turn, keys, note, ())

    # --- act ------------------------------------------------------------------------------------------------

    async def _start(self, state: State, round_: Round) -> UpstreamAnswer:
        """Sends the round with what was put aside for it when the request was judged, or is put aside now."""
        answer: Reservation | Shortage | None = state.reservation
        state.reservation = None
        if answer is None:
            limits = one_round_more(state.facts.limits) if state.last else state.facts.limits
            state.run, answer = await self._judge.reserve_round(state, limits)
        if isinstance(answer, Shortage):
            raise ClientFault(answer.says, status=403, code="budget_exhausted")
        round_.reserved(answer)
        if answer.max_output is not None:
            state.edit = replace(state.edit, max_output=answer.max_output)
            state.recorder.edited(state.run, state.edit)
        return await round_.send(state.body, state.facts.limits)

    def _round(self, state: State) -> Round:
        state.again = False
        return Round(
            state,
            ledger=self._ledger,
            upstream=self._parts.upstream,
            settings=self._settings,
            clock=self._clock,
        )

    async def _whole(self, state: State) -> Reply:
        while True:
            async with self._round(state) as round_:
                answer = await self._start(state, round_)
                reply = await self._read_whole(state, round_, answer)
            if reply is not None:
                return reply

    async def _read_whole(self, state: State, round_: Round, answer: UpstreamAnswer) -> Reply | None:
        """The reply to a whole answer; None: the model is asked again."""
        body = await answer.read(self._settings.max_body_bytes)
        round_.text_bytes = len(body)
        if not is_answer(answer):
            round_.failed(str(answer.status))
            if state.exchanges:
                msg = f"the provider answered with status {answer.status}"
                raise UpstreamFault(msg)
            await round_.settle()
            await self._endings.conclude(state, "", Outcome.FAILED, f"upstream_{answer.status}")
            state.recorder.finish(answer.status, str(answer.status))
            return Reply(answer.status, [*answer.headers, *headers_of(state)], body)
        with being_read():
            turn = state.listener.turn(state.dialect.parse_response(body, fresh_call_id))
        round_.read(turn)
        await round_.settle()
        judge = self._judge.calls(state, turn.calls) if turn.calls else self._judge.answer(state, turn)
        move = await judge
        if isinstance(move, AskAgain):
            self._ask_again(state, turn, move)
            return None
        if isinstance(move, Answer):
            # A final answer that is replaced is not said beside what takes its place.
            state.earlier.append(state.listener.spoken(turn) if turn.calls else replace(turn, text=""))
            return await self._endings.say(state, move)
        refused = {turn.calls[place].key: verdict for place, verdict in move.refused.items()}
        with being_read():
            shown = as_shown(state, body, turn, refused, move.note)
            body = state.listener.edited(state.dialect, body, turn, refused, move.note, state.earlier)
        await self._endings.answered(state, shown, refused)
        state.recorder.finish(answer.status)
        return Reply(answer.status, [*answer.headers, *headers_of(state)], body)

    async def _streamed(self, state: State, turn: ExitStack) -> Reply:
        parts = self._stream(state, turn)
        try:
            head = await anext(parts)
        except BaseException:
            await parts.aclose()
            raise
        if not isinstance(head, Reply):
            msg = "a stream begins with its head"
            raise TypeError(msg)
        if head.body:
            async for _ in parts:  # Closed now, it would look like a hang-up.
                pass
            return head
        head.body = only_bytes(parts)
        return head

    async def _stream(self, state: State, turn: ExitStack) -> AsyncGenerator[Reply | bytes, None]:
        """First the head of the reply, then its bytes. Closing the generator settles what is open, and the turn."""
        with turn:
            async with aclosing(self._rounds(state)) as parts:
                async for part in parts:
                    yield part

    async def _rounds(self, state: State) -> AsyncGenerator[Reply | bytes, None]:
        writer = state.listener.writer(state.dialect.writer(state.request, state.answer_id))
        headed = False
        while True:
            async with self._round(state) as round_:
                try:
                    answer, is_stream = await round_.streams(await self._start(state, round_))
                    if not is_stream:
                        if headed:
                            msg = f"the provider answered with status {answer.status}"
                            raise UpstreamFault(msg)
                        reply = await self._read_whole(state, round_, answer)
                        if reply is None:
                            continue
                        yield reply
                        return
                except Fault as fault:
                    if not headed:
                        raise
                    yield await self._endings.cut_short(state, writer, fault.message)
                    return
                if not headed:
                    yield Reply(answer.status, [*answer.headers, *headers_of(state)], b"", writer.failed)
                    headed = True
                async for part in self._relayed(state, round_, writer):
                    yield part
            if not state.again:
                state.recorder.finish(OK)
                return

    async def _relayed(self, state: State, round_: Round, writer: Writer) -> AsyncGenerator[bytes, None]:
        """One streamed answer. Sets `state.again` where another round is to continue the agent's stream."""
        reader = state.listener.reader(state.dialect.reader(fresh_call_id))

        async def judge(calls: Sequence[ToolCall]) -> CallsMove:
            if not calls:
                return await self._judge.answer(state, reader.turn())
            move = await self._judge.calls(state, calls, others_left=relay.released > 0)
            round_.calls_judged()
            return move

        held = self._settings.stream.max_held_bytes
        heartbeat = self._settings.stream.heartbeat_seconds
        relay = Relay(
            reader,
            writer,
            judge,
            held,
            fresh=not state.earlier,
            heartbeat=heartbeat,
            holds_text=self._settings.answers.hold,
        )
        try:
            async for batch in round_.frames(reader, heartbeat, lambda: relay.holding):
                if batch is None:
                    yield writer.keep_alive()
                    continue
                async with aclosing(relay.feed(batch, may_retry=state.retries_left > 0)) as parts:
                    async for out in parts:
                        yield out
                if relay.stopped:
                    break
            if left := relay.end():
                yield left
        except Fault as fault:
            relay.failed = Problem(fault.status, fault.code, fault.message)
            yield writer.failed(relay.failed)
        finally:
            round_.read(reader.turn())
        async for out in self._after(state, round_, relay, reader, writer):
            yield out

    async def _after(
        self, state: State, round_: Round, relay: Relay, reader: Reader, writer: Writer
    ) -> AsyncGenerator[bytes, None]:
        """What follows when the frames of one answer are over."""
        if relay.move is not None:
            await round_.drain(reader)
            if left := relay.abandoned():
                yield left
        round_.read(reader.turn())
        await round_.settle()
        turn = replace(reader.turn(), text=relay.said)
        if isinstance(relay.move, AskAgain):
            self._ask_again(state, turn if turn.calls else reader.turn(), relay.move)
        elif relay.move is not None:
            state.earlier.append(turn)
            yield await self._endings.closed(state, writer, relay.move)
        elif relay.failed is not None:
            round_.failed(relay.failed.code)
            if relay.fresh and relay.stopped:
                state.retries_left -= 1
                state.again = True
                return
            await self._endings.conclude(state, turn.text, Outcome.FAILED, relay.failed.code)
        elif state.exchanges and not any(turn.finish):
            yield await self._endings.cut_short(state, writer, "the provider's answer ended too early")
        else:
            if not turn.calls and not state.answer_judged:
                await self._judge.answer(state, reader.turn())
            await self._endings.answered(state, turn, relay.refused)

    def _ask_again(self, state: State, turn: Turn, move: AskAgain) -> None:
        """The refused turn and its refusals become part of the request; another round follows."""
        if turn.calls:
            state.earlier.append(state.listener.spoken(turn))
            exchanges, said = state.listener.exchanges(turn, move.refusals)
            state.exchanges += exchanges
            state.reasks_left -= 1
        else:
            # Nobody but the model has seen this answer.
            state.earlier.append(replace(turn, text=""))
            state.exchanges.append(TextExchange(turn.text, move.refusals[0]))
            state.answers_left, said = state.answers_left - 1, ""
        note = "\n".join(filter(None, (said, move.edit.note)))
        kept = state.edit
        state.edit = replace(move.edit, missing_results=kept.missing_results, owed=kept.owed, note=note)
        state.last = move.last
        state.recorder.edited(state.run, state.edit)
        state.again = True
