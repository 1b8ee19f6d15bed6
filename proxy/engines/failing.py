"""Why a test of policies failed: which expression of its body did not hold, and what its parts came to.

The body is asked again piece by piece: the test's own file with a few rules more, which hold the first expressions of
the body, and then the values in the first one that does not hold.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from .rewriting import rewritten
from .syntax import RegoModule, RegoRule, nodes, parsed, written
from .worker import Evaluator, RegoError

_LONGEST = 240
_MOST_VALUES = 3
_CONSTANT = frozenset({"String", "RawString", "Number", "Bool", "Null"})


@dataclass(frozen=True, slots=True)
class Failure:
    """The expression of a test that does not hold."""

    line: int
    expression: str
    values: tuple[tuple[str, str], ...]
    """Parts of it, and what each came to, as JSON; `undefined` where it has no value."""


def failure_of(
    texts: Mapping[str, str], rules: Mapping[str, object], module: RegoModule, rule: RegoRule
) -> Failure | None:
    """The first expression of the test's body that does not hold; None where that cannot be told (no body, several).

    `texts`: all modules as the engine gets them.
    """
    bodies = rule.node["Spec"]["bodies"] if "Spec" in rule.node else []
    if len(bodies) != 1:
        return None
    asked = _Asked(texts, rules, module)
    statements = bodies[0]["query"]["stmts"]
    try:
        place = next(
            (place for place in range(len(statements)) if not asked.holds(statements[: place + 1])), None
        )
        if place is None:
            return None
        before, wrong = statements[:place], statements[place]
        parts = {asked.text(part): asked.values(before, part, wrong) for part in _parts(wrong["literal"])}
    except RegoError:
        return None
    return Failure(_line(module, wrong), asked.text(wrong), tuple(parts.items()))


class _Asked:
    """A test's module with a question added to it."""

    def __init__(self, texts: Mapping[str, str], rules: Mapping[str, object], module: RegoModule) -> None:
        self._texts = texts
        self._rules = rules
        self._module = module

    def text(self, node: Mapping[str, Any]) -> str:
        """As it is written."""
        span = node["span"] if "span" in node else next(iter(node.values()))["span"]
        start, end = span["start"], span["end"]
        # The engine's span of a text is what stands between its quotes.
        quoted = [each["span"] for kind, each in nodes(node) if kind in {"String", "RawString"}]
        start -= any(each["start"] == start for each in quoted)
        end += any(each["end"] == end for each in quoted)
        return self._module.source[start:end].decode()

    def holds(self, statements: list[Any]) -> bool:
        """Whether these hold together."""
        return self._ask(f"asked__ if {{\n{self._body(statements)}\n}}") == "true"

    def values(self, before: list[Any], part: Mapping[str, Any], statement: Mapping[str, Any]) -> str:
        """What a part of a statement came to, for each way in which what stands before it holds."""
        overrides = " ".join(self.text(each) for each in statement.get("with_mods", ()))
        found = f"{self._body(before)}\nvalue__ := {self.text(part)} {overrides}"
        answer = json.loads(self._ask(f"asked__ := [value__ |\n{found}\n]"))
        shown = list(dict.fromkeys(json.dumps(value, ensure_ascii=False) for value in answer))
        if not shown:
            return "undefined"
        more = f" and {len(shown) - _MOST_VALUES} more" if len(shown) > _MOST_VALUES else ""
        return " or ".join(_clipped(value) for value in shown[:_MOST_VALUES]) + more

    def _body(self, statements: list[Any]) -> str:
        return "\n".join(self.text(statement) for statement in statements)

    def _ask(self, question: str) -> str:
        module = parsed(self._module.file, f"{self._module.text}\n{question}\n")
        texts = {**self._texts, module.file: rewritten(module).text}
        evaluator = Evaluator(texts, {"rules": self._rules})
        return evaluator.evaluate(written((*module.package, "asked__")), "{}").strip()


def _parts(literal: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """What is worth knowing of a statement that does not hold."""
    ((kind, node),) = literal.items()
    if kind == "Every":
        yield node["domain"]
        return
    if kind == "SomeIn":
        yield node["collection"]
        return
    if kind not in {"Expr", "NotExpr"}:
        return
    expression = node["expr"]
    ((form, inner),) = expression.items()
    if form in {"BoolExpr", "BinExpr"}:
        sides = [inner["lhs"], inner["rhs"]]
    elif form == "AssignExpr":
        sides = [inner["rhs"]]
    elif form == "Membership":
        sides = [inner["value"], inner["collection"]]
    else:
        sides = [expression]
    yield from (side for side in sides if not side.keys() & _CONSTANT)


def _line(module: RegoModule, node: Mapping[str, Any]) -> int:
    return module.source.count(b"\n", 0, node["span"]["start"]) + 1


def _clipped(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
