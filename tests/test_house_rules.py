"""The house rules: sizes, who may import whom, words, docs that cannot rot. Each rule is a function from a file's path and
text to complaints, so that each can be shown to fail (the samples at the end). ruff and mypy are run by `make test`."""

import ast
import importlib
import io
import re
import subprocess
import sys
import tokenize
import types
import typing
import zipfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml
from pydantic import BaseModel

from tests.conftest import need

ROOT = Path(__file__).resolve().parent.parent
README = ROOT / "README.md"
CHART_VALUES = ROOT / "charts" / "callgate" / "values.yaml"

FILE_LINES = 400
FUNCTION_LINES = 50
TEST_FUNCTION_LINES = 80

FORBIDDEN_NAMES = frozenset(
    [
        "util",
        "utils",
        "common",
        "helper",
        "helpers",
        "misc",
        "type",
        "types",
        "model",
        "models",
        "handler",
        "handlers",
        "manager",
        "managers",
        "processor",
        "processors",
        "context",
        "contexts",
        "data",
        "info",
    ]
)


@dataclass(frozen=True)
class Room:
    """What a folder below proxy/ may import. `libraries` None: any."""

    ours: frozenset[str]
    libraries: frozenset[str] | None
    pure: bool = False


PURE_LIBRARIES = frozenset({"orjson", "jsonschema_rs"})
ROOMS = {
    "core": Room(frozenset({"core"}), frozenset(), pure=True),
    "dialects": Room(frozenset({"core", "dialects"}), PURE_LIBRARIES, pure=True),
    "channels": Room(frozenset({"core", "channels"}), PURE_LIBRARIES, pure=True),
    "checks": Room(frozenset({"core", "checks"}), PURE_LIBRARIES, pure=True),
    "engines": Room(frozenset({"core", "errors", "engines"}), None),
    "stores": Room(frozenset({"core", "errors", "stores"}), None),
}
ONLY_HERE = {"opentelemetry": "proxy/telemetry.py"}
ENVIRONMENT_READER = "proxy/config.py"

# No I/O, no clock, no chance: time is an argument.
IMPURE_MODULES = frozenset(
    [
        "asyncio",
        "concurrent",
        "http",
        "logging",
        "multiprocessing",
        "os",
        "pathlib",
        "queue",
        "random",
        "sched",
        "secrets",
        "select",
        "selectors",
        "shutil",
        "signal",
        "socket",
        "socketserver",
        "ssl",
        "subprocess",
        "tempfile",
        "threading",
        "time",
        "urllib.request",
    ]
)
IMPURE_NAMES = frozenset({"now", "utcnow", "today", "uuid1", "uuid4"})
IMPURE_CALLS = frozenset({"open", "print", "input"})

DIALECT_NAMES = ("openai_chat", "openai_responses", "anthropic", "gemini", "ollama", "bedrock")
PROVIDER_KEYS = frozenset(
    [
        "tool_calls",
        "tool_use",
        "tool_use_id",
        "tool_call_id",
        "finish_reason",
        "stop_reason",
        "content_block",
        "content_block_start",
        "content_block_delta",
        "function_call",
        "function_call_output",
        "functionCall",
        "functionResponse",
        "functionDeclarations",
        "finishReason",
        "toolUse",
        "toolResult",
        "toolUseId",
    ]
)
# The demo plays a provider and holds agents of the official SDKs.
KNOWS_PROVIDERS = ("proxy/dialects/", "proxy/demo/")
# The GenAI conventions use one of the words in their own message schema.
KEYS_OF_THEIR_OWN = {"proxy/telemetry.py": frozenset({"finish_reason"})}

REQUIREMENTS = tuple(
    f"{group}{number}"
    for group, last in {"A": 11, "B": 6, "C": 15, "D": 16, "E": 15, "F": 5}.items()
    for number in range(1, last + 1)
)
# Requirements that no test shows yet, each with what is missing. This can only shrink: an id that a test names must go.
NOT_YET: dict[str, str] = {
    "A8": "no event stream for front ends",
    "F5": "no chart",
}


# ---- what the rules read ----


@cache
def parsed(text: str) -> ast.Module:
    return ast.parse(text)


