"""One turn on a stage: real books, a scripted provider at its seam, and witnesses that write down what they are told."""

from __future__ import annotations

import asyncio
import json
from collections import deque
from typing import TYPE_CHECKING, Any, cast

from multidict import CIMultiDict

from proxy.core.limits import Limits, Reservation
from proxy.core.verdicts import Decision, Facts
from proxy.dialects.openai_chat import OPENAI_CHAT
from proxy.exchange import Incoming
from proxy.identity import Caller
from proxy.ledger import Ledger
from proxy.recorder import Recorder
from proxy.rounds import Round
from proxy.settings import Settings
from proxy.stores.memory import MemoryStore
from proxy.turn_state import State
from tests.talk import ALICE, Clock

if TYPE_CHECKING:
    from collections.abc import Iterable

    from proxy.stores import Store
    from proxy.upstream import UpstreamAnswer, UpstreamRequest

SSE = [("content-type", "text/event-stream")]


class Witness:
    """Takes any call and remembers it; what it returns is a witness too."""

    def __init__(self, told: list[tuple[str, tuple[Any, ...], dict[str, Any]]] | None = None) -> None:
        self.told = [] if told is None else told

    def __getattr__(self, name: str) -> Any:
        def tell(*args: object, **named: object) -> Any:
            self.told.append((name, args, named))
            return {} if name == "headers" else Witness(self.told)

        return tell

    def names(self) -> list[str]:
        """What was told, in order."""
        return [name for name, _, _ in self.told if name != "headers"]

    def last(self, name: str) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments of the last such call."""
        return next((args, named) for told, args, named in reversed(self.told) if told == name)


class ScriptedAnswer:
    """An answer of these pieces: bytes, an exception to raise, or an event to wait for."""

    def __init__(
        self,
        pieces: Iterable[bytes | BaseException | asyncio.Event] = (),
        status: int = 200,
        headers: Iterable[tuple[str, str]] = SSE,
    ) -> None:
        self.status = status
        self.headers = [*headers]
        self.pieces = deque(pieces)
        self.closed = False

    async def next_chunk(self) -> bytes:
        while self.pieces:
            piece = self.pieces[0]
            if isinstance(piece, asyncio.Event):
                await piece.wait()
                self.pieces.popleft()
                continue
            self.pieces.popleft()
            if isinstance(piece, BaseException):
                raise piece
            return piece
        return b""

    async def read(self, limit: int) -> bytes:
        del limit
        whole = b""
        while piece := await self.next_chunk():
            whole += piece
        return whole

    def close(self) -> None:
        self.closed = True


class ScriptedUpstream:
    """Gives these answers in order; an exception is raised, an event is waited for without end."""

    def __init__(self, *script: ScriptedAnswer | BaseException | asyncio.Event) -> None:
        self.script = deque(script)
        self.requests: list[UpstreamRequest] = []

    async def send(self, request: UpstreamRequest) -> UpstreamAnswer:
        self.requests.append(request)
        part = self.script.popleft()
        if isinstance(part, asyncio.Event):
            part.set()
            await asyncio.Event().wait()
        if isinstance(part, BaseException):
            raise part
        return cast("UpstreamAnswer", part)

    async def close(self) -> None:
        """Nothing to close."""


class Stage:
    """A turn that was opened, and rounds in it."""

    def __init__(self, *script: ScriptedAnswer | BaseException | asyncio.Event, **settings: Any) -> None:
        self.clock = Clock()
        self.store: Store = MemoryStore(100, 3600.0, self.clock)
        self.ledger = Ledger(self.store, self.clock)
        self.upstream = ScriptedUpstream(*script)
        self.settings = Settings(**settings)
        self.trace, self.audit = Witness(), Witness()
        self.state: State

    async def opens(self, *, stream: bool = True, limits: Limits | None = None, **body: object) -> Stage:
        """The agent's request is read and its run is open."""
        asked = {"model": "m", "messages": [{"role": "user", "content": "hi " * 40}], "stream": stream}
        raw = json.dumps({"max_tokens": 100} | asked | body).encode()
        request = OPENAI_CHAT.parse_request(raw)
        opened = await self.ledger.open(ALICE, request)
        incoming = Incoming(
            OPENAI_CHAT, "POST", "/v1/chat/completions", CIMultiDict({"x-own": "1"}), raw, Caller(ALICE), ""
        )
        recorder = Recorder("req_1", cast("Any", self.trace), cast("Any", self.audit))
        facts = Facts(ALICE, request, opened.run, Decision(), limits or Limits(), self.clock())
        self.state = State("req_1", incoming, recorder, facts, cast("Any", None))
        return self

    def round(self) -> Round:
        """A further model request."""
        return Round(
            self.state,
            ledger=self.ledger,
            upstream=self.upstream,
            settings=self.settings,
            clock=self.clock,
        )

    async def reserves(self, round_: Round) -> Reservation:
        """Puts the round aside."""
        limits = self.state.facts.limits
        self.state.run, answer = await self.ledger.reserve_round(self.state.run, self.state.request, limits)
        assert isinstance(answer, Reservation)
        round_.reserved(answer)
        return answer

    async def sends(self, round_: Round) -> UpstreamAnswer:
        """Puts the round aside and sends it."""
        await self.reserves(round_)
        return await round_.send(self.state.body, self.state.facts.limits)
