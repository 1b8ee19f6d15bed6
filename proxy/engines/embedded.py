"""The embedded engine: regorus in processes of its own, so that a policy that runs away can be stopped.

A worker decides one thing at a time. Its deadline counts from when it begins; a worker that does not answer in time,
or dies, is killed and replaced, and only the decision that it had begun fails. What waits goes to the next free
worker.
"""

from __future__ import annotations

import asyncio
import json
import logging
import sys
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from proxy.errors import EngineFault

from . import worker
from .bundle import Bundle

RULE = "data.callgate.main.decision"
_LOG = logging.getLogger(__name__)
_LARGEST_ANSWER = 4 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class EmbeddedSettings:
    """How decisions are bounded. Times in seconds."""

    workers: int = 1
    deadline: float = 1.0
    """For one evaluation, from when a worker begins with it."""
    queue_wait: float = 5.0
    """For a worker to become free."""
    start_wait: float = 20.0
    """For a worker to start and load the policies."""
    memory: int = 1024 * 1024 * 1024
    """Bytes of address space of a worker."""


class EmbeddedEngine:
    """Decides in worker processes, under one bundle for as long as it lives. Made by `start`."""

    def __init__(self, bundle: Bundle, settings: EmbeddedSettings) -> None:
        """Use `start`."""
        self._bundle = bundle
        self._settings = settings
        self._free: deque[_Worker] = deque()
        self._waiting: deque[asyncio.Future[_Worker]] = deque()
        self._out: set[_Worker] = set()
        self._replacing: set[asyncio.Task[None]] = set()
        self._deciding: set[asyncio.Task[bytes]] = set()
        self._closed = False

    @classmethod
    async def start(cls, bundle: Bundle, settings: EmbeddedSettings | None = None) -> EmbeddedEngine:
        """Starts workers with these policies. Raises EngineFault where they do not load."""
        self = cls(bundle, settings or EmbeddedSettings())
        try:
            for _ in range(self._settings.workers):
                self._free.append(await _Worker.start(bundle, self._settings))
        except BaseException:
            await self.close()
            raise
        return self

    @property
    def revision(self) -> str:
        """Of the policies that it decides under."""
        return self._bundle.revision

    async def decide(self, document: Mapping[str, object]) -> Mapping[str, object]:
        """The decision document. Raises EngineFault."""
        # In a task of its own: an agent that hangs up must not cost a worker, which is killed when it is interrupted.
        deciding = asyncio.get_running_loop().create_task(self._decide(orjson.dumps(document)))
        self._deciding.add(deciding)
        deciding.add_done_callback(self._done)
        decision: Mapping[str, object] = orjson.loads(await asyncio.shield(deciding))
        return decision

    def _done(self, deciding: asyncio.Task[bytes]) -> None:
        self._deciding.discard(deciding)
        if not deciding.cancelled():
            deciding.exception()  # Looked at, also where nobody waits for it any more.

    async def _decide(self, document: bytes) -> bytes:
        worker_ = await self._take()
        try:
            return await worker_.ask(document)
        finally:
            self._give_back(worker_)

    async def _take(self) -> _Worker:
        if self._closed:
            raise EngineFault("the policy engine is closed")
        while self._free:
            worker_ = self._free.popleft()
            self._out.add(worker_)
            if worker_.is_usable:
                return worker_
            self._replace_soon(worker_)
        worker_ = await self._wait()
        self._out.add(worker_)
        return worker_

    async def _wait(self) -> _Worker:
        place: asyncio.Future[_Worker] = asyncio.get_running_loop().create_future()
        self._waiting.append(place)
        await asyncio.wait({place}, timeout=self._settings.queue_wait)
        if not place.done():
            self._waiting.remove(place)
            raise EngineFault("the policy engine is too busy")
        return place.result()

    def _offer(self, worker_: _Worker) -> None:
        while self._waiting:
            place = self._waiting.popleft()
            if not place.done():
                place.set_result(worker_)
                return
        self._free.append(worker_)

    def _give_back(self, worker_: _Worker) -> None:
        if self._closed:
            return
        if worker_.is_usable:
            self._out.discard(worker_)
            self._offer(worker_)
        else:
            self._replace_soon(worker_)

    def _replace_soon(self, lost: _Worker) -> None:
        replacing = asyncio.get_running_loop().create_task(self._replace(lost))
        self._replacing.add(replacing)
        replacing.add_done_callback(self._replacing.discard)

    async def _replace(self, lost: _Worker) -> None:
        """A new worker for one that was lost; tried until there is one, since without any nothing is decided."""
        await lost.close()
        self._out.discard(lost)
        pause = 0.05
        while True:
            try:
                fresh = await _Worker.start(self._bundle, self._settings)
            except (EngineFault, OSError) as fault:
                _LOG.error("a policy worker could not be started again: %s", fault)
                await asyncio.sleep(pause)
                pause = min(pause * 2, 5.0)
            else:
                self._offer(fresh)
                return

    async def close(self) -> None:
        """Ends all workers. Decisions under way fail with EngineFault."""
        self._closed = True
        for task in self._replacing:
            task.cancel()
        for place in self._waiting:
            if not place.done():
                place.set_exception(EngineFault("the policy engine is closed"))
        await asyncio.gather(*self._replacing, return_exceptions=True)
        await asyncio.gather(*(each.close() for each in (*self._free, *self._out)))
        await asyncio.gather(*self._deciding, return_exceptions=True)
        self._free.clear()


