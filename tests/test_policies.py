"""The policies that are shipped: every test of theirs, what their metadata says, and that lint finds nothing."""

import re
from functools import cache
from pathlib import Path

import pytest

from proxy.engines import RegoTest, load_bundle, rules, run_policy_tests
from proxy.engines.bundle import read_sources, shipped_folder
from proxy.engines.samples import sample_inputs
from proxy.engines.syntax import RegoModule, RuleKind

FOLDER = shipped_folder()


@cache
def results() -> tuple[RegoTest, ...]:
    return tuple(run_policy_tests())


@cache
def modules() -> tuple[RegoModule, ...]:
    return tuple(read_sources([], with_tests=True).modules)


def shipped() -> list[RegoModule]:
    return [module for module in modules() if not module.is_test]


@pytest.mark.parametrize("result", results(), ids=lambda result: f"{result.package}.{result.name}")
def test_every_rego_test_holds(result: RegoTest) -> None:
    """D1, D2, D3, D5, D6, D8, D12, D16, F2: what the rules promise is shown beside them."""
    assert not result.message, f"{result.file}:{result.line}: {result.name} {result.message}"


def test_there_are_rego_tests() -> None:
    assert len(results()) > 70


def test_lint_has_nothing_to_say() -> None:
    assert load_bundle([]).warnings == ()


@pytest.mark.parametrize("module", shipped(), ids=lambda module: module.file)
def test_every_package_says_what_it_is(module: RegoModule) -> None:
    """OPA takes METADATA of a package in one of its files only; in the others a comment says it."""
    head = module.text.partition("package ")[0]
    of_one_file = sum(other.package == module.package for other in shipped()) == 1

    assert head.startswith("# METADATA\n# title: " if of_one_file else "# ")


def denials() -> list[tuple[RegoModule, int, str]]:
    """Every deny rule of a layer, with the METADATA above it."""
    found = []
    for module in shipped():
        if module.package == ("callgate", "layers"):
            continue
        for rule in module.rules:
            if rule.name == "deny" and rule.kind is RuleKind.SET:
                above = module.text.splitlines()[: rule.place.line - 1]
                start = max(place for place, line in enumerate(above) if not line.startswith("#"))
                found.append((module, rule.place.line, "\n".join(above[start:])))
    return found


@pytest.mark.parametrize(
    ("module", "line", "metadata"), denials(), ids=lambda value: getattr(value, "file", None)
)
def test_the_code_of_a_denial_is_the_one_in_its_metadata(
    module: RegoModule, line: int, metadata: str
) -> None:
    body = module.text.splitlines()[line - 1 :]
    code = next(found[1] for text in body if (found := re.search(r'"code": "(\w+)"', text)))

    assert f"#   code: {code}" in metadata
    assert "# title: " in metadata


def denying() -> list[RegoModule]:
    return list({module.file: module for module, _, _ in denials()}.values())


@pytest.mark.parametrize("module", denying(), ids=lambda module: module.file)
def test_every_denial_has_tests_that_deny_allow_and_lack_a_field(module: RegoModule) -> None:
    """A rule that touches a missing field is undefined, so that nothing is denied: each says what happens then."""
    test_file = module.file.replace(".rego", "_test.rego")
    names = [rule.name for other in modules() if other.file == test_file for rule in other.rules]

    assert any(name.startswith("test_denies_") for name in names)
    assert any(name.startswith("test_allows_") for name in names)
    assert any("missing" in name for name in names)


def test_only_the_decision_is_an_entrypoint() -> None:
    marked = [module.file for module in shipped() if "entrypoint: true" in module.text]

    assert marked == ["callgate/main/main.rego"]


def test_the_readme_names_every_key_of_the_rule_data() -> None:
    text = (FOLDER / "README.md").read_text(encoding="utf-8")
    parts = (
        rules.RuleData,
        rules.LayerRules,
        rules.ToolRules,
        rules.Constraint,
        rules.StatusRule,
        rules.LimitRules,
        rules.BoundRules,
        rules.BrakeRules,
        rules.Grant,
        rules.ApprovalRules,
        rules.Ownership,
        rules.Shown,
    )
    missing = [
        f"{part.__name__}.{name}" for part in parts for name in part.model_fields if f"`{name}`" not in text
    ]

    assert not missing


def test_the_readme_names_every_member_of_the_documents() -> None:
    text = (FOLDER / "README.md").read_text(encoding="utf-8")
    names = {name for document in sample_inputs(load_bundle([])) for name in _names(document)}

    assert sorted(name for name in names if name not in text) == []


def _names(document: object) -> set[str]:
    if isinstance(document, list):
        return {name for part in document for name in _names(part)}
    if isinstance(document, dict):
        return set(document) | {name for part in document.values() for name in _names(part)}
    return set()


def test_the_first_rule_of_the_readme_works(tmp_path: Path) -> None:
    """The rule and the test that the README shows, as a reader would write them."""
    text = (FOLDER / "README.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```rego\n# (callgate/\S+)\n(.*?)```", text, re.DOTALL)
    for path, body in blocks:
        file = tmp_path / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(body, encoding="utf-8")
    own = [result for result in run_policy_tests([tmp_path]) if str(tmp_path) in result.file]

    assert len(blocks) == 2
    assert own
    assert all(result.passed for result in own)
    assert load_bundle([tmp_path]).warnings == ()
