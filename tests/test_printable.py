"""Text from outside, made safe to show (C025)."""

import json

from hypothesis import given, strategies as st

from proxy import printable


def test_printable_ascii_stays_as_it_is() -> None:
    assert printable.escaped("search_docs v2 ~!") == "search_docs v2 ~!"


def test_look_alikes_invisible_and_control_characters_are_escaped() -> None:
    assert printable.escaped("s\u0435arch\u200b\n\r\t\x00\x7f\U0001f600") == (
        r"s\u0435arch\u200b\n\r\t\x00\x7f\U0001f600"
    )


def test_what_is_too_long_is_cut_and_says_so() -> None:
    assert printable.clipped("abcdef", 6) == "abcdef"
    assert printable.clipped("abcdefg", 6) == "abc..."
    assert printable.name("a" * 100) == "a" * 61 + "..."


@given(st.text(st.characters()))
def test_any_text_becomes_one_line_of_printable_ascii(text: str) -> None:
    shown = printable.escaped(text)

    assert shown.isascii()
    assert shown.isprintable()
    assert len(printable.name(text)) <= printable.NAME_LENGTH


@given(st.text(st.characters(categories=None)))
def test_any_text_can_be_encoded(text: str) -> None:
    assert printable.encodable(text).encode("utf-8") or not text


def test_lone_surrogates_are_shown_by_their_number() -> None:
    assert printable.encodable(json.loads('"a\\ud800b"')) == r"a\ud800b"
    assert printable.escaped(json.loads('"a\\ud800b"')) == r"a\ud800b"
