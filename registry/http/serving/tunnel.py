"""A connection after 101 Switching Protocols: a plain stream in both directions.

An ASGI application that has received a request to switch protocols finds a `Switch` in its scope:

    switch = scope.get(SWITCH)                 # None where the client has not asked for it
    await send({"type": "http.response.start", "status": 101, "headers": [...]})
    tunnel = switch.tunnel()
    while data := await tunnel.receive(): ...
    await send({"type": "http.response.body", "body": b""})     # ends the connection

A client that sends anything before the answer to its request is refused: it might be the next request.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from uvicorn.protocols.http.flow_control import FlowControl

SWITCH: Final = "registry.switch"
# The size of buffered data at which no more is read from the client.
_BUFFER_BYTES: Final = 64 * 1024


class TunnelClosed(Exception):
    """The client has disconnected."""


class Tunnel:
    def __init__(self, transport: asyncio.Transport, flow: FlowControl) -> None:
        self._transport = transport
        self._flow = flow
        self._pieces = bytearray()
        self._ended = asyncio.Event()
        self._news = asyncio.Event()

    async def receive(self) -> bytes:
        """Returns what the client has sent since the last call; b"" when it has disconnected, and that was all."""
        while not self._pieces:
            if self._ended.is_set():
                return b""
            self._news.clear()
            await self._news.wait()
        data, self._pieces = bytes(self._pieces), bytearray()
        self._flow.resume_reading()
        return data

    async def write(self, data: bytes) -> None:
        """Writes to the client. Raises TunnelClosed."""
        if self._flow.write_paused and not self._ended.is_set():
            await self._flow.drain()
        if self._ended.is_set():
            raise TunnelClosed
        self._transport.write(data)

    async def wait_until_closed(self) -> None:
        """Returns when the client has disconnected."""
        await self._ended.wait()

    # -- called by the connection
    def feed(self, data: bytes) -> None:
        self._pieces += data
        if len(self._pieces) > _BUFFER_BYTES:
            self._flow.pause_reading()
        self._news.set()

    def end(self) -> None:
        self._ended.set()
        self._news.set()


class Switch:
    """A client's request to switch protocols."""

    def __init__(self, is_possible: Callable[[], bool], tunnel: Callable[[], Tunnel]) -> None:
        # Whether nothing has been received after the request.
        self.is_possible = is_possible
        # Returns the stream, once 101 has been sent.
        self.tunnel = tunnel
