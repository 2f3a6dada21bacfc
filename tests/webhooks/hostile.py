"""A TLS server that answers every request with the bytes that it is given, however wrong they are."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from registry.http.serving.tls import ensure_certificates
from registry.webhooks.connection import Origin
from registry.webhooks.endpoint import Endpoint

Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Certificates:
    context: ssl.SSLContext
    ca: str


def certificates(folder: Path, *names: str) -> Certificates:
    made = ensure_certificates(folder, "127.0.0.1", names)
    assert made.authority is not None
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(made.certificate, made.key)
    return Certificates(context, made.authority.read_text())


@dataclass(frozen=True, slots=True)
class Server:
    port: int
    ca: str

    @property
    def origin(self) -> Origin:
        return Origin("127.0.0.1", self.port, self.ca)

    @property
    def endpoint(self) -> Endpoint:
        return Endpoint(
            f"https://127.0.0.1:{self.port}/", "127.0.0.1", self.port, "/", base64.b64encode(self.ca.encode()).decode()
        )


@contextlib.asynccontextmanager
async def serving(found: Certificates, handler: Handler, *, tls: bool = True) -> AsyncIterator[Server]:
    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            await handler(reader, writer)
        writer.close()

    server = await asyncio.start_server(handle, "127.0.0.1", 0, ssl=found.context if tls else None)
    try:
        yield Server(server.sockets[0].getsockname()[1], found.ca)
    finally:
        server.close()


async def received(reader: asyncio.StreamReader) -> None:
    """A whole request: a connection that is closed with bytes unread is reset, and what was sent is lost."""
    fields = (await reader.readuntil(b"\r\n\r\n")).lower()
    if b"content-length: " in fields:
        await reader.readexactly(int(fields.partition(b"content-length: ")[2].partition(b"\r")[0]))


def answering(pieces: Iterable[bytes], *, then_hang: bool = False) -> Handler:
    """Sends `pieces` to each request, and closes."""

    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await received(reader)
        for piece in pieces:
            writer.write(piece)
            await writer.drain()
            await asyncio.sleep(0)  # some answers never end, and drain waits only for room in the buffer
        if then_hang:
            await reader.read()  # until the client has gone

    return handler


def head(**headers: str) -> bytes:
    fields = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in headers.items())
    return f"HTTP/1.1 200 OK\r\n{fields}\r\n".encode()


def body(data: bytes, **headers: str) -> bytes:
    return head(content_length=str(len(data)), **headers) + data
