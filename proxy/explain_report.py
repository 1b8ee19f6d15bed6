"""What `callgate explain` says about a decision, for people and for programs. Values under secret keys are left out."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from .printable import clipped, escaped
from .redaction import REDACTED, Redactor

if TYPE_CHECKING:
    from .engines.explaining import Explanation, Said, Tested

NOT_LOOKED_AT = (
    "Only policy is explained. Not looked at: whether the tool was offered and its arguments fit its schema, the history, "
    "repetition, side effects, what is left of limits, and checks.modes."
)
_LONGEST = 100


def refused_calls(found: Explanation, document: Mapping[str, Any]) -> list[int]:
    """Places of the calls that something enforced denies."""
    denied = [said.call for said in found.said if said.action and not said.shadow]
    calls = range(len(document.get("calls", [])))
    return [place for place in calls if place in denied or None in denied]


def is_refused(found: Explanation, document: Mapping[str, Any]) -> bool:
    """Whether a call is refused, or (no call in question) the request or answer as a whole."""
    if document.get("calls"):
        return bool(refused_calls(found, document))
    return any(said.action and not said.shadow for said in found.said)


def report_lines(
    found: Explanation, document: Mapping[str, Any], limits: Mapping[str, Any], redactor: Redactor
) -> Iterator[str]:
    """The explanation. `limits`: those of the settings, by dotted name."""
    yield from _verdict(found, document, redactor)
    yield from _reasons(found)
    yield from _lists(found, document)
    yield from _constraints(found, redactor)
    yield ""
    yield "Each layer by itself:"
    for layer in found.layers:
        said = ", ".join(layer.codes) or "denies nothing"
        offered = "" if layer.allowed_tools is None else f"; offers {_names(layer.allowed_tools, document)}"
        yield f"  {_shown(layer.layer)}: {said + offered if layer.speaks else 'there are no rules of it'}"
    yield from _limits(found, limits)
    yield ""
    yield NOT_LOOKED_AT


def _verdict(found: Explanation, document: Mapping[str, Any], redactor: Redactor) -> Iterator[str]:
    refused = refused_calls(found, document)
    demanded = {said.call for said in found.said if not said.action}
    for place, call in enumerate(document.get("calls", [])):
        word = "refused" if place in refused else "allowed"
        if place not in refused and demanded & {place, None}:
            word = "waits for a person"
        arguments = redactor.summary(json.dumps(call.get("arguments", call.get("text"))), _LONGEST)
        yield f"{_shown(call['name'])} {_shown(arguments)}: {word}"
    if not document.get("calls"):
        yield f"phase {document.get('phase')}: {'refused' if is_refused(found, document) else 'allowed'}"
    allowed = found.decision["allowed_tools"]
    if allowed is not None:
        yield f"Offered to the model: {_names(allowed, document)}"


def _names(names: Iterable[str], document: Mapping[str, Any]) -> str:
    if not document.get("tools"):
        return "what of the agent's tools is on the lists"
    return ", ".join(map(_shown, names)) or "no tool"


def _reasons(found: Explanation) -> Iterator[str]:
    for said in found.said:
        yield ""
        yield f"{_kind(said)} by {_shown(said.layer) or 'the shipped rules'}: {_shown(said.rule)} ({said.code})"
        yield f"  told: {_shown(said.message, 400)}"
        for place in said.places:
            yield f"  {place.file}:{place.line}: {_shown(place.text)}"


def _kind(said: Said) -> str:
    which = "" if said.call is None else f" call {said.call}"
    if not said.action:
        return f"Approval is demanded{' for' + which if which else ''}"
    return f"{'Would deny (shadow)' if said.shadow else 'Denied'}{which}"


def _lists(found: Explanation, document: Mapping[str, Any]) -> Iterator[str]:
    names = list(dict.fromkeys(call["name"] for call in document.get("calls", [])))
    if found.lists:
        yield ""
        yield "Lists of tools:"
    for layer, listed in found.lists:
        for name in names:
            on = any(
                name == entry or (entry.endswith("*") and name.startswith(entry[:-1])) for entry in listed
            )
            names_ = ", ".join(map(_shown, listed)) or "nothing"
            yield f"  {_shown(layer)}: {_shown(name)} is {'on it' if on else 'not on it'} ({clipped(names_, _LONGEST)})"


def _constraints(found: Explanation, redactor: Redactor) -> Iterator[str]:
    if found.tested:
        yield ""
        yield "Constraints on arguments:"
    for each in found.tested:
        mark = "holds " if each.holds else "BROKEN"
        wanted, values = _values(each, redactor)
        yield f"  {mark} {_shown(each.layer)}: {_shown(each.path)} {each.kind} {wanted}, is {values}"


def _values(each: Tested, redactor: Redactor) -> tuple[str, str]:
    if any(redactor.is_secret_key(part) for part in each.path.split(".")):
        return REDACTED, REDACTED
    shown = [_json(redactor.value(value)) for value in each.values]
    return _json(each.wanted), ", ".join(shown) or "not there"


def _limits(found: Explanation, limits: Mapping[str, Any]) -> Iterator[str]:
    if found.limits or limits:
        yield ""
        yield "Limits in force, the smallest of all:"
    for name in sorted(found.limits.keys() | limits.keys()):
        value, layers = found.limits.get(name, (None, ()))
        settled = limits.get(name)
        if settled is not None and (value is None or settled <= value):
            value, layers = settled, ("the settings", *(layers if settled == value else ()))
        yield f"  {_shown(name)}: {value} by {', '.join(map(_shown, layers)) or 'several layers together'}"


def trace_lines(found: Explanation) -> Iterator[str]:
    """The lines of the layers' Rego that this decision reached (`+`) and did not (`-`)."""
    for file in found.reached:
        if not file.reached:
            continue
        yield ""
        yield file.file
        lines = found.sources.get(file.file, "").splitlines()
        for number in sorted((*file.reached, *file.missed)):
            mark = "+" if number in file.reached else "-"
            text = lines[number - 1] if number <= len(lines) else ""
            yield f"  {mark} {number:4} {_shown(text.expandtabs(4), 160)}"


