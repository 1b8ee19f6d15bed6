"""A run's spans, and the tree that they are."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rich.text import Text
from rich.tree import Tree

from proxy import semconv as name

MILLION = 1_000_000


@dataclass(frozen=True, slots=True)
class TracedSpan:
    """A span that has ended."""

    title: str
    id: int
    parent: int | None
    start_ns: int
    end_ns: int
    attributes: Mapping[str, Any]
    failed: bool

    @property
    def milliseconds(self) -> float:
        """How long it took."""
        return (self.end_ns - self.start_ns) / MILLION


def traced(span: Any) -> TracedSpan:
    """A span of OpenTelemetry's SDK as a plain value."""
    return TracedSpan(
        title=span.name,
        id=span.context.span_id,
        parent=span.parent.span_id if span.parent else None,
        start_ns=span.start_time or 0,
        end_ns=span.end_time or 0,
        attributes=dict(span.attributes or {}),
        failed=span.status.status_code.name == "ERROR",
    )


def trees(spans: Sequence[TracedSpan]) -> Iterator[Tree]:
    """One tree for each span that hangs below none of the others, in order of beginning."""
    ordered = sorted(spans, key=lambda span: span.start_ns)
    known = {span.id for span in ordered}
    for span in ordered:
        if span.parent not in known:
            yield _grown(Tree(_line(span), guide_style="dim"), span, ordered)


def _grown(tree: Tree, above: TracedSpan, spans: Sequence[TracedSpan]) -> Tree:
    for span in spans:
        if span.parent == above.id:
            _grown(tree.add(_line(span)), span, spans)
    return tree


def _line(span: TracedSpan) -> Text:
    line = Text(span.title, style=_style(span))
    line.append(f"  {span.milliseconds:.1f} ms", style="cyan")
    told = "  ".join(_told(span.attributes))
    if told:
        line.append(f"  {told}", style="not bold dim")
    return line


def _style(span: TracedSpan) -> str:
    if span.failed:
        return "yellow"
    return {"deny": "red", "allow": "green"}.get(str(span.attributes.get(name.DECISION)), "default")


def _told(facts: Mapping[str, Any]) -> Iterator[str]:
    """The attributes that matter to somebody who reads the story."""
    if name.DECISION in facts:
        yield f"{facts[name.DECISION]}"
        if name.REASON in facts:
            yield f"reason={facts[name.REASON]}"
            if facts[name.RULE_ID] != facts[name.REASON]:
                yield f"rule={facts[name.RULE_ID]}"
    elif name.TOOL_STATUS in facts:
        yield f"status={facts[name.TOOL_STATUS]}"
    elif name.REQUEST_MODEL in facts:
        yield f"round={facts.get(name.ROUND)}"
        yield f"tokens={facts.get(name.USAGE_INPUT)}+{facts.get(name.USAGE_OUTPUT)}"
        yield f"finish={','.join(facts.get(name.RESPONSE_FINISH, ()))}"
    elif name.OUTCOME in facts:
        detail = facts.get(name.OUTCOME_DETAIL)
        yield f"outcome={facts[name.OUTCOME]}" + (f" ({detail})" if detail else "")
        yield f"rounds={facts.get(name.RUN_ROUNDS)} calls={facts.get(name.RUN_CALLS)}"
