"""Patterns that every engine reads alike."""

import re

import pytest
from hypothesis import given, strategies as st

from proxy.engines.patterns import (
    NotPortable,
    compile_fault,
    format_differences,
    glob_differences,
    portable,
    regex_differences,
)


@pytest.mark.parametrize(
    ("pattern", "written"),
    [
        (r"rm\s+-rf", r"rm[\t\n\f\r ]+-rf"),
        (r"^\w{1,64}$", "^[0-9A-Za-z_]{1,64}$"),
        (r"[a-z\d-]+", "[a-z0-9-]+"),
        (r"\D\S\W", r"[^0-9][^\t\n\f\r ][^0-9A-Za-z_]"),
        (r"\\d", r"\\d"),
        (r"[[:alpha:]]", "[[:alpha:]]"),
        (r"(?i)drop (?:x)", "(?i)drop (?:x)"),
        (r"[]a]\{x\}", r"[]a]\{x\}"),
        (r"a{2}b{1,}c{1,3}", "a{2}b{1,}c{1,3}"),
        ("订单", "订单"),
    ],
)
def test_perl_classes_are_written_out_in_ascii(pattern: str, written: str) -> None:
    """C020: a rule may be written with them."""
    assert portable(pattern) == written


@pytest.mark.parametrize(
    ("pattern", "complaint"),
    [
        (r"\bx", "read differently"),
        (r"[\D]", "write the class out"),
        (r"\Qx\E", "does not exist"),
        ("a{", "repetition"),
        ("[a&&b]", "&&"),
        ("[a[b]]", r"write \["),
        ("(?=a)", "does not exist"),
        ("(?x) a", "does not exist"),
        ("(", "cannot be compiled"),
        ("^.{1,2000}$", "bound lengths"),
        ("a\0", "NUL"),
        ("\\", "cannot be compiled"),
    ],
)
def test_what_engines_do_not_share_is_refused_with_a_way_out(pattern: str, complaint: str) -> None:
    with pytest.raises(NotPortable) as caught:
        portable(pattern)

    assert complaint in str(caught.value)


@given(
    st.text(alphabet=r"ab01 _-.\dws^$+*?()[]{}|,&:", max_size=12), st.text(alphabet="ab01 _-.\n", max_size=6)
)
def test_a_portable_pattern_means_what_ascii_python_means(pattern: str, subject: str) -> None:
    """Python's own engine, told to be ASCII, is a third opinion, where it knows the pattern at all."""
    try:
        written = portable(pattern)
    except NotPortable:
        return
    assert compile_fault(written) is None
    try:
        expected = re.search(pattern, subject, re.ASCII)
        found = re.search(written, subject)
    except (re.error, FutureWarning):
        return
    # Python's \s has the vertical tab too; it is not in the alphabet of subjects.
    assert (found is None) == (expected is None)


def test_a_pattern_in_rego_is_only_compared() -> None:
    assert regex_differences(r"^[0-9]+$") is None
    assert "write [0-9]" in str(regex_differences(r"^\d+$"))
    assert "repetition" in str(regex_differences("a{"))


@pytest.mark.parametrize(
    ("glob", "delimiters"), [("a.*", []), ("a.**", ["."]), ("{a,b}/*", ["/"]), ("a[bc]*d", None)]
)
def test_globs_that_engines_read_alike(glob: str, delimiters: list[str] | None) -> None:
    assert glob_differences(glob, delimiters) is None


@pytest.mark.parametrize(
    ("glob", "delimiters"),
    [("x:*", [":"]), ("**.a", ["."]), ("a?", []), ("a*b*", []), ("[!a]", []), ("{a,}", []), ("{a*,b}", [])],
)
def test_globs_that_they_do_not(glob: str, delimiters: list[str]) -> None:
    assert glob_differences(glob, delimiters)


@pytest.mark.parametrize(
    ("template", "same"), [("%s of %d%% (%v, %q)", True), ("%5.2f", False), ("%-5s", False), ("%", False)]
)
def test_formats(template: str, *, same: bool) -> None:
    assert (format_differences(template) is None) is same
