"""YAML and JSON files as values, with the place of each of them."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
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
    """Reads YAML (JSON is YAML too): words stay words, so that `no`, `on` and dates are text unless they are quoted
    numbers, true, false or null. Raises NotReadable."""
    if file.endswith(".json"):
        # YAML does not take a tab for white space; no string of JSON can hold one as such.
        text = text.replace("\t", " ")
    loader = _Loader(text)
    try:
        node = loader.get_single_node()
        if node is None:
            return Marked(file, {})
        places: dict[Path, tuple[int, int]] = {}
        return Marked(file, _Reader(loader, places).read(node, ()), places)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line, column = (mark.line + 1, mark.column + 1) if mark else (0, 0)
        raise NotReadable(LintFault(file, line, column, f"cannot be read: {error.problem}")) from None
    except (yaml.YAMLError, RecursionError) as error:
        raise NotReadable(LintFault(file, 0, 0, f"cannot be read: {type(error).__name__}")) from None
    finally:
        loader.dispose()


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
