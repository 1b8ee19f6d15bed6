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
from .policy_files import LARGEST_FILE, PolicyFile, PolicyFiles, files_of, one_file
from .rewriting import Rewritten
from .syntax import Path as Package, RegoModule, parsed
from .worker import RegoError

_QUIET = frozenset({("callgate", "main"), ("callgate", "lib"), ("callgate", "layers")})
"""These read results for everybody, and only where somebody asks."""
_RESULT_FIELDS = frozenset({"result", "result_json"})
_ANSWER_WORDS = ("input.answer", '"answer"', "`answer`")
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
    answer_judges: frozenset[str] = frozenset()
    """Layers that say something about final answers; `org` stands for everybody."""
    packages: tuple[str, ...] = ()
    warnings: tuple[LintFault, ...] = ()

    def reads_results(self, team: str, agent: str) -> bool:
        """Whether a decision for this identity may read results."""
        return not self.result_readers.isdisjoint({"org", f"team.{team}", f"agent.{agent}"})

    def judges_answers(self, team: str, agent: str) -> bool:
        """Whether any layer of this identity says something about final answers."""
        return not self.answer_judges.isdisjoint({"org", f"team.{team}", f"agent.{agent}"})


@dataclass
class Sources:
    """What was found in folders and files, and what is wrong with it."""

    modules: list[RegoModule] = field(default_factory=list)
    places: dict[str, PurePosixPath] = field(default_factory=dict)
    own: list[str] = field(default_factory=list)
    rules: list[dict[str, Any]] = field(default_factory=list)
    rule_files: list[str] = field(default_factory=list)
    marked: list[tuple[tuple[str, ...], Marked]] = field(default_factory=list)
    """The files of rule data, the strongest last, each with where it stands in the whole."""
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
    origins: Sequence[Path | PolicyFiles],
    data_files: Sequence[Path | PolicyFiles] = (),
    settings: Mapping[str, Any] | None = None,
) -> Bundle:
    """The shipped policies with those of the origins (folders, or files that were read), and rule data from their files,
    from `data_files` and from `settings` (in the form of the rule data), later ones over earlier ones.

    Raises BundleFault with everything that is wrong, each with its place.
    """
    sources = read_sources(origins, data_files, settings, with_tests=False)
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
    origins: Sequence[Path | PolicyFiles],
    data_files: Sequence[Path | PolicyFiles] = (),
    settings: Mapping[str, Any] | None = None,
    *,
    with_tests: bool,
) -> Sources:
    """Reads files and parses them; nothing here raises for what a file holds."""
    sources = Sources()
    shipped = shipped_folder()
    _read_all(sources, files_of(shipped, is_own=True), is_own=True, with_tests=with_tests)
    for origin in origins:
        if isinstance(origin, PolicyFiles):
            _read_all(sources, origin, is_own=False, with_tests=with_tests)
        elif origin.resolve() != shipped.resolve():
            _read_all(sources, files_of(origin), is_own=False, with_tests=with_tests)
    for named in data_files:
        found = named if isinstance(named, PolicyFiles) else one_file(named)
        sources.faults += found.faults
        for file in found.files:
            _read_rules(sources, file, ())
    if settings:
        _take(sources, Marked("settings", dict(settings)), ())
    return sources


# --- files --------------------------------------------------------------------------------------------------------


def _read_all(sources: Sources, found: PolicyFiles, *, is_own: bool, with_tests: bool) -> None:
    sources.faults += found.faults
    for file in found.files:
        if file.place.suffix == ".rego":
            if with_tests or not file.place.name.endswith("_test.rego"):
                _read_rego(sources, file, is_own=is_own)
        elif file.place.stem == "rules":
            _read_rules(sources, file, file.place.parent.parts)
        else:
            message = "is not read: rule data is in rules.yaml or rules.json"
            sources.faults.append(LintFault(file.name, 0, 0, message, Severity.WARNING))


def _text(sources: Sources, file: PolicyFile) -> str | None:
    try:
        if len(file.content) <= LARGEST_FILE:
            return file.content.decode("utf-8")
        message = "is larger than 2 MiB"
    except UnicodeDecodeError:
        message = "is not UTF-8 text"
    sources.faults.append(LintFault(file.name, 0, 0, message))
    return None


def _read_rego(sources: Sources, file: PolicyFile, *, is_own: bool) -> None:
    text = _text(sources, file)
    if text is None:
        return
    if file.name in sources.places:
        # Names tell files apart from here on: one would take the other's place.
        sources.faults.append(LintFault(file.name, 0, 0, "there are two files of this name"))
        return
    try:
        module = parsed(file.name, text)
    except RegoError as error:
        sources.faults.append(LintFault(file.name, error.line, error.column, error.message))
        return
    sources.modules.append(module)
    sources.places[file.name] = file.place
    if is_own:
        sources.own.append(file.name)


def _read_rules(sources: Sources, file: PolicyFile, folder: tuple[str, ...]) -> None:
    """`folder`: where it lies below the folder of policies; () for a file that was named."""
    text = _text(sources, file)
    if text is None:
        return
    try:
        marked = read_marked(file.name, text)
    except NotReadable as error:
        sources.faults.append(error.fault)
        return
    layer = layer_of(folder)
    if folder not in {(), ("callgate",)} and layer is None:
        message = "rule data is in callgate/ or in the folder of a layer"
        sources.faults.append(LintFault(file.name, 0, 0, message))
        return
    kind, _, of = (layer or "").partition(".")
    above = () if not kind else (kind,) if kind == "org" else (f"{kind}s", of)
    _take(sources, marked, above)


def _take(sources: Sources, marked: Marked, above: tuple[str, ...]) -> None:
    tree, faults = rules.checked(marked, rules.LayerRules if above else rules.RuleData, above)
    sources.faults += faults
    sources.rule_files.append(marked.file)
    sources.marked.append((above, marked))
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
        answer_judges=frozenset(_answer_judges(sources.modules, data)),
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


def _answer_judges(modules: Sequence[RegoModule], data: Mapping[str, Any]) -> Iterator[str]:
    """A layer's Rego is taken to be about answers where it names them at all."""
    for module in modules:
        if module.package not in _QUIET and any(word in module.text for word in _ANSWER_WORDS):
            yield _speaks_for(module.package)
    for layer, said in rules.layers(data):
        if said.get("answers"):
            yield layer


def _speaks_for(package: Package) -> str:
    """The layer whose folder the package is in; what anybody may import counts as everybody's."""
    return layer_of(package[:3]) or "org"


def _reads_results(module: RegoModule) -> bool:
    """Whether results may be read: a field of that name is named, or a function that reads them."""
    words = _RESULT_FIELDS | _RESULT_FUNCTIONS
    return any(word in module.text for word in words)
