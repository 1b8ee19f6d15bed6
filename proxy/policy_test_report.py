"""What `callgate test` says about a run of policy tests, for people and for programs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .engines.coverage import percent

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from .engines import RegoTest, TestRun
    from .engines.coverage import FileCoverage


def failure_lines(test: RegoTest) -> Iterator[str]:
    """Where a failed test stands, which of its expressions did not hold, and what its parts came to."""
    yield f"{test.file}:{test.line}: {test.package}.{test.name}: {test.message}"
    if test.failure is None:
        yield f"    {test.source}"
        return
    shown = " ".join(test.failure.expression.split())
    yield f"  line {test.failure.line} does not hold: {shown}"
    for part, value in test.failure.values:
        yield f"    {' '.join(part.split())} is {value}"


def coverage_lines(files: Sequence[FileCoverage]) -> Iterator[str]:
    """For each file the share of its lines that a test reached, and the lines that none did."""
    width = max((len(each.file) for each in files), default=0)
    for each in files:
        missed = f"  never reached: {_ranges(each.missed)}" if each.missed else ""
        yield f"{each.file:{width}}  {each.percent:5.1f} %{missed}"
    yield f"{'all':{width}}  {percent(files):5.1f} %"


def as_json(run: TestRun, *, with_coverage: bool) -> dict[str, Any]:
    """The same as JSON values."""
    failed = sum(not test.passed for test in run.tests)
    said: dict[str, Any] = {
        "passed": len(run.tests) - failed,
        "failed": failed,
        "seconds": round(run.seconds, 3),
        "tests": [_test(test) for test in run.tests],
        "untested": [str(folder) for folder in run.untested],
    }
    if with_coverage:
        said["percent"] = round(percent(run.coverage), 1)
        said["coverage"] = [
            {"file": each.file, "percent": round(each.percent, 1), "missed": list(each.missed)}
            for each in run.coverage
        ]
    return said


def _test(test: RegoTest) -> dict[str, Any]:
    said: dict[str, Any] = {
        "package": test.package,
        "name": test.name,
        "file": test.file,
        "line": test.line,
        "passed": test.passed,
        "seconds": round(test.seconds, 4),
    }
    if not test.passed:
        said["message"] = test.message
    if test.failure is not None:
        values = [{"expression": part, "value": value} for part, value in test.failure.values]
        said["failure"] = {
            "line": test.failure.line,
            "expression": test.failure.expression,
            "values": values,
        }
    return said


def _ranges(lines: Sequence[int]) -> str:
    """3, 5-7."""
    stretches: list[list[int]] = []
    for line in lines:
        if stretches and line == stretches[-1][-1] + 1:
            stretches[-1][1:] = [line]
        else:
            stretches.append([line])
    return ", ".join("-".join(map(str, each)) for each in stretches)
