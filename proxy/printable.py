"""Text from outside made safe to show: one line, printable ASCII, no longer than it may be.

A tool name with look-alike letters, invisible characters or line breaks can neither pass for another name nor forge
a line of a log.
"""

from __future__ import annotations

import re

_ODD = re.compile(r"[^ -~]")
_SURROGATE = re.compile(r"[\ud800-\udfff]")


def escaped(text: str) -> str:
    r"""The text with every character outside printable ASCII written as `\n`, `\u200b` or `\U0001f600`."""
    if text.isascii() and text.isprintable():
        return text
    return _ODD.sub(_escape, text)


_SHORT = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}


def _escape(found: re.Match[str]) -> str:
    odd = found.group()
    if odd.isascii():
        return _SHORT.get(odd) or f"\\x{ord(odd):02x}"
    return odd.encode("ascii", "backslashreplace").decode("ascii")


def clipped(text: str, limit: int) -> str:
    """The text, at most `limit` characters long; what was cut off is shown by three dots."""
    return text if len(text) <= limit else text[: max(0, limit - 3)] + "..."


NAME_LENGTH = 64


def name(text: str, limit: int = NAME_LENGTH) -> str:
    """A name from outside: escaped and clipped."""
    return clipped(escaped(text), limit)


def encodable(text: str) -> str:
    """The text with lone surrogates escaped, which no encoder of UTF-8 takes."""
    return _SURROGATE.sub(lambda found: f"\\u{ord(found.group()):04x}", text)
