"""Where settings come from: a YAML file, then environment variables over it, then the command line over both.

Nobody else reads the file or the environment. Every fault names the file, line and column (or the variable) it is
about, the dotted name, what is wrong, and the name that was probably meant; values are never shown.
"""

from __future__ import annotations

import difflib
import json
import os
import typing
from collections.abc import Iterator, Mapping, MutableMapping
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import BaseModel, ValidationError

from proxy.engines.marked import NotReadable, read_marked
from proxy.provider_settings import Provider, Upstream, dialect_names
from proxy.settings import Settings

__all__ = ["Settings", "SettingsFault", "environment", "load_settings"]

DEFAULT_FILE = "callgate.yaml"
PREFIX = "CALLGATE_"
FILE_VARIABLE = "CALLGATE_CONFIG"

Name = tuple[str | int, ...]


class SettingsFault(Exception):
    """The settings cannot be used. One line for each thing that is wrong."""

    def __init__(self, problems: list[str]) -> None:
        """Complaints as `place: dotted.name: what is wrong`."""
        super().__init__("\n".join(problems))
        self.problems = problems


def environment() -> MutableMapping[str, str]:
    """The variables of this process, for what is configured by variables of its own: OpenTelemetry's SDK (OTEL_*)."""
    return os.environ


def load_settings(
    path: str | Path | None = None,
    overrides: Mapping[str, object] | None = None,
    environment: Mapping[str, str] | None = None,
) -> Settings:
    """The settings from file, environment and overrides (by dotted name), the later ones winning.

    The file is `path`, else what CALLGATE_CONFIG names, else `callgate.yaml` in the working folder if there is one.
    Raises SettingsFault.
    """
    variables = os.environ if environment is None else environment
    loaded = _Loaded()
    file = _file(path, variables)
    if file is not None:
        loaded.read_file(file)
    for variable, text in sorted(variables.items()):
        loaded.read_variable(variable, text)
    for name, value in (overrides or {}).items():
        loaded.put(tuple(name.split(".")), value, f"option {name}")
    unknown = list(_unknown_upstreams(loaded))
    problems = [*loaded.problems, *unknown]
    try:
        settings = Settings.model_validate(loaded.tree)
    except ValidationError as error:
        problems.extend(_problems(error, loaded.places, said=bool(unknown)))
    else:
        if not problems:
            return settings
    raise SettingsFault(list(dict.fromkeys(problems)))


def _file(path: str | Path | None, variables: Mapping[str, str]) -> Path | None:
    named = path or variables.get(FILE_VARIABLE)
    if named:
        return Path(named)
    usual = Path(DEFAULT_FILE)
    return usual if usual.is_file() else None


@dataclass
class _Loaded:
    """The tree as far as it was put together, and where each part of it came from."""

    tree: dict[str, object] = field(default_factory=dict)
    places: dict[Name, str] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)

    def read_file(self, file: Path) -> None:
        try:
            text = file.read_bytes().decode("utf-8")
        except OSError as error:
            self.problems.append(f"{file}: cannot be read: {error.strerror}")
            return
        except UnicodeDecodeError:
            self.problems.append(f"{file}: is not UTF-8 text")
            return
        try:
            marked = read_marked(str(file), text)
        except NotReadable as unread:
            fault = unread.fault
            self.problems.append(f"{_place(fault.file, fault.line, fault.column)}: {fault.message}")
            return
        self.places |= {name: _place(file, *place) for name, place in marked.places.items()}
        if isinstance(marked.value, dict):
            self.tree = marked.value
        else:
            self.problems.append(f"{self.places[()]}: should be names and values, `name: value`")

    def read_variable(self, variable: str, text: str) -> None:
        """Takes CALLGATE_A__B as the setting a.b.

        A cluster announces its services in variables too (CALLGATE_SERVICE_HOST, CALLGATE_PORT_8788_TCP): what has
        no `__` and is no setting is not meant for us.
        """
        if not variable.startswith(PREFIX) or variable == FILE_VARIABLE:
            return
        first, *below = variable.removeprefix(PREFIX).lower().split("__")
        if first not in Settings.model_fields:
            if first and below:
                dotted = ".".join((first, *below))
                meant = _meant(first, Settings.model_fields)
                self.problems.append(f"variable {variable}: {dotted}: there is no such setting{meant}")
            return
        value: object = None if text == "null" else text
        if text[:1] in {"[", "{"}:
            try:
                value = json.loads(text)
            except ValueError:
                self.problems.append(f"variable {variable}: is not JSON, though it begins like it")
                return
        self.put((first, *below), value, f"variable {variable}")

    def put(self, name: Name, value: object, place: str) -> None:
        """Sets one value; a number in the name is a place in a list, the first free one included."""
        tree: object = self.tree
        taken: Name = ()
        for depth, part in enumerate(name):
            spot = _spot(tree, part)
            if spot is None:
                self.problems.append(f"{place}: {_dotted(name)}: there is no such place in the list")
                return
            taken = (*taken, spot)
            self.places[taken] = place
            if depth == len(name) - 1:
                tree[spot] = value  # type: ignore[index]  # a dict or a list, as made above it
            elif not isinstance(tree[spot], dict | list):  # type: ignore[index]  # as above
                tree[spot] = [] if str(name[depth + 1]).isdecimal() else {}  # type: ignore[index]  # as above
            tree = tree[spot]  # type: ignore[index]  # as above


