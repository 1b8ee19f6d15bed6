"""The trajectory journal: append-only JSON lines, written behind the back of the event loop (A9).

Laws: recording never waits and never raises; what does not fit into the queue is counted, logged and shown in the
journal itself by a `lost` record, never silently missing; `close` writes out everything that was taken in. The file
is readable by its owner only. The shapes are in `audit_records`.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import queue
import sys
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import BinaryIO, Literal, Protocol

from proxy.core.approvals import Approval
from proxy.core.messages import RequestEdit, ToolCall
from proxy.core.runs import Run, Step
from proxy.core.verdicts import Action, Verdict

from . import audit_records, policy_records
from .audit_records import Record
from .policy_records import Difference
from .redaction import Redactor

QUEUE_LENGTH = 10_000
"""Records that may wait for the disk."""
ROUNDS_REMEMBERED = 8_192
"""Rounds whose steps may still come."""

log = logging.getLogger(__name__)

MakeRecord = Callable[[], Record]
"""Made by the writer's thread: redaction and JSON cost the event loop nothing. It reads frozen values only."""


class AuditSettings(Protocol):
    """What of the settings tree this file reads."""

    @property
    def path(self) -> str | Path | None:
        """None: no journal; `-`: standard output; else a file."""

    @property
    def max_bytes(self) -> int:
        """The file is rotated before it grows beyond this; 0: never."""

    @property
    def keep(self) -> int:
        """How many rotated files stay: `path.1` is the newest."""

    @property
    def redact(self) -> Sequence[str]:
        """Keys whose values are secrets, see `Redactor`."""


class Sink(Protocol):
    """Where lines go. Only the writer's thread calls it."""

    def write(self, line: bytes) -> None:
        """Appends one line. Raises OSError or ValueError (closed)."""

    def close(self) -> None:
        """Makes sure that everything is out. Raises OSError or ValueError."""


