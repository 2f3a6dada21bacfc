"""Reads TLS connections into one buffer of the process.

Without it each read of a TLS connection allocates 256 KiB, whatever it returns (uvloop's sslproto.pyx,
`_do_read__copied`). The C library could then neither map texts of that size, nor return them when they are freed
(registry/flowcontrol/allocator.py).
"""

from __future__ import annotations

import asyncio
from typing import Final

# What is decrypted of a connection at a time; more is not read of it meanwhile. The event loop reads 256 KiB at once:
# if all of that were decrypted, a round with hundreds of uploads would take a tenth of a second.
BUFFER_BYTES: Final = 64 * 1024
# What a connection that is lost passes everything on to.
_NOTHING: Final = asyncio.Protocol()


class TlsReader(asyncio.BufferedProtocol):
    """Passes everything on to `protocol`, until the connection is lost: the event loop keeps this object, and so the
    connection would keep itself.

    All connections share the buffer: the event loop reads from no other one between `get_buffer` and `buffer_updated`.
    """

    _buffer: Final = memoryview(bytearray(BUFFER_BYTES))

    def __init__(self, protocol: asyncio.Protocol) -> None:
        self._protocol = protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        transport.set_read_buffer_limits(BUFFER_BYTES)  # type: ignore[attr-defined]
        self._protocol.connection_made(transport)

    def connection_lost(self, exc: Exception | None) -> None:
        protocol, self._protocol = self._protocol, _NOTHING
        protocol.connection_lost(exc)

    def pause_writing(self) -> None:
        self._protocol.pause_writing()

    def resume_writing(self) -> None:
        self._protocol.resume_writing()

    def eof_received(self) -> bool | None:
        return self._protocol.eof_received()

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        self._protocol.data_received(bytes(self._buffer[:nbytes]))
