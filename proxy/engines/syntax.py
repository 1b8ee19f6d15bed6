"""A Rego module as its syntax tree tells it: package, imports, rules, and the references and calls in them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from typing import Any

from .worker import Evaluator

Path = tuple[str, ...]
Node = Mapping[str, Any]

_KEYWORDS = frozenset(
    [
        "as",
        "contains",
        "default",
        "else",
        "every",
        "false",
        "if",
        "import",
        "in",
        "not",
        "null",
        "package",
        "some",
        "true",
        "with",
    ]
)


class RuleKind(StrEnum):
    """What a rule defines."""

    COMPLETE = "complete"
    SET = "set"
    """`name contains value`."""
    OBJECT = "object"
    """`name[key] := value`."""
    FUNCTION = "function"
    DEFAULT = "default"


@dataclass(frozen=True, slots=True)
class Place:
    """Line and column from 1, and the byte offsets of the thing there."""

    line: int
    column: int
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class RegoRule:
    """One rule (or one of several of the same name)."""

    name: str
    """The first part of its name; rules like `a.b := 1` count as `a`."""
    kind: RuleKind
    arity: int
    place: Place
    node: Node


@dataclass(frozen=True, slots=True)
class Reference:
    """A chain like `data.rules.org[x].y`."""

    root: str
    fixed: Path
    """The constant parts after the root, up to the first that is not."""
    is_open: bool
    """Something follows that is only known when it is evaluated."""
    place: Place
    """Of the root."""


@dataclass(frozen=True, slots=True)
class Call:
    """A call of a function: the whole dotted name, and its arguments."""

    reference: Reference
    arguments: tuple[Node, ...]

    @property
    def name(self) -> str:
        """The dotted name as it is written."""
        return ".".join((self.reference.root, *self.reference.fixed))


@dataclass(frozen=True)
class RegoModule:
    """One file."""

    file: str
    text: str
    tree: Node = field(repr=False)

    @cached_property
    def source(self) -> bytes:
        """The text in the bytes that places count in."""
        return self.text.encode()

    @cached_property
    def package(self) -> Path:
        """Without `data`."""
        found = reference(self.tree["package"]["refr"], self.source)
        return (found.root, *found.fixed)

    @cached_property
    def package_place(self) -> Place:
        """Where the package is named."""
        return _place(self.tree["package"]["span"], self.source)

    @cached_property
    def imports(self) -> Mapping[str, Reference]:
        """What is imported, by the name that it has here."""
        found = {}
        for node in self.tree["imports"]:
            target = reference(node["refr"], self.source)
            alias = self._cut(node["as"]) if node.get("as") else (*(target.root,), *target.fixed)[-1]
            found[alias] = target
        return found

    @cached_property
    def rules(self) -> tuple[RegoRule, ...]:
        """In the order of the file."""
        return tuple(self._rule(node) for node in self.tree["rules"])

    @property
    def is_test(self) -> bool:
        """Test files are never loaded for decisions."""
        return self.file.endswith("_test.rego")

    def _cut(self, span: Mapping[str, int]) -> str:
        return self.source[span["start"] : span["end"]].decode()

    def _rule(self, node: Node) -> RegoRule:
        if "Default" in node:
            body = node["Default"]
            return self._named(body["refr"], RuleKind.DEFAULT, len(body.get("args") or ()), node)
        ((head_kind, head),) = node["Spec"]["head"].items()
        if head_kind == "Func":
            return self._named(head["refr"], RuleKind.FUNCTION, len(head["args"]), node)
        if head_kind == "Set":
            return self._named(head["refr"], RuleKind.SET, 0, node)
        is_plain = "Var" in head["refr"]
        return self._named(head["refr"], RuleKind.COMPLETE if is_plain else RuleKind.OBJECT, 0, node)

    def _named(self, refr: Node, kind: RuleKind, arity: int, node: Node) -> RegoRule:
        found = reference(refr, self.source)
        # A function may be named with dots.
        name = ".".join((found.root, *found.fixed)) if kind is RuleKind.FUNCTION else found.root
        return RegoRule(name, kind, arity, found.place, node)

    # --- what is inside ---

    def references(self, part: Node) -> Iterator[Reference]:
        """Every outermost chain in the part, arguments of chains and called names included."""
        waiting: list[Any] = [part]
        while waiting:
            node = waiting.pop()
            if isinstance(node, list):
                waiting += node
            elif isinstance(node, dict):
                if node.keys() & {"RefDot", "RefBrack", "Var"}:
                    yield reference(node, self.source)
                    waiting += _indices(node)
                else:
                    waiting += node.values()

    def calls(self, part: Node) -> Iterator[Call]:
        """Every call of a function by name in the part."""
        for kind, node in nodes(part):
            if kind == "Call":
                yield Call(reference(node["fcn"], self.source), tuple(node["params"]))

    def locals(self, part: Node) -> frozenset[str]:
        """The names of variables that the part declares: arguments, `:=`, `some`, `every`."""
        names: set[str] = set()
        for kind, node in nodes(part):
            if kind == "Func":
                names |= _variables(node["args"])
            elif kind == "AssignExpr" and node["op"] == "ColEq":
                names |= _variables(node["lhs"])
            elif kind == "SomeIn":
                names |= _variables([node["key"], node["value"]])
            elif kind == "SomeVars":
                names |= {span[1] if isinstance(span, list) else self._cut(span) for span in node["vars"]}
            elif kind == "Every":
                names |= {self._cut(span) for span in (node["key"], node["value"]) if span}
        return frozenset(names)


def parsed(file: str, text: str) -> RegoModule:
    """Reads one file. Raises worker.RegoError with the place of a syntax error."""
    (module,) = Evaluator({file: text}).syntax_trees()
    return RegoModule(file, text, module["ast"])


def nodes(part: Any) -> Iterator[tuple[str, Any]]:
    """Every named node of a syntax tree, outer ones first."""
    waiting: list[Any] = [part]
    while waiting:
        node = waiting.pop()
        if isinstance(node, list):
            waiting += reversed(node)
        elif isinstance(node, dict):
            for key, value in node.items():
                if key[:1].isupper():
                    yield key, value
            waiting += reversed(list(node.values()))


def written(path: Path) -> str:
    """The path below `data`, in a form that holds any name."""
    steps = (
        f".{part}"
        if part.isascii() and part.isidentifier() and part not in _KEYWORDS
        else f"[{json.dumps(part)}]"
        for part in path
    )
    return "".join(("data", *steps))


def end_of(span: Mapping[str, int], source: bytes) -> int:
    """Where something ends: the parser leaves out the closing quote of a text at its end."""
    end = span["end"]
    return end + 1 if source[end : end + 1] in {b'"', b"`"} else end


def literal(node: Node) -> str | None:
    """The text of a string literal, raw or not; None for anything else."""
    for kind in ("String", "RawString"):
        if kind in node:
            value: str = node[kind]["value"]
            return value
    return None


def place_of(node: Node, source: bytes) -> Place:
    """Where a node stands."""
    (body,) = node.values()
    return _place(body["span"], source)


def reference(node: Node, source: bytes) -> Reference:
    """Reads a chain from its outermost node."""
    steps: list[str | None] = []
    while "Var" not in node:
        if "RefDot" in node:
            body = node["RefDot"]
            steps.append(body["field"][1] if body["field"] else None)
        elif "RefBrack" in node:
            body = node["RefBrack"]
            steps.append(literal(body["index"]))
        else:  # a chain on a call or on a literal
            return Reference("", (), is_open=True, place=place_of(node, source))
        node = body["refr"]
    steps.reverse()
    fixed: list[str] = []
    for step in steps:
        if step is None:
            break
        fixed.append(step)
    var = node["Var"]
    return Reference(str(var["value"]), tuple(fixed), len(fixed) < len(steps), _place(var["span"], source))


def _indices(node: Node) -> Iterator[Any]:
    """What stands in the brackets of a chain, and what the chain hangs on where that is no variable."""
    while "Var" not in node:
        if "RefBrack" in node:
            yield node["RefBrack"]["index"]
            node = node["RefBrack"]["refr"]
        elif "RefDot" in node:
            node = node["RefDot"]["refr"]
        else:
            yield list(node.values())
            return


def _variables(part: Any) -> set[str]:
    return {str(node["value"]) for kind, node in nodes(part) if kind == "Var"}


def _place(span: Mapping[str, int], source: bytes) -> Place:
    """The engine names the operator's column of a chain; people look for its beginning."""
    start = span["start"]
    line_start = source.rfind(b"\n", 0, start) + 1
    column = len(source[line_start:start].decode("utf-8", "replace")) + 1
    return Place(source.count(b"\n", 0, start) + 1, column, start, span["end"])
