"""Raw TCP connections to the HTTP protocol class, which serves an ASGI application of a test."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import uvicorn
from uvicorn.server import ServerState

from registry.http.serving.connection import ClientConnection, ReadLimits
from registry.http.serving.connection_shares import ConnectionShares, ConnectionSlot
from registry.http.serving.protocol import Protocol

Application = Callable[[dict[str, Any], Any, Any], Awaitable[None]]


Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


# How long to wait for something expected within milliseconds.
PATIENCE_SECONDS = 60.0


REQUEST = b"GET / HTTP/1.1\r\nhost: x\r\n\r\n"


async def hello(scope: dict[str, Any], receive: Any, send: Any) -> None:
    """Reads the body and responds with its length."""
    length, more = 0, True
    while more:
        message = await receive()
        length += len(message.get("body", b""))
        more = message.get("more_body", False)
    body = str(length).encode()
    head = [(b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": head})
    await send({"type": "http.response.body", "body": body})


def a_slot() -> ConnectionSlot:
    """The only connection of a process."""
    slot = ConnectionShares(10).open()
    assert slot is not None
    return slot


@contextlib.asynccontextmanager
async def connection(application: Application = hello) -> AsyncIterator[Streams]:
    served: Any = application
    config = uvicorn.Config(
        served, http=Protocol, interface="asgi3", lifespan="off", log_config=None, server_header=False
    )
    config.load()
    state, limits = ServerState(), ReadLimits()
    server = await asyncio.get_running_loop().create_server(
        lambda: ClientConnection(Protocol(config, state, {}, a_slot()), limits, None), "127.0.0.1", 0
    )
    reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
    try:
        yield reader, writer
    finally:
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()
        server.close()
        await server.wait_closed()
        assert len(state.connections) <= 1
        for one in state.connections:
            one.transport.abort()


async def answer(reader: asyncio.StreamReader) -> tuple[int, bytes]:
    """Returns status and body of the next response."""
    head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), PATIENCE_SECONDS)
    length = next(int(line[15:]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
    return int(head.split()[1]), await asyncio.wait_for(reader.readexactly(length), PATIENCE_SECONDS)


async def ended(reader: asyncio.StreamReader) -> bytes:
    """Reads until the server closes the connection."""
    try:
        return await asyncio.wait_for(reader.read(), PATIENCE_SECONDS)
    except ConnectionError:
        return b""


POST = b"POST / HTTP/1.1\r\nhost: x\r\n"


SECOND = b"GET /smuggled HTTP/1.1\r\nhost: x\r\n\r\n"
