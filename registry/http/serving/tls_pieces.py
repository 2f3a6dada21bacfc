"""Writes to a TLS connection in pieces, each when the client has read the ones before.

The connection's buffer for what it has encrypted grows to the largest text that is written at once, or while the client
does not read, and is kept until the connection ends (uvloop's sslproto.pyx; OpenSSL's memory BIO): thousands of idle
connections that had each sent one object of 256 KiB held 340 KiB each.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Any, Final

# A record of TLS has as much.
PIECE_BYTES: Final = 16 * 1024


class PiecewiseTransport(asyncio.Transport):
    """The transport of a TLS connection, whose protocol calls `pause` and `flush` when it is to write no more, and may
    continue. Invariant: what is left is only there while it is paused."""

    __slots__ = ("_closes", "_is_paused", "_left", "_transport")

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self._is_paused = self._closes = False
        self._left: deque[memoryview] = deque()

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if len(data) <= PIECE_BYTES and not self._is_paused:
            self._transport.write(data)
        elif not self._closes:
            self._left.append(memoryview(data))
            if not self._is_paused:
                self._write_left()

    def pause(self) -> None:
        self._is_paused = True

    def flush(self) -> bool:
        """Continues. Returns whether nothing is left: otherwise it has been paused again."""
        self._is_paused = False
        self._write_left()
        return not self._left

    def _write_left(self) -> None:
        left = self._left
        while left and not self._is_paused:
            text = left.popleft()
            if len(text) > PIECE_BYTES:
                left.appendleft(text[PIECE_BYTES:])
            self._transport.write(text[:PIECE_BYTES])
        if self._closes and not left:
            self._transport.close()

    def close(self) -> None:
        """Closes the connection once all has been written."""
        if self._left:
            self._closes = True
        else:
            self._transport.close()

    def abort(self) -> None:
        self._left.clear()
        self._transport.abort()

    def discard(self) -> None:
        """To be called when the connection is lost."""
        self._left.clear()

    def is_closing(self) -> bool:
        return self._closes or self._transport.is_closing()

    def get_write_buffer_size(self) -> int:
        return self._transport.get_write_buffer_size() + sum(map(len, self._left))

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return self._transport.get_extra_info(name, default)

    def pause_reading(self) -> None:
        self._transport.pause_reading()

    def resume_reading(self) -> None:
        self._transport.resume_reading()

    def is_reading(self) -> bool:
        return self._transport.is_reading()
