"""The rule data (`data.rules`): what people write who write no Rego. The README of the policies lists every key.

Strict on purpose: an unknown key is an error, since a misspelt prohibition would else permit.
"""

from __future__ import annotations

import difflib
import typing
from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    model_validator,
)

from proxy.core.names import fold_name

from .findings import LintFault, Severity
from .marked import Marked, Path
from .patterns import NotPortable, portable

_LARGEST = 2**53


class Part(BaseModel):
    """A part of the rule data."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


def _plain(value: object) -> object:
    if isinstance(value, bool | str):
        return value
    if isinstance(value, int | float) and abs(value) <= _LARGEST:
        return value
    raise ValueError("has to be a text, a number, true or false")


def _whole(value: float) -> float:
    """Engines print 3 and 3.0 differently."""
    return int(value) if value.is_integer() else value


def _pattern(value: str) -> str:
    try:
        return portable(value)
    except NotPortable as fault:
        raise ValueError(str(fault)) from None


def _one_or_many(value: object) -> object:
    return [value] if isinstance(value, str) else value


def _argument_path(value: str) -> str:
    if not all(value.split(".")):
        raise ValueError("a path is made of names and * with dots between them, as in a.b or items.*.id")
    return value


def _key_path(value: str) -> str:
    if "*" in value.split("."):
        raise ValueError("names one argument, so there is no * in it")
    return _argument_path(value)


Name = Annotated[str, Field(min_length=1, max_length=256)]
ArgumentPath = Annotated[str, Field(min_length=1, max_length=256), AfterValidator(_argument_path)]
Plain = Annotated[Any, AfterValidator(_plain)]
Plains = Annotated[list[Plain], Field(min_length=1)]
Text = Annotated[str, Field(min_length=1)]
Pattern = Annotated[str, Field(min_length=1), AfterValidator(_pattern)]
Number = Annotated[float, Field(ge=-_LARGEST, le=_LARGEST), AfterValidator(_whole)]
Count = Annotated[int, Field(ge=0, le=_LARGEST)]
Positive = Annotated[int, Field(ge=1, le=_LARGEST)]
Names = Annotated[list[Name], BeforeValidator(_one_or_many)]
KeyPath = Annotated[str, Field(min_length=1, max_length=256), AfterValidator(_key_path)]


def _source(value: str) -> str:
    kind, _, name = value.partition(".")
    if kind == "identity" and name.partition(".")[0] not in {
        "user",
        "organisation",
        "team",
        "agent",
        "claims",
    }:
        raise ValueError("identity has user, organisation, team, agent and claims")
    if not all(value.split(".")) or "." not in value:
        raise ValueError("is identity.user, identity.claims.NAME and the like, or TOOL.ARGUMENT")
    return value


class Ownership(Part):
    """Whose the object is that an argument names."""

    tool: Annotated[Names, Field(min_length=1)]
    object: KeyPath
    owner: KeyPath
    equals: Annotated[str, Field(min_length=1, max_length=256), AfterValidator(_source)]


class Shown(Part):
    """What a result of this run showed about the object that another argument names."""

    tool: Annotated[Names, Field(min_length=1)]
    object: KeyPath
    field: KeyPath
    argument: KeyPath = "id"


class Constraint(Part):
    """What must hold for one argument. All given kinds must hold."""

    equals: Plain = None
    one_of: Plains = []
    not_one_of: Plains = []
    pattern: Pattern = ""
    not_pattern: Pattern = ""
    starts_with: Text = ""
    not_starts_with: Text = ""
    contains: Text = ""
    not_contains: Text = ""
    min: Number = 0
    max: Number = 0
    max_length: Count = 0
    type: Literal["string", "number", "integer", "boolean", "array", "object"] = "string"
    in_results_of: Annotated[Names, Field(min_length=1)] = []
    in_user_text: Literal[True] = True
    named_by: Annotated[Names, Field(min_length=1)] = []
    owned_by: Ownership = Ownership(tool=["read"], object="id", owner="owner", equals="identity.user")
    as_shown: Shown = Shown(tool=["read"], object="id", field="amount")
    required: bool = True
    message: Annotated[str, Field(min_length=1, max_length=500)] = ""
    shadow: bool = False


class StatusRule(Part):
    """Results that hold this text have this status."""

    contains: str
    status: Literal["found", "not_found", "forbidden", "temporarily_unavailable", "failed"]


class ToolRules(Part):
    """What is declared about one tool, and what its calls must keep to."""

    effect: Literal["read", "write"] = "read"
    risk: Literal["low", "medium", "high"] = "low"
    volatile_arguments: Names = []
    volatile_results: Names = []
    identity_fields: Names = []
    object_arguments: list[ArgumentPath] = []
    status_rules: list[StatusRule] = []
    polling: bool = False
    truncate: Positive = 1
    fence: bool = False
    approval: Literal["required"] = "required"
    idempotency_argument: KeyPath = "key"
    repeatable: bool = False
    roles: Names = []
    arguments: dict[ArgumentPath, Constraint] = {}
    other_arguments: Literal["refuse"] = "refuse"


class ApprovalRules(Part):
    """Which calls need a person, by what is declared about their tools."""

    effects: list[Literal["read", "write", "unknown"]] = []
    risks: list[Literal["low", "medium", "high", "unknown"]] = []
    unless_roles: Names = []


class AnswerRule(Part):
    """What a final answer must keep to. All given kinds must hold."""

    ids: Pattern = ""
    found_by: Names = []
    requires: Pattern = ""
    when_used: Names = []
    forbids: Pattern = ""
    claims: Pattern = ""
    only_after: Names = []
    message: Annotated[str, Field(min_length=1, max_length=500)] = ""
    shadow: bool = False

    @model_validator(mode="after")
    def _is_whole(self) -> Self:
        said = self.model_fields_set
        if not said & {"ids", "requires", "forbids", "claims"}:
            raise ValueError("says nothing: give it ids, requires, forbids or claims")
        for part, of in (("found_by", "ids"), ("when_used", "requires"), ("only_after", "claims")):
            if part in said and of not in said:
                raise ValueError(f"{part} belongs to {of}, which is not there")
        if "claims" in said and not self.only_after:
            raise ValueError("claims needs only_after, the tools that have to find something first")
        return self


class Grant(Part):
    """What a role may use."""

    tools: Names


class BoundRules(Part):
    """Limits of one scope."""

    rounds: Count = 0
    calls: Count = 0
    seconds: Annotated[float, Field(gt=0, le=_LARGEST), AfterValidator(_whole)] = 1
    input_tokens: Count = 0
    output_tokens: Count = 0
    total_tokens: Count = 0
    usd: Annotated[float, Field(ge=0, le=1_000_000), AfterValidator(_whole)] = 0
    per_tool: dict[Name, Count] = {}


class BrakeRules(Part):
    """When repetition counts as no progress."""

    same_call_nudge: Positive = 1
    same_call_stop: Positive = 1
    same_result_stop: Positive = 1
    cycle_rounds: Positive = 1
    transient_retries: Count = 0
    insisted_refusals: Positive = 1
    refusals: Positive = 1


class LimitRules(Part):
    """Limits per turn and per run, and the brakes."""

    turn: BoundRules = BoundRules()
    run: BoundRules = BoundRules()
    brakes: BrakeRules = BrakeRules()


class LayerRules(Part):
    """What one layer says: the organisation, a team or an agent."""

    roles: dict[Name, Grant] = {}
    allowed_tools: Names = []
    denied_tools: Names = []
    servers: Names = []
    tools: dict[Name, ToolRules] = {}
    approvals: ApprovalRules = ApprovalRules()
    limits: LimitRules = LimitRules()
    answers: dict[Name, AnswerRule] = {}
    values: dict[Name, Any] = {}
    """Read by Rego of the layer's own, by nothing shipped."""


