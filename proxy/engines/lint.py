"""What can be seen in policies before they decide anything: mistakes that an engine would find late, or never.

The embedded engine reports an unknown function only when it is reached, lets a data document hide a rule, and reads
a whole package wrongly that stands in several files (so rules are referred to one by one). Names are resolved here.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any

from . import literals
from .builtins import ARITIES, why_not
from .findings import LintFault, Severity
from .rewriting import bound_keys
from .syntax import Call, Path, Place, Reference, RegoModule, RegoRule, RuleKind, literal, nodes, place_of

OWN = frozenset({("callgate", "main"), ("callgate", "lib"), ("callgate", "layers")})
"""Packages of the product: nobody else adds to them."""
SAID = ("deny", "shadow", "approve", "allowed_tools", "limits")
"""What is read of a layer's package, and nothing else."""
DENIALS = frozenset({"deny", "shadow", "approve"})
"""Of these the ones that are sets of objects with a code and a message."""
_KINDS = {
    "deny": {RuleKind.SET},
    "shadow": {RuleKind.SET},
    "approve": {RuleKind.SET},
    "allowed_tools": {RuleKind.SET, RuleKind.COMPLETE, RuleKind.DEFAULT},
    "limits": {RuleKind.COMPLETE, RuleKind.OBJECT, RuleKind.DEFAULT},
}
_DENIAL_FIELDS = frozenset({"code", "call", "message", "action", "rule"})
_CODE = re.compile(r"[a-z][a-z0-9_]*")
ACTIONS = ("reask", "finish", "deny")


def layer_of(package: Path) -> str | None:
    """The layer that a package speaks for (`org`, `team.<name>`, `agent.<name>`), or None."""
    if package == ("callgate", "org"):
        return "org"
    if len(package) == 3 and package[:2] in {("callgate", "team"), ("callgate", "agent")}:  # noqa: PLR2004 - kind and name
        return f"{package[1]}.{package[2]}"
    return None


class Lint:
    """Looks at all modules together."""

    def __init__(
        self, modules: Sequence[RegoModule], places: Mapping[str, PurePosixPath], own: Iterable[str]
    ) -> None:
        """`places`: for each file its path below the folder of policies. `own`: the files of the product."""
        self._modules = modules
        self._places = places
        self._own = frozenset(own)
        self._rules: dict[Path, dict[str, list[tuple[RegoModule, RegoRule]]]] = defaultdict(
            lambda: defaultdict(list)
        )
        for module in modules:
            for rule in module.rules:
                self._rules[module.package][rule.name].append((module, rule))

    def faults(self) -> Iterator[LintFault]:
        """All findings, file by file."""
        for module in self._modules:
            yield from self._package(module)
            yield from self._imports(module)
            for rule in module.rules:
                yield from self._rule(module, rule)
        yield from self._definitions()
        yield from self._layers()

    # --- packages ---

    def _package(self, module: RegoModule) -> Iterator[LintFault]:
        package, folder = module.package, self._places[module.file].parent.parts
        named = ".".join(package)
        if module.is_test:
            if not package[-1].endswith("_test"):
                yield _fault(
                    module, module.package_place, f"the package of a test file ends in _test, not {named}"
                )
        elif package != folder:
            message = f"the package is {named}, and the folder says {'.'.join(folder) or 'nothing'}"
            yield _fault(module, module.package_place, message)
        elif package[0] != "callgate" or package in {
            ("callgate",),
            ("callgate", "team"),
            ("callgate", "agent"),
        }:
            message = "policies live in callgate.org, callgate.team.<name>, callgate.agent.<name> or a package beside"
            yield _fault(module, module.package_place, message)
        if package in OWN and module.file not in self._own:
            yield _fault(
                module, module.package_place, f"{named} belongs to the product: write a layer's package"
            )

    def _imports(self, module: RegoModule) -> Iterator[LintFault]:
        for target in module.imports.values():
            if target.root == "data" and target.fixed not in self._rules:
                yield from self._target(module, target.fixed, target, may_be_package=True)

    # --- rules ---

    def _rule(self, module: RegoModule, rule: RegoRule) -> Iterator[LintFault]:
        declared = module.locals(rule.node)
        for used in module.references(rule.node):
            yield from self._reference(module, used, declared)
        for call in module.calls(rule.node):
            yield from self._call(module, call)
            yield from literals.faults(module, call)
        if not bound_keys(rule):
            yield _fault(
                module, rule.place, "a key in the head of a rule has to be a name that the body binds"
            )
        if not module.is_test:
            yield from _overrides(module, rule)

    def _reference(
        self, module: RegoModule, used: Reference, declared: frozenset[str]
    ) -> Iterator[LintFault]:
        target = module.imports.get(used.root)
        if target is not None and used.root in declared:
            yield _fault(module, used.place, f"{used.root} is an import and a variable: rename the variable")
        elif target is not None and target.root == "data":
            yield from self._target(module, (*target.fixed, *used.fixed), used)
        elif used.root == "data":
            yield from self._target(module, used.fixed, used)

    def _target(
        self, module: RegoModule, path: Path, used: Reference, *, may_be_package: bool = False
    ) -> Iterator[LintFault]:
        """Whether data.<path> is rule data, or a rule of a package."""
        if path[:1] == ("rules",) or (module.file in self._own and module.package == ("callgate", "layers")):
            return
        named = ".".join(("data", *path))
        package = next(
            (path[:length] for length in range(len(path), 0, -1) if path[:length] in self._rules), ()
        )
        rest = path[len(package) :]
        if not package and path[:1] != ("callgate",):
            yield _fault(module, used.place, f"{named}: there are only data.rules and data.callgate")
        elif not rest or any(other[: len(path)] == path for other in self._rules):
            if not may_be_package:
                yield _fault(module, used.place, f"{named} is a whole package: name the rule that is meant")
        elif not package:
            yield _fault(module, used.place, f"{named}: there is no such package")
        elif rest[0] not in self._rules[package] and ".".join(rest) not in self._rules[package]:
            yield _fault(module, used.place, f"{named}: there is no rule {rest[0]} in {'.'.join(package)}")

    def _call(self, module: RegoModule, call: Call) -> Iterator[LintFault]:
        root, name = call.reference.root, call.name
        target = module.imports.get(root)
        if target is not None or root == "data":
            path = (*(target.fixed if target else ()), *call.reference.fixed)
            arities = self._arities(path[:-1], path[-1]) if path else set()
        else:
            arities = self._arities(module.package, name)
            if not arities and name in ARITIES:
                arities = {ARITIES[name]}
        if not arities:
            yield _fault(module, call.reference.place, why_not(name))
        elif len(call.arguments) not in arities:
            wanted = " or ".join(map(str, sorted(arities)))
            message = f"{name} takes {wanted} argument{'s' * (wanted != '1')}, here are {len(call.arguments)}"
            yield _fault(module, call.reference.place, message)

    def _arities(self, package: Path, name: str) -> set[int]:
        defined = self._rules[package][name] if name in self._rules.get(package, {}) else []
        return {
            rule.arity
            for _, rule in defined
            if rule.kind in {RuleKind.FUNCTION, RuleKind.DEFAULT} and rule.arity
        }

    # --- definitions ---

    def _definitions(self) -> Iterator[LintFault]:
        for package, rules in self._rules.items():
            for name, defined in rules.items():
                yield from _conflicts(name, defined)
                if (*package, name) in self._rules:
                    module, rule = defined[0]
                    message = f"the rule {name} has the name of the package {'.'.join((*package, name))}"
                    yield _fault(module, rule.place, message)

    def _layers(self) -> Iterator[LintFault]:
        for package, rules in self._rules.items():
            if layer_of(package) is None or package[-1].endswith("_test"):
                continue
            if not rules.keys() & set(SAID):
                module, _ = next(iter(rules.values()))[0]
                message = f"{'.'.join(package)} says nothing: only {', '.join(SAID)} are read"
                yield _fault(module, module.package_place, message, Severity.WARNING)
            for name in SAID:
                for module, rule in rules.get(name, ()):
                    if rule.kind not in _KINDS[name]:
                        form = f"{name} contains {{…}} if …" if name in DENIALS else f"{name} := …"
                        yield _fault(module, rule.place, f"{name} is written as `{form}`")
                    elif name in DENIALS:
                        yield from _denial(module, rule)


