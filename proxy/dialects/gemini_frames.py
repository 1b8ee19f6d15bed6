"""The two forms in which Gemini's API streams: server-sent events, and one JSON array that comes element by element.

Laws: the `raw` of all blocks joined is the stream, byte for byte; where the network cut it makes no difference; time is
linear in the stream.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from proxy.core.messages import Malformed

from .sse import MAX_EVENT_BYTES, RawEvent, SseSplitter
from .values import loaded

_MARK = re.compile(rb'["\\{}\[\]]')
_BLANK = b" \t\r\n"
_OPENING = re.compile(rb"\s*(?:\xef\xbb\xbf)?\s*\[?\s*")
_BETWEEN = re.compile(rb"\s*,?\s*")
_BLANKS = re.compile(rb"\s*")


@dataclass(frozen=True, slots=True)
class Block:
    """One element or event with what stands around it."""

    raw: bytes
    data: bytes | None = None
    """The JSON of the element; None: there is none (delimiters, comments)."""
    is_end: bool = False
    """The array is closed."""
    whole: bool = True
    strange: bool = False


class ArraySplitter:
    """Cuts a JSON array (or a lone object) into its elements, each with what stands before it."""

    def __init__(self) -> None:
        self._pending = bytearray()
        self._scanned = 0
        self._depth = 0  # within an element
        self._start = -1  # of the element that is open
        self._in_text = False
        self._front = _OPENING  # what may stand before the next element
        self._open = False  # the array has begun
        self._closed = False

    def feed(self, chunk: bytes) -> list[Block]:
        """The blocks that are complete. Raises Malformed where one is too large, or what comes is no array of objects."""
        self._pending += chunk
        found: list[Block] = []
        while (mark := _MARK.search(self._pending, self._scanned)) is not None:
            letter, at = mark[0], mark.start()
            if self._in_text:
                if letter == b"\\":
                    if at + 1 == len(self._pending):
                        break
                    self._scanned = at + 2
                    continue
                self._in_text = letter != b'"'
            elif not self._mark(letter, at):
                self._scanned = at + 1
                found.append(self._taken(at + 1, is_end=letter == b"]" and self._start < 0))
                continue
            self._scanned = at + 1
        else:
            self._scanned = len(self._pending)
        if len(self._pending) > MAX_EVENT_BYTES:
            raise Malformed(f"one element of the stream is larger than {MAX_EVENT_BYTES} bytes")
        return found

    def _mark(self, letter: bytes, at: int) -> bool:
        """Steps over a mark outside texts; False: a block ends here."""
        if letter == b'"':
            if self._start < 0:
                raise Malformed("the stream is no array of objects")
            self._in_text = True
        elif letter == b"{" or (letter == b"[" and self._start >= 0):
            if self._closed:
                raise Malformed("the stream goes on behind its end")
            if self._start < 0:
                self._start = at
            self._depth += 1
        elif letter == b"[" and not self._open and self._front is _OPENING:
            self._open = True
        elif letter == b"]" and self._open and not self._closed and self._start < 0:
            self._closed = True
            return False
        elif self._start < 0:
            raise Malformed("the stream is no array of objects")
        else:
            self._depth -= 1
            return self._depth > 0
        return True

    def _taken(self, length: int, *, is_end: bool = False, whole: bool = True) -> Block:
        raw = bytes(self._pending[:length])
        data = raw[self._start :] if self._start >= 0 else None
        front = raw if data is None else raw[: self._start]
        if self._front.fullmatch(front.removesuffix(b"]") if is_end else front) is None:
            raise Malformed("the stream is no array of objects")
        self._front = _BLANKS if self._closed or not self._open else _BETWEEN
        del self._pending[:length]
        self._scanned -= min(length, self._scanned)
        self._start, self._depth = -1, 0
        return Block(raw, data, is_end, whole)

    def end(self) -> list[Block]:
        """What is left: white space, or an element that broke off."""
        if not self._pending:
            return []
        try:
            return [self._taken(len(self._pending), whole=self._start < 0)]
        except Malformed:
            return [Block(bytes(self._pending), strange=True)]


class Splitter:
    """Cuts a stream of either form; its first letter tells which it is."""

    def __init__(self) -> None:
        self._events: SseSplitter | None = None
        self._array: ArraySplitter | None = None
        self._head = b""

    @property
    def is_array(self) -> bool:
        """The stream is an array."""
        return self._array is not None

    def feed(self, chunk: bytes) -> list[Block]:
        """The blocks that are complete. Raises Malformed."""
        if self._events is None and self._array is None:
            self._head += chunk
            first = self._head.lstrip(_BLANK + b"\xef\xbb\xbf")[:1]
            if not first:
                return []
            chunk, self._head = self._head, b""
            if first in {b"[", b"{"}:
                self._array = ArraySplitter()
            else:
                self._events = SseSplitter()
        if self._array is not None:
            return self._array.feed(chunk)
        if self._events is None:
            return []
        return list(map(_block, self._events.feed(chunk)))

    def end(self) -> list[Block]:
        """What is left."""
        if self._array is not None:
            return self._array.end()
        if self._events is not None:
            return list(map(_block, self._events.end()))
        return [Block(self._head)] if self._head else []


def _block(event: RawEvent) -> Block:
    """Clients that read line by line would find something else in an event whose lines are objects of their own."""
    lines = (event.data or b"").split(b"\n")
    several = len(lines) > 1 and any(map(_is_object, lines))
    return Block(event.raw, event.data, whole=event.whole, strange=event.strange or several)


def _is_object(line: bytes) -> bool:
    try:
        value = loaded(line) if line.lstrip()[:1] == b"{" else None
    except ValueError:
        return False
    return isinstance(value, dict) and bool(value)