class RuleData(Part):
    """The whole of it."""

    profile: Literal["starter", "strict"] = "starter"
    org: LayerRules = LayerRules()
    teams: dict[Name, LayerRules] = {}
    agents: dict[Name, LayerRules] = {}


def checked(marked: Marked, shape: type[Part], above: Path = ()) -> tuple[dict[str, Any], list[LintFault]]:
    """The data in the form that the policies read (only what is said, patterns written out), and what is wrong.

    `above` is where the part stands in the whole; it is the start of every name in a message.
    """
    try:
        value = shape.model_validate(marked.value)
    except ValidationError as error:
        found = error.errors(include_url=False, include_input=False)
        return {}, list(dict.fromkeys(_fault(each, marked, shape, above) for each in found))
    return value.model_dump(exclude_unset=True), []


def _fault(error: Any, marked: Marked, shape: type[Part], above: Path) -> LintFault:
    # A union's or a key's own marks in the path are not ours.
    path: Path = tuple(
        part for part in error["loc"] if part not in {"[key]", "float", "int", "constrained-int"}
    )
    message = error["msg"].removeprefix("Value error, ")
    if error["type"] == "extra_forbidden":
        message = f"there is no such key{_meant(str(path[-1]), _keys(shape, path[:-1]))}"
    elif error["type"] == "missing":
        message = "is missing"
    fault = marked.fault(path, "")
    dotted = ".".join(map(str, (*above, *path))) or "the file"
    return LintFault(fault.file, fault.line, fault.column, f"{dotted}: {message}")


