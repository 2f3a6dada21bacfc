"""Reads TLS connections into one buffer of the process.

Without it each read of a TLS connection allocates 256 KiB, whatever it returns (uvloop's sslproto.pyx,
`_do_read__copied`). The C library could then neither map texts of that size, nor return them when they are freed
(registry/flowcontrol/allocator.py).
"""

from __future__ import annotations

import asyncio
from typing import Final

# As much as the event loop reads of a connection at a time.
BUFFER_BYTES: Final = 256 * 1024


class TlsReader(asyncio.BufferedProtocol):
    """Passes everything on to `protocol`.

    All connections share the buffer: the event loop reads from no other one between `get_buffer` and `buffer_updated`.
    """

    _buffer: Final = memoryview(bytearray(BUFFER_BYTES))

    def __init__(self, protocol: asyncio.Protocol) -> None:
        self.connection_made = protocol.connection_made  # type: ignore[method-assign]
        self.connection_lost = protocol.connection_lost  # type: ignore[method-assign]
        self.eof_received = protocol.eof_received  # type: ignore[method-assign]
        self.pause_writing = protocol.pause_writing  # type: ignore[method-assign]
        self.resume_writing = protocol.resume_writing  # type: ignore[method-assign]
        self._data_received = protocol.data_received

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        self._data_received(bytes(self._buffer[:nbytes]))
