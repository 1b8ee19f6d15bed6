r"""Regular expressions and globs that every engine reads alike.

The embedded engine (Rust `regex`) and OPA (Go `regexp`, RE2) agree on all but a few things: classes such as `\d` are
Unicode in one and ASCII in the other, some syntax exists only in one of them, and one bounds the compiled size.
"""

from __future__ import annotations

import json
import re

from .worker import Evaluator, RegoError

_ASCII = {"d": "0-9", "w": "0-9A-Za-z_", "s": "\\t\\n\\f\\r "}
_REPETITION = re.compile(r"\{\d+(?:,\d*)?\}")
_GROUP = re.compile(r"\(\?(?:[imsU]*(?:-[imsU]+)?[:)]|P?<[A-Za-z_])")
_GLOB_PLAIN = r"(?:[^*?\[\]{}!^\\]|\{[^*?\[\]{},]+(?:,[^*?\[\]{},]+)*\}|\[[^\[\]!^\\]+\])*"
_GLOB_SEGMENT = re.compile(rf"{_GLOB_PLAIN}\*?{_GLOB_PLAIN}")
_FORMAT = re.compile(r"%(?P<verb>[^a-zA-Z%]*[a-zA-Z%]?)")


class NotPortable(ValueError):
    """A pattern that engines read differently, or not at all. The text says what to write instead."""


def portable(pattern: str) -> str:
    """The pattern with Perl classes written out in ASCII, as RE2 means them.

    Raises NotPortable for what cannot be written for all engines, and for what does not compile.
    """
    written = _Reader(pattern).read()
    fault = compile_fault(written)
    if fault is not None:
        raise NotPortable(fault)
    return written


def regex_differences(pattern: str) -> str | None:
    """Where the engines differ about a pattern that stands in Rego, or None."""
    try:
        written = _Reader(pattern).read()
    except NotPortable as fault:
        return str(fault)
    if written == pattern:
        return None
    return r"\d, \w and \s are Unicode in the embedded engine and ASCII in OPA: write [0-9], [0-9A-Za-z_], [ \t\n]"


def compile_fault(pattern: str) -> str | None:
    """Why the pattern does not compile, or None. A bound such as {1,2000} makes it too large."""
    if "\0" in pattern:
        return "a pattern cannot hold NUL"
    try:
        Evaluator(_COMPILES).evaluate("data.callgate.compiles", _as_document(pattern))
    except RegoError as error:
        hint = "; bound lengths with max_length or count()" if "size" in error.message else ""
        return f"the pattern cannot be compiled ({error.message}){hint}"
    return None


def glob_differences(pattern: str, delimiters: list[str] | None) -> str | None:
    """Where the engines differ about a glob, or None. `delimiters` None: they are null or not written out."""
    if delimiters is not None and ":" in delimiters:
        return "a `*` runs across the delimiter : in the embedded engine, and stops there in OPA"
    segments = re.split("|".join(map(re.escape, delimiters or ["."])), pattern)
    for place, segment in enumerate(segments):
        is_last = place == len(segments) - 1
        if segment == "**" and is_last:
            continue
        if not _GLOB_SEGMENT.fullmatch(segment):
            return "engines agree only on one * a segment, [abc], {a,b} of plain words, and ** as the last segment"
    return None


def format_differences(template: str) -> str | None:
    """Where the engines print a sprintf format differently, or None."""
    for found in _FORMAT.finditer(template):
        if found["verb"] not in {"s", "d", "v", "q", "%"}:
            return (
                f"engines print %{found['verb']} differently: use %s for text, %d for whole numbers, %v or %q"
            )
    return None


_COMPILES = {"compiles.rego": 'package callgate\ncompiles := regex.match(input.pattern, "")'}


def _as_document(pattern: str) -> str:
    return json.dumps({"pattern": pattern}, ensure_ascii=False).encode("utf-8", "replace").decode()


class _Reader:
    """One pass over a pattern, writing it anew."""

    def __init__(self, pattern: str) -> None:
        self._pattern = pattern
        self._at = 0
        self._in_class = False
        self._written: list[str] = []

    def read(self) -> str:
        while self._at < len(self._pattern):
            char = self._pattern[self._at]
            if char == "\\":
                self._escape()
            elif self._in_class:
                self._class_member(char)
            else:
                self._outside(char)
        return "".join(self._written)

    def _take(self, text: str, length: int | None = None) -> None:
        self._written.append(text)
        self._at += len(text) if length is None else length

    def _escape(self) -> None:
        letter = self._pattern[self._at + 1 : self._at + 2]
        if letter in _ASCII:
            plain = _ASCII[letter]
            self._take(plain if self._in_class else f"[{plain}]", 2)
        elif letter and letter in "DWS":
            if self._in_class:
                raise NotPortable(f"\\{letter} inside [ ] is read differently: write the class out")
            self._take(f"[^{_ASCII[letter.lower()]}]", 2)
        elif letter and letter in "bB":
            raise NotPortable(
                f"\\{letter} is read differently outside ASCII: write (^|[^0-9A-Za-z_]) or ([^0-9A-Za-z_]|$)"
            )
        elif letter and letter in "QECGKZhHRXuU<>":
            raise NotPortable(f"\\{letter} does not exist in every engine")
        else:
            self._take(self._pattern[self._at : self._at + 2])

    def _class_member(self, char: str) -> None:
        rest = self._pattern[self._at :]
        if char == "[" and (posix := re.match(r"\[:\^?[a-z]+:\]", rest)):
            self._take(posix[0])
            return
        if char == "[":
            raise NotPortable("a [ inside [ ] is read differently: write \\[")
        if rest[:2] in {"&&", "--", "~~"}:
            raise NotPortable(f"{rest[:2]} inside [ ] is read differently: escape it")
        self._in_class = char != "]"
        self._take(char)

    def _outside(self, char: str) -> None:
        rest = self._pattern[self._at :]
        if char == "[":
            opening = re.match(r"\[\^?\]?", rest)
            self._in_class = True
            self._take(opening[0] if opening else char)
        elif char == "{":
            found = _REPETITION.match(rest)
            if found is None:
                raise NotPortable("a { that is no repetition is an error in one engine: write \\{")
            self._take(found[0])
        elif rest.startswith("(?") and not _GROUP.match(rest):
            raise NotPortable(f"{rest[:3]} does not exist in every engine")
        else:
            self._take(char)