def _conflicts(name: str, defined: Sequence[tuple[RegoModule, RegoRule]]) -> Iterator[LintFault]:
    defaults = [found for found in defined if found[1].kind is RuleKind.DEFAULT]
    others = [found for found in defined if found[1].kind is not RuleKind.DEFAULT]
    for module, rule in defaults[1:]:
        yield _fault(module, rule.place, f"{name} has two defaults")
    for module, rule in others[1:]:
        first_module, first = others[0]
        where = f"{first_module.file}:{first.place.line}"
        if rule.kind is not first.kind:
            yield _fault(
                module, rule.place, f"{name} is a {rule.kind} rule here and a {first.kind} rule in {where}"
            )
        elif rule.arity != first.arity:
            yield _fault(module, rule.place, f"{name} has another number of arguments in {where}")
        elif rule.kind is RuleKind.COMPLETE and module is not first_module:
            yield _fault(
                module, rule.place, f"{name} is defined in {where} already: two values would be an error"
            )


def _overrides(module: RegoModule, rule: RegoRule) -> Iterator[LintFault]:
    for statement in _statements(rule.node):
        if statement.get("with_mods"):
            place = place_of({"with": statement["with_mods"][0]}, module.source)
            yield _fault(module, place, "`with` is for tests: it leaves traces in the embedded engine")


def _statements(part: Any) -> Iterator[Mapping[str, Any]]:
    waiting = [part]
    while waiting:
        node = waiting.pop()
        if isinstance(node, list):
            waiting += node
        elif isinstance(node, dict):
            if "literal" in node:
                yield node
            waiting += node.values()


def _denial(module: RegoModule, rule: RegoRule) -> Iterator[LintFault]:
    """A denial that is written out as an object has what a denial needs."""
    key: Mapping[str, Any] = next(
        (node["key"] for kind, node in nodes(rule.node) if kind == "Set" and "key" in node), {}
    )
    if "Object" not in key:
        return
    fields = {literal(name): value for _, name, value in key["Object"]["fields"]}
    if None in fields:
        return
    # Whoever is asked for approval decides what follows.
    what, known = ("a demand for approval", _DENIAL_FIELDS - {"action"})
    if rule.name != "approve":
        what, known = "a denial", _DENIAL_FIELDS
    for name in sorted({"code", "message"} - fields.keys()):
        yield _fault(module, rule.place, f"{what} needs a {name}")
    for name in sorted(str(name) for name in fields.keys() - known):
        yield _fault(module, rule.place, f"{what} has no {name}: only {', '.join(sorted(known))}")
    code, action = literal(fields.get("code", {})), literal(fields.get("action", {}))
    if code is not None and not _CODE.fullmatch(code):
        yield _fault(module, rule.place, f"a code is written in small letters and _, not {code!a}")
    if action is not None and action not in ACTIONS:
        yield _fault(module, rule.place, f"an action is one of {', '.join(ACTIONS)}, not {action!a}")


def _fault(module: RegoModule, place: Place, message: str, severity: Severity = Severity.ERROR) -> LintFault:
    return LintFault(module.file, place.line, place.column, message, severity)
