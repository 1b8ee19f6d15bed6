"""The input document: built from our own words, and bounded, before any engine sees it.

Pure. Whatever cannot be represented alike in every engine (NaN, half a surrogate pair, NUL, depth, size) is an
EngineFault, and an EngineFault is a refusal; free text (what users and tools said) is cleaned instead.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import orjson

from proxy.core.evidence import plain
from proxy.core.messages import Request, Role, Tool, ToolCall, ToolKind, Turn
from proxy.core.names import fold_name
from proxy.core.results import StepStatus
from proxy.core.runs import Identity, Run, Step
from proxy.errors import EngineFault

MAX_BYTES = 262_144
MAX_DEPTH = 100
MAX_RESULT = 16_384
"""Characters of one result."""
MAX_USER_TEXT = 16_384
"""Characters of what the user said last, and of its folded form."""
MAX_USER_TEXTS = 32_768
"""Characters of all that the user said; the newest counts."""
MAX_ANSWER = 65_536
_EXACT_INTEGER = 2**53
_UNUSABLE = re.compile("[\0\ud800-\udfff]")
_OVERHEAD = 64
_UNPLAIN = re.compile(r"\\u0000|[0-9]{16}|[0-9][eE]|-0|[.]0")
_NO_BRACKET = re.compile(r"[^\[\]{}]+")
_PLAIN_DEPTH = 16


def build_input(  # noqa: PLR0913 - the facts of one decision
    phase: str,
    identity: Identity,
    request: Request,
    run: Run,
    calls: Sequence[ToolCall] = (),
    parsed_arguments: Sequence[Mapping[str, object] | None] = (),
    *,
    now: float,
    answer: Turn | None = None,
    with_results: bool = True,
) -> dict[str, Any]:
    """The input document for one phase (`request`, `calls` or `answer`); policies/README.md describes it.

    `now` is in epoch seconds. Raises EngineFault where something cannot be represented, or is too large.
    """
    document: dict[str, Any] = {
        "phase": phase,
        "now_ns": _nanoseconds(now),
        "identity": _identity(identity),
        "request": {
            "dialect": request.dialect,
            "model": cleaned(request.model),
            "stream": request.stream,
            "declared_tools": [cleaned(name) for name in request.tool_names],
        },
        "task": _task(request),
        "tools": [_offered(tool) for tool in request.tools],
        "calls": list(_calls(calls, parsed_arguments)),
        "run": _run(run, now),
    }
    if answer is not None:
        document["answer"] = {
            "text": cleaned(answer.text[:MAX_ANSWER]),
            "plain": cleaned(plain(answer.text[:MAX_ANSWER])),
            "truncated": len(answer.text) > MAX_ANSWER,
        }
    room = MAX_BYTES - len(_encoded(document)) - _OVERHEAD
    if room < 0:
        raise EngineFault("there is more to decide about at once than a policy may read (256 KiB)")
    _add_steps(document["run"], run.steps, room, with_results=with_results)
    return document


def cleaned(text: str) -> str:
    """Free text as every engine can hold it."""
    return _UNUSABLE.sub("\ufffd", text)


def exact(value: object, what: str, depth: int = 0) -> Any:
    """JSON values as every engine reads them: whole numbers beyond 2^53 become text. Raises EngineFault, naming `what`,
    for anything that cannot be kept as it is."""
    if isinstance(value, str):
        if _UNUSABLE.search(value):
            raise EngineFault(f"{what} hold a character that cannot be judged")
        return value
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int):
        return value if abs(value) <= _EXACT_INTEGER else str(value)
    if isinstance(value, float):
        if not math.isfinite(value):
            raise EngineFault(f"{what} hold a number that is none")
        # As texts, 5 and 5.0 are two things to one engine and one to the other.
        return int(value) if value.is_integer() and abs(value) <= _EXACT_INTEGER else value
    if depth >= MAX_DEPTH - 8:
        raise EngineFault(f"{what} are nested too deep to be judged")
    if isinstance(value, Mapping):
        return {exact(str(name), what): exact(part, what, depth + 1) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [exact(part, what, depth + 1) for part in value]
    raise EngineFault(f"{what} hold a value that is not JSON")


def _nanoseconds(seconds: float) -> int:
    """Exact to the microsecond, which is what a clock's float holds."""
    return round(seconds * 1_000_000) * 1000


def _encoded(document: object) -> bytes:
    return orjson.dumps(document)


def _identity(identity: Identity) -> dict[str, Any]:
    return {
        "organisation": cleaned(identity.organisation),
        "team": cleaned(identity.team),
        "agent": cleaned(identity.agent),
        "user": cleaned(identity.user),
        "roles": [cleaned(role) for role in identity.roles],
        "claims": exact(identity.claims, "the claims of the caller's token"),
    }


def _task(request: Request) -> dict[str, Any]:
    said = [
        cleaned(message.text) for message in request.messages if message.role is Role.USER and message.text
    ]
    kept: list[str] = []
    room = MAX_USER_TEXTS
    for text in reversed(said):
        if len(text) > room:
            break
        kept.append(text)
        room -= len(text)
    kept.reverse()
    newest = said[-1][:MAX_USER_TEXT] if said else ""
    if said and not kept:
        kept = [newest]
    return {
        "user_text": newest,
        "user_texts": kept,
        # Enough for whole words to be found, whatever their case and width.
        "folded": folded_text("\n".join(kept)),
        "truncated": len(kept) < len(said) or bool(said and len(said[-1]) > MAX_USER_TEXT),
    }


