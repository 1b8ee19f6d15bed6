"""What the embedded engine is given instead of the files as they are. Decisions are the same; two faults of it are not met.

1. A reference to a package as a whole (an imported name, or `data.callgate.team[name]`) evaluates every rule of it, and
   wrongly where a package has several files. So imported names are replaced by what they stand for, and references
   lead to one rule each.
2. For the same reason one team's rules would be evaluated, and could fail, for all others. So `layers.rego` is replaced
   by a file with one guarded rule for each thing that each layer says.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from .lint import SAID, layer_of
from .syntax import Path, RegoModule

LAYERS = ("callgate", "layers")
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


@dataclass(frozen=True, slots=True)
class Rewritten:
    """A module for the embedded engine. Lines are as in the file; `shifts` are (line, column, added) of each change."""

    text: str
    shifts: tuple[tuple[int, int, int], ...] = ()

    def column(self, line: int, column: int) -> int:
        """The column in the file of a column that the engine names."""
        for at_line, at_column, added in self.shifts:
            if at_line == line and at_column < column:
                column = max(at_column, column - added)
        return column


def for_embedded(modules: Sequence[RegoModule]) -> dict[str, Rewritten]:
    """The modules by file, names resolved and layers written out."""
    return {
        module.file: Rewritten(layers_module(modules)) if module.package == LAYERS else resolved(module)
        for module in modules
    }


def resolved(module: RegoModule) -> Rewritten:
    """The module with imported names of `data` written out."""
    spots: dict[int, tuple[int, int, int, bytes]] = {}
    for rule in module.rules:
        declared = module.locals(rule.node)
        for used in module.references(rule.node):
            target = module.imports.get(used.root)
            if target is not None and target.root == "data" and used.root not in declared:
                start, end = used.place.start, used.place.start + len(used.root.encode())
                if module.source[start:end] == used.root.encode():
                    full = _written(target.fixed).encode()
                    spots[start] = (end, used.place.line, used.place.column, full)
    source, parts, at, shifts = module.source, [], 0, []
    for start in sorted(spots):
        end, line, column, full = spots[start]
        parts += [source[at:start], full]
        at = end
        shifts.append((line, column, len(full) - (end - start)))
    return Rewritten(b"".join([*parts, source[at:]]).decode(), tuple(shifts))


def layers_module(modules: Iterable[RegoModule]) -> str:
    """The package callgate.layers for exactly the layers that there are."""
    said: dict[Path, set[str]] = defaultdict(set)
    for module in modules:
        if layer_of(module.package) is not None and not module.package[-1].endswith("_test"):
            said[module.package] |= {rule.name for rule in module.rules} & set(SAID)
    # Each is there, also where no layer says anything.
    empty = [f"{name} contains 0 if false\n" for name in SAID]
    rules = [_guarded(package, name) for package in sorted(said) for name in sorted(said[package])]
    return "\n".join(["package callgate.layers\n", *empty, *rules])


def _guarded(package: Path, name: str) -> str:
    layer = json.dumps(layer_of(package))
    guard = "" if layer == '"org"' else f"\tinput.identity.{package[1]} == {json.dumps(package[2])}\n"
    rule = _written((*package, name))
    if name in {"deny", "shadow"}:
        head, body = f'{{"layer": {layer}, "denial": said}}', f"\tsome said in {rule}\n"
    elif name == "allowed_tools":
        head, body = f'{{"layer": {layer}, "names": said}}', f"\tsaid := {rule}\n"
    else:
        head, body = "said", f"\tsaid := {rule}\n"
    return f"{name} contains {head} if {{\n{guard}{body}}}\n"


def _written(path: Path) -> str:
    """The path below `data`, in a form that holds any name."""
    plain = (part.isascii() and part.isidentifier() and part not in _KEYWORDS for part in path)
    steps = (
        f".{part}" if is_plain else f"[{json.dumps(part)}]"
        for part, is_plain in zip(path, plain, strict=True)
    )
    return "".join(("data", *steps))
