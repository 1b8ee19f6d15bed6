"""A bundle as an OPA server is given it, so that it decides as the embedded engine does and old and new live side by
side.

1. Everything stands below a name of its own: `data` becomes `data.<name>` in every reference, and each package moves
   below it. The name is a digest of what is loaded, so that equal bundles share it and unequal ones never meet.
2. A server takes modules one by one. So each has a mark, and the one rule that is asked (`data.<name>.decision`) is
   undefined unless all marks and the rule data are there at the same time: there is no decision by half a bundle,
   however several proxies put and remove it.
3. A server refuses a name that stands in a module which is not there yet. So all names are declared first, by clauses
   that never hold; the order of the modules then does not matter.
4. `not f(x.y)` is undefined in OPA where `x.y` is: it looks at what a call is given before the negation, and a denial
   would vanish where a field is missing. So `not E` becomes `count({1 | E}) == 0`, which is what the embedded engine
   understands by it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from .bundle import Bundle
from .rewriting import Piece, Rewritten
from .syntax import Path, RegoModule, RegoRule, RuleKind, nodes, parsed, written

ENTRY = "entry"
_SPLICE = tuple[int, int, bytes]
"""From, to (bytes of the source), and what stands there instead."""


@dataclass(frozen=True)
class Namespaced:
    """What is put on a server for one bundle."""

    name: str
    """The first part of all its packages, e.g. `callgate_0123456789abcdef`."""
    policies: Mapping[str, str]
    """Rego text by id, in the order in which it is put; the last one is asked."""
    rules: Mapping[str, Any]
    """The document `data.<name>.rules`."""
    sources: Mapping[str, tuple[str, Rewritten]] = field(repr=False, default_factory=dict)
    """By id of a policy: the file that it was made of."""

    def place(self, policy: str, line: int, column: int) -> tuple[str, int, int]:
        """File, line and column (from 1) of what the server calls this place; an empty file where there is none."""
        if policy not in self.sources:
            return "", line, column
        file, text = self.sources[policy]
        return file, *text.place(line, column)

    def as_written(self, message: str) -> str:
        """A message of the server with the names that the policies' authors know."""
        return message.replace(f"{self.name}.", "")


def namespaced(bundle: Bundle) -> Namespaced:
    """The bundle below its own name."""
    modules = [parsed(file, text) for file, text in sorted(bundle.modules.items())]
    draft = json.dumps([_policies("callgate_", modules)[0], bundle.data["rules"]], sort_keys=True)
    name = f"callgate_{hashlib.sha256(draft.encode()).hexdigest()[:16]}"
    policies, sources = _policies(name, modules)
    return Namespaced(name, policies, bundle.data["rules"], sources)


def below(name: str, module: RegoModule, *more: bytes) -> Rewritten:
    """The module with everything in it below the name, and `more` at its end."""
    at, pieces = 0, []
    for start, end, instead in sorted(_splices(module, name)):
        pieces += [Piece(module.source[at:start], at), Piece(instead)]
        at = end
    pieces += [Piece(module.source[at:], at), *map(Piece, more)]
    return Rewritten(b"".join(piece.text for piece in pieces).decode(), tuple(pieces), module.source)


def declarations(name: str, modules: Sequence[RegoModule]) -> Iterator[str]:
    """For each package a module that declares its rules: clauses that never hold, and of any type."""
    declared: dict[Path, set[str]] = {}
    for module in modules:
        declared.setdefault(module.package, set()).update(map(_declaration, module.rules))
    for package in sorted(declared):
        yield "\n\n".join([f"package {_path(name, package)}", *sorted(declared[package]), ""])


def _declaration(rule: RegoRule) -> str:
    if rule.arity:
        return f"{rule.name}({', '.join('_' * rule.arity)}) := input if false"
    if rule.kind is RuleKind.OBJECT:
        return f"{rule.name}[key] := input if {{\n\tsome key in input\n\tfalse\n}}"
    return f"{rule.name} {'contains' if rule.kind is RuleKind.SET else ':='} input if false"


def _policies(
    name: str, modules: Sequence[RegoModule]
) -> tuple[dict[str, str], dict[str, tuple[str, Rewritten]]]:
    policies = {f"{name}/names{place}": text for place, text in enumerate(declarations(name, modules))}
    sources = {
        f"{name}/{place}": (module.file, below(name, module, f"\n\n{_mark(place)} := true\n".encode()))
        for place, module in enumerate(modules)
    }
    policies |= {policy: text.text for policy, (_, text) in sources.items()}
    marks = [f"\tdata.{_path(name, module.package)}.{_mark(place)}" for place, module in enumerate(modules)]
    policies[f"{name}/{ENTRY}"] = "\n".join(
        [
            f"package {name}\n",
            f"whole if {{\n\tdata.{name}.rules",
            *marks,
            "}\n",
            f"decision := data.{name}.callgate.main.decision if whole\n",
        ]
    )
    return policies, sources


def _mark(place: int) -> str:
    return f"is_there_{place}__"


def _path(name: str, package: Path) -> str:
    return f"{name}{written(package).removeprefix('data')}"


def _splices(module: RegoModule, name: str) -> Iterator[_SPLICE]:
    root = _start(module.tree["package"]["refr"])
    yield root, root, f"{name}.".encode()
    parts: list[tuple[Any, frozenset[str]]] = [(module.tree["imports"], frozenset())]
    parts += [(rule.node, module.locals(rule.node)) for rule in module.rules]
    for part, declared in parts:
        for used in module.references(part):
            start, end = used.place.start, used.place.start + len("data")
            if used.root == "data" and "data" not in declared and module.source[start:end] == b"data":
                yield end, end, f".{name}".encode()
        for kind, node in nodes(part):
            if kind == "NotExpr":
                start, end = node["span"]["start"], node["span"]["end"]
                yield start, start + len("not"), b"count({1 |"
                yield end, end, b" }) == 0"


def _start(refr: Mapping[str, Any]) -> int:
    while "Var" not in refr:
        ((_, body),) = refr.items()
        refr = body["refr"]
    start: int = refr["Var"]["span"]["start"]
    return start
