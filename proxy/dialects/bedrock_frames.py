"""Amazon's binary event streams: bytes cut into messages, and messages written.

Laws: the `raw` of all messages joined is the stream, byte for byte; both checksums of each are verified; after one that
does not hold nothing more can be told from the bytes, so all that follows is one broken message.
Source: https://smithy.io/2.0/aws/amazon-eventstream.html
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from zlib import crc32

from proxy.core.messages import Malformed

MAX_MESSAGE_BYTES = 16 * 1024 * 1024
_PRELUDE, _CHECKSUM = 12, 4
_TEXT = 7
_WIDTHS = {0: 0, 1: 0, 2: 1, 3: 2, 4: 4, 5: 8, 8: 8, 9: 16}
"""Bytes of a header's value by its type; types 6 and 7 say their length."""
_MEASURED = frozenset({6, 7})


@dataclass(frozen=True, slots=True)
class Message:
    """One message of the stream."""

    raw: bytes
    headers: Mapping[str, str] = field(default_factory=dict)
    """Those that are text."""
    payload: bytes = b""
    sound: bool = True
    """False: a checksum does not hold, or it cannot be read; nothing is known of it."""
    whole: bool = True
    """False: the stream ended inside it."""

    @property
    def kind(self) -> str:
        """The type of its event, or of the exception that it is."""
        return self.headers.get(":event-type", "") or self.headers.get(":exception-type", "")


class MessageSplitter:
    """Cuts a stream into messages. Fed bytes cut anywhere."""

    def __init__(self) -> None:
        self._pending = bytearray()
        self._lost = False

    def feed(self, chunk: bytes) -> list[Message]:
        """The messages that are complete with these bytes."""
        self._pending += chunk
        found: list[Message] = []
        start = 0
        while not self._lost and len(self._pending) - start >= _PRELUDE:
            total, _, checksum = struct.unpack_from(">III", self._pending, start)
            if crc32(self._pending[start : start + 8]) != checksum or not (
                _PRELUDE + _CHECKSUM <= total <= MAX_MESSAGE_BYTES
            ):
                self._lost = True
            elif len(self._pending) - start < total:
                break
            else:
                found.append(_message(bytes(self._pending[start : start + total])))
                start += total
                self._lost = not found[-1].sound
        del self._pending[:start]
        if self._lost and self._pending:
            found.append(Message(bytes(self._pending), sound=False))
            self._pending.clear()
        return found

    def end(self) -> list[Message]:
        """What is left: a message that the stream broke off in."""
        left = bytes(self._pending)
        self._pending.clear()
        return [Message(left, sound=False, whole=False)] if left else []


def _message(raw: bytes) -> Message:
    if crc32(raw[:-_CHECKSUM]) != int.from_bytes(raw[-_CHECKSUM:], "big"):
        return Message(raw, sound=False)
    length = int.from_bytes(raw[4:8], "big")
    end = _PRELUDE + length
    if end > len(raw) - _CHECKSUM:
        return Message(raw, sound=False)
    try:
        headers = _headers(raw[_PRELUDE:end])
    except (ValueError, IndexError):
        return Message(raw, sound=False)
    return Message(raw, headers, raw[end:-_CHECKSUM])


def _headers(block: bytes) -> dict[str, str]:
    """The headers that are text. Raises where a name occurs twice, or is one of the protocol's own and no text."""
    found: dict[str, str] = {}
    names: set[str] = set()
    at = 0
    while at < len(block):
        name_end = at + 1 + block[at]
        name = block[at + 1 : name_end].decode()
        kind = block[name_end]
        at = name_end + 1
        if kind in _MEASURED:
            width = int.from_bytes(block[at : at + 2], "big")
            at += 2
        else:
            width = _WIDTHS[kind] if kind in _WIDTHS else len(block)
        value = block[at : at + width]
        at += width
        if at > len(block) or name in names or (name.startswith(":") and kind != _TEXT):
            raise Malformed("a header cannot be read")
        names.add(name)
        if kind == _TEXT:
            found[name] = value.decode()
    return found


def written(headers: Mapping[str, str], payload: bytes) -> bytes:
    """A message with these headers, as text, and this payload."""
    block = bytearray()
    for name, value in headers.items():
        key, said = name.encode(), value.encode()
        block += bytes([len(key)]) + key + bytes([_TEXT]) + len(said).to_bytes(2, "big") + said
    prelude = struct.pack(">II", _PRELUDE + len(block) + len(payload) + _CHECKSUM, len(block))
    message = prelude + crc32(prelude).to_bytes(4, "big") + bytes(block) + payload
    return message + crc32(message).to_bytes(4, "big")


def with_payload(message: Message, payload: bytes) -> bytes:
    """The message with another payload; its headers keep their bytes."""
    length = int.from_bytes(message.raw[4:8], "big")
    prelude = struct.pack(">II", _PRELUDE + length + len(payload) + _CHECKSUM, length)
    whole = prelude + crc32(prelude).to_bytes(4, "big") + message.raw[_PRELUDE : _PRELUDE + length] + payload
    return whole + crc32(whole).to_bytes(4, "big")


def event(kind: str, payload: bytes) -> bytes:
    """An event of this type."""
    return written(
        {":event-type": kind, ":content-type": "application/json", ":message-type": "event"}, payload
    )


def exception(kind: str, payload: bytes) -> bytes:
    """An exception of this type, after which nothing follows."""
    return written(
        {":exception-type": kind, ":content-type": "application/json", ":message-type": "exception"}, payload
    )
