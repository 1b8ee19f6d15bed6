"""Policies as they are loaded: Rego from folders, rule data from files, everything checked before an engine sees it.

In a folder: `callgate/**/*.rego` (the folder names the package) and rule data in `rules.yaml` or `rules.json`, either
`callgate/rules.yaml` for all of it, or beside the Rego of the layer that it is about (`callgate/team/<name>/`). All of
it ends up in one document, `data.rules`. Files `*_test.rego` are never loaded for decisions.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

from proxy.errors import EngineFault

from . import rules
from .findings import LintFault, Severity, errors_of
from .layering import for_embedded
from .lint import Lint, layer_of
from .marked import Marked, NotReadable, read_marked
from .rewriting import Rewritten
from .syntax import Path as Package, RegoModule, parsed
from .worker import RegoError

_LARGEST_FILE = 2 * 1024 * 1024
_QUIET = frozenset({("callgate", "main"), ("callgate", "lib"), ("callgate", "layers")})
"""These read results for everybody, and only where somebody asks."""
_RESULT_FIELDS = frozenset({"result", "result_json"})
_RESULT_FUNCTIONS = frozenset({"in_results", "shown_objects"})
_RESULT_KINDS = frozenset({"in_results_of", "named_by", "owned_by", "as_shown"})
"""Constraints that look into results."""


@dataclass(frozen=True)
class Bundle:
    """Checked policies and data. Equal content has the same revision."""

    modules: Mapping[str, str]
    """Rego text by file, as it was written, without tests: what an OPA server gets."""
    data: Mapping[str, Any]
    """`{"rules": …}`."""
    revision: str
    embedded: Mapping[str, Rewritten] = field(repr=False)
    """The modules for the embedded engine."""
    layers: tuple[str, ...] = ()
    """Every layer that rules or data speak for."""
    result_readers: frozenset[str] = frozenset()
    """Layers whose rules read the results of earlier calls; `org` stands for everybody."""
    packages: tuple[str, ...] = ()
    warnings: tuple[LintFault, ...] = ()

    def reads_results(self, team: str, agent: str) -> bool:
        """Whether a decision for this identity may read results."""
        return not self.result_readers.isdisjoint({"org", f"team.{team}", f"agent.{agent}"})


@dataclass
class Sources:
    """What was found in folders and files, and what is wrong with it."""

    modules: list[RegoModule] = field(default_factory=list)
    places: dict[str, PurePosixPath] = field(default_factory=dict)
    own: list[str] = field(default_factory=list)
    rules: list[dict[str, Any]] = field(default_factory=list)
    rule_files: list[str] = field(default_factory=list)
    faults: list[LintFault] = field(default_factory=list)


class BundleFault(EngineFault):
    """The policies cannot be loaded; every reason is in `faults`."""

    def __init__(self, faults: Sequence[LintFault]) -> None:
        super().__init__("the policies cannot be loaded:\n" + "\n".join(map(str, faults)))
        self.faults = tuple(faults)


def shipped_folder() -> Path:
    """Where the product's own policies are: in the installed package, or beside it in a checkout."""
    package = Path(__file__).resolve().parent.parent
    installed = package / "_policies"
    return installed if installed.is_dir() else package.parent / "policies"


def load_bundle(
    folders: Sequence[Path], data_files: Sequence[Path] = (), settings: Mapping[str, Any] | None = None
) -> Bundle:
    """The shipped policies with those of the folders, and rule data from their files, from `data_files` and from
    `settings` (in the form of the rule data), later ones over earlier ones.

    Raises BundleFault with everything that is wrong, each with its place.
    """
    sources = read_sources(folders, data_files, settings, with_tests=False)
    data = rules.merged(sources.rules)
    faults = [*sources.faults, *lint(sources)]
    faults += rules.doubtful(data, sources.rule_files[-1] if sources.rule_files else "rules")
    errors = errors_of(faults)
    if errors:
        raise BundleFault(errors)
    rules.fold_names(data)
    return _bundle(sources, data, tuple(sorted(faults)))


def lint(sources: Sources) -> list[LintFault]:
    """Findings about all modules together, each once."""
    return list(dict.fromkeys(Lint(sources.modules, sources.places, sources.own).faults()))


def read_sources(
    folders: Sequence[Path],
    data_files: Sequence[Path] = (),
    settings: Mapping[str, Any] | None = None,
    *,
    with_tests: bool,
) -> Sources:
    """Reads files and parses them; nothing here raises for what a file holds."""
    sources = Sources()
    shipped = shipped_folder()
    for folder in (shipped, *(folder for folder in folders if folder.resolve() != shipped.resolve())):
        _read_folder(sources, folder, is_own=folder == shipped, with_tests=with_tests)
    for file in data_files:
        _read_rules(sources, file, str(file), ())
    if settings:
        _take(sources, Marked("settings", dict(settings)), ())
    return sources


