"""Content codings: what was compressed on its hop is undone here, piece by piece, so that nothing passes unread (C030).

No coding is guessed, trailing rubbish is an error, and no input makes more than one bounded piece at a time: a bomb
is met by whoever counts the pieces.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Mapping
from typing import Protocol

import brotli  # type: ignore[import-untyped]  # published without types
import zstandard

PIECE = 1 << 16
"""Bytes of decoded content given at once."""

_MOST_CODINGS = 2
_ZSTD_WINDOW = 8 << 20  # RFC 9659: no more on the web
_ZSTD_SLICE = 256  # each four bytes may stand for 128 KiB


class Undecodable(ValueError):
    """The content does not fit its coding, or the coding is not known. The text is safe to show."""


class TooLong(ValueError):
    """The decoded content is longer than allowed."""


class Decoder(Protocol):
    """Undoes one coding."""

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        """The decoded pieces that this chunk completes; to be used up before the next feed. Raises Undecodable."""

    def end(self) -> None:
        """Nothing follows. Raises Undecodable where something is missing."""


class _Zlib:
    """gzip (members in a row included) and deflate (with or without its wrapper, as it comes)."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._inflate: zlib._Decompress | None = None

    def _begin(self, first: int) -> zlib._Decompress:
        if self._name == "gzip":
            return zlib.decompressobj(16 + zlib.MAX_WBITS)
        wrapped = first & 0x0F == zlib.DEFLATED
        return zlib.decompressobj(zlib.MAX_WBITS if wrapped else -zlib.MAX_WBITS)

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        while chunk:
            if self._inflate is None:
                self._inflate = self._begin(chunk[0])
            elif self._inflate.eof:
                if self._name != "gzip":
                    raise Undecodable("Something follows the deflated content.")
                self._inflate = self._begin(chunk[0])
            yield from self._inflated(self._inflate, chunk)
            chunk = self._inflate.unused_data

    def _inflated(self, inflate: zlib._Decompress, chunk: bytes) -> Iterator[bytes]:
        while True:
            try:
                piece = inflate.decompress(chunk, PIECE)
            except zlib.error:
                raise Undecodable(f"The content is not valid {self._name}.") from None
            chunk = inflate.unconsumed_tail
            if piece:
                yield piece
            # A full piece may have more behind it although all input is taken.
            if inflate.eof or not (chunk or len(piece) == PIECE):
                return

    def end(self) -> None:
        if self._inflate is not None and not self._inflate.eof:
            raise Undecodable(f"The {self._name} content ends too early.")


class _Brotli:
    def __init__(self) -> None:
        self._inflate = brotli.Decompressor()
        self._begun = False

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        self._begun = self._begun or bool(chunk)
        while True:
            try:
                piece = self._inflate.process(chunk, output_buffer_limit=PIECE)
            except brotli.error:
                raise Undecodable("The content is not valid br.") from None
            chunk = b""
            # The limit is where the buffer stops growing, not its size.
            yield from _cut(piece)
            # There may be more behind a piece although all input is taken.
            if self._inflate.is_finished() or (not piece and self._inflate.can_accept_more_data()):
                return

    def end(self) -> None:
        if self._begun and not self._inflate.is_finished():
            raise Undecodable("The br content ends too early.")


class _Zstd:
    def __init__(self) -> None:
        self._inflate: zstandard.ZstdDecompressionObj | None = None

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        rest = memoryview(chunk)
        while rest:
            if self._inflate is None or self._inflate.eof:
                frames = zstandard.ZstdDecompressor(max_window_size=_ZSTD_WINDOW)
                self._inflate = frames.decompressobj()
            taken, rest = rest[:_ZSTD_SLICE], rest[_ZSTD_SLICE:]
            try:
                piece = self._inflate.decompress(taken)
            except zstandard.ZstdError:
                raise Undecodable("The content is not valid zstd.") from None
            yield from _cut(piece)
            if self._inflate.eof and self._inflate.unused_data:
                rest = memoryview(self._inflate.unused_data + rest)

    def end(self) -> None:
        if self._inflate is not None and not self._inflate.eof:
            raise Undecodable("The zstd content ends too early.")


class _Chain:
    """Codings on top of each other, the outermost first."""

    def __init__(self, outer: Decoder, inner: Decoder) -> None:
        self._outer = outer
        self._inner = inner

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        for piece in self._outer.feed(chunk):
            yield from self._inner.feed(piece)

    def end(self) -> None:
        self._outer.end()
        self._inner.end()


def _cut(content: bytes) -> Iterator[bytes]:
    for start in range(0, len(content), PIECE):
        yield content[start : start + PIECE]


_DECODERS: Mapping[str, Callable[[], Decoder]] = {
    "gzip": lambda: _Zlib("gzip"),
    "x-gzip": lambda: _Zlib("gzip"),
    "deflate": lambda: _Zlib("deflate"),
    "br": _Brotli,
    "zstd": _Zstd,
}
ACCEPTED = "gzip, deflate, br, zstd"
"""What may be asked for."""


def decoder(coding: str) -> Decoder | None:
    """Undoes what a Content-Encoding header lists; None where there is nothing to undo.

    Raises Undecodable for a coding that is not known, and for more than two of them.
    """
    names = [
        name for name in (part.strip().lower() for part in coding.split(",")) if name not in {"", "identity"}
    ]
    if not names:
        return None
    if len(names) > _MOST_CODINGS or not all(name in _DECODERS for name in names):
        raise Undecodable(f"The content coding is not known. Known are {ACCEPTED}.")
    chain = _DECODERS[names[-1]]()
    for name in reversed(names[:-1]):
        chain = _Chain(chain, _DECODERS[name]())
    return chain


def decoded(content: bytes, coding: str, limit: int) -> bytes:
    """The whole content without its coding. Raises Undecodable, and TooLong beyond `limit` bytes."""
    undo = decoder(coding)
    if undo is None:
        return content
    pieces = []
    size = 0
    for piece in undo.feed(content):
        size += len(piece)
        if size > limit:
            raise TooLong(f"The decoded content is longer than {limit} bytes.")
        pieces.append(piece)
    undo.end()
    return b"".join(pieces)
