"""Strict reading refuses what two readers could take differently; edits move nothing before them."""

import json
import random
from typing import Any

import pytest
from hypothesis import example, given, strategies as st

from proxy.core.json_text import (
    NotOneObject,
    Splice,
    appended_text,
    array_edit,
    elements,
    is_deeper,
    locate,
    members,
    object_edit,
    prepended_text,
    quoted,
    read_object,
    refuse_double_keys,
    replaced,
    spliced,
    value_at,
)

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(10**20), 10**20)
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXTS
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=20,
)
OBJECTS = st.dictionaries(TEXTS, VALUES, max_size=5)


def oddly_written(value: Any, chance: random.Random) -> str:
    """The value as JSON with white space and escapes in odd places."""

    def space() -> str:
        return "".join(chance.choices(" \t\r\n", k=chance.choice([0, 0, 1, 3])))

    if isinstance(value, dict):
        inner = ",".join(
            f"{space()}{oddly_written(key, chance)}{space()}:{space()}{oddly_written(part, chance)}{space()}"
            for key, part in value.items()
        )
        return "{" + (inner or space()) + "}"
    if isinstance(value, list):
        return (
            "["
            + (",".join(space() + oddly_written(part, chance) + space() for part in value) or space())
            + "]"
        )
    if isinstance(value, str):
        written = json.dumps(value, ensure_ascii=chance.random() < 0.5)
        if value.isascii() and value.isalpha() and chance.random() < 0.5:
            return '"' + "".join(f"\\u{ord(letter):04x}" for letter in value) + '"'
        return written.replace("/", "\\/") if chance.random() < 0.5 else written
    return json.dumps(value)


# --- strict reading ---


@given(OBJECTS, st.randoms(use_true_random=False))
def test_what_is_one_object_is_read_as_it_is(value: dict[str, Any], chance: random.Random) -> None:
    assert read_object(oddly_written(value, chance), max_depth=200) == value


@pytest.mark.parametrize("text", ["", " ", "\n\t\r "])
def test_nothing_at_all_is_an_empty_object(text: str) -> None:
    assert read_object(text) == {}


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('{"path":"a"}{"path":"b"}', "more text after"),
        ('{"path":"a"} then open b', "more text after"),
        ('```json\n{"path":"a"}\n```', "fenced text"),
        ('{"path":"a","n":NaN}', "NaN is not"),
        ('{"path":"a","n":-Infinity}', "-Infinity is not"),
        ('{"path":"a","n":1e999}', "too large"),
        ("{'path':'a'}", "not valid JSON near character 2"),
        ('{"path":"a",}', "not valid JSON"),
        ('["a"]', "an array"),
        ("null", "null"),
        ("true", "true"),
        ("-1", "a number"),
        ('"{}"', "a string"),
        ("Sure! {}", "other text"),
        ("\ufeff{}", "other text"),
        ('{"path":"/srv/no', "cut off"),
        ('{"path":"a"', "cut off"),
        ("{", "cut off"),
        ('{"path":"a","path":"b"}', "twice"),
        ('{"path":"a","p\\u0061th":"b"}', "twice"),
        ('{"opt":[{"mode":"r","mode":"w"}]}', "twice"),
        ('{"a":"\\ud800"}', "surrogate"),
        ('{"a":["\ud800"]}', "surrogate"),
        ('{"\\uDC00":1}', "surrogate"),
        ('{"n":' + "9" * 4001 + "}", "4000 digits"),
        ('{"a":"\x01"}', "not valid JSON"),
        ('{"a":"\\x"}', "not valid JSON"),
        ('{"a":1}\x00', "more text after"),
        ('{"a":1}\u00a0', "more text after"),
    ],
)
def test_text_that_is_not_exactly_one_object_is_refused_with_a_sentence(text: str, says: str) -> None:
    """C3: arguments are one JSON object and nothing else."""
    with pytest.raises(NotOneObject) as refused:
        read_object(text)
    assert says in refused.value.reason
    assert refused.value.reason.endswith(".")


@pytest.mark.parametrize(
    "text", ['{"Path":1,"path":2}', '{"a":"\\u0000"}', '{"a":"\\ud83d\\ude00"}', '{"a":"\\/x"}']
)
def test_plain_json_of_unusual_look_is_accepted(text: str) -> None:
    assert read_object(text) == json.loads(text)


