"""An upstream on loopback that sends exactly these bytes, and tells what came and when the peer went."""

import asyncio
from collections.abc import Sequence
from types import TracebackType
from typing import Self


class RawUpstream:
    """Answers request after request with the next list of bytes; an `Event` in it is waited for.

    The last answer is followed by the end of the connection, or by silence where `stays` is set.
    """

    def __init__(self, *answers: Sequence[bytes | asyncio.Event], stays: bool = False) -> None:
        self.heads: list[str] = []
        self.bodies: list[bytes] = []
        self.gone = asyncio.Event()
        """A peer closed its connection."""
        self.asked = asyncio.Event()
        """A request is there."""
        self._answers = list(answers)
        self._stays = stays
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._server
        self._server.close()
        for task in self._connections:
            task.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)
        await self._server.wait_closed()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task
        self._connections.add(task)
        try:
            await self._serve(reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            self.gone.set()
        finally:
            self._connections.discard(task)
            writer.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while self._answers:
            await self._request(reader)
            self.asked.set()
            for part in self._answers.pop(0):
                if isinstance(part, bytes):
                    writer.write(part)
                    await writer.drain()
                else:
                    await part.wait()
        if self._stays:
            await reader.read()
            self.gone.set()

    async def _request(self, reader: asyncio.StreamReader) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        self.heads.append(head)
        size = header(head, "content-length")
        self.bodies.append(await reader.readexactly(int(size or 0)))


def header(head: str, name: str) -> str | None:
    """The value of this header; None where there is none."""
    for line in head.split("\r\n")[1:]:
        key, _, value = line.partition(":")
        if key.lower() == name:
            return value.strip()
    return None


def answer(body: bytes = b"{}", *headers: str, status: str = "200 OK") -> bytes:
    """One whole answer with its length."""
    lines = [f"HTTP/1.1 {status}", f"content-length: {len(body)}", *headers]
    return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + body


def chunked(*headers: str) -> bytes:
    """The head of an answer in chunks."""
    return "\r\n".join(["HTTP/1.1 200 OK", "transfer-encoding: chunked", *headers]).encode() + b"\r\n\r\n"


def chunk(content: bytes) -> bytes:
    """One chunk; of nothing, the end."""
    return f"{len(content):x}\r\n".encode() + content + b"\r\n"
