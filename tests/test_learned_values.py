"""What values have in common."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from proxy.learned_values import Thresholds, constraint_of, is_missing, places
from tests.asked import asked, codes, decided, with_rules

FEW = Thresholds(choices=2, times=3)


@pytest.mark.parametrize(
    ("values", "constraint"),
    [
        (["yes", "no", "yes", "no", "yes", "no"], {"one_of": ["no", "yes"]}),
        (["A123", "B45", "C6789"], {"pattern": "^[A-Z]{1}[0-9]{1,8}$"}),
        (["4WQ150", "VAAOXJ", "SDZQKO"], {"pattern": "^[0-9A-Z]{6}$"}),
        (["a_1", "b_c_2", "d"], {"pattern": "^[0-9a-z_]{1,10}$"}),
        (["2024-05-17", "2024-06-01", "2023-01-09"], {"pattern": "^[0-9]{4}-[0-9]{2}-[0-9]{2}$"}),
        (
            ["a.b@x.example", "cc.dd@yy.example"],
            {"pattern": r"^[a-z]{1,4}\.[a-z]{1,4}@[a-z]{1,4}\.[a-z]{7}$"},
        ),
        (["/srv/a/x.txt", "/srv/b.txt"], {"starts_with": "/srv/", "max_length": 16}),
        (["/srv/a", "/srv/../etc"], {"type": "string", "max_length": 16}),
        (
            ["https://a.example/x", "https://b.example/y"],
            {"pattern": r"^[a-z]{5}://[a-z]{1}\.[a-z]{7}/[a-z]{1}$"},
        ),
        (["hello there", "ü"], {"type": "string", "max_length": 16}),
        ([""], {"type": "string", "max_length": 0}),
        ([3, 5, 4.0], {"type": "integer", "min": 3, "max": 5}),
        ([0.5, 2], {"type": "number", "min": 0.5, "max": 2}),
        ([True, False, True], {"type": "boolean"}),
        ([True, True, True], {"equals": True}),
        ([[1], [1, 2]], {"type": "array", "max_length": 2}),
        ([{}, {"a": 1}], {"type": "object"}),
        ([1, "x"], {"one_of": ["x", 1]}),
        ([1, [1]], None),
        ([1e300], None),
    ],
)
def test_each_kind_of_values_has_its_constraint(values: list[Any], constraint: object) -> None:
    """D2: types, closed sets, shapes, ranges, lengths, folders."""
    assert constraint_of(values, FEW) == constraint


def test_nothing_of_a_secret_stands_in_its_constraint() -> None:
    for values in (["s3cr3t"] * 9, [1234, 1234, 1234], [True] * 9):
        assert json.dumps(values[0]) not in json.dumps(constraint_of(values, FEW, is_secret=True))
    assert constraint_of([1, "x"], is_secret=True) is None


def test_repetition_in_one_run_makes_no_closed_set() -> None:
    assert constraint_of(["A1", "B2"] * 9, FEW, occasions=2) == {"pattern": "^[A-Z]{1}[0-9]{1}$"}


def test_places_are_named_as_rule_data_names_them() -> None:
    arguments: dict[str, Any] = {
        "a": 1,
        "n": None,
        "l": [{"x": 1}, {"x": 2, "y": None}, None],
        "o": {"p": {}},
        "a.b": 1,
        "*": 1,
    }

    assert places(arguments) == {
        "a": [1],
        "l": [[{"x": 1}, {"x": 2, "y": None}, None]],
        "l.*": [{"x": 1}, {"x": 2, "y": None}],
        "l.*.x": [1, 2],
        "o": [{"p": {}}],
        "o.p": [{}],
    }


VALUES = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-(2**53), 2**53),
        st.floats(-1e9, 1e9).map(lambda number: number or 0),
        st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=8),
        st.sampled_from(["A123", "B-7", "/tmp/x", "/tmp/y", "read", "a_1", "(x)", "$^"]),
    ),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["a", "b"]), inner, max_size=2)
    ),
    max_leaves=5,
)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(VALUES.filter(lambda value: value is not None), min_size=1, max_size=6))
def test_every_value_that_was_seen_keeps_to_what_was_learned_from_it(values: list[Any]) -> None:
    """D2: the engine itself is asked, about each of them."""
    constraint = constraint_of(values, FEW)
    if constraint is None:
        return
    evaluator = with_rules({"org": {"tools": {"read": {"arguments": {"x": constraint}}}}})

    for value in values:
        assert codes(decided(evaluator, asked("read", {"x": value}))) == []
    others: list[Any] = [[], {}, True, 0.5, "\n"]
    kinds = {type(value) for value in values}
    other = next(value for value in others if type(value) not in kinds)
    assert set(codes(decided(evaluator, asked("read", {"x": other})))) == {"argument_rule"}


@settings(max_examples=25, deadline=None)
@given(
    st.dictionaries(st.sampled_from(["a", "b"]), VALUES, max_size=2),
    st.sampled_from(["a", "a.b", "a.*", "a.*.b"]),
)
def test_what_is_missing_is_what_the_policies_miss(arguments: dict[str, Any], path: str) -> None:
    evaluator = with_rules({"org": {"tools": {"read": {"arguments": {path: {"required": True}}}}}})

    assert is_missing(arguments, path) == bool(codes(decided(evaluator, asked("read", arguments))))