def _spot(tree: object, part: str | int) -> str | int | None:
    """The key or place in this dict or list, made if it is not there yet; None where a list has no such place."""
    if not isinstance(tree, list):
        typing.cast("dict[str | int, object]", tree).setdefault(part, None)
        return part
    if not str(part).isdecimal() or int(part) > len(tree):
        return None
    if int(part) == len(tree):
        tree.append(None)
    return int(part)


def _place(file: object, line: int, column: int) -> str:
    return f"{file}:{line}:{column}" if line else str(file)


def _dotted(name: Name) -> str:
    return ".".join(str(part) for part in name)


def _unknown_upstreams(loaded: _Loaded) -> Iterator[str]:
    """Names below `upstream` that are none: said together with all else that is wrong. A provider with a name of its own
    says its dialect."""
    above: Name = ("upstream",)
    part = loaded.tree.get("upstream")
    names = list(_siblings(above))
    for name, value in part.items() if isinstance(part, dict) else ():
        if name not in names and not (isinstance(value, dict) and "dialect" in value):
            place = loaded.places.get((*above, name), "settings")
            hint = _meant(str(name), names) or "; a provider of this name needs `dialect`"
            yield f"{place}: upstream.{name}: there is no such setting{hint}"


def _problems(error: ValidationError, places: Mapping[Name, str], *, said: bool) -> Iterator[str]:
    """What pydantic complains about; `said`: what is wrong with names below `upstream` was said before."""
    for found in error.errors(include_url=False, include_input=False, include_context=False):
        name: Name = found["loc"]
        unknown = name[:1] == ("upstream",) and not set(name[1:2]) <= set(_siblings(("upstream",)))
        if said and (name == ("upstream",) or unknown):
            continue
        message = found["msg"].removeprefix("Value error, ")
        about, _, rest = message.partition(": ")
        below: Name = (*name, *(int(part) if part.isdecimal() else part for part in about.split(".")))
        if found["type"] == "value_error" and below in places:  # of a whole part, about one setting in it
            name, message = below, rest
        # What is missing has no place of its own, but what it is missing from has.
        known = next((name[:length] for length in range(len(name), 0, -1) if name[:length] in places), name)
        place = places.get(known, "settings")
        yield f"{place}: {_dotted(name) or 'settings'}: {_wording(found['type'], message, name)}"


def _wording(kind: str, message: str, name: Name) -> str:
    if kind == "extra_forbidden":
        return f"there is no such setting{_meant(str(name[-1]), _siblings(name[:-1]))}"
    if kind == "missing":
        return "is missing"
    message = message.removeprefix("Input ")
    return message[:1].lower() + message[1:]


def _meant(word: str, names: typing.Iterable[str]) -> str:
    near = difflib.get_close_matches(word, list(names), n=1)
    return f"; did you mean {near[0]}?" if near else ""


def _siblings(above: Name) -> Iterator[str]:
    """The names that there are below this one."""
    part: type[BaseModel] | None = Settings
    for name in above:
        if part is Upstream and name not in Upstream.model_fields:
            part = Provider
        elif part is not None and isinstance(name, str):
            part = _part_of(part.model_fields[name].annotation) if name in part.model_fields else None
    if part is not None:
        yield from part.model_fields
    if part is Upstream:
        yield from dialect_names()


def _part_of(annotation: object) -> type[BaseModel] | None:
    """The part that an annotation is about: itself, or the members of a list."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next(filter(None, map(_part_of, typing.get_args(annotation))), None)
