"""Whether a scene came out right: what was expected and what came, one line for each thing that differs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from proxy import semconv as name
from proxy.demo.stage import AGENT_KEY, Performance

OK = 200
HIDDEN = "create_refund"


@dataclass(frozen=True, slots=True)
class Mismatch:
    """One expectation that did not come true."""

    what: str
    expected: str
    came: str


def mismatches(performance: Performance) -> list[Mismatch]:
    """Everything that is not as the scene expects it; empty: it came out right."""
    return [
        *_of_the_agent(performance),
        *_of_the_provider(performance),
        *_of_the_run(performance),
        *_of_the_trace(performance),
    ]


def refusals(performance: Performance) -> list[tuple[str, tuple[str, ...]]]:
    """Tool and codes for each refused call, in order."""
    found = []
    for record in performance.decisions:
        for place, call in enumerate(record["calls"]):
            if record["phase"] == "calls" and not call["released"]:
                about = [each for each in record["verdicts"] if each["call"] in {place, None}]
                found.append(
                    (call["tool"], tuple(each["code"] for each in about if each["mode"] == "enforce"))
                )
    return found


def _of_the_agent(performance: Performance) -> Iterator[Mismatch]:
    wanted, played = performance.scene.expected, performance.played
    yield from _differ("the SDK's error", "", played.fault)
    yield from _differ("status of the replies", {OK}, {got.status for got in played.replies})
    yield from _differ("calls that the tools ran", list(wanted.executed), performance.shop.executed)
    for part in wanted.says:
        if part not in performance.text:
            yield Mismatch("the final answer", f"{part!r} in it", performance.text)
    got = performance.received.decode()
    for part in (*wanted.never, *performance.refused):
        if part in got:
            yield Mismatch("bytes that the agent got", f"nothing of {part!r}", _around(got, part))
    for call_id in performance.released:
        if call_id not in got:
            yield Mismatch("bytes that the agent got", f"the call {call_id}", "no such call")


def _of_the_provider(performance: Performance) -> Iterator[Mismatch]:
    wanted = performance.scene.expected
    yield from _differ("model requests", wanted.requests, len(performance.seen))
    yield from _differ(
        "what the provider refused", [], [seen.refused for seen in performance.seen if seen.refused]
    )
    offered = any(HIDDEN in talk.offered for talk in performance.talks)
    yield from _differ(f"{HIDDEN} was shown to the model", False, offered)
    leaked = any(AGENT_KEY in str(value) for seen in performance.seen for value in seen.headers.values())
    yield from _differ("the agent's own key reached the provider", False, leaked)
    without_tools = bool(performance.talks) and not performance.talks[-1].may_call
    yield from _differ("the last request went out without tools", wanted.ends_without_tools, without_tools)
    told = "\n".join([note for talk in performance.talks for note in talk.notes] + performance.played.said)
    for part in wanted.notes:
        if part not in told:
            yield Mismatch("what Callgate said", f"{part!r} in it", told)


def _of_the_run(performance: Performance) -> Iterator[Mismatch]:
    wanted, end = performance.scene.expected, performance.end
    runs = {record["run"] for record in performance.records if record["kind"] != "lost"}
    yield from _differ("runs", 1, len(runs))
    came = (end["outcome"], end["detail"]) if end else ("no end was recorded", "")
    yield from _differ("outcome", (wanted.outcome, wanted.detail), came)
    refused = refusals(performance)
    fits = len(refused) == len(wanted.refused) and all(
        tool == came_tool and code in codes
        for (tool, code), (came_tool, codes) in zip(wanted.refused, refused, strict=True)
    )
    if not fits:
        yield Mismatch("refused calls and why", str(list(wanted.refused)), str(refused))


def _of_the_trace(performance: Performance) -> Iterator[Mismatch]:
    spans = performance.spans
    known = {span.id for span in spans}
    yield from _differ("traces of the run", 1, sum(span.parent not in known for span in spans))
    asked = sum(name.REQUEST_MODEL in span.attributes for span in spans)
    yield from _differ("spans of model requests", len(performance.seen), asked)
    judged = sum(span.title.startswith("guard tool_call") for span in spans)
    calls = len(performance.released) + len(performance.refused)
    yield from _differ("spans of decisions", calls, judged)
    outcomes = {span.attributes[name.OUTCOME] for span in spans if name.OUTCOME in span.attributes}
    yield from _differ("outcome in the trace", {performance.scene.expected.outcome}, outcomes)


def _differ(what: str, expected: object, came: object) -> Iterator[Mismatch]:
    if expected != came:
        yield Mismatch(what, _shown(expected), _shown(came))


def _shown(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, set):
        return ", ".join(sorted(map(str, value))) or "none"
    return str(value) if value or value == 0 else "none"


def _around(text: str, part: str) -> str:
    at = text.index(part)
    return text[max(0, at - 60) : at + 60].strip()
