"""A small HTTP/1.1 client with persistent connections, on asyncio streams."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import AsyncIterator
from dataclasses import dataclass
from functools import cache
from typing import Any
from urllib.parse import urlsplit

JSON = "application/json"
MERGE_PATCH = "application/merge-patch+json"


@dataclass(frozen=True)
class Target:
    """The URL of a server, and the bearer token for it."""

    url: str
    token: str

    @property
    def address(self) -> tuple[str, int]:
        parts = urlsplit(self.url)
        assert parts.hostname
        assert parts.port
        return parts.hostname, parts.port


@cache
def tls() -> ssl.SSLContext:
    """Returns a context that verifies nothing: the benchmark connects to its own server, by address."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


class Failed(Exception):
    """An unexpected answer; the message has its status and the beginning of its body."""


class Connection:
    """A connection that carries one request at a time."""

    def __init__(self, target: Target, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._target = target
        self.reader = reader
        self._writer = writer

    @classmethod
    async def open(cls, target: Target) -> Connection:
        host, port = target.address
        context = tls() if target.url.startswith("https:") else None
        return cls(target, *await asyncio.open_connection(host, port, ssl=context, limit=1 << 24))

    async def close(self) -> None:
        self._writer.close()
        try:
            await self._writer.wait_closed()
        except (OSError, ssl.SSLError):
            pass  # the server may have closed it already

    def drop(self) -> None:
        """Closes the connection without waiting for that."""
        self._writer.close()

    def abort(self) -> None:
        """Closes the connection at once, without the end of TLS."""
        self._writer.transport.abort()

    def send(self, method: str, path: str, body: bytes = b"", content_type: str = JSON) -> None:
        self._writer.write(request_bytes(self._target, method, path, body, content_type))

    def send_bytes(self, data: bytes) -> None:
        self._writer.write(data)

    async def request(self, method: str, path: str, body: bytes = b"", content_type: str = JSON) -> tuple[int, bytes]:
        self.send(method, path, body, content_type)
        return await self.answer()

    async def answer(self) -> tuple[int, bytes]:
        status, headers = await self.head()
        return status, await self.body(headers)

    async def body(self, headers: dict[str, str]) -> bytes:
        if headers.get("transfer-encoding") == "chunked":
            return b"".join([chunk async for chunk in self.chunks()])
        return await self.reader.readexactly(int(headers.get("content-length", "0")))

    async def json(self, method: str, path: str, body: Any = None, content_type: str = JSON) -> Any:
        """Returns the decoded answer. Raises Failed if its status is not 2xx."""
        data = b"" if body is None else json.dumps(body).encode()
        status, answer = await self.request(method, path, data, content_type)
        if status >= 300:
            raise Failed(f"{method} {path}: {status} {answer[:300]!r}")
        return json.loads(answer)

    async def head(self) -> tuple[int, dict[str, str]]:
        head = (await self.reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        headers = dict(line.lower().split(": ", 1) for line in head[1:] if line)
        return int(head[0].split(" ")[1]), headers

    async def chunks(self) -> AsyncIterator[bytes]:
        while True:
            line = await self.reader.readline()
            if not line:
                raise asyncio.IncompleteReadError(line, None)
            size = int(line, 16)
            chunk = await self.reader.readexactly(size + 2)
            if size == 0:
                return
            yield chunk[:-2]


def request_bytes(target: Target, method: str, path: str, body: bytes = b"", content_type: str = JSON) -> bytes:
    host, port = target.address
    head = (
        f"{method} {path} HTTP/1.1\r\nHost: {host}:{port}\r\nAuthorization: Bearer {target.token}\r\n"
        f"Accept: application/json\r\nContent-Type: {content_type}\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


async def spread(target: Target, requests: list[tuple[str, str, bytes, str]], connections: int = 8) -> None:
    """Sends `requests` (method, path, body, content type) over several connections. Raises Failed at the first
    failure."""
    left = iter(requests)

    async def work() -> None:
        connection = await Connection.open(target)
        for method, path, body, content_type in left:
            status, answer = await connection.request(method, path, body, content_type)
            if status >= 300:
                raise Failed(f"{method} {path}: {status} {answer[:300]!r}")
        await connection.close()

    async with asyncio.TaskGroup() as group:
        for _ in range(min(connections, len(requests))):
            group.create_task(work())


async def served(target: Target, *paths: str, patience_seconds: float = 60.0) -> None:
    """Waits until all `paths` are answered with 200: a definition is served a moment after its creation. Raises Failed.

    Over one connection: a handshake for each takes client and server 3 ms, as long as a definition itself.
    """
    connection = await Connection.open(target)
    for path in paths:
        for _ in range(round(patience_seconds * 100)):
            if (await connection.request("GET", path))[0] == 200:
                break
            await asyncio.sleep(0.01)
        else:
            raise Failed(f"{path} is not served")
    await connection.close()
