"""Server-sent events: a byte stream cut into event blocks, and blocks written.

Laws: the `raw` of all blocks joined is the stream, byte for byte; where the network cut the bytes makes no
difference to the blocks; time is linear in the stream, also when it comes byte by byte.
Read as the WHATWG HTML standard says (§9.2): LF, CRLF or CR end a line, an optional blank follows the colon,
several data lines are joined by LF, a byte order mark may open the stream.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from proxy.core.messages import Malformed

MAX_EVENT_BYTES = 16 * 1024 * 1024

_LINE_END = re.compile(rb"[\r\n]")
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_FIELDS = frozenset({b"", b"data", b"event", b"id", b"retry"})
_CR, _LF = 13, 10


@dataclass(frozen=True, slots=True)
class RawEvent:
    """One block of the stream, its blank line and comments included."""

    raw: bytes
    event: str = ""
    """The value of its `event` field."""
    data: bytes | None = None
    """Its data lines joined by LF; None where it has none (comments, blank lines, other fields)."""
    whole: bool = True
    """False: the stream ended before the blank line that ends a block. The standard drops such a block."""
    strange: bool = False
    """Holds a line that is of no known field and may hold JSON: careless clients read what the standard skips."""


class SseSplitter:
    """Cuts a stream into blocks. Fed bytes cut anywhere; give `max_event_bytes` what one block may hold."""

    __slots__ = (
        "_after_cr",
        "_data",
        "_event",
        "_first",
        "_limit",
        "_line",
        "_pending",
        "_scanned",
        "_strange",
    )

    def __init__(self, max_event_bytes: int = MAX_EVENT_BYTES) -> None:
        self._limit = max_event_bytes
        self._pending = bytearray()
        self._line = 0  # where the current line begins in _pending
        self._scanned = 0  # up to where no line end was found
        self._first = True
        self._after_cr = False  # the last line of this block ended with a CR alone
        self._event = ""
        self._data: list[bytes] = []
        self._strange = False

    def feed(self, chunk: bytes) -> list[RawEvent]:
        """The blocks that are complete with this chunk. Raises Malformed where one block passes the size limit."""
        self._pending += chunk
        found = []
        while (ended := self._next_line_end()) is not None:
            start, self._line = self._line, ended[1]
            self._scanned = self._line
            if start == ended[0]:
                found.append(self._taken(self._line))
            else:
                self._read_line(bytes(self._pending[start : ended[0]]))
        if len(self._pending) > self._limit:
            raise Malformed(f"one event of the stream is larger than {self._limit} bytes")
        return found

    def end(self) -> list[RawEvent]:
        """The stream is over: what is left, if anything, read as a block that is not `whole`."""
        rest = len(self._pending)
        if not rest:
            return []
        bare = bytes(self._pending[self._line :])
        if bare == b"\r":  # the blank line, which might have gone on with LF
            return [self._taken(rest)]
        if bare:
            self._read_line(bare.removesuffix(b"\r"))
        return [self._taken(rest, whole=False)]

    def _next_line_end(self) -> tuple[int, int] | None:
        """Where the next line's text ends, and where the line after it begins."""
        found = _LINE_END.search(self._pending, self._scanned)
        if found is None:
            self._scanned = len(self._pending)
            return None
        end = found.start()
        if self._pending[end] == _LF:
            self._after_cr = False
            return end, end + 1
        if self._after_cr and end == self._line:
            # Lines of this block end with CR alone: no need to wait for what follows. If it is LF after all, it
            # is taken for one more blank line, which means nothing.
            return end, end + 1
        self._scanned = end
        if end + 1 == len(self._pending):
            return None  # CR or CRLF: the next byte tells
        self._after_cr = self._pending[end + 1] != _LF
        return end, end + (1 if self._after_cr else 2)

    def _read_line(self, line: bytes) -> None:
        if self._first:
            line = line.removeprefix(_BYTE_ORDER_MARK)
            self._first = False
        name, _, value = line.partition(b":")
        if name == b"data":
            self._data.append(value.removeprefix(b" "))
        elif name == b"event":
            self._event = value.removeprefix(b" ").decode("utf-8", "replace")
        elif name not in _FIELDS and b"{" in line:
            self._strange = True

    def _taken(self, length: int, *, whole: bool = True) -> RawEvent:
        raw = bytes(self._pending[:length])
        joined = b"\n".join(self._data) if self._data else None
        block = RawEvent(raw, self._event, joined, whole, self._strange)
        del self._pending[:length]
        self._line = self._scanned = 0
        self._after_cr = self._first = False
        self._event, self._data, self._strange = "", [], False
        return block


def comment(text: str) -> bytes:
    """A block that readers ignore."""
    return b"".join(b": %s\n" % line.encode() for line in text.splitlines() or [""]) + b"\n"


def event(data: bytes, name: str = "") -> bytes:
    """A block with this data, and with an `event` field where a name is given."""
    lines = [b"data: " + line for line in data.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")]
    head = [b"event: " + name.encode()] if name else []
    return b"\n".join([*head, *lines, b"", b""])
