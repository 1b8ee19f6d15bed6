"""README's reference tables, rendered from the code. `python -m tests.readme` writes them anew; a test compares."""

from __future__ import annotations

import re
import types
import typing
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import typer
from pydantic import BaseModel, SecretStr
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from proxy import checks, semconv
from proxy.checks import approval, arguments, budget, evidence, history, progress, tools
from proxy.cli import app
from proxy.dialects import DIALECTS, RouteKind
from proxy.provider_settings import Provider, Upstream, setting_name
from proxy.settings import Settings
from tests import features
from tests.features import FEATURES

README = Path(__file__).resolve().parent.parent / "README.md"
LONGEST_DEFAULT = 60
REQUIREMENT = re.compile(r" \((?:[A-F]\d{1,3}(?:, | to )?)+\)")
"""Ids of requirements stand in docstrings; a reader of the README does not know them."""


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """A Markdown table."""
    lines = [tuple(head), *map(tuple, rows)]
    rule = "|" + "---|" * len(lines[0])
    written = ["| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines]
    return "\n".join([written[0], rule, *written[1:]])


def sentence(text: str | None) -> str:
    """A docstring in one line, without ids of requirements."""
    return REQUIREMENT.sub("", " ".join((text or "").split()))


# ---- settings ----

SPEAKING_PARTS = frozenset(
    [
        "limits.turn",
        "limits.run",
        "limits.brakes",
        "faults",
        "identity.trusted_header",
        "audit",
        "upstream.<provider>.signer",
    ]
)
"""Parts without whose own sentence their settings are hard to read."""


def settings_table() -> str:
    """Every setting by its dotted name, with its default and what it says; some parts in bold."""
    return table(("setting", "default", ""), _settings(Settings, ""))


def _settings(part: type[BaseModel], above: str) -> Iterator[tuple[str, str, str]]:
    for name, field in part.model_fields.items():
        below = _part_of(field.annotation)
        dotted = f"{above}{name}"
        if below is None:
            default = _default(field)
            said = sentence(field.description)
            yield f"`{dotted}`", default, said.replace("None:", "null:") if default == "`null`" else said
            continue
        if dotted in SPEAKING_PARTS:
            said = dotted.replace("<", "\\<").replace(">", "\\>")
            yield f"**{said}**", "", sentence(below.__doc__)
        many = "[]." if typing.get_origin(field.annotation) is tuple else "."
        yield from _settings(below, dotted + many)
    if part is Upstream:
        names = ", ".join(f"`{setting_name(dialect.name)}`" for dialect in DIALECTS)
        said = f"{sentence(Provider.__doc__)} `<provider>` is {names}, or your own."
        yield "**upstream.\\<provider\\>**", "", said
        yield from _settings(Provider, f"{above}<provider>.")


def _part_of(annotation: object) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    if typing.get_origin(annotation) in {tuple, types.UnionType}:
        return _part_of(typing.get_args(annotation)[0])
    return None


def _default(field: FieldInfo) -> str:
    value = field.get_default(call_default_factory=True, validated_data={})
    if value is PydanticUndefined:
        return "(needed)"
    if isinstance(value, SecretStr):
        value = value.get_secret_value()
    if value is None:
        return "`null`"
    if isinstance(value, tuple):
        shown = f"[{', '.join(map(str, value))}]"
        return (
            f"`{shown}`" if len(shown) <= LONGEST_DEFAULT else f"`[{value[0]}, {value[1]}, …]` ({len(value)})"
        )
    return f"`{str(value).lower()}`" if isinstance(value, bool) else f"`{value}`" if value != "" else '`""`'


# ---- checks, metrics, commands ----

POLICY_ROWS = (
    ("`policy.<layer>.<rule>`", "the rule's own", "as the rule says, else REASK", "a policy denies"),
    ("`policy.fault`", "`policy_error`", "DENY", "the engine gave no decision"),
    (
        "`policy.input`",
        "`not_judgeable`",
        "REASK",
        "no engine can judge it: too large, too deep, or NUL in it; `faults.engine` does not let it pass",
    ),
)
BY_NAME = {
    "history": history,
    "tools": tools,
    "arguments": arguments,
    "progress": progress,
    "approval": approval,
    "budget": budget,
    "evidence": evidence,
}


def checks_table() -> str:
    """Every verdict that the checks can give, from their own docstrings."""
    return table(("check", "code", "action", "says"), _verdicts())


def _verdicts() -> Iterator[tuple[str, ...]]:
    for check in checks.CHECKS:
        if check.name == "policy":
            yield from POLICY_ROWS
            continue
        for line in (BY_NAME[check.name].__doc__ or "").splitlines():
            cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
            if line.startswith("| `"):
                if len(cells) == 3:
                    cells.insert(2, "FINISH or REASK")
                yield (*cells[:-1], sentence(cells[-1]))


def metrics_table() -> str:
    """Every metric."""
    instruments = (*semconv.INSTRUMENTS, *semconv.COMPAT_INSTRUMENTS)
    rows = ((f"`{each.name}`", each.kind.value, f"`{each.unit}`", each.description) for each in instruments)
    return table(("metric", "kind", "unit", ""), rows)


def commands_table() -> str:
    """Every command with its options."""
    group = typer.main.get_command(app)
    rows = []
    for name, command in getattr(group, "commands", {}).items():
        arguments = " ".join(
            f"<{each.name}>" for each in command.params if each.param_type_name == "argument"
        )
        options = [
            f"`{'`, `'.join((*each.opts, *each.secondary_opts))}`: {sentence(each.help)}"
            for each in command.params
            if each.param_type_name == "option"
        ]
        shown = f"`callgate {name} {arguments}`" if arguments else f"`callgate {name}`"
        rows.append((shown, sentence((command.help or "").partition("\n\n")[0]), "<br>".join(options)))
    return table(("command", "", "options"), rows)


# ---- routes ----

KIND_SAYS = {
    RouteKind.GUARDED: "guarded",
    RouteKind.KEPT: "for the caller that the answer was made for",
    RouteKind.PASSED: "passed unread",
    RouteKind.REFUSED: "refused",
}


def features_table() -> str:
    """What works in which dialect, what the words mean, and why something does not."""
    says = [f"{feature}: {said}" for feature, said in FEATURES.items()]
    reasons = dict.fromkeys(features.NO.values())
    return "\n\n".join(
        [
            table(("dialect", *FEATURES), features.rows()),
            f"{'; '.join(says).capitalize()}. A no has a reason: {'; '.join(reasons)}.",
        ]
    )


def routes_table() -> str:
    """What happens to the routes of each dialect; refused ones by reason, what stands below a path left out."""
    return table(("dialect", "", "routes"), _routes())


def _routes() -> Iterator[tuple[str, str, str]]:
    for dialect in DIALECTS:
        for kind in (RouteKind.GUARDED, RouteKind.KEPT, RouteKind.PASSED):
            lines = [f"`{route.method} {route.path}`" for route in dialect.routes if route.kind is kind]
            if lines:
                yield f"`{dialect.name}`", KIND_SAYS[kind], ", ".join(lines)
        refused = [route for route in dialect.routes if route.kind is RouteKind.REFUSED]
        reasons = dict.fromkeys(route.reason for route in refused)
        said = (
            f"{_tops(route.path for route in refused if route.reason == each)}: {each}" for each in reasons
        )
        if refused:
            yield f"`{dialect.name}`", KIND_SAYS[RouteKind.REFUSED], "; ".join(said)


def _tops(paths: Iterable[str]) -> str:
    tops: dict[str, str] = {}
    for path in sorted(set(paths)):
        above = next((top for top in tops if path.startswith(f"{top}/")), None)
        tops[above or path] = f"`{above}/…`" if above else f"`{path}`"
    return ", ".join(tops.values())


# ---- the blocks in the file ----

BLOCKS: dict[str, Callable[[], str]] = {
    "commands": commands_table,
    "features": features_table,
    "checks": checks_table,
    "metrics": metrics_table,
    "routes": routes_table,
    "settings": settings_table,
}


def prose(text: str) -> str:
    """The text less what is made from the code."""
    return re.sub(r"(<!-- (\w+): [^\n]*-->\n).*?(<!-- /\2 -->)", r"\1\3", text, flags=re.DOTALL)


def rendered(text: str) -> str:
    """The text with every block as the code has it now. Raises ValueError where a block is missing."""
    for name, render in BLOCKS.items():
        begins = re.search(rf"<!-- {name}: [^\n]*-->\n", text)
        end = text.find(f"<!-- /{name} -->")
        if not begins or end < begins.end():
            raise ValueError(f"README.md has no block {name}")
        text = f"{text[: begins.end()]}{render()}\n{text[end:]}"
    return text


if __name__ == "__main__":
    README.write_text(rendered(README.read_text(encoding="utf-8")), encoding="utf-8")
