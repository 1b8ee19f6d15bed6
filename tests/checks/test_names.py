"""Names are shown so that nothing invisible hides in them (C025)."""

import pytest

from proxy.checks.names import NAME_LENGTH, NAMES_LISTED, listed, spelled


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("search_docs", '"search_docs"'),
        (" search_docs", '" search_docs"'),
        ("search_docs\u200b", '"search_docs\\u200b"'),
        ("s\u0435arch", '"s\\u0435arch"'),
        ("a\nb", '"a\\nb"'),
        ("\x1b[31m", '"\\x1b[31m"'),
        ("\ud800", '"\\ud800"'),
    ],
)
def test_odd_signs_are_shown_escaped(name: str, shown: str) -> None:
    assert spelled(name) == shown


def test_long_names_are_cut_and_long_lists_counted() -> None:
    assert len(spelled("x" * 5000)) < NAME_LENGTH + 10
    assert listed(["a", "b"]) == '"a", "b"'
    assert listed(str(place) for place in range(NAMES_LISTED + 2)).endswith(" and 2 more")
