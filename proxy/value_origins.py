"""Where the values of a call stood before it was made: in which tools' results, and whether in what the user said. Asked of
the very rules that will judge (`in_results_of`, `in_user_text`).
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from .engines.bundle import load_bundle
from .engines.worker import Evaluator

_ORIGINS = """package callgate.learning

results contains [asked.place, step.tool] if {
	some asked in input.asked
	some step in input.run.steps
	data.callgate.lib.in_results(asked.value, [step.tool], [step])
}

said contains asked.place if {
	some asked in input.asked
	data.callgate.lib.in_user_text(asked.value, input.task)
}

origins := {"results": results, "said": said}
"""
_SHORTEST_ORIGIN = 4
"""Characters: of a shorter value it is chance that it stands in a result too."""


@dataclass(frozen=True, slots=True)
class CameFrom:
    """Of one call's arguments, by path."""

    results: Mapping[str, list[frozenset[str]]]
    """For each value the tools in whose found results it stood."""
    said: Mapping[str, bool]
    """Whether the user said every value."""


def loaded(rules: Mapping[str, Any], more: Mapping[str, str] | None = None) -> Evaluator:
    """The shipped policies with this rule data in the embedded engine, in this process."""
    bundle = load_bundle([], (), rules)
    texts = {file: module.text for file, module in bundle.embedded.items()}
    return Evaluator({**texts, **(more or {})}, bundle.data)


class Origins:
    """Answers about one call after the other."""

    def __init__(self) -> None:
        """Loads the shipped policies."""
        self._evaluator = loaded({}, {"learning.rego": _ORIGINS})

    def of(self, found: Mapping[str, list[Any]], document: Mapping[str, Any]) -> CameFrom:
        """For each path, the origins of its values in order."""
        asked = [
            (path, value) for path, values in found.items() for value in values if _may_have_origin(value)
        ]
        distinct = list({json.dumps(value): value for _, value in asked}.items())
        told: dict[str, Any] = {"results": [], "said": []}
        if asked:
            question = [{"place": key, "value": value} for key, value in distinct]
            answer = self._evaluator.evaluate(
                "data.callgate.learning.origins",
                json.dumps({"asked": question, "run": document["run"], "task": document["task"]}),
            )
            told = json.loads(answer)
        tools: dict[str, set[str]] = defaultdict(set)
        for key, tool in told["results"]:
            tools[key].add(tool)
        said = set(told["said"])
        keys = {path: [json.dumps(value) for value in values] for path, values in found.items()}
        return CameFrom(
            {path: [frozenset(tools[key]) for key in each] for path, each in keys.items()},
            {path: all(key in said for key in each) for path, each in keys.items()},
        )


def _may_have_origin(value: object) -> bool:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return False
    return len(str(value)) >= _SHORTEST_ORIGIN
