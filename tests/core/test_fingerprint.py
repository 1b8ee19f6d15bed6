"""The same call and the same result are recognised in every spelling, and nothing else is (D9, D10, C008)."""

import json
import unicodedata
from typing import Any

import pytest
from hypothesis import assume, given, strategies as st

from proxy.core.fingerprint import (
    CANONICAL_CHARACTERS,
    READ_CHARACTERS,
    call_fingerprint,
    canonical,
    folded,
    result_identity,
)
from proxy.core.results import ToolTraits

PLAIN = ToolTraits()
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=10)
NAMES = st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1, max_size=6)
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(10**18), 10**18)
    | st.floats(allow_nan=False, allow_infinity=False, width=32)
    | TEXTS
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=12,
)
OBJECTS = st.dictionaries(NAMES, VALUES, max_size=4)


def shuffled(value: Any, draw: Any) -> Any:
    if isinstance(value, dict):
        order = draw(st.permutations(list(value)))
        return {name: shuffled(value[name], draw) for name in order}
    if isinstance(value, list):
        return [shuffled(part, draw) for part in value]
    return value


@given(st.data())
def test_key_order_spacing_and_escapes_make_no_difference(data: st.DataObject) -> None:
    """D10, C008."""
    value = data.draw(OBJECTS)
    other = shuffled(value, data.draw)
    spacing = data.draw(st.sampled_from([None, 1, 4]))
    ascii_only = data.draw(st.booleans())

    first = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    second = f" \n{json.dumps(other, ensure_ascii=ascii_only, indent=spacing)}\t"

    assert call_fingerprint("tool", first) == call_fingerprint("tool", second)
    assert result_identity(first, PLAIN) == result_identity(second, PLAIN)


@given(OBJECTS)
def test_unicode_form_makes_no_difference(value: dict[str, Any]) -> None:
    """D10."""
    written = json.dumps(value, ensure_ascii=False)
    apart = unicodedata.normalize("NFD", written)
    assume(len(json.loads(apart)) == len(value))

    assert call_fingerprint("tool", written) == call_fingerprint("tool", apart)


@given(TEXTS, st.text(" \t\n\u00a0", max_size=3), st.text(" \t\n\u00a0", min_size=1, max_size=3))
def test_white_space_around_and_between_words_makes_no_difference(
    text: str, around: str, between: str
) -> None:
    """D10."""
    spread = around + between.join(text.split()) + around

    assert canonical({"q": text}) == canonical({"q": spread})


@pytest.mark.parametrize(
    ("first", "second"),
    [("1", "1.0"), ("1", "1e0"), ("10", "1E+1"), ("0", "-0.0"), ("120", "1.2e2"), ("0.5", "5e-1")],
)
def test_the_way_a_number_is_written_makes_no_difference(first: str, second: str) -> None:
    assert call_fingerprint("tool", f'{{"n":{first}}}') == call_fingerprint("tool", f'{{"n":{second}}}')


def meaning(value: Any) -> Any:
    """An independent statement of what counts: the same value, strings folded."""
    if isinstance(value, dict):
        return ("object", sorted((folded(name), repr(meaning(part))) for name, part in value.items()))
    if isinstance(value, list):
        return ("array", [meaning(part) for part in value])
    if isinstance(value, bool) or value is None:
        return ("word", value)
    if isinstance(value, str):
        return ("string", folded(value))
    return ("number", int(value) if value == int(value) else value)


@given(VALUES, VALUES)
def test_different_meanings_never_look_alike(first: Any, second: Any) -> None:
    """D9."""
    assert (canonical(first) == canonical(second)) == (meaning(first) == meaning(second))


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ('{"q":"a"}', '{"q":"A"}'),
        ('{"q":"a"}', '{"Q":"a"}'),
        ('{"n":1}', '{"n":"1"}'),
        ('{"n":1}', '{"n":true}'),
        ('{"n":null}', "{}"),
        ('{"n":[1,2]}', '{"n":[2,1]}'),
        ('{"n":[[1],2]}', '{"n":[[1,2]]}'),
        ('{"n":9007199254740993}', '{"n":9007199254740992}'),
        ('{"a":"b,c"}', '{"a":"b","c":""}'),
        ('{"a":"ﬁ"}', '{"a":"fi"}'),
        ('{"a ":1,"a":2}', '{"a ":2,"a":1}'),
    ],
)
def test_every_real_change_makes_a_difference(first: str, second: str) -> None:
    assert call_fingerprint("tool", first) != call_fingerprint("tool", second)


