"""JSON Schemas of tools, compiled once each, and what they say of arguments in words without values (C3).

Nothing is ever fetched: a reference to another document makes a schema unusable. Regular expressions in patterns
run with a bounded number of steps, and one that runs out of them refuses.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from itertools import islice
from typing import TYPE_CHECKING, Any

import jsonschema_rs
import orjson

from .names import listed, spelled

if TYPE_CHECKING:
    from collections.abc import Sequence

SCHEMAS_KEPT = 512
SCHEMA_BYTES = 262_144
PATTERN_STEPS = 100_000
ERRORS_TOLD = 3
BRANCHES_TOLD = 4
_VALUE_LENGTH = 200


class SchemaUnusable(ValueError):
    """The declared schema is none, refers elsewhere, or is too large. The text says which; it quotes nothing."""


def complaints(schema: Mapping[str, object], arguments: Mapping[str, object]) -> list[str]:
    """Sentences on where the arguments do not fit; empty: they do. Raises SchemaUnusable."""
    try:
        written = orjson.dumps(schema, option=orjson.OPT_SORT_KEYS)
    except (TypeError, ValueError) as fault:
        raise SchemaUnusable("it is not plain JSON") from fault
    if len(written) > SCHEMA_BYTES:
        raise SchemaUnusable(f"it is larger than {SCHEMA_BYTES} bytes")
    validator = _compiled(written)
    if isinstance(validator, str):
        raise SchemaUnusable(validator)
    try:
        return [_sentence(error) for error in islice(validator.iter_errors(arguments), ERRORS_TOLD)]
    except ValueError:
        # E.g. half a surrogate pair, which no reader of JSON in UTF-8 would see alike.
        return ["The arguments hold a value that cannot be checked."]


@lru_cache(maxsize=SCHEMAS_KEPT)
def _compiled(written: bytes) -> Any:
    """A validator, or in words why there is none."""
    try:
        return jsonschema_rs.validator_for(
            orjson.loads(written),
            offline=True,
            pattern_options=jsonschema_rs.FancyRegexOptions(backtrack_limit=PATTERN_STEPS),
        )
    except jsonschema_rs.ValidationError as fault:
        where = "/".join(str(part) for part in fault.instance_path)
        return f"it is no valid JSON Schema at /{where}"
    except ValueError:
        return "it is no valid JSON Schema"


def _sentence(error: jsonschema_rs.ValidationError) -> str:
    where = path_of(error.instance_path)
    keyword = str(error.schema_path[-1]) if error.schema_path else error.kind.name
    return f"{where}: {_told(error)} ({keyword})."


def _told(error: jsonschema_rs.ValidationError) -> str:
    if error.kind.name == "falseSchema" and error.schema_path[-1:] == ["additionalProperties"]:
        return "has to be without members"
    told: str = _TOLD.get(error.kind.name, _plain)(error.kind.as_dict())
    return told


def path_of(parts: Sequence[str | int]) -> str:
    """A JSON path: `$.a[0].b`."""
    written = "$"
    for part in parts:
        if isinstance(part, int):
            written += f"[{part}]"
        elif part.isidentifier() and part.isascii():
            written += f".{part}"
        else:
            written += f"[{spelled(part)}]"
    return written


def _expected(prefix: str, field: str) -> Any:
    return lambda kind: f"{prefix} {_shown(kind.get(field))}"


def _shown(value: object) -> str:
    """What the schema asks for. It is the schema's own, never a value of the arguments."""
    try:
        written = orjson.dumps(value).decode("utf-8", "replace")
    except (TypeError, ValueError):
        written = str(value)
    return written if len(written) <= _VALUE_LENGTH else written[:_VALUE_LENGTH] + "…"


def _unexpected(kind: Mapping[str, Any]) -> str:
    return f"unknown member(s) {listed(str(name) for name in kind.get('unexpected', ()))}"


def _types(kind: Mapping[str, Any]) -> str:
    return f"has to be of type {' or '.join(str(name) for name in kind.get('types', ()))}"


def _forms(kind: Mapping[str, Any]) -> str:
    branches = [
        f"{path_of(errors[0].instance_path)} {_told(errors[0])}"
        for errors in kind.get("context", ())[:BRANCHES_TOLD]
        if errors and errors[0].kind.name not in {"anyOf", "oneOf"}
    ]
    return "fits none of the permitted forms" + (f" ({'; or '.join(branches)})" if branches else "")


def _pattern(kind: Mapping[str, Any]) -> str:
    if "error" in kind:
        return "cannot be held against the pattern in reasonable time"
    return f"has to match the pattern {_shown(kind.get('pattern'))}"


def _plain(kind: Mapping[str, Any]) -> str:  # noqa: ARG001 - the kinds that need no figure
    return "does not fit"


_TOLD = {
    "type": _types,
    "required": lambda kind: f"the member {spelled(str(kind.get('property')))} is missing",
    "additionalProperties": _unexpected,
    "unevaluatedProperties": _unexpected,
    "enum": _expected("has to be one of", "options"),
    "const": _expected("has to be", "expected_value"),
    "minimum": _expected("has to be at least", "limit"),
    "maximum": _expected("has to be at most", "limit"),
    "exclusiveMinimum": _expected("has to be more than", "limit"),
    "exclusiveMaximum": _expected("has to be less than", "limit"),
    "minLength": _expected("has to be at least this many characters long:", "limit"),
    "maxLength": _expected("has to be at most this many characters long:", "limit"),
    "minItems": _expected("has to have at least this many elements:", "limit"),
    "maxItems": _expected("has to have at most this many elements:", "limit"),
    "minProperties": _expected("has to have at least this many members:", "limit"),
    "maxProperties": _expected("has to have at most this many members:", "limit"),
    "multipleOf": _expected("has to be a multiple of", "multiple_of"),
    "pattern": _pattern,
    "format": _expected("has to have the format", "format"),
    "uniqueItems": lambda _kind: "has to have no element twice",
    "anyOf": _forms,
    "oneOf": _forms,
    "falseSchema": lambda _kind: "is not permitted",
}
