"""A provider that says exactly these bytes to everybody, whatever was asked, and then goes or stays silent."""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import Self

from tests.raw_upstream import answer, header

DRIP_SECONDS = 0.02


class AnyProvider:
    """Use as an async context manager; what it says may be changed at any time."""

    def __init__(self) -> None:
        self.url = ""
        self.asked = 0
        self._says = b""
        self._stays = False
        self._drip = b""
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.Task[None]] = set()

    def says(self, content: bytes, *, stays: bool = False, drip: bytes = b"") -> None:
        """From now on. `stays`: the connection is left open, without a further byte, or with these again and again."""
        self._says, self._stays, self._drip = content, stays, drip

    def says_body(self, body: bytes, kind: str, *headers: str, status: str = "200 OK") -> None:
        """A whole answer in good order."""
        self.says(answer(body, f"content-type: {kind}", *headers, status=status))

    async def gone(self) -> None:
        """Returns when nobody is connected any more."""
        await asyncio.gather(*self._connections, return_exceptions=True)

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._server
        self._server.close()
        for task in self._connections:
            task.cancel()
        await self.gone()
        await self._server.wait_closed()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task
        self._connections.add(task)
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            await reader.readexactly(int(header(head, "content-length") or 0))
            self.asked += 1
            writer.write(self._says)
            await writer.drain()
            while self._drip:
                writer.write(self._drip)
                await writer.drain()
                await asyncio.sleep(DRIP_SECONDS)
            if self._stays:
                await reader.read()
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            self._connections.discard(task)
            writer.close()
