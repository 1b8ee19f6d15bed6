"""One question to the policies, taken apart: what each layer says by itself, which lists and constraints were looked at and
what they came to, and where each denial is written down.

Evaluated in this process by the embedded engine with the very modules that decide, and one module more that asks them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from .bundle import Bundle, Sources
from .coverage import Covered, FileCoverage
from .decision import read_decision
from .layering import LAYERS, layers_module
from .lint import layer_of
from .rule_places import RulePlace, places_of
from .worker import Evaluator

_MODULE = "explained.rego"
_ASKED = """package callgate.explained

lists contains {"layer": list.layer, "names": sort(list.names)} if some list in data.callgate.main._lists

refusals contains {"layer": each.layer, "rule": each.rule, "names": sort(each.names)} if {
	some each in data.callgate.main._refusals
}

constraints contains {
	"layer": each.layer, "call": call.index, "tool": tool, "path": path, "kind": kind,
	"wanted": wanted, "values": there.values, "holds": holds,
} if {
	some each in data.callgate.main._rule_layers
	some call in data.callgate.main._calls
	some tool, entry in data.callgate.lib.entries(each.rules, call)
	some path, constraint in object.get(entry, "arguments", {})
	broken := data.callgate.lib._broken(path, constraint, call, data.callgate.main._question)
	there := _there(call, path)
	kinds := {kind | some kind, _ in constraint} | broken
	some kind in kinds
	not kind in {"message", "shadow"} | ({"required"} - broken)
	wanted := object.get(constraint, kind, true)
	holds := _holds(kind, broken)
}

_there(call, path) := data.callgate.lib.found(data.callgate.lib._arguments(call), path)

_there(call, _) := {"values": [], "missing": true} if not data.callgate.lib._is_readable(call)

_holds(kind, broken) := true if not kind in broken

_holds(kind, broken) := false if kind in broken

report := {"lists": lists, "refusals": refusals, "constraints": constraints}
"""
_DECISION = "data.callgate.main.decision"


@dataclass(frozen=True, slots=True)
class Said:
    """One denial or demand, and where it is written down."""

    layer: str
    rule: str
    code: str
    message: str
    call: int | None
    action: str
    """Empty: a demand that a person approves."""
    shadow: bool
    places: tuple[RulePlace, ...]


@dataclass(frozen=True, slots=True)
class Tested:
    """One kind of one constraint, and whether it held."""

    layer: str
    call: int
    tool: str
    path: str
    kind: str
    wanted: Any
    values: tuple[Any, ...]
    holds: bool


@dataclass(frozen=True, slots=True)
class LayerAlone:
    """What one layer would decide if there were no other."""

    layer: str
    codes: tuple[str, ...]
    """Of what it denies."""
    allowed_tools: tuple[str, ...] | None
    limits: Mapping[str, Any]
    """By dotted name, e.g. `turn.calls` and `turn.per_tool.search`."""
    speaks: bool
    """Rules or rule data of it are there."""


@dataclass(frozen=True, slots=True)
class Explanation:
    """A decision taken apart."""

    decision: Mapping[str, Any]
    said: tuple[Said, ...]
    lists: tuple[tuple[str, tuple[str, ...]], ...]
    """Lists of tools, each with its layer."""
    tested: tuple[Tested, ...]
    layers: tuple[LayerAlone, ...]
    limits: Mapping[str, tuple[Any, tuple[str, ...]]]
    """By dotted name the smallest, and the layers that say it."""
    reached: tuple[FileCoverage, ...]
    """Which lines of the layers' Rego were reached."""
    sources: Mapping[str, str]
    """The text of these files."""


