"""Findings as people read them."""

from proxy.engines.findings import LintFault, Severity, errors_of


def test_a_finding_says_where_how_bad_and_what() -> None:
    assert str(LintFault("a.rego", 3, 5, "no")) == "a.rego:3:5: error: no"
    assert str(LintFault("a.rego", 0, 0, "odd", Severity.WARNING)) == "a.rego: warning: odd"


def test_only_errors_stand_in_the_way() -> None:
    late, early = LintFault("a", 9, 1, "x"), LintFault("a", 2, 1, "y")

    assert errors_of([late, LintFault("a", 1, 1, "z", Severity.WARNING), early]) == [early, late]