def test_the_reason_quotes_no_values() -> None:
    for text in (
        '{"password":"hunter2",}',
        '{"password":"hunter2',
        '{"password":"hunter2"} hunter2',
        '"hunter2"',
    ):
        with pytest.raises(NotOneObject) as refused:
            read_object(text)
        assert "hunter2" not in str(refused.value)


def nested(depth: int) -> str:
    return '{"x":' + "[" * (depth - 1) + "]" * (depth - 1) + "}"


def test_depth_is_counted_exactly() -> None:
    assert read_object(nested(64)) == json.loads(nested(64))
    with pytest.raises(NotOneObject, match="deeper than 64"):
        read_object(nested(65))


def test_brackets_inside_strings_are_no_depth() -> None:
    assert read_object('{"a":"[[[[[[\\"{{{{","b":1}', max_depth=1) == {"a": '[[[[[["{{{{', "b": 1}


@pytest.mark.parametrize("depth", [20_000, 1_000_000])
def test_a_very_deep_text_neither_crashes_nor_stalls(depth: int) -> None:
    with pytest.raises(NotOneObject, match="deeper"):
        read_object(nested(depth))
    with pytest.raises(NotOneObject, match="deeper"):
        read_object('{"x":' * depth)


def test_a_depth_that_the_interpreter_cannot_bear_is_refused_too() -> None:
    with pytest.raises(NotOneObject, match="deeper"):
        read_object(nested(100_000), max_depth=1_000_000)


@pytest.mark.parametrize(
    "text", ['{"a":"' + "x" * 2_000_000, '{"a":' + '"\\"' * 700_000, "{" + "a" * 2_000_000]
)
def test_a_long_text_without_an_end_takes_linear_time(text: str) -> None:
    with pytest.raises(NotOneObject):
        read_object(text)


@given(st.text(alphabet='{}[]",:\\u0aNx 1-', max_size=40))
@example('{"\\')
@example('{"a":"\\u')
def test_any_text_is_either_read_as_json_reads_it_or_refused(text: str) -> None:
    try:
        value = read_object(text)
    except NotOneObject:
        return
    assert value == (json.loads(text) if text.strip(" \t\r\n") else {})


# --- where things stand ---


def check_spans(body: bytes, at: int, value: Any) -> None:
    span = value_at(body, at)
    assert json.loads(span.cut(body)) == value
    if isinstance(value, dict):
        found = members(body, at)
        assert found.span == span
        assert list(found.values) == list(value)
        for key, part in value.items():
            assert json.loads(b"{" + found.whole[key].cut(body) + b"}") == {key: part}
            check_spans(body, found.values[key].start, part)
    elif isinstance(value, list):
        listed = elements(body, at)
        assert listed.span == span
        assert len(listed.values) == len(value)
        for place, part in zip(listed.values, value, strict=True):
            check_spans(body, place.start, part)


@given(OBJECTS, st.randoms(use_true_random=False))
def test_spans_agree_with_a_json_reader(value: dict[str, Any], chance: random.Random) -> None:
    check_spans(oddly_written(value, chance).encode(), 0, value)


def test_a_path_finds_its_value() -> None:
    body = b' {"a": [1, {"b": "x"}], "c": null}'
    span = locate(body, "a", -1, "b")
    assert span is not None
    assert span.cut(body) == b'"x"'
    for path in (("a", 2), ("a", -3), ("z",), ("c", "b"), ("c", 0), ("a", "b"), (0,)):
        assert locate(body, *path) is None
    assert locate(body, "b", at=body.index(b'{"b"')) == span


def test_a_key_that_occurs_twice_is_refused() -> None:
    with pytest.raises(ValueError, match="twice"):
        members(b'{"tools":[],"to\\u006fls":[1]}')


@given(st.binary(max_size=40) | st.text(alphabet='{}[]",:\\ 1', max_size=40).map(str.encode))
@example(b'{"a":"\\')
def test_no_bytes_break_the_search(body: bytes) -> None:
    for search in (members, elements, value_at):
        try:
            search(body, 0)
        except ValueError:
            continue


@pytest.mark.parametrize("body", [b'["' + b"x" * 2_000_000, b'[{"a":' * 300_000, b"[" + b"x" * 2_000_000])
def test_a_body_without_an_end_is_refused_in_linear_time(body: bytes) -> None:
    with pytest.raises(ValueError):
        elements(body)


