"""Which lines of policies an evaluation reached, in the files as they were written.

The embedded engine counts in the text that it was given, where the value of a rule's head stands at the end of the
body: a head counts as reached when the rule said something, as OPA counts.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from .rewriting import Rewritten

Lines = tuple[frozenset[int], frozenset[int]]
"""Reached and not reached, in one evaluation of one file."""


@dataclass(frozen=True, slots=True)
class FileCoverage:
    """One file: its lines that count, from 1."""

    file: str
    reached: tuple[int, ...]
    missed: tuple[int, ...]

    @property
    def percent(self) -> float:
        """Of the lines that count; a file without such a line is wholly reached."""
        return percent([self])


def percent(files: Iterable[FileCoverage]) -> float:
    """Of the lines of all these files, from 0 to 100."""
    reached = missed = 0
    for file in files:
        reached += len(file.reached)
        missed += len(file.missed)
    return 100.0 * reached / (reached + missed) if reached + missed else 100.0


class Covered:
    """Collects over several evaluations of the same modules."""

    def __init__(self) -> None:
        """Nothing is reached yet."""
        self._reached: dict[str, set[int]] = defaultdict(set)
        self._counted: dict[str, set[int]] = defaultdict(set)

    def add(self, lines: Mapping[str, Lines]) -> None:
        """One evaluation, by file."""
        for file, (reached, missed) in lines.items():
            self._reached[file] |= reached
            self._counted[file] |= reached | missed

    def files(
        self, modules: Mapping[str, Rewritten], heads: Mapping[str, Iterable[int]]
    ) -> Iterator[FileCoverage]:
        """These files, in order, with the lines as they were written. `heads`: by file, where its rules begin; of a file
        that was never asked, the engine counts no lines at all."""
        for file in sorted(modules):
            rows = _source_lines(modules[file])
            reached: set[int] = set()
            missed = set() if self._counted[file] else set(heads[file])
            for line in self._counted[file]:
                if line in rows:
                    (reached if line in self._reached[file] else missed).add(rows[line])
            yield FileCoverage(file, tuple(sorted(reached - missed)), tuple(sorted(missed)))


def _source_lines(module: Rewritten) -> dict[int, int]:
    """For each line of the text that the engine got the line that it began as."""
    if not module.pieces:
        return {line: line for line in range(1, module.text.count("\n") + 2)}
    lines: dict[int, int] = {}
    row = 1
    for piece in module.pieces:
        origin = module.source.count(b"\n", 0, piece.origin) + 1 if piece.origin >= 0 else 0
        for place, part in enumerate(piece.text.split(b"\n")):
            row += place > 0
            if origin and part.strip():
                lines.setdefault(row, origin + place)
    return lines
