"""Schemas are compiled once, fetch nothing, and complain in words that hold no value (C3)."""

import socket
from typing import Any

import pytest
from hypothesis import given, strategies as st

from proxy.checks import schemas
from proxy.checks.schemas import SchemaUnusable, complaints, path_of

SECRET = "s3cret-value"


@pytest.mark.parametrize(
    ("schema", "value", "told"),
    [
        ({"type": "integer"}, SECRET, "$.x: has to be of type integer (type)."),
        ({"type": ["integer", "null"]}, SECRET, "$.x: has to be of type null or integer (type)."),
        ({"enum": ["a", "b"]}, SECRET, '$.x: has to be one of ["a","b"] (enum).'),
        ({"const": "a"}, SECRET, '$.x: has to be "a" (const).'),
        ({"maxLength": 3}, SECRET, "$.x: has to be at most this many characters long: 3 (maxLength)."),
        ({"pattern": "^a$"}, SECRET, '$.x: has to match the pattern "^a$" (pattern).'),
        ({"minimum": 5}, 4, "$.x: has to be at least 5 (minimum)."),
        ({"multipleOf": 2.5}, 4, "$.x: has to be a multiple of 2.5 (multipleOf)."),
        ({"items": {"type": "integer"}}, [1, SECRET], "$.x[1]: has to be of type integer (type)."),
        ({"uniqueItems": True}, [1, 1], "$.x: has to have no element twice (uniqueItems)."),
        ({"required": ["q"]}, {}, '$.x: the member "q" is missing (required).'),
        (
            {"additionalProperties": False},
            {"b": SECRET},
            "$.x: has to be without members (additionalProperties).",
        ),
        (
            {"properties": {"a": {}}, "additionalProperties": False},
            {"b": SECRET},
            '$.x: unknown member(s) "b" (additionalProperties).',
        ),
        (
            {"anyOf": [{"type": "string"}, {"type": "null"}]},
            5,
            "$.x: fits none of the permitted forms ($.x has to be of type string; or $.x has to be of type null) (anyOf).",
        ),
        ({"not": {}}, SECRET, "$.x: does not fit (not)."),
        (False, SECRET, "$.x: is not permitted (x)."),
    ],
)
def test_a_complaint_names_path_keyword_and_what_is_expected(schema: Any, value: Any, told: str) -> None:
    found = complaints({"properties": {"x": schema}}, {"x": value})

    assert found == [told]
    assert SECRET not in found[0]


def test_what_fits_has_no_complaint() -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}

    assert complaints(schema, {"n": 1}) == []
    assert complaints(schema, {"n": 1.0}) == []
    assert complaints({}, {"any": "thing"}) == []


def test_only_the_first_few_complaints_are_told() -> None:
    schema = {"additionalProperties": {"type": "string"}}

    assert len(complaints(schema, {str(place): place for place in range(50)})) == schemas.ERRORS_TOLD


def test_nothing_is_ever_fetched() -> None:
    """A schema comes from an agent, and a reference in it must not make this proxy speak to anyone."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        listening.setblocking(False)
        port = listening.getsockname()[1]
        for address in (f"http://127.0.0.1:{port}/x", "file:///etc/hostname"):
            with pytest.raises(SchemaUnusable):
                complaints({"$ref": address}, {})
            with pytest.raises(SchemaUnusable):
                complaints({"properties": {"a": {"$ref": address + "#/x"}}}, {"a": 1})
        with pytest.raises(BlockingIOError):
            listening.accept()


@pytest.mark.parametrize(
    "schema",
    [
        {"type": 5},
        {"pattern": "("},
        {"$ref": "#/nowhere"},
        {"enum": ["\ud800"]},
        {"big": "x" * schemas.SCHEMA_BYTES},
        {"thing": object()},
    ],
)
def test_a_schema_that_is_none_is_said_to_be_unusable(schema: dict[str, Any]) -> None:
    with pytest.raises(SchemaUnusable) as caught:
        complaints(schema, {})

    assert str(caught.value)


def test_a_schema_nested_without_end_is_unusable() -> None:
    deep: dict[str, Any] = {}
    for _ in range(5_000):
        deep = {"not": deep}

    with pytest.raises(SchemaUnusable):
        complaints(deep, {})


def test_a_schema_that_refers_to_itself_comes_to_an_end() -> None:
    tree = {"$ref": "#/$defs/node", "$defs": {"node": {"properties": {"next": {"$ref": "#/$defs/node"}}}}}

    assert complaints({"allOf": [{"$ref": "#"}]}, {}) == []
    assert complaints(tree, {"next": {"next": {}}}) == []


def test_a_pattern_that_runs_away_is_stopped_and_refuses() -> None:
    (told,) = complaints({"properties": {"x": {"pattern": r"(a*)*\1b$"}}}, {"x": "a" * 60 + "c"})

    assert "cannot be held against the pattern" in told


def test_half_a_surrogate_pair_is_refused_where_it_would_be_looked_at() -> None:
    schema = {"properties": {"x": {"type": "string", "minLength": 3}}}

    assert complaints(schema, {"x": "\ud800"}) == ["The arguments hold a value that cannot be checked."]


def test_paths_are_written_so_that_odd_names_are_seen() -> None:
    assert path_of(["a", 0, "b"]) == "$.a[0].b"
    assert path_of(["a b", "\u200b"]) == '$["a b"]["\\u200b"]'
    assert path_of([]) == "$"


def test_a_schema_is_compiled_once() -> None:
    schema = {"type": "object", "title": "compiled once"}
    before = schemas._compiled.cache_info()
    for arguments in ({}, {"a": 1}, {"a": 2}):
        complaints(schema, arguments)
        complaints(dict(reversed(schema.items())), arguments)
    after = schemas._compiled.cache_info()

    assert after.misses == before.misses + 1
    assert after.maxsize == schemas.SCHEMAS_KEPT


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@given(
    st.dictionaries(st.sampled_from(["type", "enum", "items", "anyOf", "required", "$ref", "x"]), VALUES),
    VALUES,
)
def test_any_schema_is_either_usable_or_said_not_to_be(schema: dict[str, Any], value: Any) -> None:
    try:
        found = complaints(schema, {"x": value})
    except SchemaUnusable:
        return
    assert all(isinstance(told, str) for told in found)