class _Worker(asyncio.SubprocessProtocol):
    """One process. Answers come in the order of the questions, and there is one question at a time."""

    def __init__(self, bundle: Bundle, settings: EmbeddedSettings) -> None:
        self._bundle = bundle
        self._settings = settings
        self._received = bytearray()
        self._answer: asyncio.Future[bytes] | None = None
        self._transport: asyncio.SubprocessTransport | None = None
        self._ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.is_usable = True

    @classmethod
    async def start(cls, bundle: Bundle, settings: EmbeddedSettings) -> _Worker:
        """A process that has loaded the policies. Raises EngineFault with the place of what does not load."""
        loop = asyncio.get_running_loop()
        script = Path(worker.__file__)
        transport, self = await loop.subprocess_exec(
            lambda: cls(bundle, settings),
            # -P: the folder of the script is no place to import from.
            *(sys.executable, "-P", str(script)),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
        )
        self._transport = transport
        order = {
            "modules": {file: module.text for file, module in bundle.embedded.items()},
            "data": bundle.data,
            "rule": RULE,
            # Later than the deadline, so that this side says what happened as long as there is one.
            "stop_after": settings.deadline + 1.0,
            "memory": settings.memory,
        }
        try:
            await self._exchange(json.dumps(order).encode(), settings.start_wait, "did not start")
        except BaseException:
            await self.close()
            raise
        return self

    async def ask(self, document: bytes) -> bytes:
        """The decision as JSON. Raises EngineFault; where the process was lost, it is no longer usable."""
        return await self._exchange(document, self._settings.deadline, "took too long for a decision")

    async def _exchange(self, body: bytes, seconds: float, complaint: str) -> bytes:
        if not self.is_usable or self._transport is None:
            raise EngineFault("a policy worker has ended")
        answer = self._answer = asyncio.get_running_loop().create_future()
        sink = self._transport.get_pipe_transport(0)
        sink.write(worker.LENGTH.pack(len(body)) + body)  # type: ignore[union-attr]  # stdin is a pipe
        try:
            # Not asyncio.timeout: an answer that is here counts, also where this loop was too slow to look at it.
            await asyncio.wait({answer}, timeout=seconds)
        finally:
            self._answer = None
            if not answer.done() or answer.exception() is not None:
                # What comes later would be taken for the answer to the next question.
                self._kill()
        if not answer.done():
            raise EngineFault(f"the policy {complaint} ({seconds:g} s)")
        return self._read(answer.result())

    def _read(self, answer: bytes) -> bytes:
        mark, body = answer[:1], answer[1:]
        if mark == worker.FAIR:
            return body
        raise EngineFault(self._placed(json.loads(body)))

    def _placed(self, error: Mapping[str, Any]) -> str:
        """What the engine says, with the place in the file as it was written."""
        file, line, column = error["file"], error["line"], error["column"]
        module = self._bundle.embedded.get(file)
        if module is not None:
            line, column = module.place(line, column)
        return str(worker.RegoError(error["message"], file, line, column))

    def _kill(self) -> None:
        self.is_usable = False
        if self._transport is not None:
            with suppress(ProcessLookupError):
                self._transport.kill()

    async def close(self) -> None:
        """Ends the process and waits until it has gone."""
        self._kill()
        if self._transport is not None:
            await asyncio.wait({self._ended})
            self._transport.close()

    # --- what the event loop says ---

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        """Collects one answer."""
        del fd
        self._received += data
        head = worker.LENGTH.size
        while len(self._received) >= head:
            (length,) = worker.LENGTH.unpack(self._received[:head])
            if length > _LARGEST_ANSWER:
                self._fail("a policy gave more than a decision can hold")
                self._kill()
                return
            if len(self._received) < head + length:
                return
            answer = bytes(self._received[head : head + length])
            del self._received[: head + length]
            if self._answer is not None and not self._answer.done():
                self._answer.set_result(answer)

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:
        """The process closed a pipe: it is ending."""
        del exc
        if fd == 1:
            self.is_usable = False
            self._fail("the policy engine broke down in the middle of a decision")

    def process_exited(self) -> None:
        """The process has ended."""
        self.is_usable = False
        self._fail("the policy engine broke down in the middle of a decision")

    def connection_lost(self, exc: Exception | None) -> None:
        """The process and its pipes are gone."""
        del exc
        if not self._ended.done():
            self._ended.set_result(None)

    def _fail(self, message: str) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(EngineFault(message))
