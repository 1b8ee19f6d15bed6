"""A bundle as an OPA server is given it, so that it decides as the embedded engine does, and so that old and new live
side by side.

1. All of it is one module: a server takes modules one by one, and between two of them it would decide by half a bundle.
   The package of a file goes into the heads of its rules (`callgate.org.deny contains …`), and what the file calls by
   an imported name or by that of its own package is written out.
2. It stands below a name of its own (`data.<name>`), a digest of what is loaded: equal bundles share it, and unequal
   ones never meet.
3. `not f(x.y)` is undefined in OPA where `x.y` is: it looks at what a call is given before the negation, and a denial
   would vanish where a field is missing. So `not E` becomes `count({1 | E}) == 0`, which is what the embedded engine
   understands by it.
4. `some x in v` is nothing in OPA where `v` is no collection, and an error in the embedded engine. A model chooses what
   its arguments are, so it is an error here too (of `object.filter`, which takes any collection and nothing else).
"""

from __future__ import annotations

import hashlib
import json
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence, Set as AbstractSet
from dataclasses import dataclass, field
from typing import Any

from .bundle import Bundle
from .rewriting import Piece, Rewritten
from .syntax import Node, Path, RegoModule, RegoRule, end_of, nodes, parsed, reference, written

_SPLICE = tuple[int, int, str]
"""From, to (bytes of the source), and what stands there instead."""
_COLLECTIONS = frozenset(
    {"calls", "tools", "run.steps", "task.user_texts", "identity.roles", "request.declared_tools"}
)
"""Of the input: what is a list always."""
_NO_TARGETS = frozenset({"rego", "future"})
"""Imports that switch syntax on."""


@dataclass(frozen=True)
class Namespaced:
    """What is put on a server for one bundle."""

    name: str
    """Its package, e.g. `callgate_0123456789abcdef`."""
    text: str
    """The module."""
    rules: Mapping[str, Any]
    """The document `data.<name>.rules`."""
    parts: Sequence[tuple[int, str, Rewritten]] = field(repr=False, default=())
    """Where a file begins in the module (its line, from 1), the file, and its text there."""

    def place(self, line: int, column: int) -> tuple[str, int, int]:
        """File, line and column of what the server calls this place (all from 1); an empty file where there is none."""
        found = bisect_right([start for start, _, _ in self.parts], line) - 1
        if found < 0:
            return "", line, column
        start, file, text = self.parts[found]
        return file, *text.place(line - start + 1, column)

    def as_written(self, message: str) -> str:
        """A message of the server with the names that the policies' authors know."""
        return message.replace(f"{self.name}.", "")


def namespaced(bundle: Bundle) -> Namespaced:
    """The bundle below its own name."""
    modules = [parsed(file, text) for file, text in sorted(bundle.modules.items())]
    draft = json.dumps([_module("callgate_", modules)[0], bundle.data["rules"]], sort_keys=True)
    name = f"callgate_{hashlib.sha256(draft.encode()).hexdigest()[:16]}"
    text, parts = _module(name, modules)
    return Namespaced(name, text, bundle.data["rules"], parts)


def _module(name: str, modules: Sequence[RegoModule]) -> tuple[str, list[tuple[int, str, Rewritten]]]:
    names: dict[Path, set[str]] = {}
    for module in modules:
        names.setdefault(module.package, set()).update(rule.name.partition(".")[0] for rule in module.rules)
    # Rules without rule data would decide, but not by these policies.
    there = f"is_there if data.{name}.rules"
    shown = "is_collection(value) if object.filter({}, value) == {}"
    text = f"package {name}\n\n{there}\n\n{shown}\n\ndecision := data.{name}.callgate.main.decision if is_there\n\n"
    parts = []
    for module in modules:
        part = below(name, module, names[module.package])
        parts.append((text.count("\n") + 1, module.file, part))
        text += f"{part.text}\n\n"
    return text, parts


def below(name: str, module: RegoModule, names: AbstractSet[str]) -> Rewritten:
    """The rules of a module for the module that holds them all; `names` are those of all rules of its package."""
    source = module.source
    at, pieces = _begins(module), []
    for start, end, instead in sorted(_splices(name, module, names)):
        pieces += [Piece(source[at:start], at), Piece(instead.encode())]
        at = end
    pieces.append(Piece(source[at:], at))
    return Rewritten(b"".join(piece.text for piece in pieces).decode(), tuple(pieces), source)


def _begins(module: RegoModule) -> int:
    """Where package and imports end. What is said above them about the package cannot be said in the middle."""
    spans = [module.tree["package"]["span"], *(each["span"] for each in module.tree["imports"])]
    last = max(span["end"] for span in spans)
    line = module.source.find(b"\n", last)
    return len(module.source) if line < 0 else line + 1


def _splices(name: str, module: RegoModule, names: AbstractSet[str]) -> Iterator[_SPLICE]:
    targets = {
        alias: _full(name, (target.root, *target.fixed))
        for alias, target in module.imports.items()
        if target.root not in _NO_TARGETS
    }
    own = _full(name, ("data", *module.package))
    targets |= {each: _full(name, ("data", *module.package, each)) for each in names}
    targets["data"] = f"data.{name}"
    for rule in module.rules:
        head = _head(rule)
        yield head, head, f"{own.removeprefix(f'data.{name}.')}."
        declared = module.locals(rule.node)
        for used in module.references(rule.node):
            start, end = used.place.start, used.place.start + len(used.root.encode())
            is_written = used.root in targets and module.source[start:end] == used.root.encode()
            if is_written and used.root not in declared and start != head:
                yield start, end, targets[used.root]
        for kind, node in nodes(rule.node):
            if kind == "NotExpr":
                start, end = node["span"]["start"], end_of(node["span"], module.source)
                yield start, start + len("not"), "count({1 |"
                yield end, end, " }) == 0"
            if kind == "SomeIn" and (span := _doubtful(node["collection"], module, declared)):
                yield span["start"], span["start"], "[each__ | each__ := "
                yield span["end"], span["end"], f"; {_shown(name, declared)}][_]"


def _doubtful(collection: Node, module: RegoModule, declared: AbstractSet[str]) -> Mapping[str, int] | None:
    """Where something stands that may be no collection: what is in the input or a variable, unless the host made it."""
    ((kind, body),) = collection.items()
    if kind not in {"Var", "RefDot", "RefBrack"}:
        return None
    used = reference(collection, module.source)
    is_from_input = used.root == "input" and ".".join(used.fixed) not in _COLLECTIONS
    span: Mapping[str, int] = body["span"]
    return span if is_from_input or used.root in declared else None


def _shown(name: str, declared: AbstractSet[str]) -> str:
    """Fails where `each__` is no collection, and says so at this place unless a variable here is called `object`."""
    return f"data.{name}.is_collection(each__)" if "object" in declared else "object.filter({}, each__) == {}"


def _full(name: str, path: Path) -> str:
    """A chain as it is written out: what is below `data` is below the name."""
    root, *steps = path
    return (
        written((name, *steps)) if root == "data" else f"{root}{written(tuple(steps)).removeprefix('data')}"
    )


def _head(rule: RegoRule) -> int:
    """Where the name of a rule begins."""
    refr: Node = rule.node["Default"]["refr"] if "Default" in rule.node else _refr(rule.node["Spec"]["head"])
    while "Var" not in refr:
        ((_, body),) = refr.items()
        refr = body["refr"]
    start: int = refr["Var"]["span"]["start"]
    return start


def _refr(head: Node) -> Node:
    ((_, body),) = head.items()
    found: Node = body["refr"]
    return found
