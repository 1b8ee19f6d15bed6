"""Rego as the embedded engine is given it: what OPA makes of the original, that engine makes of the rewritten."""

import json
from typing import Any

import pytest
from hypothesis import given, strategies as st

from proxy.engines.rewriting import BOUND, Rewritten, bound_keys, rewritten
from proxy.engines.syntax import parsed
from proxy.engines.worker import Evaluator, RegoError

# One of three lacks the field, and that one is the last.
LIST = '[{"k": "a", "r": {"v": 1}}, {"k": "b", "r": {"v": 2}}, {"k": "c", "r": {}}]'


def value(text: str, *, is_rewritten: bool = True) -> Any:
    module = parsed("a.rego", f"package a\n\n{text}\n")
    given_text = rewritten(module).text if is_rewritten else module.text
    return json.loads(Evaluator({"a.rego": given_text}).evaluate("data.a.p", '{"x": 1}'))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f"p contains x.r.v if some x in {LIST}", [1, 2]),
        (
            f'p contains {{"c": x.k, "m": x.r.v}} if some x in {LIST}',
            [{"c": "a", "m": 1}, {"c": "b", "m": 2}],
        ),
        (
            f'p contains {{\n\t"m": sprintf("%v", [x.r.v]), # if {{ }}\n}} if {{\n\tsome x in {LIST} # }}\n}}',
            [{"m": "1"}, {"m": "2"}],
        ),
        (f'p contains {{"m": f(x)}} if some x in {LIST}\n\nf(x) := x.r.v', [{"m": 1}, {"m": 2}]),
        (f"p[k] := x.r.v if {{\n\tsome x in {LIST}\n\tk := x.k\n}}", {"a": 1, "b": 2}),
        (f"p := y if {{\n\ty := f({LIST})\n}}\n\nf(l) := l[i].r.v if i == 1 if false", None),
        ('p := x.r.v if some x in [{}, {"r": {"v": 3}}, {}]', 3),
        (f'p := f({LIST})\n\nf(l) := x.r.v if {{\n\tsome x in l\n\tx.k != "a"\n}}', 2),
        (f"p contains {LIST}[_].r.v", [1, 2]),
        ('p := x.k if { some x in [{}]; x.z } else := y.k if some y in [{}, {"k": 2}, {}]', 2),
        ("p := input.none if input.x == 1 else := 7", 7),
        ("p contains input.none", []),
        ("p contains input.x", [1]),
        (
            f'p contains {{"all": [y.r.v | some y in {LIST}], "v": x.r.v}} if some x in {LIST}',
            [{"all": [1, 2], "v": 1}, {"all": [1, 2], "v": 2}],
        ),
        ('p contains x["é"] if some x in [{"é": "ü"}, {}]', ["ü"]),
        ('p contains x.a if {"b": 1}.b == 1; some x in [{"a": 1}, {}]', None),
        ('p contains x.a if some x in [{"a": 1}, {"b": {1}}]', [1]),
        ("p contains x.a\\\n if true", None),
        ('p contains {"x": `raw\n{ if`, "y": x.a} if some x in [{"a": 1}, {}]', [{"x": "raw\n{ if", "y": 1}]),
        (
            'p contains x.a if {\n\tsome x in [{"a": 1}, {}]\n}\n\np contains x.b if { some x in [{"b": 2}, {}] }',
            [1, 2],
        ),
        ('p := f({"k": "a", "r": 1})\n\nf(x) := x.r if x.k == "a"\n\nf(x) := x.q if x.k == `b`', 1),
        ("p contains x if some x in [1]", [1]),
        ('p := {"a": 1}.a if {"b": 1} == {"b": input.x}', 1),
        ('p contains q.a if {y | some y in [1]} == {1}\n\nq := {"a": 5}', [5]),
    ],
)
def test_a_value_that_is_undefined_for_one_binding_costs_the_others_nothing(text: str, expected: Any) -> None:
    """A denial must not vanish for one call because another call lacks a field."""
    if expected is None:
        with pytest.raises(RegoError):  # no Rego at all
            value(text)
        return

    assert value(text) == expected


def test_the_engine_alone_loses_them() -> None:
    """Why heads are bound in bodies. When this fails, the engine was mended."""
    assert value(f"p contains x.r.v if some x in {LIST}", is_rewritten=False) == []


@given(st.lists(st.sampled_from(['{"k": 1, "v": 5}', '{"k": 2}', '{"k": 3, "v": 6}', "{}"]), max_size=5))
def test_whatever_lacks_the_field_wherever_it_stands(parts: list[str]) -> None:
    whole = f"[{', '.join(parts)}]"
    found = value(f'p contains {{"c": x.k, "m": x.v}} if some x in {whole}')

    wanted = [json.loads(part) for part in parts]
    assert found == [
        {"c": each, "m": 5 if each == 1 else 6}
        for each in sorted({part["k"] for part in wanted if "v" in part})
    ]


def test_imported_names_are_written_out() -> None:
    module = parsed(
        "a.rego",
        'package a\n\nimport data.b["c-d"] as e\nimport input.f\n\nx := [e.g, "é", e.h(f), e, "e.g"]\n',
    )

    assert rewritten(module).text.splitlines()[5] == (
        'x := [data.b["c-d"].g, "é", data.b["c-d"].h(f), data.b["c-d"], "e.g"]'
    )


def test_a_variable_of_the_same_name_stays_what_it_is() -> None:
    module = parsed("a.rego", "package a\n\nimport data.e\n\nf(e) := e\n")

    assert rewritten(module).text == module.text


def test_places_are_told_as_they_are_in_the_file() -> None:
    text = (
        "package a\n\nimport data.callgate.lib as l\n\n"
        'p contains {\n\t"a": 1,\n\t"é": to_number(x),\n} if {\n\tsome x in l.list\n\tl.ok(l.x, to_number(x))\n}\n\n'
        'q := l.f("é", to_number("12x"))\n'
    )
    module = parsed("a.rego", text)
    made = rewritten(module)

    assert BOUND in made.text
    for word, count in (
        ("to_number(x),", 1),
        ("some x", 1),
        ("to_number(x))", 1),
        ('"12x"', 1),
        ("package", 1),
    ):
        assert made.text.count(word) == count
        assert made.place(*spot(made.text, word)) == spot(text, word), word


def spot(text: str, word: str) -> tuple[int, int]:
    before = text[: text.index(word)]
    return before.count("\n") + 1, len(before.rpartition("\n")[2]) + 1


def test_places_that_are_ours_or_nowhere_are_told_as_the_nearest() -> None:
    module = parsed("a.rego", "package a\n\np contains x.y if some x in input.z\n")
    made = rewritten(module)
    line, _ = made.place(*spot(made.text, f"{BOUND} :="))

    assert line == 3
    assert made.place(99, 1) == (99, 1)
    assert Rewritten("x").place(3, 4) == (3, 4)


@pytest.mark.parametrize(
    ("rule", "is_bound"),
    [
        ("x[k] := 1 if some k in [1]", True),
        ('x["k"][l] := 1 if some l in [1]', True),
        ("x.y := 1 if input.z", True),
        ("x[y.k] := 1 if some y in [1]", False),
        ("x[f(y)] := 1 if some y in [1]", False),
        ("default x := 1", True),
        ("x contains y.k if some y in [1]", True),
    ],
)
def test_keys_in_heads_are_names_that_the_body_binds(rule: str, *, is_bound: bool) -> None:
    assert bound_keys(parsed("a.rego", f"package a\n\n{rule}\n").rules[0]) is is_bound
