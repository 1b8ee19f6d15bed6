"""Bodies of answers on their way: passed on, and looked at before anybody reads them: is it the stream that was asked for?

Some providers send a stream of events and call it JSON. Its first bytes tell, since no JSON begins as a stream does.
"""

from __future__ import annotations

import re
from collections import deque
from typing import TYPE_CHECKING

from .errors import UpstreamFault
from .upstream import streams

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Sequence

    from .headers import Pairs
    from .upstream import UpstreamAnswer

EVENTS = "text/event-stream"
_BLANK = b" \t\r\n\xef\xbb\xbf"
_FIRST_LINE = re.compile(rb"(?:data|event|id|retry)?:")
_LONGEST = len(b"event:")


class Peeked:
    """An answer of which some bytes were read already; it gives them again, first."""

    def __init__(self, answer: UpstreamAnswer, pieces: Sequence[bytes]) -> None:
        """`pieces` is what was read."""
        self.status: int = answer.status
        self.headers: Pairs = answer.headers
        self._answer = answer
        self._pieces = deque(pieces)

    async def next_chunk(self) -> bytes:
        """The next bytes; b"" at the end. Raises UpstreamFault."""
        return self._pieces.popleft() if self._pieces else await self._answer.next_chunk()

    async def read(self, limit: int) -> bytes:
        """The whole body. Raises UpstreamFault, also beyond `limit` bytes."""
        begun = b"".join(self._pieces)
        self._pieces.clear()
        if len(begun) > limit:
            self.close()
            raise UpstreamFault(
                f"The provider's answer is longer than {limit} bytes.", code="upstream_too_long"
            )
        return begun + await self._answer.read(limit - len(begun))

    def close(self) -> None:
        """Drops the connection."""
        self._answer.close()


async def looked_into(answer: UpstreamAnswer, stream_type: str) -> tuple[UpstreamAnswer, bool]:
    """The answer to go on with, and whether it is a stream of the type that was asked for: it says so, or it begins like a
    stream of events whatever it says. Raises UpstreamFault."""
    if streams(answer, stream_type):
        return answer, True
    if stream_type != EVENTS:
        return answer, False
    pieces: list[bytes] = []
    begun = b""
    while len(begun) < _LONGEST and (chunk := await answer.next_chunk()):
        pieces.append(chunk)
        begun = (begun + chunk[: len(_BLANK) + _LONGEST] if begun else chunk).lstrip(_BLANK)
    return Peeked(answer, pieces), _FIRST_LINE.match(begun) is not None


async def chunks_of(answer: UpstreamAnswer) -> AsyncGenerator[bytes, None]:
    """The body of an answer that nobody reads on the way."""
    try:
        while chunk := await answer.next_chunk():
            yield chunk
    finally:
        answer.close()


async def only_bytes(parts: AsyncGenerator[object, None]) -> AsyncGenerator[bytes, None]:
    """The bytes of a stream whose head was taken off."""
    try:
        async for part in parts:
            if isinstance(part, bytes):
                yield part
    finally:
        await parts.aclose()
