"""Names that only look different are the same to a list that refuses (C025, D5)."""

import pytest
from hypothesis import example, given, strategies as st

from proxy.core.names import fold_name


@pytest.mark.parametrize(
    "name",
    [
        "SEND_MAIL",
        "send_mail ",
        " send_mail",
        "s\u0435nd_mail",
        "send_m\u03b1il",
        "\uff53end_mail",
        "send\u200b_mail",
        "send_\u00admail",
        "\ufeffsend_mail",
        "send\u2060_mail\u202e",
        "send_\tmail\n",
        "send\x00_mail",
        "ｓｅｎｄ＿ｍａｉｌ",
        "𝐬𝐞𝐧𝐝_𝓶𝓪𝓲𝓵",
        "sénd_mail",
        "send_ma\u0131l",
        "send_ma\u0130l",
        "ſend_mail",
        "send\u3164_mail",
    ],
)
def test_a_name_that_only_looks_different_folds_onto_the_plain_one(name: str) -> None:
    """C025: case, white space, invisible characters, compatibility forms, look-alikes."""
    assert fold_name(name) == "send_mail"


@pytest.mark.parametrize("name", ["send_mai1", "sendmail", "send-mail", "read_mail", "send_mail2", ""])
def test_a_name_that_is_different_stays_different(name: str) -> None:
    assert fold_name(name) != "send_mail"


def test_cyrillic_words_fold_as_a_whole() -> None:
    assert fold_name("ѕеагсһ") == fold_name("search")


@given(st.text())
@example("İ")
@example("ẞ")
@example("ǰ")
@example("ͅ")
def test_folding_twice_changes_nothing(name: str) -> None:
    assert fold_name(fold_name(name)) == fold_name(name)


@given(st.text(alphabet=st.characters(min_codepoint=33, max_codepoint=126)))
def test_plain_ascii_only_loses_its_case(name: str) -> None:
    assert fold_name(name) == name.lower()
