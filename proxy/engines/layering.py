"""What the embedded engine is given instead of the files as they are: `rewriting.py`, and the layers written out.

A reference such as `data.callgate.team[name]` makes that engine evaluate the rules of every team, so that one team's
mistake would be everybody's. So `layers.rego` is replaced by a file with one guarded rule for each thing that each
layer says. Decisions are the same.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Sequence

from .lint import DENIALS, SAID, layer_of
from .rewriting import Rewritten, rewritten
from .syntax import Path, RegoModule, written

LAYERS = ("callgate", "layers")


def for_embedded(modules: Sequence[RegoModule]) -> dict[str, Rewritten]:
    """The modules by file, names resolved and layers written out."""
    return {
        module.file: Rewritten(layers_module(modules)) if module.package == LAYERS else rewritten(module)
        for module in modules
    }


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
    rule = written((*package, name))
    if name in DENIALS:
        head, body = f'{{"layer": {layer}, "denial": said}}', f"\tsome said in {rule}\n"
    elif name == "allowed_tools":
        head, body = f'{{"layer": {layer}, "names": said}}', f"\tsaid := {rule}\n"
    else:
        head, body = "said", f"\tsaid := {rule}\n"
    return f"{name} contains {head} if {{\n{guard}{body}}}\n"