def as_json(
    found: Explanation, document: Mapping[str, Any], limits: Mapping[str, Any], redactor: Redactor
) -> dict[str, Any]:
    """The same as JSON values."""
    return {
        "refused": is_refused(found, document),
        "refused_calls": refused_calls(found, document),
        "allowed_tools": found.decision["allowed_tools"],
        "said": [
            {
                "layer": said.layer,
                "rule": said.rule,
                "code": said.code,
                "message": said.message,
                "call": said.call,
                "action": said.action or "approve",
                "shadow": said.shadow,
                "places": [
                    {"file": place.file, "line": place.line, "text": place.text} for place in said.places
                ],
            }
            for said in found.said
        ],
        "lists": [{"layer": layer, "names": list(names)} for layer, names in found.lists],
        "constraints": [_tested(each, redactor) for each in found.tested],
        "layers": [
            {
                "layer": each.layer,
                "speaks": each.speaks,
                "denies": list(each.codes),
                "allowed_tools": None if each.allowed_tools is None else list(each.allowed_tools),
                "limits": dict(each.limits),
            }
            for each in found.layers
        ],
        "limits": {
            name: {"value": value, "layers": list(layers)} for name, (value, layers) in found.limits.items()
        },
        "settings": dict(limits),
        "reached": [
            {"file": each.file, "lines": list(each.reached)} for each in found.reached if each.reached
        ],
        "not_looked_at": NOT_LOOKED_AT,
    }


def _tested(each: Tested, redactor: Redactor) -> dict[str, Any]:
    is_secret = any(redactor.is_secret_key(part) for part in each.path.split("."))
    return {
        "layer": each.layer,
        "call": each.call,
        "tool": each.tool,
        "path": each.path,
        "kind": each.kind,
        "wanted": REDACTED if is_secret else each.wanted,
        "values": REDACTED if is_secret else [redactor.value(value) for value in each.values],
        "holds": each.holds,
    }


def _json(value: object) -> str:
    return _shown(json.dumps(value, ensure_ascii=False))


def _shown(text: str, limit: int = _LONGEST) -> str:
    return clipped(escaped(text), limit)