@dataclass(frozen=True)
class Imported:
    """One imported module; `from proxy import core` counts as proxy.core."""

    line: int
    module: str

    @property
    def top(self) -> str:
        return self.module.partition(".")[0]

    @property
    def room(self) -> str | None:
        """The folder or top-level file of ours, None for what is not ours."""
        parts = self.module.split(".")
        return (parts[1] if len(parts) > 1 else "") if parts[0] == "proxy" else None


def imports(path: str, text: str) -> Iterator[Imported]:
    """Every import, wherever it stands: a late one or one for types is a dependency too."""
    package = path.split("/")[:-1]
    for node in ast.walk(parsed(text)):
        if isinstance(node, ast.Import):
            yield from (Imported(node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) + 1 - node.level] if node.level else []
            base = ".".join([*above, *([node.module] if node.module else [])])
            deeper = base in {"proxy", "urllib", "concurrent"}
            for alias in node.names:
                yield Imported(node.lineno, f"{base}.{alias.name}" if deeper else base)


def room_of(path: str) -> str | None:
    """proxy/core/x.py -> core; None for top-level files and everything outside proxy/."""
    parts = path.split("/")
    return parts[1] if parts[0] == "proxy" and len(parts) > 2 else None


def functions(text: str) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(parsed(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def strings(text: str) -> Iterator[tuple[int, str]]:
    """String constants that do something: docstrings and other free-standing strings are prose."""
    prose = {id(node.value) for node in ast.walk(parsed(text)) if isinstance(node, ast.Expr)}
    for node in ast.walk(parsed(text)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in prose:
            yield node.lineno, node.value


def identifiers(text: str) -> Iterator[tuple[int, str]]:
    for node in ast.walk(parsed(text)):
        line = getattr(node, "lineno", 0)
        for field in ("id", "attr", "arg", "name", "asname", "module"):
            value = getattr(node, field, None)
            if isinstance(value, str):
                yield line, value


def comments(text: str) -> Iterator[tuple[int, str]]:
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string


def sources(folder: str) -> dict[str, str]:
    files = sorted((ROOT / folder).rglob("*.py"))
    return {file.relative_to(ROOT).as_posix(): file.read_text(encoding="utf-8") for file in files}


def git_files() -> list[Path]:
    listed = subprocess.run(
        ["git", "-c", f"safe.directory={ROOT}", "ls-files", "-z"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    need(listed.returncode == 0, "not a git checkout")
    return [ROOT / name for name in listed.stdout.split("\0") if name and (ROOT / name).is_file()]


# ---- the rules: (path, text) -> complaints ----


def sizes(path: str, text: str) -> Iterator[str]:
    ours = path.startswith("proxy/")
    count = len(text.splitlines())
    if ours and count > FILE_LINES:
        yield f"{path}: {count} lines, at most {FILE_LINES}: split it where its sentence has an `and`"
    most = FUNCTION_LINES if ours else TEST_FUNCTION_LINES
    for function in functions(text):
        length = (function.end_lineno or function.lineno) - function.lineno + 1
        if length > most:
            yield f"{path}:{function.lineno}: {function.name}() has {length} lines, at most {most}"


def import_law(path: str, text: str) -> Iterator[str]:
    room = room_of(path)
    law = ROOMS.get(room or "")
    for used in imports(path, text):
        where = f"{path}:{used.line}"
        keeper = ONLY_HERE.get(used.top)
        if keeper and path.startswith("proxy/") and path != keeper:
            yield f"{where}: only {keeper} imports {used.top}"
        if law is None:
            continue
        if used.room is not None:
            if used.room not in law.ours:
                yield f"{where}: {room} may import {sorted(law.ours)} of ours, not {used.module}"
        elif law.libraries is not None and used.top not in sys.stdlib_module_names | law.libraries:
            yield f"{where}: {room} may import the standard library and {sorted(law.libraries)}, not {used.module}"


def purity(path: str, text: str) -> Iterator[str]:
    room = room_of(path)
    if room is None or room not in ROOMS or not ROOMS[room].pure:
        return
    for used in imports(path, text):
        if used.top in IMPURE_MODULES or used.module in IMPURE_MODULES:
            yield f"{path}:{used.line}: {room} is pure and never imports {used.module}; time is an argument"
    for node in ast.walk(parsed(text)):
        if isinstance(node, ast.Attribute) and node.attr in IMPURE_NAMES:
            if ast.unparse(node.value).split(".")[-1] in {"datetime", "date", "uuid"}:
                yield f"{path}:{node.lineno}: {room} is pure and never asks for {ast.unparse(node)}"
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in IMPURE_CALLS:
            yield f"{path}:{node.lineno}: {room} is pure and never calls {node.func.id}()"


def environment(path: str, text: str) -> Iterator[str]:
    if not path.startswith("proxy/") or path == ENVIRONMENT_READER:
        return
    readers = {"environ", "environb", "getenv"}
    for node in ast.walk(parsed(text)):
        if isinstance(node, ast.Attribute):
            reads = node.attr in readers and ast.unparse(node.value) == "os"
        elif isinstance(node, ast.ImportFrom):
            reads = node.module == "os" and any(alias.name in readers for alias in node.names)
        else:
            continue
        if reads:
            yield f"{path}:{node.lineno}: only {ENVIRONMENT_READER} reads the environment"


def _mentions(name: str, text: str) -> bool:
    pattern = rf"(?<![a-z]){name.replace('_', '[_ -]?')}(?![a-z])"
    return re.search(pattern, text, re.IGNORECASE) is not None


def dialect_names(path: str, text: str) -> Iterator[str]:
    if (
        not path.startswith("proxy/")
        or path.startswith("proxy/demo/")
        or path == "proxy/dialects/__init__.py"
    ):
        return
    stem = Path(path).stem if room_of(path) == "dialects" else ""
    own = {name for name in DIALECT_NAMES if stem == name or stem.startswith(f"{name}_")}
    for line, word in (*identifiers(text), *strings(text)):
        for name in DIALECT_NAMES:
            if name not in own and _mentions(name, word):
                yield f"{path}:{line}: names the dialect {name} ({word[:40]!r}); ask DIALECTS instead"


def provider_keys(path: str, text: str) -> Iterator[str]:
    if not path.startswith("proxy/") or path.startswith(KNOWS_PROVIDERS):
        return
    for line, word in strings(text):
        if word in PROVIDER_KEYS - KEYS_OF_THEIR_OWN.get(path, frozenset()):
            yield f"{path}:{line}: {word!r} is a provider's JSON key; only proxy/dialects knows those"


def names_of_files(path: str, text: str) -> Iterator[str]:
    del text
    for part in Path(path).with_suffix("").parts:
        if part.strip("_") in FORBIDDEN_NAMES:
            yield f"{path}: `{part}` says nothing; name the file after the word it owns"


def silenced(path: str, text: str) -> Iterator[str]:
    """A silenced check names its code and its reason: `# noqa: S311 - stage craft`."""
    directive = re.compile(
        r"(?:ruff:\s*)?noqa(?::\s*[A-Z]+\d+(?:[,\s]+[A-Z]+\d+)*)?|type:\s*ignore(?:\[[^\]]*\])?|mypy:\s*\S+"
    )
    coded = re.compile(r"noqa:\s*[A-Z]+\d+|type:\s*ignore\[[\w-]+|mypy:\s*(?!ignore-errors)\S")
    for line, comment in comments(text):
        found = [match.group() for match in directive.finditer(comment)]
        if not found:
            continue
        if not all(coded.search(each) for each in found):
            yield f"{path}:{line}: silences everything; name the code ({comment})"
        if len(re.findall(r"\w{2,}", directive.sub(" ", comment))) < 2:
            yield f"{path}:{line}: silences without a reason ({comment})"


RULES: tuple[Callable[[str, str], Iterator[str]], ...] = (
    sizes,
    import_law,
    purity,
    environment,
    dialect_names,
    provider_keys,
    names_of_files,
    silenced,
)


def complaints(rule: Callable[[str, str], Iterator[str]], files: dict[str, str]) -> str:
    return "\n".join(complaint for path, text in files.items() for complaint in rule(path, text))


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_every_file_keeps_the_rule(rule: Callable[[str, str], Iterator[str]]) -> None:
    found = complaints(rule, sources("proxy") | sources("tests"))

    assert not found, f"\n{found}"


# ---- every source file has its test file ----


def untested(proxy: dict[str, str], tests: Iterable[str]) -> list[str]:
    """Source files with no tests/<same folder>/test_<name>.py; empty ones and package files need none."""
    present = set(tests)
    wanted = {}
    for path, text in proxy.items():
        file = Path(path)
        code = [node for node in parsed(text).body if not isinstance(node, ast.Expr)]
        if file.name not in {"__init__.py", "__main__.py"} and code:
            wanted[path] = Path("tests", *file.parts[1:-1], f"test_{file.name}").as_posix()
    return [f"{path}: has no {test}" for path, test in wanted.items() if test not in present]


def test_every_source_file_has_its_test_file() -> None:
    missing = untested(sources("proxy"), sources("tests"))

    assert not missing, "\n" + "\n".join(missing)


# ---- every requirement is named by a test ----


def named_requirements(texts: Iterable[str]) -> set[str]:
    words = set(re.findall(r"\b[A-F]\d{1,2}\b", "\n".join(texts)))
    return words & set(REQUIREMENTS)


def named_by_our_tests() -> set[str]:
    own = Path(__file__).relative_to(ROOT).as_posix()
    return named_requirements(text for path, text in sources("tests").items() if path != own)


def in_order(ids: Iterable[str]) -> str:
    return " ".join(sorted(ids, key=REQUIREMENTS.index))


def test_every_requirement_is_named_by_a_test() -> None:
    forgotten = set(REQUIREMENTS) - named_by_our_tests() - set(NOT_YET)

    assert not forgotten, f"no test names {in_order(forgotten)}"


def test_what_is_not_yet_shown_shrinks() -> None:
    shown = named_by_our_tests() & set(NOT_YET)

    assert not shown, f"tests name these now, remove them from NOT_YET: {in_order(shown)}"
    assert set(NOT_YET) <= set(REQUIREMENTS)
    assert all(NOT_YET.values()), "every id in NOT_YET says what is missing"


# ---- docs that cannot rot ----


def flattened(tree: object, prefix: str = "") -> Iterator[str]:
    """The dotted paths of a YAML tree."""
    if isinstance(tree, dict):
        for key, value in tree.items():
            path = f"{prefix}.{key}" if prefix else str(key)
            yield path
            yield from flattened(value, path)
    elif isinstance(tree, list):
        for value in tree:
            yield from flattened(value, f"{prefix}[]")


def documented(readme: str, values: str) -> str:
    """The words that count as documentation: README's code, its YAML examples and the chart's values as dotted paths."""
    code = re.findall(r"```.*?```|`[^`\n]+`", readme, re.DOTALL)
    trees = [*re.findall(r"```ya?ml\n(.*?)```", readme, re.DOTALL), values]
    paths = [path for tree in trees for part in yaml.safe_load_all(tree) for path in flattened(part)]
    return "\n".join((*code, *paths))


def _nested(annotation: object, *, many: bool = False) -> Iterator[tuple[type[BaseModel], bool]]:
    """The models inside an annotation, and whether there may be several (a dict's or list's members)."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation, many
        return
    origin = typing.get_origin(annotation)
    plain = origin in {None, typing.Union, types.UnionType, typing.Annotated}
    for argument in typing.get_args(annotation):
        yield from _nested(argument, many=many or not plain)


def setting_names(model: type[BaseModel], prefix: str = "", above: tuple[type, ...] = ()) -> Iterator[str]:
    """Dotted names of all leaves of a settings tree; `*` stands for the key of a dict's or list's member."""
    for name, field in model.model_fields.items():
        path = f"{prefix}.{name}" if prefix else name
        below = [(each, many) for each, many in _nested(field.annotation) if each not in above]
        if not below:
            yield path
        for each, many in below:
            yield from setting_names(each, f"{path}.*" if many else path, (*above, model))


def is_named(setting: str, words: str) -> bool:
    """`a.*.b` may be written a.<name>.b, a[].b or with any example's key."""
    pattern = re.escape(setting).replace(r"\.\*", r"(?:\.[^\s.`]+|\[[^\]\s]*\])")
    return re.search(rf"(?<!\w){pattern}(?![\w.]*\w)", words) is not None


def our_words() -> str:
    values = CHART_VALUES.read_text(encoding="utf-8") if CHART_VALUES.exists() else ""
    return documented(README.read_text(encoding="utf-8") if README.exists() else "", values)


def ours(module: str, name: str) -> Any:
    """`name` of our `module`. Skips only while the module's text does not hold it; an import error is an error."""
    path = ROOT.joinpath(*module.split("."))
    files = [file for file in (path.with_suffix(".py"), path / "__init__.py") if file.exists()]
    words = {word for file in files for _, word in identifiers(file.read_text(encoding="utf-8"))}
    need(name in words, f"there is no {module}.{name} yet")
    return getattr(importlib.import_module(module), name)


def test_every_setting_is_in_the_readme_or_the_chart() -> None:
    settings = ours("proxy.config", "Settings")
    words = our_words()
    unnamed = [name for name in setting_names(settings) if not is_named(name, words)]

    assert not unnamed, "neither README.md nor charts/callgate/values.yaml names\n" + "\n".join(unnamed)


def test_every_check_is_in_the_readme() -> None:
    checks = ours("proxy.checks", "CHECKS")
    words = our_words()
    unnamed = [check.name for check in checks if not is_named(check.name, words)]

    assert not unnamed, f"README.md does not name the checks {unnamed}"


def command_names(command: object, above: str = "callgate") -> Iterator[str]:
    for name, below in getattr(command, "commands", {}).items():
        if getattr(below, "commands", None):
            yield from command_names(below, f"{above} {name}")
        elif not below.hidden:
            yield f"{above} {name}"


def test_every_command_is_in_the_readme() -> None:
    app = ours("proxy.cli", "app")
    words = our_words()
    names = list(command_names(typer.main.get_command(app)))
    unnamed = [name for name in names if name not in words]

    assert names
    assert not unnamed, f"README.md does not name the commands {unnamed}"


def test_every_dialect_is_known_to_the_rule_that_keeps_its_name_at_home() -> None:
    dialects = ours("proxy.dialects", "DIALECTS")
    stems = {type(dialect).__module__.rpartition(".")[2] for dialect in dialects}

    assert stems <= set(DIALECT_NAMES)


# ---- nothing of the machine it was written on ----

MACHINE = re.compile(r"(?<![\w.~-])/(?:work|root|home|Users)/\w*")


def machine_words(path: str, text: str) -> Iterator[str]:
    for number, line in enumerate(text.splitlines(), 1):
        for match in MACHINE.finditer(line):
            yield f"{path}:{number}: {match.group()} is a path of somebody's machine"


def addresses(path: str, text: str) -> Iterator[str]:
    """A lock holds names, versions and hashes: where they come from is the installer's business."""
    for number, line in enumerate(text.splitlines(), 1):
        if "://" in line or re.match(r"\s*(?:--(?!hash=)|-[a-z]\b|\.?/)", line):
            yield f"{path}:{number}: an address, a path or an option in a lock: {line.strip()}"


def test_tracked_files_hold_no_words_of_a_machine() -> None:
    found: list[str] = []
    for file in git_files():
        raw = file.read_bytes()
        if b"\0" not in raw:
            path = file.relative_to(ROOT).as_posix()
            found += machine_words(path, raw.decode("utf-8", "replace"))
            found += addresses(path, raw.decode()) if file.suffix == ".lock" else ()

    assert not found, "\n" + "\n".join(found)


# ---- an installed wheel needs no checkout ----


def test_the_wheel_carries_the_package_and_the_policies(tmp_path: Path) -> None:
    shipped = sorted(path for path in (ROOT / "policies" / "callgate").rglob("*") if path.is_file())
    need(shipped, "there are no policies yet")
    build = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(tmp_path)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    names = set(zipfile.ZipFile(wheel).namelist())

    assert {"proxy/py.typed", *sources("proxy")} <= names
    assert {f"proxy/_policies/{path.relative_to(ROOT / 'policies').as_posix()}" for path in shipped} <= names
    assert not any(name.startswith("tests/") for name in names)


# ---- the rules can fail, and only when they should ----

NO_PATH = f"/{'work'}/x"
LONG = "def f():\n" + "    x = 1\n" * FUNCTION_LINES
BAD: tuple[tuple[Callable[[str, str], Iterator[str]], str, str], ...] = (
    (sizes, "proxy/a.py", "x = 1\n" * (FILE_LINES + 1)),
    (sizes, "proxy/a.py", LONG),
    (sizes, "proxy/a.py", "class A:\n" + "".join(f"    {line}\n" for line in f"async {LONG}".splitlines())),
    (sizes, "tests/test_a.py", "def f():\n" + "    x = 1\n" * TEST_FUNCTION_LINES),
    (import_law, "proxy/core/a.py", "import orjson"),
    (import_law, "proxy/core/a.py", "from proxy import errors"),
    (import_law, "proxy/core/a.py", "from proxy.dialects import sse"),
    (import_law, "proxy/core/a.py", "def f():\n    import proxy.gate"),
    (import_law, "proxy/core/a.py", "from ..errors import ClientFault"),
    (import_law, "proxy/core/a.py", "from .. import errors"),
    (import_law, "proxy/core/a.py", "from proxy import __version__"),
    (import_law, "proxy/checks/a.py", "from proxy.dialects.sse import Frame"),
    (import_law, "proxy/checks/a.py", "import aiohttp"),
    (import_law, "proxy/dialects/a.py", "from proxy.errors import ClientFault"),
    (import_law, "proxy/engines/a.py", "import proxy.config"),
    (import_law, "proxy/stores/a.py", "from proxy.engines import embedded"),
    (import_law, "proxy/gate.py", "from opentelemetry import trace"),
    (purity, "proxy/core/a.py", "import time"),
    (purity, "proxy/core/a.py", "from time import monotonic"),
    (purity, "proxy/channels/a.py", "import asyncio.queues"),
    (purity, "proxy/dialects/a.py", "from urllib import request"),
    (purity, "proxy/core/a.py", "import datetime as d\nd.datetime.now()"),
    (purity, "proxy/checks/a.py", "from datetime import datetime\nx = datetime.utcnow"),
    (purity, "proxy/checks/a.py", "open('x')"),
    (environment, "proxy/gate.py", "import os\nos.environ['X']"),
    (environment, "proxy/gate.py", "import os\nos.getenv('X')"),
    (environment, "proxy/gate.py", "from os import environ"),
    (dialect_names, "proxy/gate.py", "from proxy.dialects import anthropic"),
    (dialect_names, "proxy/gate.py", "from proxy.dialects.openai_chat import X"),
    (dialect_names, "proxy/config.py", "url = 'https://api.anthropic.example'"),
    (dialect_names, "proxy/gate.py", "if name == 'openai-chat': pass"),
    (dialect_names, "proxy/gate.py", "x = f'{y} for Gemini'"),
    (dialect_names, "proxy/gate.py", "is_ollama = True"),
    (dialect_names, "proxy/dialects/openai_chat.py", "x = 'openai_responses'"),
    (dialect_names, "proxy/dialects/sse.py", "def bedrock(): ..."),
    (provider_keys, "proxy/gate.py", "body['tool_calls']"),
    (provider_keys, "proxy/core/a.py", "KEYS = {'finish_reason'}"),
    (names_of_files, "proxy/utils.py", ""),
    (names_of_files, "proxy/core/_helpers.py", ""),
    (names_of_files, "proxy/data/__init__.py", ""),
    (names_of_files, "tests/common.py", ""),
    (silenced, "proxy/a.py", "x = 1  # noqa"),
    (silenced, "proxy/a.py", "x = 1  # noqa: S101"),
    (silenced, "proxy/a.py", "x = 1  # type: ignore"),
    (silenced, "proxy/a.py", "x = 1  # type: ignore  # because of this and that"),
    (silenced, "proxy/a.py", "x = 1  # type: ignore[assignment]"),
    (silenced, "proxy/a.py", "x = 1  # type: ignore[assignment]  # noqa: S101"),
    (silenced, "proxy/a.py", "# mypy: ignore-errors"),
    (machine_words, "README.md", f"see {NO_PATH}"),
    (addresses, "requirements.lock", "--index-url https://index.example/simple"),
    (addresses, "requirements.lock", "a @ file://a.whl"),
    (addresses, "requirements.lock", "-e ."),
)
GOOD: tuple[tuple[Callable[[str, str], Iterator[str]], str, str], ...] = (
    (sizes, "proxy/a.py", "x = 1\n" * FILE_LINES),
    (sizes, "tests/test_a.py", LONG),
    (
        import_law,
        "proxy/core/a.py",
        "import re\nfrom proxy.core import runs\nfrom proxy.core.runs import Run",
    ),
    (import_law, "proxy/core/a.py", "from . import runs\nfrom .runs import Run"),
    (import_law, "proxy/checks/a.py", "from ..core.runs import Run\nfrom ..core import runs"),
    (import_law, "proxy/checks/a.py", "import jsonschema_rs\nfrom proxy.core.verdicts import Verdict"),
    (import_law, "proxy/engines/a.py", "import aiohttp\nfrom proxy.errors import EngineFault"),
    (import_law, "proxy/telemetry.py", "from opentelemetry import trace"),
    (import_law, "proxy/gate.py", "import aiohttp\nfrom proxy import core, dialects"),
    (purity, "proxy/core/a.py", "from datetime import datetime\nfrom urllib.parse import quote\nx = run.now"),
    (purity, "proxy/stores/a.py", "import asyncio, time"),
    (environment, "proxy/config.py", "import os\nos.environ"),
    (dialect_names, "proxy/gate.py", '"""Unlike anthropic."""\n# nor gemini\nx = "misanthropical"'),
    (dialect_names, "proxy/dialects/anthropic.py", "name = 'anthropic'"),
    (dialect_names, "proxy/demo/agents.py", "from anthropic import Anthropic"),
    (provider_keys, "proxy/dialects/anthropic.py", "x['tool_use']"),
    (provider_keys, "proxy/gate.py", '"""Not tool_calls."""\nx = "several tool_calls"'),
    (names_of_files, "proxy/core/messages.py", ""),
    (silenced, "proxy/a.py", "x = 1  # noqa: S101, S311 - stage craft only"),
    (silenced, "proxy/a.py", "x = 1  # type: ignore[assignment]  # the stubs are behind"),
    (machine_words, "README.md", "curl https://x.example/home/ and ./home/ and /v1/home/"),
    (addresses, "requirements.lock", "a==1 \\\n    --hash=sha256:00"),
)


@pytest.mark.parametrize(("rule", "path", "text"), BAD)
def test_a_rule_sees_what_breaks_it(rule: Callable[[str, str], Iterator[str]], path: str, text: str) -> None:
    assert list(rule(path, text))


@pytest.mark.parametrize(("rule", "path", "text"), GOOD)
def test_a_rule_lets_the_rest_be(rule: Callable[[str, str], Iterator[str]], path: str, text: str) -> None:
    assert list(rule(path, text)) == []


def test_a_source_file_without_its_test_is_found() -> None:
    proxy = {
        "proxy/core/a.py": "x = 1",
        "proxy/b.py": "x = 1",
        "proxy/c.py": '"""Empty."""',
        "proxy/__init__.py": "x = 1",
    }

    assert untested(proxy, ["tests/test_a.py", "tests/test_b.py"]) == [
        "proxy/core/a.py: has no tests/core/test_a.py"
    ]


def test_requirements_are_named_by_whole_words() -> None:
    assert len(REQUIREMENTS) == 68


def test_settings_are_walked_to_their_leaves() -> None:
    class Leaf(BaseModel):
        url: str = ""

    class Tree(BaseModel):
        one: Leaf | None = None
        many: dict[str, Leaf] = {}
        rows: list[Leaf] = []
        plain: dict[str, int] = {}

    assert list(setting_names(Tree)) == ["one.url", "many.*.url", "rows.*.url", "plain"]


def test_a_setting_counts_as_named_in_code_examples_and_chart_values_only() -> None:
    words = documented(
        "prose one, `two.x`\n```yaml\nthree:\n  a:\n    url: 1\n```\n", "config:\n  four: 1\nfive: [{url: 1}]"
    )

    assert not is_named("one", words)
    assert not is_named("two", "`two.x`")
    assert not is_named("wo.x", words)
    assert all(is_named(name, words) for name in ("two.x", "three.*.url", "four", "five.*.url"))


def test_commands_are_walked_to_their_leaves() -> None:
    app, below = typer.Typer(), typer.Typer()
    app.command("serve")(lambda: None)
    app.command("secret", hidden=True)(lambda: None)
    below.command("list")(lambda: None)
    app.add_typer(below, name="runs")

    assert sorted(command_names(typer.main.get_command(app))) == ["callgate runs list", "callgate serve"]
