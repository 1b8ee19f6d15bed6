"""Where a decision was written down: the rule in Rego, or the key in a file of rule data."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from .bundle import Sources
from .lint import SAID, layer_of
from .marked import Path
from .syntax import RegoModule, RegoRule, literal, nodes

_CODE_COMMENT = re.compile(r"^#\s+code:\s*([a-z][a-z0-9_]*)\s*$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class RulePlace:
    """A line of a file; `text` is what stands there. Line 0: it has none (the settings)."""

    file: str
    line: int
    text: str


def places_of(
    sources: Sources, rules: Mapping[str, Any], layer: str, code: str, rule: str, tool: str = ""
) -> list[RulePlace]:
    """Where a denial or a demand of this layer comes from; empty: it is not to be found out.

    `rules`: the whole of the rule data; `code` and `rule` are those of the denial, `tool` is what was called.
    """
    above = _above(layer)
    tree: Any = rules
    for step in above:
        tree = tree.get(step, {}) if isinstance(tree, Mapping) else {}
    found = [
        place
        for dotted in (f"tools.{tool}.roles" if rule == "tools.roles" else rule, _other_name(rule))
        if (path := _resolved(tree, dotted))
        for place in _data_places(sources, (*above, *path))
    ]
    return found or list(_rego_places(sources, layer, code, rule))


def _other_name(rule: str) -> str:
    """A list of tools may be said role by role."""
    return "roles" if rule == "allowed_tools" else ""


def _above(layer: str) -> tuple[str, ...]:
    kind, _, name = layer.partition(".")
    return (kind,) if not name else (f"{kind}s", name)


def _resolved(tree: Any, dotted: str) -> Path:
    """The longest path in the tree that the dotted name begins with: names may have dots themselves."""
    best: Path = ()
    if isinstance(tree, Mapping):
        for name, part in tree.items():
            if dotted == name or dotted.startswith(f"{name}."):
                path = (name, *_resolved(part, dotted[len(name) + 1 :]))
                best = max(best, path, key=lambda each: len(".".join(map(str, each))))
    return best


def _data_places(sources: Sources, path: Path) -> Iterator[RulePlace]:
    """The strongest file that says it, or what is nearest above it."""
    for length in range(len(path), 1, -1):
        for above, marked in reversed(sources.marked):
            inner = path[len(above) : length]
            if path[: len(above)] == above and inner and inner in marked.places:
                line, _ = marked.places[inner]
                yield RulePlace(marked.file, line, ".".join(map(str, path[:length])))
                return


def _rego_places(sources: Sources, layer: str, code: str, rule: str) -> Iterator[RulePlace]:
    said = [
        (module, defined)
        for module in sources.modules
        if layer_of(module.package) == layer and not module.is_test
        for defined in module.rules
        if defined.name in SAID
    ]
    for module, defined in said:
        if code in _codes(module, defined) or rule == defined.name:
            yield RulePlace(module.file, defined.place.line, _title(module, defined))


def _codes(module: RegoModule, rule: RegoRule) -> set[str]:
    """The codes that a rule can say: written in its head, or in the comment above it."""
    found = set(_CODE_COMMENT.findall(_comment(module, rule)))
    for kind, node in nodes(rule.node):
        if kind == "Object":
            found |= {
                text
                for _, name, value in node["fields"]
                if literal(name) == "code" and (text := literal(value)) is not None
            }
    return found


def _title(module: RegoModule, rule: RegoRule) -> str:
    titles = re.findall(r"^#\s+title:\s*(.+)$", _comment(module, rule), re.MULTILINE)
    return titles[0].strip("\"' ") if titles else module.text.splitlines()[rule.place.line - 1].strip()


def _comment(module: RegoModule, rule: RegoRule) -> str:
    lines = module.text.splitlines()[: rule.place.line - 1]
    start = len(lines)
    while start and lines[start - 1].startswith("#"):
        start -= 1
    return "\n".join(lines[start:])
