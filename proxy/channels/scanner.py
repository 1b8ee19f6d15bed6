"""Finds marked regions in text that comes in pieces, and holds back only what may yet become a mark.

Laws: where the text was cut makes no difference to what is found; time is linear in the text; what is `settled` never
becomes part of a region. A region is atomic: it is a call (or several), or what the model made up as their result.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from proxy.core.messages import UNREADABLE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

Proposed = tuple[str, str]
"""Name and arguments of a call in text."""

_NO_WIDTH = "\u200b"
_FILLER = 64
"""Characters: what stands between an opener and what has to follow it is no longer than this; more is looked into."""
_READ_AGAIN = 128
"""How often, on average, a text is read again for marks in it that turn out to be none."""
_FREE = 512
"""Characters: up to here a text is tried with every piece, later with every eighth more of it."""


@dataclass(frozen=True, slots=True)
class Rule:
    """One mark and what stands behind it."""

    opener: str
    closers: tuple[str, ...] = ()
    """The nearest of these ends the region; none comes: the end of the answer does."""
    read: Callable[[str], Sequence[Proposed] | None] | None = None
    """The calls in the text between; None: it is plain text after all. No function: the region is an invented result."""
    at_line: bool = False
    """Counts only at the beginning of a line."""
    at_start: bool = False
    """Counts only as the first thing in the text, but for white space and backticks."""
    keeps_closer: bool = True
    """The closer is part of the region."""
    then: str = ""
    """What has to follow the opener for it to be one; white space, digits and asterisks may stand between."""
    channel: str = ""


@dataclass(frozen=True, slots=True)
class Region:
    """A part of the text, in characters, and the calls in it."""

    start: int
    end: int
    calls: tuple[Proposed, ...]
    channel: str = ""


@dataclass(frozen=True, slots=True)
class Whole:
    """A text that may be one call as a whole, without any mark."""

    may_be: Callable[[str], bool]
    """Whether this beginning may still become one."""
    read: Callable[[str], Sequence[Proposed] | None]
    channel: str = ""


@cache
def _any_of(marks: tuple[str, ...]) -> re.Pattern[str]:
    return re.compile("|".join(map(re.escape, marks)) or r"(?!)")


class Scanner:
    """Reads one text."""

    def __init__(self, rules: Sequence[Rule], whole: Whole | None = None) -> None:
        """Of openers that begin at the same place the longest counts, then the order. `whole`: as long as the text may be
        a call as it is, nothing of it is settled."""
        self._whole = whole
        self._rules = sorted(rules, key=lambda rule: -len(rule.opener))
        self._openers = _any_of(tuple(rule.opener for rule in self._rules))
        self._longest = max((len(rule.opener) for rule in self._rules), default=0)
        self._from = 0  # where the next opener is looked for
        self._open: tuple[Rule, int, int] | None = None  # rule, start, where its body begins
        self._searched = 0  # up to where no closer was found
        self._blank = 0  # the text begins with so much white space and backticks at least
        self._read_again = 0  # characters of bodies that were none
        self._tried = 0  # how much of the text was tried as a call as it is
        self.text = ""
        self.settled = 0
        """Characters up to here are plain, or belong to a region that was found."""
        self.regions: list[Region] = []
        self.cut: int | None = None
        """From here on the model made up what a tool would return: nothing of it is to be shown."""

    def feed(self, piece: str) -> None:
        """More of the text."""
        self.text += piece
        self._advance(ended=False)

    def end(self) -> None:
        """The text is over."""
        self._advance(ended=True)
        self.settled = len(self.text)

    def _advance(self, *, ended: bool) -> None:
        if self._whole is not None and not self._is_marked(ended=ended):
            return
        while self.cut is None and self._step(ended=ended):
            pass
        if self.cut is not None:
            self.settled = len(self.text)

    def _is_marked(self, *, ended: bool) -> bool:
        """Whether marks are to be looked for: the text is no call as a whole."""
        whole, size = self._whole, len(self.text)
        if whole is None:
            return True
        if not ended and size > _FREE and size < self._tried + self._tried // 8:
            return False
        self._tried = size
        if not whole.may_be(self.text):
            self._whole = None
            return True
        if not ended:
            return False
        self._whole = None
        calls = whole.read(self.text)
        if not calls:
            return True
        self.regions.append(Region(0, len(self.text), tuple(calls), whole.channel))
        self._from = len(self.text)
        return True

    def _step(self, *, ended: bool) -> bool:
        """One opener or one region further; False: more text is needed."""
        if self._open is None:
            return self._find_opener(ended=ended)
        rule, start, begin = self._open
        found = self._find_closer(rule, begin, ended=ended)
        if found is None:
            return False
        body_end, end = found
        self._open = None
        calls = self._calls(rule, begin, body_end)
        if calls is None:
            self._from = begin
            self.settled = max(self.settled, min(begin, len(self.text)))
            return True
        self.regions.append(Region(start, end, tuple(calls), rule.channel))
        self._from = self.settled = end
        return True

    def _calls(self, rule: Rule, begin: int, end: int) -> Sequence[Proposed] | None:
        """What the body of a region holds. A text that is made to be read over and over is refused."""
        body = self.text[begin:end]
        calls = rule.read(body) if rule.read is not None else None
        if calls is None:
            self._read_again += len(body)
            if self._read_again > _READ_AGAIN * (end + _FREE):
                return [(UNREADABLE, body)]
        return calls

    def _find_opener(self, *, ended: bool) -> bool:
        while found := self._openers.search(self.text, self._from):
            if not ended and self._may_grow(found.start()):
                self.settled = found.start()
                return False
            rule = self._rule_at(found.start())
            if rule is None:
                self._from = found.start() + 1
                continue
            if rule.read is None:
                self.cut = found.start()
                return False
            self._open = rule, found.start(), found.start() + len(rule.opener)
            self._searched = self._open[2]
            self.settled = max(self.settled, found.start())
            return True
        self.settled = self._from = len(self.text) if ended else self._plain_until()
        return False

    def marks(self) -> Iterator[int]:
        """Where openers stand and count, whatever is behind them, and those of results too."""
        at = 0
        while found := self._openers.search(self.text, at):
            if self._rule_at(found.start(), marks=True) is not None:
                yield found.start()
            at = found.start() + 1

    def _rule_at(self, start: int, *, marks: bool = False) -> Rule | None:
        """The rule whose opener stands here and counts here."""
        return next(
            (
                rule
                for rule in self._rules
                if self.text.startswith(rule.opener, start)
                and self._fits(rule, start)
                and self._follows(rule, start)
                and (rule.read is not None or self.regions or marks)
            ),
            None,
        )

    def _follows(self, rule: Rule, start: int) -> bool:
        if not rule.then:
            return True
        at = self._behind(rule, start)
        return self.text.startswith(rule.then, at) or at - start > _FILLER

    def _behind(self, rule: Rule, start: int) -> int:
        at = start + len(rule.opener)
        while (at < len(self.text) and at - start <= _FILLER) and (
            self.text[at].isspace() or self.text[at].isdigit() or self.text[at] == "*"
        ):
            at += 1
        return at

    def _may_grow(self, start: int) -> bool:
        """What stands here may be the beginning of a longer opener."""
        rest = self.text[start : start + self._longest]
        if len(rest) < self._longest and any(
            len(rule.opener) > len(rest) and rule.opener.startswith(rest) for rule in self._rules
        ):
            return True
        return any(
            rule.then
            and self.text.startswith(rule.opener, start)
            and self._behind(rule, start) == len(self.text) <= start + _FILLER
            for rule in self._rules
        )

    def _fits(self, rule: Rule, start: int) -> bool:
        if rule.at_start:
            while self._blank < start and (self.text[self._blank].isspace() or self.text[self._blank] == "`"):
                self._blank += 1
            return self._blank == start
        if rule.at_line:
            while start and self.text[start - 1] in " \t\r*":
                start -= 1
            return not start or self.text[start - 1] == "\n"
        return True

    def _plain_until(self) -> int:
        """Up to where no opener can begin any more."""
        for start in range(max(self._from, len(self.text) - self._longest + 1), len(self.text)):
            rest = self.text[start:]
            if any(rule.opener.startswith(rest) and self._fits(rule, start) for rule in self._rules):
                return start
        return len(self.text)

    def _find_closer(self, rule: Rule, begin: int, *, ended: bool) -> tuple[int, int] | None:
        """Where the body ends and where the region ends."""
        longest = max(map(len, rule.closers), default=0)
        closer = _any_of(rule.closers).search(self.text, max(begin, self._searched - longest))
        if closer is not None:
            return closer.start(), closer.end() if rule.keeps_closer else closer.start()
        self._searched = len(self.text)
        return (len(self.text), len(self.text)) if ended else None


def defused(text: str, rules: Sequence[Rule]) -> str:
    """A text that is no answer, in which no mark counts any more: behind the first letter of each stands a space without
    width."""
    scanner = Scanner([rule for rule in rules if not rule.at_start])
    scanner.text = text
    out, at = [], 0
    for place in scanner.marks():
        out += [text[at : place + 1], _NO_WIDTH]
        at = place + 1
    return "".join([*out, text[at:]])
