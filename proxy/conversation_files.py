"""Recorded runs, read from files: JSON lines of conversations or of request bodies in any dialect, one JSON file with a
request body, and audit journals. Which it is, every line shows by itself.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from .audit_records import Record, StepRecord, records
from .core.messages import Malformed, Request
from .core.runs import Identity
from .dialects import DIALECTS

ANY_MODEL = "recorded"
"""Stands for the model where a recording does not name one."""
_IDENTITY = ("organisation", "team", "agent", "user")


class BadRecording(ValueError):
    """A file or a line of it holds no recorded run. The text says which and why."""


@dataclass(frozen=True, slots=True)
class Conversation:
    """One recorded run: the newest request of it holds all that was said, called and returned before."""

    id: str
    request: Request
    identity: Identity = field(default_factory=Identity)
    reward: float | None = None
    """How well the run ended, where the recording says so; 1 is right."""


@dataclass(frozen=True, slots=True)
class AuditedRun:
    """One run as the audit journal tells it: arguments and results are cut and redacted there."""

    id: str
    steps: tuple[StepRecord, ...]
    identity: Identity = field(default_factory=Identity)
    """Not in the journal."""


@dataclass(frozen=True, slots=True)
class RecordedInput:
    """What policies were asked about the calls of one answer, from an audit journal (`audit.inputs`)."""

    run: str
    turn: int
    document: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Recordings:
    """What files hold."""

    conversations: tuple[Conversation, ...] = ()
    audited: tuple[AuditedRun, ...] = ()
    inputs: tuple[RecordedInput, ...] = ()

    def __add__(self, other: Recordings) -> Recordings:
        """Both together."""
        return Recordings(
            (*self.conversations, *other.conversations),
            (*self.audited, *other.audited),
            (*self.inputs, *other.inputs),
        )


def read_recordings(path: Path) -> Recordings:
    """Reads one file. Raises BadRecording with the line, OSError."""
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        msg = f"{path}: is not UTF-8 text"
        raise BadRecording(msg) from None
    rows = list(_rows(path, text))
    audited = [row for _, row in rows if _is_record(row)]
    conversations = [_conversation(path, number, row) for number, row in rows if not _is_record(row)]
    journal = list(records(json.dumps(row).encode() for row in audited))
    return Recordings(tuple(conversations), tuple(_runs(journal)), tuple(_inputs(journal)))


def read_request(body: Mapping[str, Any]) -> Request:
    """Reads a request body in whichever dialect finds most calls and results in it. Raises Malformed where none can."""
    raw = json.dumps({"model": ANY_MODEL} | dict(body)).encode()
    best: Request | None = None
    complaints = []
    for dialect in DIALECTS:
        path = next(route.path for route in dialect.routes if route.guarded)
        try:
            request = dialect.parse_request(raw, path.replace("{model}", ANY_MODEL))
        except Malformed as fault:
            complaints.append(f"{dialect.name}: {fault}")
            continue
        if best is None or _weight(request) > _weight(best):
            best = request
    if best is None or not best.messages:
        raise Malformed("; ".join(complaints) or "there is no message in it")
    return best


def _weight(request: Request) -> int:
    return sum(len(message.calls) + len(message.results) for message in request.messages)


def _rows(path: Path, text: str) -> Iterator[tuple[int, dict[str, Any]]]:
    try:
        whole = json.loads(text)
    except (ValueError, RecursionError):
        whole = None
    if isinstance(whole, dict):
        yield 1, whole
        return
    for number, line in enumerate(text.splitlines(), 1):
        if line.strip():
            try:
                row = json.loads(line)
            except (ValueError, RecursionError) as fault:
                msg = f"{path}, line {number}: is not JSON: {fault}"
                raise BadRecording(msg) from None
            if not isinstance(row, dict):
                msg = f"{path}, line {number}: a JSON object is needed"
                raise BadRecording(msg)
            yield number, row


def _is_record(row: Mapping[str, Any]) -> bool:
    return isinstance(row.get("kind"), str) and "ts" in row


def _conversation(path: Path, number: int, row: Mapping[str, Any]) -> Conversation:
    try:
        request = read_request(row)
    except (Malformed, RecursionError) as fault:
        msg = f"{path}, line {number}: no conversation in any dialect: {fault}"
        raise BadRecording(msg) from None
    known = {name: row[name] for name in _IDENTITY if isinstance(row.get(name), str)}
    reward = row.get("reward")
    is_number = isinstance(reward, int | float) and not isinstance(reward, bool)
    return Conversation(
        str(row.get("id", number)),
        request,
        replace(Identity(), **known),
        float(reward) if is_number and reward is not None else None,
    )


def _inputs(journal: Iterable[Record]) -> Iterator[RecordedInput]:
    for record in journal:
        if record["kind"] == "input" and {"run", "turn", "input"} <= record.keys():
            document = record["input"]
            if isinstance(document, dict) and isinstance(document.get("calls"), list):
                yield RecordedInput(record["run"], record["turn"], document)


def _runs(journal: Iterable[Record]) -> Iterator[AuditedRun]:
    steps: dict[str, list[StepRecord]] = defaultdict(list)
    for record in journal:
        if record["kind"] == "step" and {"run", "tool", "arguments", "status", "turn"} <= record.keys():
            steps[record["run"]].append(record)
    for run, found in steps.items():
        yield AuditedRun(run, tuple(found))
