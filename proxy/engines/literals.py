"""Patterns and formats that are written out in Rego: whether they compile, and whether the engines agree about them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from .findings import LintFault, Severity
from .patterns import compile_fault, format_differences, glob_differences, regex_differences
from .syntax import Call, Node, RegoModule, literal, place_of

_PATTERN_AT = {
    "regex.match": 0,
    "regex.is_valid": 0,
    "regex.split": 0,
    "regex.find_n": 0,
    "regex.find_all_string_submatch_n": 0,
    "regex.replace": 1,
}


def faults(module: RegoModule, call: Call) -> Iterator[LintFault]:
    """What is wrong with the literals of one call."""
    name = call.name
    if name in _PATTERN_AT and _PATTERN_AT[name] < len(call.arguments):
        node = call.arguments[_PATTERN_AT[name]]
        pattern = literal(node)
        if pattern is not None:
            yield from _found(module, node, compile_fault(pattern), Severity.ERROR)
            yield from _found(module, node, regex_differences(pattern), Severity.WARNING)
    elif name == "glob.match" and len(call.arguments) > 1:
        node = call.arguments[0]
        pattern, delimiters = literal(node), _delimiters(call.arguments[1])
        if "Null" in call.arguments[1]:
            message = "a glob without delimiters is read differently: write [] for the delimiter ."
            yield from _found(module, call.arguments[1], message, Severity.WARNING)
        elif pattern is not None:
            yield from _found(module, node, glob_differences(pattern, delimiters), Severity.WARNING)
    elif name == "sprintf" and call.arguments:
        template = literal(call.arguments[0])
        if template is not None:
            yield from _found(module, call.arguments[0], format_differences(template), Severity.WARNING)


def _delimiters(node: Node) -> list[str] | None:
    if "Array" not in node:
        return None
    items: list[Any] = node["Array"]["items"]
    return [text for item in items if (text := literal(item)) is not None]


def _found(module: RegoModule, node: Node, message: str | None, severity: Severity) -> Iterator[LintFault]:
    if message is not None:
        place = place_of(node, module.source)
        yield LintFault(module.file, place.line, place.column, message, severity)