def explained(bundle: Bundle, sources: Sources, document: Mapping[str, Any]) -> Explanation:
    """What the policies say about this input document, and why. `sources`: what the bundle was made of.

    Raises RegoError where a rule cannot be evaluated, EngineFault where what comes is no decision.
    """
    texts = {file: module.text for file, module in bundle.embedded.items()}
    evaluator = Evaluator({**texts, _MODULE: _ASKED}, bundle.data)
    asked = json.dumps(document)
    watched = evaluator.copy()
    watched.watch()
    decision = json.loads(watched.evaluate(_DECISION, asked))
    read_decision(decision, bundle.revision)
    report = json.loads(evaluator.evaluate("data.callgate.explained.report", asked))
    alone = tuple(_layers_alone(bundle, sources, texts, document))
    tested = [Tested(**{**each, "values": tuple(each["values"])}) for each in report["constraints"]]
    return Explanation(
        decision=decision,
        said=tuple(_said(bundle, sources, decision, document)),
        lists=tuple((each["layer"], tuple(each["names"])) for each in report["lists"]),
        tested=tuple(sorted(tested, key=lambda each: (each.call, each.layer, each.path, each.kind))),
        layers=alone,
        limits={
            name: (value, tuple(each.layer for each in alone if each.limits.get(name) == value))
            for name, value in sorted(flat(decision["limits"]).items())
        },
        reached=tuple(_reached(bundle, sources, watched)),
        sources={module.file: module.text for module in sources.modules},
    )


def _said(
    bundle: Bundle, sources: Sources, decision: Mapping[str, Any], document: Mapping[str, Any]
) -> Iterator[Said]:
    calls = document.get("calls", [])
    for kind, entries in (
        ("deny", decision["deny"]),
        ("shadow", decision["shadow"]),
        ("", decision["approvals"]),
    ):
        for entry in entries:
            call = entry.get("call")
            is_there = isinstance(call, int) and 0 <= call < len(calls)
            tool = calls[call]["name"] if is_there else ""
            layer, rule = entry.get("layer", ""), entry.get("rule", "")
            yield Said(
                layer,
                rule,
                entry["code"],
                entry["message"],
                call,
                entry.get("action", "reask") if kind else "",
                shadow=kind == "shadow",
                places=tuple(places_of(sources, bundle.data["rules"], layer, entry["code"], rule, tool)),
            )


def _layers_alone(
    bundle: Bundle, sources: Sources, texts: Mapping[str, str], document: Mapping[str, Any]
) -> Iterator[LayerAlone]:
    identity = document.get("identity", {})
    names = ["org", *(f"{kind}.{identity[kind]}" for kind in ("team", "agent") if identity.get(kind))]
    rules = bundle.data["rules"]
    file = next(module.file for module in sources.modules if module.package == LAYERS)
    for layer in names:
        kind, _, name = layer.partition(".")
        own = [module for module in sources.modules if layer_of(module.package) == layer]
        data = {"profile": "starter", "org": rules["org"] if kind == "org" else {}, "teams": {}, "agents": {}}
        if name and name in rules[f"{kind}s"]:
            data[f"{kind}s"] = {name: rules[f"{kind}s"][name]}
        evaluator = Evaluator({**texts, file: layers_module(own)}, {"rules": data})
        decision = json.loads(evaluator.evaluate(_DECISION, json.dumps(document)))
        allowed = decision["allowed_tools"]
        yield LayerAlone(
            layer,
            tuple(sorted({denial["code"] for denial in decision["deny"]})),
            None if allowed is None else tuple(allowed),
            flat(decision["limits"]),
            speaks=layer in bundle.layers,
        )


def flat(tree: Mapping[str, Any], above: str = "") -> dict[str, Any]:
    """The values of nested objects by dotted name."""
    found: dict[str, Any] = {}
    for name, value in tree.items():
        if isinstance(value, Mapping):
            found |= flat(value, f"{above}{name}.")
        else:
            found[f"{above}{name}"] = value
    return found


def _reached(bundle: Bundle, sources: Sources, watched: Evaluator) -> Iterator[FileCoverage]:
    covered = Covered()
    covered.add(watched.lines())
    wanted = [module for module in sources.modules if layer_of(module.package[:3]) is not None]
    yield from covered.files(
        {module.file: bundle.embedded[module.file] for module in wanted},
        {module.file: [rule.place.line for rule in module.rules] for module in wanted},
    )
