"""The shapes of the trajectory journal: one JSON object a line, told apart by `kind` (A9, B4).

| kind           | written when                                   | beyond the common fields                         |
|----------------|------------------------------------------------|--------------------------------------------------|
| `step`         | a call got its result, or was refused          | `StepRecord`                                     |
| `decision`     | a request, the calls of a turn or an answer    | `DecisionRecord`: every verdict, every call      |
|                | were judged                                    |                                                  |
| `request_edit` | Callgate changed a request before sending it   | `EditRecord`: what was changed                   |
| `run_end`      | a run got its outcome                          | `RunEndRecord`: outcome and what was spent       |
| `approval`     | a person was asked about a call, decided, or did | `ApprovalRecord`: who said what, and why         |
|                | not in time; the approved call left            |                                                  |
| `input`        | policies were asked about calls                | `InputRecord`: what they read, redacted          |
| `shadow`       | policies in shadow differ about a call         | `ShadowRecord`: what it was and would be, by what |
| `lost`         | the disk was too slow or full                  | `LostRecord`: how many records are missing here  |

Common to all but `lost` and `approval`: `ts` (RFC 3339, UTC), `request_id`, `run`, `turn`, `round`. `run` strings them together;
`call_id` and `args_hash` join a step with the decision about it. Texts are redacted before they are cut.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Literal, TypedDict

from proxy.core.approvals import Approval
from proxy.core.limits import NANO
from proxy.core.messages import Exchange, RequestEdit, TextExchange, ToolCall
from proxy.core.results import StepStatus
from proxy.core.runs import Run, Step
from proxy.core.verdicts import Action, Verdict, refused_calls

from .redaction import Redactor

SUCCEEDED = frozenset({StepStatus.FOUND, StepStatus.NOT_FOUND})
"""The tool worked: an empty answer is not a failure (A6)."""


class Stamp(TypedDict):
    """What every record but `lost` begins with."""

    ts: str
    request_id: str
    run: str
    turn: int
    round: int
    """Model requests of the run so far, this one included."""


class StepRecord(Stamp):
    """One step of the trajectory (A9)."""

    kind: Literal["step"]
    step: int
    """Number within the run, from 1."""
    call_id: str
    tool: str
    args_hash: str
    ok: bool
    status: str
    """A `StepStatus`: the class of the result, or `refused`."""
    latency_ms: float | None
    """From the release of the call to the arrival of its result, seen from the proxy."""
    tokens_in: int | None
    """Input tokens of the model request that proposed the call; None where the provider did not say."""
    arguments: str
    result: str
    refused_as: str
    """The code of the refusal; empty where the call was released."""


class VerdictRecord(TypedDict):
    """What one check said."""

    check: str
    code: str
    action: str
    mode: str
    call: int | None
    """Index into `calls`; None: about the whole turn or request."""
    layer: str
    rule: str
    reason_class: str


class CallRecord(TypedDict):
    """One judged call."""

    call_id: str
    tool: str
    args_hash: str
    arguments: str
    released: bool


class DecisionRecord(Stamp):
    """One judgement."""

    kind: Literal["decision"]
    phase: Literal["request", "calls", "answer"]
    action: str
    """What followed for the whole, an `Action` in lower case."""
    policy: str
    """Revision of the loaded policies."""
    verdicts: list[VerdictRecord]
    calls: list[CallRecord]


class RunEndRecord(Stamp):
    """A run got its outcome."""

    kind: Literal["run_end"]
    outcome: str
    detail: str
    steps: int
    seconds: float
    spent: dict[str, object]


class EditRecord(Stamp):
    """A request left with changes (C15)."""

    kind: Literal["request_edit"]
    changed: dict[str, object]


class ApprovalRecord(TypedDict):
    """How an approval stands now (D4)."""

    kind: Literal["approval"]
    ts: str
    approval: str
    run: str
    turn: int
    tool: str
    args_hash: str
    arguments: str
    status: str
    """An `ApprovalStatus`."""
    by: str
    """Who decided; empty: nobody has."""
    reason: str
    layers: list[str]
    """Which layers demand it."""
    organisation: str
    team: str
    agent: str
    user: str


class InputRecord(TypedDict):
    """What policies read for one decision about calls, so that others can be asked the same."""

    kind: Literal["input"]
    ts: str
    request_id: str
    run: str
    turn: int
    round: int
    policy: str
    input: object


class ShadowRecord(TypedDict):
    """Policies in shadow would have made something else of a call."""

    kind: Literal["shadow"]
    ts: str
    request_id: str
    run: str
    turn: int
    round: int
    call_id: str
    tool: str
    arguments: str
    policy: str
    """Revision of the policies in force."""
    shadow: str
    """Revision of those in shadow."""
    was: str
    would: str
    """`allowed`, `needs approval` or `refused`."""
    by: list[str]
    """`layer: rule (code)` of what the stricter of the two says."""


class LostRecord(TypedDict):
    """Here `count` records are missing."""

    kind: Literal["lost"]
    ts: str
    count: int


Record = (
    StepRecord
    | DecisionRecord
    | RunEndRecord
    | EditRecord
    | ApprovalRecord
    | InputRecord
    | ShadowRecord
    | LostRecord
)


def args_hash(arguments: str) -> str:
    """The first 16 hex digits of SHA-256 over the exact text of the arguments."""
    return hashlib.sha256(arguments.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def timestamp(at: float) -> str:
    """Epoch seconds as RFC 3339 in UTC with milliseconds."""
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def stamp(run: Run, request_id: str, at: float, turn: int = 0, model_round: int = 0) -> Stamp:
    """What all records of a run begin with."""
    return {
        "ts": timestamp(at),
        "request_id": request_id,
        "run": run.id,
        "turn": turn or run.turn,
        "round": model_round or run.spent.rounds,
    }


def step_record(
    redactor: Redactor, run: Run, step: Step, *, request_id: str, tokens_in: int | None, at: float
) -> StepRecord:
    """One line for a step whose result has come, or that was refused."""
    waited = None if step.result_at is None or not step.released_at else step.result_at - step.released_at
    return {
        **stamp(run, request_id, at, step.turn, step.round),
        "kind": "step",
        "step": step.number,
        "call_id": step.call_id,
        "tool": step.tool,
        "args_hash": args_hash(step.arguments),
        "ok": step.status in SUCCEEDED,
        "status": step.status.value,
        "latency_ms": None if waited is None else round(max(0.0, waited) * 1000, 3),
        "tokens_in": tokens_in,
        "arguments": redactor.summary(step.arguments),
        "result": redactor.summary(step.result),
        "refused_as": step.refused_as,
    }


def decision_record(  # noqa: PLR0913 - a decision has this many sides, all named at the call
    redactor: Redactor,
    run: Run,
    *,
    request_id: str,
    phase: Literal["request", "calls", "answer"],
    verdicts: Sequence[Verdict],
    action: Action,
    calls: Sequence[ToolCall] = (),
    refused: Collection[int] | None = None,
    policy: str = "",
    at: float,
) -> DecisionRecord:
    """One line for a judgement of a request, of the calls of a turn or of an answer.

    `refused`: which calls do not leave, by index; None: those that a verdict refuses.
    """
    kept_back = refused_calls(verdicts, len(calls)) if refused is None else refused
    return {
        **stamp(run, request_id, at),
        "kind": "decision",
        "phase": phase,
        "action": action.name.lower(),
        "policy": policy,
        "verdicts": [_verdict(verdict) for verdict in verdicts],
        "calls": [
            {
                "call_id": call.id,
                "tool": call.name,
                "args_hash": args_hash(call.arguments),
                "arguments": redactor.summary(call.arguments),
                "released": place not in kept_back,
            }
            for place, call in enumerate(calls)
        ],
    }


def _verdict(verdict: Verdict) -> VerdictRecord:
    return {
        "check": verdict.check,
        "code": verdict.code,
        "action": verdict.action.name.lower(),
        "mode": verdict.mode.value,
        "call": verdict.call,
        "layer": verdict.layer,
        "rule": verdict.rule,
        "reason_class": verdict.reason_class,
    }


def run_end_record(run: Run, *, request_id: str, at: float) -> RunEndRecord:
    """One line for a run that has got its outcome."""
    spent = run.spent
    return {
        **stamp(run, request_id, at),
        "kind": "run_end",
        "outcome": run.outcome.value,
        "detail": run.outcome_detail,
        "steps": len(run.steps),
        "seconds": round(max(0.0, at - run.started_at), 3),
        "spent": {
            "rounds": spent.rounds,
            "calls": spent.calls,
            "input_tokens": spent.input_tokens,
            "output_tokens": spent.output_tokens,
            "unverified_tokens": spent.unverified_tokens,
            "usd": spent.nano_usd / NANO,
            "unverified_usd": spent.unverified_nano_usd / NANO,
            "per_tool": dict(spent.per_tool),
        },
    }


def _refused_in(exchange: Exchange | TextExchange) -> list[str]:
    """The ids of the calls of a turn that was refused; calls in text have none that anybody else would know."""
    return [call.id for call, _ in exchange.results] if isinstance(exchange, Exchange) else []


def edit_record(redactor: Redactor, run: Run, edit: RequestEdit, *, request_id: str, at: float) -> EditRecord:
    """One line for a request that left with changes: only what was changed is named."""
    choice = edit.tool_choice
    changed: Mapping[str, object] = {
        "keep_tools": None if edit.keep_tools is None else sorted(edit.keep_tools),
        "tool_choice": None if choice is None else {"mode": choice.mode.value, "names": list(choice.names)},
        "ask_usage": edit.ask_usage or None,
        "missing_results": [missing.call.id for missing in edit.missing_results] or None,
        "exchanges": [_refused_in(exchange) for exchange in edit.exchanges] or None,
        "owed": [call.id for call, _ in edit.owed] or None,
        "previous": edit.previous,
        "results": len(edit.results) or None,
        "note": redactor.summary(edit.note) or None,
        "max_output": edit.max_output,
    }
    return {
        **stamp(run, request_id, at),
        "kind": "request_edit",
        "changed": {name: value for name, value in changed.items() if value is not None},
    }


def approval_record(redactor: Redactor, approval: Approval, *, at: float) -> ApprovalRecord:
    """One line for an approval that was asked for, decided, used, or has expired."""
    whose = approval.identity
    return {
        "kind": "approval",
        "ts": timestamp(at),
        "approval": approval.id,
        "run": approval.run,
        "turn": approval.turn,
        "tool": approval.tool,
        "args_hash": args_hash(approval.arguments),
        "arguments": redactor.summary(approval.arguments),
        "status": approval.status.value,
        "by": approval.decided_by,
        "reason": redactor.text(approval.reason),
        "layers": sorted({demand.layer for demand in approval.demands}),
        "organisation": whose.organisation,
        "team": whose.team,
        "agent": whose.agent,
        "user": whose.user,
    }


def lost_record(count: int, at: float) -> LostRecord:
    """One line where records are missing."""
    return {"kind": "lost", "ts": timestamp(at), "count": count}


def line(record: Record) -> bytes:
    """The record as one line: printable ASCII only, so that no name can forge or hide anything (C025)."""
    return json.dumps(record, separators=(",", ":")).replace("\x7f", "\\u007f").encode("ascii") + b"\n"


def records(lines: Iterable[bytes]) -> Iterable[Record]:
    """The records in these lines; a line that is torn or no record is left out."""
    kinds = {"step", "decision", "run_end", "request_edit", "approval", "input", "shadow", "lost"}
    for each in lines:
        try:
            record = json.loads(each)
        except (ValueError, RecursionError):
            continue
        if isinstance(record, dict) and record.get("kind") in kinds:
            yield record  # type: ignore[misc]  # told by its kind; written by this file
