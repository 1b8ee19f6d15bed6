"""A least-privilege policy from recorded runs: which tools were called, with which arguments, how often.

Laws: nothing is allowed that was not seen (a tool, an argument, a type, a shape); whatever was seen is allowed, but for
what the thresholds leave out and what rule data cannot say, and both are told. Nothing is guessed about what a tool
does (its effect, its risk): that is not to be seen in a call.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from .learned_values import Constraint, Thresholds, constraint_of, is_missing, places
from .redaction import Redactor
from .seen_calls import SeenAnswer
from .value_origins import Origins, loaded

ORG = "org"
_MOST_PLACES = 200
"""Arguments (at any depth) of one tool; a tool with more takes keys that nobody can list."""
_MOST_SAMPLES = 3
_LONGEST_SAMPLE = 800
_LONGEST_NAME = 256


@dataclass(frozen=True, slots=True)
class LearnSettings:
    """What counts as seen."""

    min_runs: int = 1
    """Tools that fewer runs called are left out."""
    thresholds: Thresholds = field(default_factory=Thresholds)
    examples: bool = True
    """Keep a few values, redacted, for people to look at."""
    origins: bool = True
    """Demand that a value comes from an earlier result or from the user where that held every time."""


@dataclass(frozen=True, slots=True)
class LearnedArgument:
    """One argument of a tool, and what it rests on."""

    constraint: Constraint
    seen: int
    """Values."""
    runs: int
    examples: tuple[str, ...]
    """JSON, redacted."""


@dataclass(frozen=True, slots=True)
class LearnedTool:
    """One tool of a layer."""

    calls: int
    runs: int
    per_turn: int
    """The most calls in one turn."""
    arguments: Mapping[str, LearnedArgument]
    """By path."""
    unsaid: tuple[str, ...] = ()
    """Paths of arguments that were seen and cannot be said in rule data: they are refused."""
    unread: int = 0
    """Calls whose arguments are not to be told from the recording; with any, arguments are not constrained."""
    samples: tuple[Mapping[str, Any], ...] = ()
    """Arguments of a few calls, none with a secret in it."""


@dataclass(frozen=True, slots=True)
class LearnedLayer:
    """What one layer may do."""

    tools: Mapping[str, LearnedTool]
    turn_calls: int
    """The most calls in one turn."""
    runs: int
    left_out: Mapping[str, int] = field(default_factory=dict)
    """Tools that too few runs called, or whose names no list can hold, and how many runs called them."""

    def rules(self) -> dict[str, Any]:
        """In the form of the rule data of a layer."""
        turn = {
            "calls": self.turn_calls,
            "per_tool": {name: tool.per_turn for name, tool in self.tools.items()},
        }
        return {
            "allowed_tools": list(self.tools),
            "tools": {name: tool_rules(tool) for name, tool in self.tools.items()},
            "limits": {"turn": turn},
        }


Learned = Mapping[str, LearnedLayer]
"""By layer: `org`, `team.<name>`, `agent.<name>`."""


def tool_rules(tool: LearnedTool) -> dict[str, Any]:
    """In the form of the rule data of a tool."""
    if tool.unread:
        return {}
    arguments = {path: dict(learned.constraint) for path, learned in tool.arguments.items()}
    return {"other_arguments": "refuse", **({"arguments": arguments} if arguments else {})}


def rule_data(learned: Learned) -> dict[str, Any]:
    """All layers in the form of the rule data."""
    whole: dict[str, Any] = {}
    for layer, found in learned.items():
        kind, _, name = layer.partition(".")
        if kind == ORG:
            whole[ORG] = found.rules()
        else:
            whole.setdefault(f"{kind}s", {})[name] = found.rules()
    return whole


def learned_from(
    answers: Iterable[tuple[str, SeenAnswer]],
    settings: LearnSettings | None = None,
    redactor: Redactor | None = None,
) -> Learned:
    """What these answers, each with the layer that it counts for, show."""
    settings = settings or LearnSettings()
    origins = Origins() if settings.origins else None
    seen: dict[str, _Layer] = defaultdict(_Layer)
    for layer, answer in answers:
        seen[layer].add(answer, origins)
    redactor = redactor or Redactor()
    return {layer: seen[layer].learned(settings, redactor) for layer in sorted(seen, key=_order)}


def _order(layer: str) -> tuple[int, str]:
    return ("org", "team", "agent").index(layer.partition(".")[0]), layer


# --- what was seen ------------------------------------------------------------------------------------------------


@dataclass
class _Place:
    """One path of one tool's arguments."""

    values: list[Any] = field(default_factory=list)
    runs: set[str] = field(default_factory=set)
    occasions: set[tuple[str, str]] = field(default_factory=set)
    """In which run which value was."""
    origins: list[frozenset[str]] | None = field(default_factory=list)
    """For each value the tools in whose results it stood; None: one cannot be told."""
    all_said: bool = True