def test_a_very_deep_value_is_skipped_without_recursion() -> None:
    body = b'{"a":' + b"[" * 500_000 + b"]" * 500_000 + b',"b":1}'
    assert members(body).values["b"].cut(body) == b"1"


# --- edits ---


def first_change(splices: list[Splice], body: bytes) -> int:
    return min((splice.start for splice in splices), default=len(body))


@given(st.lists(VALUES, max_size=6), st.sets(st.integers(0, 6)), st.lists(SCALARS, max_size=2), st.randoms())
def test_elements_leave_and_come_with_the_right_commas(
    value: list[Any], drop: set[int], more: list[Any], chance: random.Random
) -> None:
    body = oddly_written(value, chance).encode()
    splices = array_edit(elements(body), drop=drop, append=[json.dumps(part).encode() for part in more])
    edited = spliced(body, splices)
    assert json.loads(edited) == [part for place, part in enumerate(value) if place not in drop] + more
    before = first_change(splices, body)
    assert edited[:before] == body[:before]
    for place, span in enumerate(elements(body).values):
        assert place in drop or span.cut(body) in edited


@given(OBJECTS, st.sets(TEXTS, max_size=3), st.dictionaries(TEXTS, SCALARS, max_size=3), st.randoms())
def test_members_leave_and_come_with_the_right_commas(
    value: dict[str, Any], drop: set[str], put: dict[str, Any], chance: random.Random
) -> None:
    drop |= set(chance.sample(sorted(value), k=chance.randint(0, len(value))))
    put |= dict.fromkeys(chance.sample(sorted(value), k=min(1, len(value))), "new")
    body = oddly_written(value, chance).encode()
    splices = object_edit(
        members(body), drop=drop, put={key: json.dumps(part).encode() for key, part in put.items()}
    )
    edited = spliced(body, splices)
    assert json.loads(edited) == {key: part for key, part in value.items() if key not in drop} | put
    before = first_change(splices, body)
    assert edited[:before] == body[:before]


@given(TEXTS, st.text(max_size=8), st.text(max_size=8), st.randoms())
def test_text_joins_a_string_at_either_end(old: str, before: str, after: str, chance: random.Random) -> None:
    body = oddly_written({"content": old}, chance).encode()
    span = locate(body, "content")
    assert span is not None
    edited = spliced(body, [prepended_text(span, before), appended_text(span, after)])
    assert json.loads(edited) == {"content": before + old + after}


def test_half_a_surrogate_pair_is_written_as_an_escape() -> None:
    assert quoted("a\ud800é") == '"a\\ud800é"'.encode()


def test_no_splice_gives_the_same_object() -> None:
    body = b"{}"
    assert spliced(body, []) is body
    assert array_edit(elements(b"[1]")) == []
    assert object_edit(members(b'{"a":1}'), drop={"b"}) == []


def test_overlapping_edits_are_refused() -> None:
    with pytest.raises(ValueError, match="overlap"):
        spliced(b"abcdef", [Splice(0, 3), Splice(2, 4)])


def test_several_edits_at_one_place_keep_their_order() -> None:
    assert (
        spliced(b"ab", [Splice(1, 1, b"x"), Splice(1, 1, b"y"), replaced(value_at(b"ab"), b"")][:2])
        == b"axyb"
    )


@pytest.mark.parametrize(
    "body",
    [b'{"a":1,"a":1}', b'{"a":1,"\\u0061":2}', b'[{"b":[{"a":{},"a":{}}]}]', b"[" * 100_000 + b"]" * 100_000],
)
def test_what_two_readers_could_take_differently_is_refused(body: bytes) -> None:
    with pytest.raises(ValueError, match=r"twice|too deep"):
        refuse_double_keys(body)


@given(VALUES)
def test_what_has_each_key_once_is_not_refused(value: object) -> None:
    refuse_double_keys(json.dumps(value).encode())


def test_long_numbers_are_not_turned_into_numbers() -> None:
    refuse_double_keys(b"[" + b"9" * 100_000 + b",1e999]")


def test_depth_is_told_without_recursion() -> None:
    assert not is_deeper(b'{"a":[{"b":"[[[["}]}', 3)
    assert is_deeper(b'{"a":[{"b":"[[[["}]}', 2)
    assert is_deeper(b"[" * 1_000_000, 200)
