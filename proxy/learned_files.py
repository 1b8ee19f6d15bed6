"""What was learned, as files that people read and Callgate loads: YAML with the evidence beside each line, JSON, and Rego
with tests that hold it against calls that were seen.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import PurePosixPath
from typing import Any

from .engines.syntax import written
from .learned_values import places
from .learning import ORG, Learned, LearnedArgument, LearnedLayer, LearnedTool, rule_data, tool_rules
from .printable import clipped, escaped

_PAIR = re.compile(r"\\u(d[89ab][0-9a-f]{2})\\u(d[c-f][0-9a-f]{2})")
_FOLDER = re.compile(r"[^/\\\0.][^/\\\0]{0,127}")
_LONGEST_EVIDENCE = 160


def as_yaml(learned: Learned) -> str:
    """Rule data with comments."""
    lines = [
        "# Learned from recorded runs: what is allowed is what was seen. Look it over before it is put in force.",
        "# effect and risk of the tools are not to be seen in calls: add them by hand.",
    ]
    kinds: dict[str, list[tuple[str, LearnedLayer]]] = {}
    for layer, found in learned.items():
        kind, _, name = layer.partition(".")
        kinds.setdefault(kind, []).append((name, found))
    for kind, found_ in kinds.items():
        lines.append(f"{ORG}:" if kind == ORG else f"{kind}s:")
        for name, layer_ in found_:
            indent = "  "
            if kind != ORG:
                lines.append(f"  {_scalar(name)}:")
                indent = "    "
            lines += [f"{indent}{line}" for line in _layer(layer_)]
    return "\n".join(lines) + "\n"


def as_json(learned: Learned) -> str:
    """The same rule data without comments, for `rules.json`."""
    return json.dumps(rule_data(learned), indent=2) + "\n"


def _layer(layer: LearnedLayer) -> Iterator[str]:
    yield f"# {layer.runs} runs"
    for name, runs in layer.left_out.items():
        yield f"# left out: {_comment(json.dumps(name))}, called in {runs} runs"
    yield "allowed_tools:" if layer.tools else "allowed_tools: []"
    for name in layer.tools:
        yield f"  - {_scalar(name)}"
    if layer.tools:
        yield "tools:"
    for name, tool in layer.tools.items():
        yield from (f"  {line}" for line in _tool(name, tool))
    yield "limits:"
    yield "  turn:"
    yield f"    calls: {layer.turn_calls}  # the most in one turn"
    if layer.tools:
        yield "    per_tool:"
    for name, tool in layer.tools.items():
        yield f"      {_scalar(name)}: {tool.per_turn}"


def _tool(name: str, tool: LearnedTool) -> Iterator[str]:
    seen = f"# {tool.calls} calls in {tool.runs} runs"
    if tool.unread:
        yield f"{_scalar(name)}: {{}}  {seen}; arguments of {tool.unread} are not recorded in full, so none is constrained"
        return
    yield f"{_scalar(name)}:  {seen}"
    for path in tool.unsaid:
        yield f"  # refused, since rule data cannot say what was seen: {_comment(json.dumps(path))}"
    yield "  other_arguments: refuse"
    if tool.arguments:
        yield "  arguments:"
    for path, argument in tool.arguments.items():
        members = ", ".join(f"{key}: {_flow(value)}" for key, value in argument.constraint.items())
        yield f"    {_scalar(path)}: {{{members}}}  # {_evidence(argument)}"


def _evidence(argument: LearnedArgument) -> str:
    examples = f", e.g. {', '.join(argument.examples)}" if argument.examples else ""
    return _comment(f"{argument.seen} times in {argument.runs} runs{examples}")


def _comment(text: str) -> str:
    return clipped(escaped(text), _LONGEST_EVIDENCE)


def _flow(value: Any) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(_scalar, value))}]"
    return _scalar(value)


def _scalar(value: Any) -> str:
    """JSON that YAML reads alike: characters beyond 16 bits have another escape there."""
    text = _PAIR.sub(_joined, json.dumps(value))
    return text.replace("\x7f", "\\x7f")


def _joined(pair: re.Match[str]) -> str:
    char = bytes.fromhex(pair[1] + pair[2]).decode("utf-16-be")
    return f"\\U{ord(char):08x}"


# --- Rego ---------------------------------------------------------------------------------------------------------


def as_rego(learned: Learned) -> dict[PurePosixPath, str]:
    """The same as a folder of policies: for each layer a file with its rules and one with tests.

    Raises ValueError for a team or agent whose name cannot be that of a folder.
    """
    files = {}
    for layer, found in learned.items():
        package = ("callgate", *layer.split(".", 1))
        if not _FOLDER.fullmatch(package[-1]):
            msg = f"{escaped(layer)}: cannot be the name of a folder, so its rules cannot be Rego"
            raise ValueError(msg)
        folder = PurePosixPath(*package)
        files[folder / "learned.rego"] = _rules(package, found)
        files[folder / "learned_test.rego"] = _tests(package, found)
    return files


def _rules(package: tuple[str, ...], layer: LearnedLayer) -> str:
    tools = {name: tool_rules(tool) for name, tool in layer.tools.items()}
    limits = layer.rules()["limits"]
    return f"""# METADATA