@dataclass
class _Tool:
    calls: list[Mapping[str, Any]] = field(default_factory=list)
    runs: set[str] = field(default_factory=set)
    places: dict[str, _Place] = field(default_factory=lambda: defaultdict(_Place))
    unread: int = 0


class _Layer:
    def __init__(self) -> None:
        self._tools: dict[str, _Tool] = defaultdict(_Tool)
        self._turns: dict[tuple[str, int], Counter[str]] = defaultdict(Counter)

    def add(self, answer: SeenAnswer, origins: Origins | None) -> None:
        for name, arguments in answer.calls:
            tool = self._tools[name]
            tool.runs.add(answer.run)
            self._turns[answer.run, answer.turn][name] += 1
            if arguments is None:
                tool.unread += 1
                continue
            tool.calls.append(arguments)
            found = places(arguments)
            came_from = origins.of(found, answer.document) if origins and answer.document else None
            for path, values in found.items():
                place = tool.places[path]
                place.values += values
                place.runs.add(answer.run)
                place.occasions |= {(answer.run, json.dumps(value)) for value in values}
                if came_from is None or place.origins is None:
                    place.origins, place.all_said = None, False
                else:
                    place.origins += came_from.results[path]
                    place.all_said = place.all_said and came_from.said[path]

    def learned(self, settings: LearnSettings, redactor: Redactor) -> LearnedLayer:
        kept = sorted(
            name
            for name, tool in self._tools.items()
            if len(tool.runs) >= settings.min_runs and _may_be_listed(name)
        )
        turns = self._turns.values()
        return LearnedLayer(
            tools={
                name: _learned(self._tools[name], max(turn[name] for turn in turns), settings, redactor)
                for name in kept
            },
            turn_calls=max((sum(turn[name] for name in kept) for turn in turns), default=0),
            runs=len({run for run, _ in self._turns}),
            left_out={name: len(tool.runs) for name, tool in sorted(self._tools.items()) if name not in kept},
        )


def _may_be_listed(name: str) -> bool:
    """A star at the end would stand for other names too."""
    return 0 < len(name) <= _LONGEST_NAME and not name.endswith("*")


def _learned(tool: _Tool, per_turn: int, settings: LearnSettings, redactor: Redactor) -> LearnedTool:
    unsaid = {path for call in tool.calls for path in _unnameable(call)}
    too_many = len(tool.places) > _MOST_PLACES
    arguments = {}
    for path in sorted(tool.places):
        constraint = None if too_many else _constraint(path, tool, settings, redactor)
        if constraint is None or any(path.startswith(f"{each}.") for each in unsaid):
            unsaid.add(path)
        else:
            place = tool.places[path]
            is_secret = _is_secret(path, place.values, redactor)
            shown = () if is_secret or not settings.examples else _examples(place.values, redactor)
            arguments[path] = LearnedArgument(constraint, len(place.values), len(place.runs), shown)
    return LearnedTool(
        len(tool.calls) + tool.unread,
        len(tool.runs),
        per_turn,
        arguments,
        tuple(sorted(unsaid)),
        tool.unread,
        tuple(_samples(tool.calls, redactor)),
    )


def _samples(calls: Sequence[Mapping[str, Any]], redactor: Redactor) -> Iterator[Mapping[str, Any]]:
    """The shortest few, each once."""
    texts = sorted({json.dumps(call, sort_keys=True) for call in calls}, key=lambda text: (len(text), text))
    clean = [
        text
        for text in texts
        if len(text) <= _LONGEST_SAMPLE and redactor.value(json.loads(text)) == json.loads(text)
    ]
    yield from (json.loads(text) for text in clean[:_MOST_SAMPLES])


