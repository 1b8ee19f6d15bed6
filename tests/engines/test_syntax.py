"""Rego modules as their syntax trees tell them."""

import pytest

from proxy.engines.syntax import RuleKind, literal, parsed
from proxy.engines.worker import RegoError

TEXT = """# é before
package callgate["my-x"].main

import data.callgate.lib
import data.rules.org as r
import input.identity

default d := 1

d := lib.f(x) if some x in r.tools

f(a, [b, _]) := c if {
	c := data.a["b-c"].d[a]
	some e, g in input.x
	every h in [1] {
		h == b
	}
	not lib.g(h2) == identity.team with data.z as 1
}

s contains lib.e.k if true

o[k] := v if some k, v in {"é": regex.match(`a`, "b")}

p.q := 1
"""


def test_a_module_is_read() -> None:
    module = parsed("a.rego", TEXT)

    assert module.package == ("callgate", "my-x", "main")
    assert module.package_place.line == 2
    assert {alias: (target.root, *target.fixed) for alias, target in module.imports.items()} == {
        "lib": ("data", "callgate", "lib"),
        "r": ("data", "rules", "org"),
        "identity": ("input", "identity"),
    }
    assert [(rule.name, rule.kind, rule.arity) for rule in module.rules] == [
        ("d", RuleKind.DEFAULT, 0),
        ("d", RuleKind.COMPLETE, 0),
        ("f", RuleKind.FUNCTION, 2),
        ("s", RuleKind.SET, 0),
        ("o", RuleKind.OBJECT, 0),
        ("p", RuleKind.OBJECT, 0),
    ]


def test_references_calls_and_variables_are_found() -> None:
    module = parsed("a.rego", TEXT)
    function = module.rules[2].node
    found = {(used.root, used.fixed, used.is_open) for used in module.references(function)}

    assert ("data", ("a", "b-c", "d"), True) in found
    assert ("lib", ("g",), False) in found
    assert ("data", ("z",), False) in found
    assert ("identity", ("team",), False) in found
    assert module.locals(function) == {"a", "b", "c", "_", "e", "g", "h"}
    assert [call.name for call in module.calls(function)] == ["lib.g"]


def test_places_are_those_of_the_first_letter_whatever_stands_before() -> None:
    module = parsed("a.rego", TEXT)
    for rule in module.rules:
        for used in module.references(rule.node):
            assert module.source[used.place.start :].startswith(used.root.encode())
    call = next(iter(module.calls(module.rules[4].node)))

    assert (call.name, call.reference.place.line, call.reference.place.column) == ("regex.match", 23, 33)
    assert [literal(argument) for argument in call.arguments] == ["a", "b"]


def test_chains_on_calls_and_literals_have_no_root() -> None:
    module = parsed("a.rego", 'package a\n\nx := f(1).y\n\nz := [1, q][0]\n\nf(a) := {"y": a}\n')

    assert [used.root for used in module.references(module.rules[0].node)].count("") == 1
    assert "q" in {used.root for used in module.references(module.rules[1].node)}


def test_some_without_in_declares_too() -> None:
    module = parsed("a.rego", "package a\n\nx if {\n\tsome i, j\n\tinput.a[i] == input.b[j]\n}\n")

    assert module.locals(module.rules[0].node) == {"i", "j"}


def test_a_syntax_error_has_its_place() -> None:
    with pytest.raises(RegoError) as caught:
        parsed("a.rego", "package a\n\nx := {\n")

    assert (caught.value.file, caught.value.line) == ("a.rego", 4)
