"""Values with places, as YAML and JSON say them."""

import json
from typing import Any

import pytest
from hypothesis import given, strategies as st

from proxy.engines.marked import NotReadable, read_marked

VALUES: Any = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False, min_value=-1e15, max_value=1e15)
    | st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")), inner, max_size=3
        )
    ),
    max_leaves=8,
)


@given(
    st.dictionaries(
        st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")), VALUES, max_size=3
    )
)
def test_json_is_read_as_json(value: dict[str, Any]) -> None:
    assert read_marked("a.json", json.dumps(value, indent="\t")).value == value


def test_words_stay_words() -> None:
    text = "a: [no, on, off, Yes, 2024-01-02, 0x10, 1_000, 0123, .5, 1e3, -4, 2.5, true, null, ~, '7']"

    assert read_marked("a.yaml", text).value == {
        "a": [
            "no",
            "on",
            "off",
            "Yes",
            "2024-01-02",
            "0x10",
            "1_000",
            "0123",
            ".5",
            1000.0,
            -4,
            2.5,
            True,
            None,
            None,
            "7",
        ]
    }


def test_an_empty_file_says_nothing() -> None:
    assert read_marked("a.yaml", "# nothing\n").value == {}


def test_each_part_has_its_place() -> None:
    marked = read_marked("a.yaml", "org:\n  tools:\n    x:\n      roles: [a,\n        b]\n")

    assert str(marked.fault(("org", "tools"), "no")) == "a.yaml:2:3: error: org.tools: no"
    assert marked.fault(("org", "tools", "x", "roles", 1), "no").line == 5
    assert marked.fault(("org", "tools", "x", "missing", "deep"), "no").line == 3
    assert marked.fault((), "no").message == "no"


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("a: 1\na: 2", "stands here twice"),
        ("a: [", "cannot be read"),
        ("? [a]\n: 1", "plain word"),
        ("a: 9007199254740993", "beyond 2^53"),
        ("a: 1" + "0" * 400 + "", "beyond 2^53"),
        ("a: 1e999", "too large"),
        ('a: "\\ud800"', "half a character"),
        ('a: "\\0"', "half a character"),
        ("a: !!python/object:os.system x", "cannot be read"),
        ("a: !!binary aGk=", "cannot be used"),
        ("a: &x [*x]", "cannot be read"),
        ("[" * 40 + "]" * 40, "too deep"),
        ("a: \x01", "cannot be read"),
        ("a: 1\n---\nb: 2", "cannot be read"),
    ],
)
def test_what_cannot_be_read_is_said_with_its_place(text: str, complaint: str) -> None:
    with pytest.raises(NotReadable) as caught:
        read_marked("a.yaml", text)

    assert complaint in str(caught.value)
    assert str(caught.value).startswith("a.yaml")


def test_an_alias_that_grows_without_end_is_stopped() -> None:
    layers = "\n".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 9))
    with pytest.raises(NotReadable):
        read_marked("a.yaml", f"a0: &a0 [x]\n{layers}")


def test_parts_may_be_shared() -> None:
    text = "a: &x {effect: read}\nb: *x\nc:\n  <<: *x\n  risk: low\n"

    assert read_marked("a.yaml", text).value == {
        "a": {"effect": "read"},
        "b": {"effect": "read"},
        "c": {"effect": "read", "risk": "low"},
    }


def test_json_has_places_too() -> None:
    marked = read_marked("a.json", '{\n\t"org": {"tools": 1}}')

    assert marked.fault(("org", "tools"), "no").line == 2


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ('{"a": 1, "a": 2}', "a stands in one object twice"),
        ('{"a": NaN}', "NaN is not a number"),
        ('{"a": 1e999}', "beyond 2^53"),
        ('{"a": 9007199254740993}', "beyond 2^53"),
        ('{"a": "\\ud800"}', "half a character"),
        ("[" * 40 + "]" * 40, "too deep"),
        ("[" * 100000, "cannot be read"),
        ('{"a": ' + "1" * 5000 + "}", "cannot be read"),
        ('{\n"a" 1}', "a.json:2:5"),
    ],
)
def test_json_that_cannot_be_used_is_said(text: str, complaint: str) -> None:
    with pytest.raises(NotReadable) as caught:
        read_marked("a.json", text)

    assert complaint in str(caught.value)