def _unnameable(call: Mapping[str, Any]) -> Iterator[str]:
    """Outer names that no path can have, or that hold such names."""
    for key, value in call.items():
        waiting = [value]
        is_odd = not key or key == "*" or "." in key
        while waiting and not is_odd:
            part = waiting.pop()
            if isinstance(part, dict):
                is_odd = any(not name or name == "*" or "." in name for name in part)
            waiting += part.values() if isinstance(part, dict) else part if isinstance(part, list) else []
        if is_odd and value is not None:
            yield key


def _constraint(path: str, tool: _Tool, settings: LearnSettings, redactor: Redactor) -> Constraint | None:
    place = tool.places[path]
    constraint = constraint_of(
        place.values,
        settings.thresholds,
        occasions=len(place.occasions),
        is_secret=_is_secret(path, place.values, redactor),
    )
    if constraint is None:
        return None
    constraint["required"] = not any(is_missing(call, path) for call in tool.calls)
    if "pattern" in constraint or constraint.get("type") in {"integer", "number"}:
        sources = _cover(place.origins) if place.origins else ()
        if sources:
            constraint["in_results_of"] = list(sources)
        if place.all_said:
            constraint["in_user_text"] = True
    return constraint


def _is_secret(path: str, values: Sequence[Any], redactor: Redactor) -> bool:
    """By the names on the path, or by the look of a value."""
    if any(redactor.is_secret_key(part) for part in path.split(".")):
        return True
    return any(isinstance(value, str) and redactor.text(value) != value for value in values)


def _cover(origins: Sequence[frozenset[str]]) -> tuple[str, ...]:
    """A few tools in whose results every one of the values stood; empty: there are none such."""
    left = list(origins)
    chosen: list[str] = []
    while left:
        counts = Counter(tool for each in left for tool in each)
        if not all(left) or not counts:
            return ()
        best = min(counts, key=lambda tool: (-counts[tool], tool))
        chosen.append(best)
        left = [each for each in left if best not in each]
    return tuple(sorted(chosen))


def _examples(values: Sequence[Any], redactor: Redactor) -> tuple[str, ...]:
    plain = (value for value in values if not isinstance(value, list | dict))
    distinct = sorted(
        {json.dumps(value, ensure_ascii=False) for value in plain}, key=lambda text: (len(text), text)
    )
    return tuple(redactor.summary(text, 40) for text in distinct[:3])


# --- the proof ----------------------------------------------------------------------------------------------------


@dataclass
class Replayed:
    """Calls held against a policy."""

    calls: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    """By rule."""
    refused_calls: int = 0
    over_limit: int = 0
    """Calls beyond the limits of a turn."""
    runs: set[str] = field(default_factory=set)
    refused_runs: set[str] = field(default_factory=set)


def replayed(learned: Learned, answers: Iterable[tuple[str, SeenAnswer]]) -> Replayed:
    """Holds these answers against what was learned, in the engine that will judge. Those without a document are left
    out. Raises BundleFault where what was learned does not load."""
    evaluator = loaded(rule_data(learned))
    limits = {layer: found.rules()["limits"]["turn"] for layer, found in learned.items()}
    turns: dict[tuple[str, int], Counter[str]] = defaultdict(Counter)
    found = Replayed()
    for layer, answer in answers:
        if answer.document is None:
            continue
        found.runs.add(answer.run)
        decision = json.loads(evaluator.evaluate("data.callgate.main.decision", json.dumps(answer.document)))
        denied = defaultdict(list)
        for denial in decision["deny"]:
            denied[denial["call"]].append(denial["rule"])
        allowed = limits.get(layer, {"calls": 0, "per_tool": {}})
        for place, (name, _) in enumerate(answer.calls):
            found.calls += 1
            turn = turns[answer.run, answer.turn]
            turn[name] += 1
            rules = denied.get(place, []) + denied.get(None, [])
            beyond = turn.total() > allowed["calls"] or turn[name] > allowed["per_tool"].get(name, turn[name])
            found.refused.update(set(rules))
            found.refused_calls += bool(rules)
            found.over_limit += beyond and not rules
            if rules or beyond:
                found.refused_runs.add(answer.run)
    return found