# title: Learned from {layer.runs} recorded runs
# description: "What is allowed is what was seen: tools, arguments, shapes of values, calls in one turn."
package {_name(package)}

import data.callgate.lib

allowed_tools := {{name | some name in {_value(sorted(tools))}}}

limits := {_value(limits)}

# METADATA
# title: An argument is of the shape that was seen
# custom:
#   code: argument_rule
deny contains object.remove(denial, ["shadow"]) if {{
	some call in input.calls
	some denial in lib.argument_denials(_learned, call, _question)
}}

# METADATA
# title: Arguments that were never seen are refused
# custom:
#   code: argument_rule
deny contains object.remove(denial, ["shadow"]) if {{
	some call in input.calls
	some denial in lib.unnamed_denials(_learned, call)
}}

_question := {{"steps": object.get(input, ["run", "steps"], []), "task": object.get(input, "task", {{}})}}

_learned := {_value({"tools": tools})}
"""


def _tests(package: tuple[str, ...], layer: LearnedLayer) -> str:
    name = _name((*package[:-1], f"{package[-1]}_test"))
    rules = written(package)
    parts = [
        f"""# METADATA
# title: Calls that were seen, held against what was learned from them
# description: "Holds recorded arguments, those with secrets left out."
package {name}

_denied(name, arguments, question) := {{denial.rule | some denial in denials}} if {{
	call := {{"index": 0, "name": name, "folded": name, "kind": "function", "arguments": arguments}}
	denials := {rules}.deny with input as object.union(question, {{"calls": [call]}})
}}

test_denies_tools_that_were_never_seen if not "callgate_never_seen" in {rules}.allowed_tools
"""
    ]
    for number, (tool, learned) in enumerate(layer.tools.items(), 1):
        if learned.samples and not learned.unread and not learned.unsaid:
            parts += _tests_of(number, tool, learned)
    return "\n".join(parts)


def _tests_of(number: int, name: str, tool: LearnedTool) -> Iterator[str]:
    rule = f"{number}_{re.sub('[^0-9A-Za-z_]', '_', name)[:64]}"
    said = json.dumps(name)
    for place, sample in enumerate(tool.samples, 1):
        question = _value(_question(tool, sample), 1)
        yield f"""test_allows_{rule}_call_{place} if {{
	arguments := {_value(sample, 1)}
	question := {question}

	_denied({said}, arguments, question) == set()
}}
"""
    further = dict(tool.samples[0]) | {"callgate_never_seen": 1}
    yield f"""test_denies_{rule}_with_a_further_argument if {{
	arguments := {_value(further, 1)}
	question := {_value(_question(tool, tool.samples[0]), 1)}

	count(_denied({said}, arguments, question)) == 1
}}
"""


def _question(tool: LearnedTool, sample: Mapping[str, Any]) -> dict[str, Any]:
    """A run in which every value came from where values of its kind came from."""
    found = places(sample)
    steps = []
    texts: list[str] = []
    for path, argument in tool.arguments.items():
        values = [str(value) for value in found.get(path, ())]
        for source in argument.constraint.get("in_results_of", ())[:1]:
            steps += [{"tool": source, "status": "found", "result": value} for value in values]
        if "in_user_text" in argument.constraint:
            texts += values
    return {"run": {"steps": steps}, "task": {"folded": " ".join(texts).lower(), "user_texts": texts}}


def _name(package: Iterable[str]) -> str:
    return written(tuple(package)).removeprefix("data.")


def _value(value: Any, depth: int = 0) -> str:
    """JSON as `opa fmt` writes it: a member a line, since a line of Rego is no longer than 1024 characters."""
    if not isinstance(value, dict | list) or not value:
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    outer = "\t" * depth
    if isinstance(value, dict):
        parts = [f"{_value(name)}: {_value(part, depth + 1)}" for name, part in value.items()]
    else:
        parts = [_value(part, depth + 1) for part in value]
    opening, closing = "{}" if isinstance(value, dict) else "[]"
    lines = "".join(f"{outer}\t{part},\n" for part in parts)
    return f"{opening}\n{lines}{outer}{closing}"
