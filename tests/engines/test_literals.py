"""Patterns and formats that stand in Rego."""

from proxy.engines import Severity
from proxy.engines.literals import faults
from proxy.engines.syntax import parsed


def found(expression: str) -> list[tuple[int, Severity]]:
    module = parsed("a.rego", f"package a\n\nx := {expression}\n")
    return [
        (fault.column, fault.severity)
        for call in module.calls(module.rules[0].node)
        for fault in faults(module, call)
    ]


def test_each_function_has_its_pattern_where_it_has_it() -> None:
    assert found('regex.match("(", "a")') == [(19, Severity.ERROR)]
    assert found('regex.replace("(", "(", "a")') == [(26, Severity.ERROR)]
    assert found('regex.split(`\\s`, "a")') == [(19, Severity.WARNING)]
    assert found('regex.find_n("[0-9]", "a", 1)') == []


def test_only_what_is_written_out_is_looked_at() -> None:
    assert found("regex.match(input.pattern, input.x)") == []
    assert found("glob.match(input.pattern, [], input.x)") == []
    assert found("sprintf(input.format, [])") == []
    assert found("regex.match()") == []


def test_globs_and_formats() -> None:
    assert found('glob.match("a?", [], "b")') == [(18, Severity.WARNING)]
    assert found('glob.match("a*", ["."], "b")') == []
    assert found('glob.match("a*", input.delimiters, "b")') == []
    assert found('sprintf("%f", [1])') == [(15, Severity.WARNING)]