def _keys(shape: type[Part], path: Path) -> Iterable[str]:
    """The keys that the part at this path may have."""
    part: Any = shape
    for step in path:
        if isinstance(part, type) and issubclass(part, Part):
            part = part.model_fields[str(step)].annotation
        else:
            part = next((inner for inner in typing.get_args(part)[-1:]), None)
        while typing.get_origin(part) is Annotated:
            part = typing.get_args(part)[0]
    return part.model_fields if isinstance(part, type) and issubclass(part, Part) else ()


def _meant(name: str, names: Iterable[str]) -> str:
    near = difflib.get_close_matches(name, list(names), 1, 0.6)
    return f"; did you mean {near[0]}?" if near else ""


def merged(trees: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Several files as one: members join, a later value takes the place of an earlier one. Only the profile is kept
    at its strictest."""
    whole: dict[str, Any] = {}
    profiles = set()
    for tree in trees:
        profiles.add(tree.get("profile", "starter"))
        _merge(whole, tree)
    return (
        {"org": {}, "teams": {}, "agents": {}}
        | whole
        | {"profile": "strict" if "strict" in profiles else "starter"}
    )


def _merge(into: dict[str, Any], tree: Mapping[str, Any]) -> None:
    for name, value in tree.items():
        if isinstance(value, Mapping) and isinstance(into.get(name), dict):
            _merge(into[name], value)
        else:
            into[name] = _copied(value)


def _copied(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _copied(part) for name, part in value.items()}
    return [_copied(part) for part in value] if isinstance(value, list) else value


def layers(data: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every layer by its name: `org`, `team.<name>`, `agent.<name>`."""
    yield "org", data["org"]
    for kind, plural in (("team", "teams"), ("agent", "agents")):
        for name, rules in data[plural].items():
            yield f"{kind}.{name}", rules


def fold_names(data: Mapping[str, Any]) -> None:
    """Adds what Rego cannot work out: the folded form of names that refuse, and of the tools that are described."""
    for _, rules in layers(data):
        if "denied_tools" in rules:
            rules["denied_tools"] = sorted(
                {fold_name(name) for name in rules["denied_tools"]} | set(rules["denied_tools"])
            )
        if "tools" in rules:
            folded: dict[str, list[str]] = {}
            for name in rules["tools"]:
                folded.setdefault(fold_name(name), []).append(name)
            rules["folded"] = folded


def doubtful(data: Mapping[str, Any], file: str) -> Iterator[LintFault]:
    """What can be loaded but is likely not meant."""
    org = data["org"]
    org_lists = "allowed_tools" in org or "roles" in org
    if data["profile"] == "strict" and not org_lists and not org.get("tools"):
        others = [name for name, rules in layers(data) if rules.keys() & {"allowed_tools", "roles", "tools"}]
        rest = f"only {', '.join(others)} may use tools" if others else "every tool is refused"
        yield LintFault(
            file, 0, 0, f"profile strict: the organisation lists no tools, so {rest}", Severity.WARNING
        )
    everyone = {*org.get("allowed_tools", ()), *_granted(org)}
    for layer, rules in layers(data):
        listed = {*rules.get("allowed_tools", ()), *_granted(rules)}
        beyond = sorted(name for name in listed if not any(_covers(entry, name) for entry in everyone))
        if org_lists and beyond and layer != "org":
            message = (
                f"{layer} lists {', '.join(beyond)}, which the organisation does not: a layer only narrows"
            )
            yield LintFault(file, 0, 0, message, Severity.WARNING)


def _granted(rules: Mapping[str, Any]) -> Iterator[str]:
    for grant in rules.get("roles", {}).values():
        yield from grant["tools"]


def _covers(entry: str, name: str) -> bool:
    return name == entry or (entry.endswith("*") and name.startswith(entry[:-1]))
