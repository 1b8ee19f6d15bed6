"""A client on a bare socket: what it sends is bytes, and it can hang up or stop reading whenever it likes."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

CRLF = b"\r\n"


@dataclass
class RawClient:
    """One connection."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)

    async def send(self, content: bytes) -> None:
        self.writer.write(content)
        await self.writer.drain()

    async def head(self) -> int:
        """Reads the head of the answer and gives its status."""
        first, *lines = (await self.reader.readuntil(CRLF * 2)).decode("latin-1").rstrip().split("\r\n")
        self.status = int(first.split(" ")[1])
        self.headers = {
            name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)
        }
        return self.status

    async def chunk(self) -> bytes:
        """The next chunk of the body; b"" at its proper end. Raises IncompleteReadError where it breaks off."""
        size = int((await self.reader.readuntil(CRLF)).strip(), 16)
        return (await self.reader.readexactly(size + 2))[:-2]

    async def body(self) -> bytes:
        """The rest of the answer."""
        if "content-length" in self.headers:
            return await self.reader.readexactly(int(self.headers["content-length"]))
        whole = b""
        while piece := await self.chunk():
            whole += piece
        return whole

    def hang_up(self) -> None:
        self.writer.close()


@asynccontextmanager
async def connected(port: int, limit: int = 1 << 16) -> AsyncIterator[RawClient]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=limit)
    try:
        yield RawClient(reader, writer)
    finally:
        writer.close()


def post(path: str, body: bytes = b"{}", *headers: str) -> bytes:
    """A whole request; of the same header name the one given counts."""
    given = {line.partition(":")[0].lower() for line in headers}
    usual = [f"content-length: {len(body)}", "content-type: application/json", "host: callgate"]
    lines = [line for line in usual if line.partition(":")[0] not in given]
    if "transfer-encoding" in given:
        lines = [line for line in lines if not line.startswith("content-length")]
    return "\r\n".join([f"POST {path} HTTP/1.1", *lines, *headers]).encode("latin-1") + CRLF * 2 + body
