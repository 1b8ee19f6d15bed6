"""What may be said, and the cutting and numbering of it."""

import pytest
from hypothesis import given, strategies as st

from proxy.demo.answers import Call, Ids, Raw, cut


@given(st.text(max_size=40), st.integers(min_value=0, max_value=50))
def test_pieces_join_to_the_text_and_none_is_empty(text: str, pieces: int) -> None:
    parts = cut(text, pieces)

    assert "".join(parts) == text
    assert all(parts)
    assert len(parts) == min(max(pieces, 1), len(text))


def test_a_mapping_is_rendered_compactly_and_a_text_is_left_alone() -> None:
    assert Call("f", {"city": "Zürich", "n": [1, 2]}).text() == '{"city":"Zürich","n":[1,2]}'
    assert Call("f", '{ "a" : NaN, }').text() == '{ "a" : NaN, }'
    assert Call("f").text() == "{}"


def test_ids_repeat_from_run_to_run_but_not_within_one() -> None:
    first, again, other = Ids(), Ids(), Ids("other")
    drawn = [first.next("call_") for _ in range(50)]

    assert len(set(drawn)) == 50
    assert [again.next("call_") for _ in range(50)] == drawn
    assert other.next("call_") not in drawn
    assert all(key.startswith("call_") and len(key) == 29 for key in drawn)


@pytest.mark.parametrize(
    ("raw", "script"),
    [
        (Raw(b"abcdef"), (b"abcdef",)),
        (Raw(b"abcdef", cuts=(2, 4), delay=0.5), (b"ab", 0.5, b"cd", 0.5, b"ef")),
        (Raw(b"abcdef", cuts=(4, 2, 2, 0, 6, 99)), (b"ab", 0.0, b"cd", 0.0, b"ef")),
        (Raw(b""), ()),
        (Raw(steps=(0.5, b"ab", 1.0)), (0.5, b"ab", 1.0)),
    ],
)
def test_raw_bytes_become_writes_and_silences(raw: Raw, script: tuple[bytes | float, ...]) -> None:
    assert raw.script() == script