def test_the_tool_is_part_of_the_call_and_exact() -> None:
    assert call_fingerprint("tool", "{}") != call_fingerprint("Tool", "{}")
    assert call_fingerprint("a", '{"b":1}') != call_fingerprint("ab", '{"b":1}')


def test_no_arguments_are_an_empty_object() -> None:
    """C004."""
    assert call_fingerprint("tool", "") == call_fingerprint("tool", " \n") == call_fingerprint("tool", "{}")


def test_volatile_arguments_say_nothing() -> None:
    first = call_fingerprint("tool", '{"q":"x","request_id":"1"}', ("request_id",))

    assert first == call_fingerprint("tool", '{"request_id":"2","q":"x"}', ("request_id",))
    assert first != call_fingerprint("tool", '{"request_id":"2","q":"x"}')


@pytest.mark.parametrize(
    "text", ['{"a":1,"a":2}', '{"a":1} more', '{"a":NaN}', "*** Begin Patch", '{"a', "[" * 9999]
)
def test_what_is_not_one_object_is_compared_as_text(text: str) -> None:
    assert call_fingerprint("tool", text) == call_fingerprint("tool", f"  {text}\n")
    assert call_fingerprint("tool", text) != call_fingerprint("tool", text + "x")
    assert call_fingerprint("tool", text) != call_fingerprint("tool", "{}")


def test_a_json_text_and_a_free_form_text_never_look_alike() -> None:
    assert canonical({"a": 1}).decode() not in {"", "{}"}
    assert call_fingerprint("tool", canonical({"a": 1}).decode()) != call_fingerprint("tool", '{"a":1}')


def test_declared_identity_is_what_counts_in_a_result() -> None:
    """D9: compared are version and document ids where a result has them, else its content."""
    traits = ToolTraits(identity_fields=("version", "doc_id"))
    first = '{"took":3,"docs":[{"doc_id":"d1","score":0.9},{"doc_id":"d2","score":0.8}]}'
    again = '{"took":9,"docs":[{"doc_id":"d2","score":0.7},{"doc_id":"d1","score":0.6}]}'
    other = '{"took":3,"docs":[{"doc_id":"d1","score":0.9},{"doc_id":"d3","score":0.8}]}'

    assert result_identity(first, traits) == result_identity(again, traits)
    assert result_identity(first, traits) != result_identity(other, traits)
    assert result_identity(first, PLAIN) != result_identity(again, PLAIN)


def test_a_result_without_its_identity_fields_counts_as_content() -> None:
    traits = ToolTraits(identity_fields=("version",))

    assert result_identity('{"found":false}', traits) == result_identity('{"found":false}', PLAIN)
    assert result_identity("plain", traits) == result_identity("plain", PLAIN)


def test_volatile_fields_of_a_result_are_left_out_at_any_depth() -> None:
    traits = ToolTraits(volatile_results=("at", "trace"))
    first = '{"at":1,"rows":[{"id":1,"trace":"a"}]}'
    again = '{"rows":[{"trace":"b","id":1}],"at":2}'

    assert result_identity(first, traits) == result_identity(again, traits)
    assert result_identity(first, traits) != result_identity('{"at":1,"rows":[{"id":2}]}', traits)


def test_plain_results_are_compared_folded_but_otherwise_exact() -> None:
    """C009: `running 10%` and `running 40%` are different results."""
    assert result_identity("running 10%", PLAIN) == result_identity(" running\n10%", PLAIN)
    assert result_identity("running 10%", PLAIN) != result_identity("running 40%", PLAIN)


def test_long_results_are_compared_as_text_or_by_their_ids() -> None:
    rows = [{"id": place, "at": 1} for place in range(CANONICAL_CHARACTERS // 8)]
    long = json.dumps(rows)
    later = json.dumps([row | {"at": 2} for row in rows])
    by_id = ToolTraits(identity_fields=("id",))

    assert len(long) > CANONICAL_CHARACTERS
    assert result_identity(long, PLAIN) == result_identity(f" {long}", PLAIN) != result_identity(later, PLAIN)
    assert result_identity(long, by_id) == result_identity(later, by_id)
    beyond = " " * READ_CHARACTERS
    assert result_identity(long + beyond, by_id) == result_identity(long, PLAIN)


@pytest.mark.parametrize(
    "text", ["[" * 100_000 + "]" * 100_000, '{"a":' * 50_000, "1" * 10_000, '["\\ud800"]', "\ud800"]
)
def test_hostile_results_are_identified_without_harm(text: str) -> None:
    assert len(result_identity(text, PLAIN)) == 32


def test_depth_is_no_danger_to_the_canonical_form() -> None:
    value: Any = 1
    for _ in range(20_000):
        value = [value]

    assert canonical(value).startswith(b"[[")
