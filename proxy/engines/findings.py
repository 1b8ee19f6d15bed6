"""What is wrong with policies, and where: values that people read, before anything is loaded."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


class Severity(StrEnum):
    """Whether it can be loaded all the same."""

    ERROR = "error"
    WARNING = "warning"
    """Loads, but the engines do not agree about it, or it is likely not meant."""


@dataclass(frozen=True, slots=True, order=True)
class LintFault:
    """One finding. Lines and columns count from 1; 0: the whole file."""

    file: str
    line: int
    column: int
    message: str
    severity: Severity = Severity.ERROR

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}:{self.column}" if self.line else self.file
        return f"{place}: {self.severity}: {self.message}"


def errors_of(faults: Iterable[LintFault]) -> list[LintFault]:
    """Those that stand in the way of loading, in order of place."""
    return sorted(fault for fault in faults if fault.severity is Severity.ERROR)