def folded_text(text: str) -> str:
    """What a person said, so that case and full width do not count."""
    return unicodedata.normalize("NFKC", text).casefold()


def _tool(name: str, kind: ToolKind) -> dict[str, Any]:
    return {"name": cleaned(name), "folded": fold_name(name), "hosted": kind is ToolKind.HOSTED}


def _offered(tool: Tool) -> dict[str, Any]:
    entry = _tool(tool.name, tool.kind) | {"declared": True}
    if tool.options is not None:
        entry["options"] = exact(tool.options, "the options of a tool that the provider runs")
    return entry


def _calls(
    calls: Sequence[ToolCall], parsed: Sequence[Mapping[str, object] | None]
) -> Iterator[dict[str, Any]]:
    for index, call in enumerate(calls):
        arguments = parsed[index] if index < len(parsed) else None
        entry = _tool(call.name, call.kind) | {
            "index": index,
            "id": cleaned(call.id),
            "kind": str(call.kind),
            "arguments": None if arguments is None else exact(arguments, "the arguments of a call"),
        }
        if call.kind is ToolKind.CUSTOM:
            entry["text"] = exact(call.arguments, "the arguments of a call")
        yield entry


def _run(run: Run, now: float) -> dict[str, Any]:
    return {
        "id": cleaned(run.id),
        "turn": run.turn,
        "state_lost": run.state_lost,
        "outcome": str(run.outcome),
        "seconds": max(0.0, round(now - run.started_at, 3)),
        "turn_seconds": max(0.0, round(now - (run.turn_started_at or run.started_at), 3)),
        "counts": _counts(run.spent.rounds, run.spent.calls, run.spent.per_tool),
        "turn_counts": _counts(run.turn_spent.rounds, run.turn_spent.calls, run.turn_spent.per_tool),
        "tokens": {
            "input": run.spent.input_tokens,
            "output": run.spent.output_tokens,
            "total": run.spent.total_tokens,
            "unverified": run.spent.unverified_tokens,
        },
        "money": {
            "nano_usd": run.spent.nano_usd,
            "unverified_nano_usd": run.spent.unverified_nano_usd,
        },
        "steps": [],
        "steps_truncated": False,
    }


def _counts(rounds: int, calls: int, per_tool: Mapping[str, int]) -> dict[str, Any]:
    return {
        "rounds": rounds,
        "calls": calls,
        "per_tool": {cleaned(name): count for name, count in per_tool.items()},
    }


# --- steps --------------------------------------------------------------------------------------------------------


def _add_steps(document: dict[str, Any], steps: Sequence[Step], room: int, *, with_results: bool) -> None:
    """Fills in the steps, as many as there is room for: what closes an object first, then the newest, then their
    results. That some are missing is said."""
    entries = [(step, _step(step)) for step in steps]
    by_weight = sorted(
        entries, key=lambda pair: (pair[0].status is not StepStatus.FORBIDDEN, -pair[0].number)
    )
    kept: set[int] = set()
    for step, entry in by_weight:
        size = len(_encoded(entry)) + 1
        if size > room:
            document["steps_truncated"] = True
            continue
        room -= size
        kept.add(id(step))
    if with_results:
        for step, entry in reversed(entries):
            if step.result and id(step) in kept:
                room = _add_result(entry, step.result, room)
    document["steps"] = [entry for step, entry in entries if id(step) in kept]


def _step(step: Step) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "number": step.number,
        "turn": step.turn,
        "round": step.round,
        "tool": cleaned(step.tool),
        "arguments": _read_arguments(step.arguments),
        "status": str(step.status),
        "refused_as": step.refused_as,
        "released_at_ns": _nanoseconds(step.released_at),
        "result_at_ns": None if step.result_at is None else _nanoseconds(step.result_at),
        "truncated": False,
    }
    return entry


def _add_result(entry: dict[str, Any], text: str, room: int) -> int:
    """Adds the result as JSON where it is JSON, else as text; what is left of the room."""
    value = _read_json(text) if len(text) <= MAX_RESULT else None
    added = {"result_json": value} if value is not None else {"result": cleaned(text[:MAX_RESULT])}
    size = len(_encoded(added))
    if size > room:
        entry["truncated"] = True
        return room
    entry["truncated"] = len(text) > MAX_RESULT
    entry.update(added)
    return room - size


def _read_arguments(text: str) -> dict[str, Any] | None:
    """What a past call's arguments were; None where they are no object that can be represented."""
    value = _read_json(text) if text.strip() else {}
    return value if isinstance(value, dict) else None


def _read_json(text: str) -> Any:
    """An object or array, or None."""
    if text.lstrip()[:1] not in {"{", "["}:
        return None
    try:
        value = orjson.loads(text)
        return value if _is_plain(text) else exact(value, "a past text")
    except (orjson.JSONDecodeError, EngineFault):
        return None


def _is_plain(text: str) -> bool:
    """Whether valid JSON needs no second look: no NUL, no large number, no negative zero, no whole one with a point, not deep. Quicker than looking
    at every value, and a run has many results."""
    if _UNPLAIN.search(text):
        return False
    brackets = _NO_BRACKET.sub("", text)
    for _ in range(_PLAIN_DEPTH):
        if not brackets:
            return True
        brackets = brackets.replace("[]", "").replace("{}", "")
    return not brackets