# --- files --------------------------------------------------------------------------------------------------------


def _read_folder(sources: Sources, folder: Path, *, is_own: bool, with_tests: bool) -> None:
    if not (folder / "callgate").is_dir():
        message = (
            "there is no folder callgate in it: policies are in callgate/org, callgate/team/<name> and so on"
        )
        sources.faults.append(LintFault(str(folder), 0, 0, message))
        return
    for path in sorted((folder / "callgate").rglob("*")):
        place = PurePosixPath(path.relative_to(folder).as_posix())
        if any(part.startswith(".") for part in place.parts) or not path.is_file():
            continue
        name = place.as_posix() if is_own else path.as_posix()
        if path.suffix == ".rego":
            if with_tests or not path.name.endswith("_test.rego"):
                _read_rego(sources, path, name, place, is_own=is_own)
        elif path.stem == "rules" and path.suffix in {".yaml", ".yml", ".json"}:
            _read_rules(sources, path, name, place.parent.parts)
        elif path.suffix in {".yaml", ".yml", ".json"}:
            message = "is not read: rule data is in rules.yaml or rules.json"
            sources.faults.append(LintFault(name, 0, 0, message, Severity.WARNING))


def _text(sources: Sources, path: Path, name: str) -> str | None:
    try:
        raw = path.read_bytes()
        if len(raw) <= _LARGEST_FILE:
            return raw.decode("utf-8")
        message = "is larger than 2 MiB"
    except OSError as error:
        message = f"cannot be read: {error.strerror}"
    except UnicodeDecodeError:
        message = "is not UTF-8 text"
    sources.faults.append(LintFault(name, 0, 0, message))
    return None


def _read_rego(sources: Sources, path: Path, name: str, place: PurePosixPath, *, is_own: bool) -> None:
    text = _text(sources, path, name)
    if text is None:
        return
    try:
        sources.modules.append(parsed(name, text))
    except RegoError as error:
        sources.faults.append(LintFault(name, error.line, error.column, error.message))
        return
    sources.places[name] = place
    if is_own:
        sources.own.append(name)


def _read_rules(sources: Sources, path: Path, name: str, folder: tuple[str, ...]) -> None:
    """`folder`: where it lies below the folder of policies; () for a file that was named."""
    text = _text(sources, path, name)
    if text is None:
        return
    try:
        marked = read_marked(name, text)
    except NotReadable as error:
        sources.faults.append(error.fault)
        return
    layer = layer_of(folder)
    if folder not in {(), ("callgate",)} and layer is None:
        sources.faults.append(LintFault(name, 0, 0, "rule data is in callgate/ or in the folder of a layer"))
        return
    kind, _, of = (layer or "").partition(".")
    above = () if not kind else (kind,) if kind == "org" else (f"{kind}s", of)
    _take(sources, marked, above)


def _take(sources: Sources, marked: Marked, above: tuple[str, ...]) -> None:
    tree, faults = rules.checked(marked, rules.LayerRules if above else rules.RuleData, above)
    sources.faults += faults
    sources.rule_files.append(marked.file)
    for name in reversed(above):
        tree = {name: tree}
    sources.rules.append(tree)


# --- the bundle ---------------------------------------------------------------------------------------------------


def _bundle(sources: Sources, data: dict[str, Any], warnings: tuple[LintFault, ...]) -> Bundle:
    said = {layer for module in sources.modules if (layer := layer_of(module.package))}
    content = json.dumps(
        [sorted([str(sources.places[module.file]), module.text] for module in sources.modules), data],
        sort_keys=True,
    )
    return Bundle(
        modules={module.file: module.text for module in sources.modules},
        data={"rules": data},
        revision=hashlib.sha256(content.encode()).hexdigest()[:16],
        embedded=for_embedded(sources.modules),
        layers=tuple(sorted(said | {layer for layer, _ in rules.layers(data)})),
        result_readers=frozenset(_readers(sources.modules, data)),
        packages=tuple(sorted({".".join(module.package) for module in sources.modules})),
        warnings=warnings,
    )


def _readers(modules: Sequence[RegoModule], data: Mapping[str, Any]) -> Iterator[str]:
    for module in modules:
        if module.package not in _QUIET and _reads_results(module):
            yield _speaks_for(module.package)
    for layer, said in rules.layers(data):
        constraints = [
            each for tool in said.get("tools", {}).values() for each in tool.get("arguments", {}).values()
        ]
        if not all(_RESULT_KINDS.isdisjoint(each) for each in constraints):
            yield layer


def _speaks_for(package: Package) -> str:
    """The layer whose folder the package is in; what anybody may import counts as everybody's."""
    return layer_of(package[:3]) or "org"


def _reads_results(module: RegoModule) -> bool:
    """Whether results may be read: a field of that name is named, or a function that reads them."""
    words = _RESULT_FIELDS | _RESULT_FUNCTIONS
    return any(word in module.text for word in words)