class StreamSink:
    """Appends to an open stream that is not ours to close."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream

    def write(self, line: bytes) -> None:
        """Appends and flushes."""
        self._stream.write(line)
        self._stream.flush()

    def close(self) -> None:
        """Flushes; the stream stays open."""
        self._stream.flush()


class FileSink:
    """Appends to a regular file of mode 0600, rotated by size: `path` becomes `path.1`, that becomes `path.2` …

    Several processes may append to one file: each line is one write, and a file that another process has rotated
    away is let go. Raises OSError where the file cannot be opened.
    """

    def __init__(self, path: Path, max_bytes: int = 0, keep: int = 5) -> None:
        self._path = path
        self._max_bytes = max_bytes
        self._keep = keep
        self._torn = False
        """The last line has no end."""
        self._descriptor = self._open()

    def write(self, line: bytes) -> None:
        """Appends one line. A line that got only partly onto a full disk is ended before the next one begins."""
        if self._max_bytes:
            size = os.fstat(self._descriptor).st_size
            if size and size + len(line) > self._max_bytes:
                self._rotate()
        if self._torn:
            line = b"\n" + line
        written = 0
        try:
            while written < len(line):
                written += os.write(self._descriptor, line[written:])
        finally:
            self._torn = 0 < written < len(line) or (self._torn and not written)

    def close(self) -> None:
        """Closes the file."""
        os.close(self._descriptor)

    def _open(self) -> int:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        opened = os.open(self._path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        size = os.fstat(opened).st_size
        self._torn = size > 0 and os.pread(opened, 1, size - 1) != b"\n"
        return opened

    def _rotate(self) -> None:
        if self._is_current():
            for number in range(self._keep - 1, 0, -1):
                with contextlib.suppress(FileNotFoundError):
                    _numbered(self._path, number).replace(_numbered(self._path, number + 1))
            if self._keep:
                self._path.replace(_numbered(self._path, 1))
            else:
                self._path.unlink()
        fresh = self._open()
        os.close(self._descriptor)
        self._descriptor = fresh

    def _is_current(self) -> bool:
        try:
            return os.path.samestat(self._path.stat(), os.fstat(self._descriptor))
        except FileNotFoundError:
            return False


def _numbered(path: Path, number: int) -> Path:
    return path.with_name(f"{path.name}.{number}")


class AuditJournal:
    """Takes records from the event loop and lets a thread write them. Without a sink it does nothing.

    `lost` counts the records that never got onto the disk.
    """

    def __init__(
        self, sink: Sink | None, redactor: Redactor | None = None, queue_length: int = QUEUE_LENGTH
    ) -> None:
        self.lost = 0
        self._redactor = redactor or Redactor()
        self._sink = sink
        self._queue: queue.Queue[MakeRecord | threading.Event | None] = queue.Queue(queue_length)
        self._lock = threading.Lock()
        self._missing = 0
        self._tokens: dict[tuple[str, int], int] = {}
        self._closed = sink is None
        self._writer = threading.Thread(target=self._run, name="audit-journal", daemon=True)
        if sink is not None:
            self._writer.start()

    @classmethod
    def from_settings(cls, settings: AuditSettings) -> AuditJournal:
        """The journal as configured. Raises OSError where the file cannot be opened."""
        if settings.path is None or not str(settings.path):
            return cls(None)
        redactor = Redactor(settings.redact)
        if str(settings.path) == "-":
            return cls(StreamSink(sys.stdout.buffer), redactor)
        return cls(FileSink(Path(settings.path), settings.max_bytes, settings.keep), redactor)

    # --- what is recorded -----------------------------------------------------------------------------------

    def answered(self, run: Run, model_round: int, tokens_in: int) -> None:
        """The model request of this round took so many input tokens: its steps will say so (A7, A9)."""
        if self._sink is not None:
            self._tokens[run.id, model_round] = tokens_in
            if len(self._tokens) > ROUNDS_REMEMBERED:
                del self._tokens[next(iter(self._tokens))]

    def step(self, run: Run, step: Step, *, request_id: str, at: float | None = None) -> None:
        """A call of the run got its result or was refused."""
        self._record(
            partial(
                audit_records.step_record,
                self._redactor,
                run,
                step,
                request_id=request_id,
                tokens_in=self._tokens.get((run.id, step.round)),
                at=_now(at),
            )
        )

    def policy_input(
        self,
        run: Run,
        document: Mapping[str, object],
        *,
        request_id: str,
        policy: str,
        at: float | None = None,
    ) -> None:
        """Policies were asked about calls with this input document."""
        self._record(
            partial(
                policy_records.input_record,
                self._redactor,
                run,
                document,
                request_id=request_id,
                policy=policy,
                at=_now(at),
            )
        )

    def shadow_differs(
        self, run: Run, call: ToolCall, difference: Difference, *, request_id: str, at: float | None = None
    ) -> None:
        """Policies in shadow would have made something else of this call."""
        self._record(
            partial(
                policy_records.shadow_record,
                self._redactor,
                run,
                call,
                difference,
                request_id=request_id,
                at=_now(at),
            )
        )

    def decision(  # noqa: PLR0913 - a decision has this many sides, all named at the call
        self,
        run: Run,
        *,
        request_id: str,
        phase: Literal["request", "calls", "answer"],
        verdicts: Sequence[Verdict],
        action: Action,
        calls: Sequence[ToolCall] = (),
        refused: Collection[int] | None = None,
        policy: str = "",
        at: float | None = None,
    ) -> None:
        """A request, the calls of a turn (`calls`, as the verdicts count them) or an answer was judged.

        `refused`: which calls do not leave, by index; None: those that a verdict refuses.
        """
        self._record(
            partial(
                audit_records.decision_record,
                self._redactor,
                run,
                request_id=request_id,
                phase=phase,
                verdicts=tuple(verdicts),
                action=action,
                calls=tuple(calls),
                refused=None if refused is None else frozenset(refused),
                policy=policy,
                at=_now(at),
            )
        )

    def request_edited(
        self, run: Run, edit: RequestEdit, *, request_id: str, at: float | None = None
    ) -> None:
        """A request leaves with this edit; an empty one is not recorded."""
        if edit:
            self._record(
                partial(
                    audit_records.edit_record, self._redactor, run, edit, request_id=request_id, at=_now(at)
                )
            )

    def run_ended(self, run: Run, *, request_id: str, at: float | None = None) -> None:
        """The run has got its outcome."""
        self._record(partial(audit_records.run_end_record, run, request_id=request_id, at=_now(at)))

    def approval(self, approval: Approval, *, at: float | None = None) -> None:
        """A person was asked about a call, has decided, or has not in time; or the approved call has left."""
        self._record(partial(audit_records.approval_record, self._redactor, approval, at=_now(at)))

    async def flush(self, seconds: float = 10.0) -> None:
        """Waits until all that was taken in so far is written, at most this many seconds."""
        if not self._closed:
            await asyncio.to_thread(self._flush, seconds)

    async def close(self, seconds: float = 10.0) -> None:
        """Writes out all that was taken in; gives up on a disk that hangs after this many seconds, and says so."""
        if self._closed:
            return
        self._closed = True
        await asyncio.to_thread(self._stop, seconds)

    # --- the queue and its thread ---------------------------------------------------------------------------

    def _record(self, make: MakeRecord) -> None:
        if self._sink is None:
            return
        if self._closed:
            self._lose("it is closed")
            return
        try:
            self._queue.put_nowait(make)
        except queue.Full:
            self._lose("the disk is too slow")

    def _flush(self, seconds: float) -> None:
        reached = threading.Event()
        with contextlib.suppress(queue.Full):
            self._queue.put(reached, timeout=seconds)
            reached.wait(seconds)

    def _stop(self, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        with contextlib.suppress(queue.Full):
            self._queue.put(None, timeout=seconds)
        self._writer.join(max(0.0, deadline - time.monotonic()))
        if self._writer.is_alive():
            log.error("audit journal: the disk hangs, %d records were not written", self._queue.qsize())

    def _run(self) -> None:
        while (make := self._queue.get()) is not None:
            if isinstance(make, threading.Event):
                make.set()
                continue
            try:
                self._write(make)
            except Exception as fault:  # noqa: BLE001 - the thread must live on; what failed is counted and logged
                self._lose(f"{type(fault).__name__}: {fault}")
        try:
            self._report_missing()
            if self._sink is not None:
                self._sink.close()
        except (OSError, ValueError) as fault:
            log.error("audit journal: not everything was written: %s", fault)  # noqa: TRY400 - said in full

    def _write(self, make: MakeRecord) -> None:
        if self._sink is not None:
            self._report_missing()
            self._sink.write(audit_records.line(make()))

    def _report_missing(self) -> None:
        missing = self._missing
        if missing and self._sink is not None:
            self._sink.write(audit_records.line(audit_records.lost_record(missing, time.time())))
            with self._lock:
                self._missing -= missing
            log.warning("audit journal: goes on; %d records are missing", missing)

    def _lose(self, why: str) -> None:
        with self._lock:
            self.lost += 1
            self._missing += 1
            first = self._missing == 1
        if first:
            log.error("audit journal: records are being lost: %s", why)


def _now(at: float | None) -> float:
    return time.time() if at is None else at


def read_journal(path: Path | str) -> Iterator[Record]:
    """The records of a journal in the order in which they were written, rotated files first.

    What is no record is left out: a torn last line, a foreign line. Raises FileNotFoundError where there is none.
    """
    path = Path(path)
    older: list[Path] = []
    while (rotated := _numbered(path, len(older) + 1)).exists():
        older.append(rotated)
    if not older and not path.exists():
        raise FileNotFoundError(f"there is no audit journal at {path}")
    for each in (*reversed(older), path):
        if each.exists():
            with each.open("rb") as lines:
                yield from audit_records.records(lines)
