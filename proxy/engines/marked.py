"""YAML and JSON files as values, with the place of each of them."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import yaml

from .findings import LintFault

Path = tuple[str | int, ...]

_DEEPEST = 32
_MOST_NODES = 200_000
_LARGEST = 2**53
_UNUSABLE = re.compile("[\0\ud800-\udfff]")


class NotReadable(Exception):
    """The file cannot be read as values."""

    def __init__(self, fault: LintFault) -> None:
        super().__init__(str(fault))
        self.fault = fault


@dataclass(frozen=True)
class Marked:
    """The values of one file. `places`: line and column (from 1) by path; a member's place is that of its name."""

    file: str
    value: Any
    places: Mapping[Path, tuple[int, int]] = field(default_factory=dict)

    def fault(self, path: Path, message: str) -> LintFault:
        """A finding at this path, or at what is nearest above it."""
        known = next(
            (path[:length] for length in range(len(path), -1, -1) if path[:length] in self.places), ()
        )
        line, column = self.places.get(known, (0, 0))
        dotted = ".".join(map(str, path))
        return LintFault(self.file, line, column, f"{dotted}: {message}" if dotted else message)


def read_marked(file: str, text: str) -> Marked:
    """Reads YAML, or JSON where the file's name says so. In YAML words stay words: `no`, `on` and dates are text; only
    numbers, true, false and null are what they are in JSON. Raises NotReadable."""
    if file.endswith(".json"):
        return Marked(file, _json_value(file, text), _json_places(text))
    places: dict[Path, tuple[int, int]] = {}
    try:
        return Marked(file, _yaml_value(text, places), places)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line, column = (mark.line + 1, mark.column + 1) if mark else (0, 0)
        raise NotReadable(LintFault(file, line, column, f"cannot be read: {error.problem}")) from None
    except (yaml.YAMLError, RecursionError) as error:
        raise NotReadable(LintFault(file, 0, 0, f"cannot be read: {type(error).__name__}")) from None


def _yaml_value(text: str, places: dict[Path, tuple[int, int]]) -> Any:
    loader = _Loader(text)
    try:
        node = loader.get_single_node()
        return {} if node is None else _Reader(loader, places).read(node, ())
    finally:
        loader.dispose()


def _json_value(file: str, text: str) -> Any:
    def members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) < len(pairs):
            name = next(name for place, (name, _) in enumerate(pairs) if name in dict(pairs[:place]))
            raise _Unusable(f"{name} stands in one object twice")
        return found

    try:
        value = json.loads(text, object_pairs_hook=members, parse_constant=_no_number)
        _refuse_unusable(value, 0)
    except json.JSONDecodeError as error:
        raise NotReadable(
            LintFault(file, error.lineno, error.colno, f"cannot be read: {error.msg}")
        ) from None
    except (_Unusable, RecursionError, ValueError) as error:
        message = str(error) if isinstance(error, _Unusable) else "cannot be read"
        raise NotReadable(LintFault(file, 0, 0, message)) from None
    return value


class _Unusable(Exception):
    """JSON that engines do not read alike."""


def _no_number(name: str) -> Any:
    raise _Unusable(f"{name} is not a number")


def _refuse_unusable(value: Any, depth: int) -> None:
    if depth > _DEEPEST:
        raise _Unusable("too deep")
    if isinstance(value, dict):
        for name, part in value.items():
            _refuse_unusable(name, depth)
            _refuse_unusable(part, depth + 1)
    elif isinstance(value, list):
        for part in value:
            _refuse_unusable(part, depth + 1)
    elif isinstance(value, str) and _UNUSABLE.search(value):
        raise _Unusable("a text holds NUL or half a character")
    elif isinstance(value, int | float) and not abs(value) <= _LARGEST and not isinstance(value, bool):
        raise _Unusable("a number beyond 2^53: write it as text in quotes")


def _json_places(text: str) -> dict[Path, tuple[int, int]]:
    """JSON is YAML but for some characters: as many places as can be told."""
    places: dict[Path, tuple[int, int]] = {}
    with suppress(yaml.YAMLError, RecursionError):
        # YAML does not take a tab for white space; no string of JSON can hold one as such.
        _yaml_value(text.replace("\t", " "), places)
    return places


class _Loader(yaml.SafeLoader):
    """Only what JSON has, by its own spelling, is more than text."""


_TAG = "tag:yaml.org,2002:"
_Loader.yaml_implicit_resolvers = {}
for _kind, _pattern, _first in (
    ("bool", r"true|false", "tf"),
    ("null", r"~|null|", "~n"),
    ("int", r"-?(?:0|[1-9][0-9]*)", "-0123456789"),
    ("float", r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?", "-0123456789"),
    ("merge", r"<<", "<"),
):
    # The empty first letter stands for an empty value.
    _Loader.add_implicit_resolver(
        f"{_TAG}{_kind}", re.compile(rf"(?:{_pattern})\Z"), [*_first, *([""] if _kind == "null" else [])]
    )


@dataclass
class _Reader:
    loader: _Loader
    places: dict[Path, tuple[int, int]]
    seen: int = 0

    def read(self, node: yaml.Node, path: Path) -> Any:
        self.seen += 1
        mark = node.start_mark
        self.places.setdefault(path, (mark.line + 1, mark.column + 1))
        if len(path) > _DEEPEST or self.seen > _MOST_NODES:
            raise yaml.MarkedYAMLError(problem="too deep or too large", problem_mark=mark)
        if isinstance(node, yaml.MappingNode):
            return self._members(node, path)
        if isinstance(node, yaml.SequenceNode):
            return [self.read(part, (*path, place)) for place, part in enumerate(node.value)]
        return self._scalar(node)

    def _members(self, node: yaml.MappingNode, path: Path) -> dict[str, Any]:
        names: set[str] = set()
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode):
                raise yaml.MarkedYAMLError(
                    problem="a name has to be a plain word", problem_mark=key.start_mark
                )
            if key.value in names:
                raise yaml.MarkedYAMLError(
                    problem=f"{key.value} stands here twice", problem_mark=key.start_mark
                )
            names.add(key.value)
        self.loader.flatten_mapping(node)
        members = {}
        for key, value in node.value:
            self.places[(*path, key.value)] = (key.start_mark.line + 1, key.start_mark.column + 1)
            members[key.value] = self.read(value, (*path, key.value))
        return members

    def _scalar(self, node: yaml.Node) -> Any:
        if node.tag == f"{_TAG}int":
            # Engines agree on whole numbers up to here.
            if len(node.value) > len(str(_LARGEST)) + 1 or abs(int(node.value)) > _LARGEST:
                raise yaml.MarkedYAMLError(
                    problem="a number beyond 2^53: write it as text in quotes", problem_mark=node.start_mark
                )
            return int(node.value)
        if node.tag == f"{_TAG}float":
            number = float(node.value)
            if not math.isfinite(number):
                raise yaml.MarkedYAMLError(problem="the number is too large", problem_mark=node.start_mark)
            return number
        value = self.loader.construct_object(node)
        if not isinstance(value, str | bool | None):
            raise yaml.MarkedYAMLError(
                problem=f"a value of kind {node.tag} cannot be used", problem_mark=node.start_mark
            )
        if isinstance(value, str) and _UNUSABLE.search(value):
            raise yaml.MarkedYAMLError(
                problem="the text holds NUL or half a character", problem_mark=node.start_mark
            )
        return value
