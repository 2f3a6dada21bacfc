"""Reads TLS connections into one buffer of the process.

Without it each read of a TLS connection allocates 256 KiB, whatever it returns (uvloop's sslproto.pyx,
`_do_read__copied`). The C library could then neither map texts of that size, nor return them when they are freed
(registry/flowcontrol/allocator.py).

Clients that send records of few bytes share a part of the event loop: each of them waits for its turn. Of those that
send long bodies, a few are read in each iteration of the loop.
"""

from __future__ import annotations

import asyncio
from typing import Final, cast

from registry.flowcontrol.loop_share import LoopShare
from registry.flowcontrol.read_window import ReadWindow
from registry.flowcontrol.rounds import Rounds
from registry.http.serving.protocol import Protocol

# What is decrypted of a connection at a time; more is not read of it meanwhile. The event loop reads 256 KiB at once:
# if all of that were decrypted, a round with hundreds of uploads would take a tenth of a second.
BUFFER_BYTES: Final = 64 * 1024
# A part of a long body. Decrypted and kept, a whole buffer takes 0.1 ms; so many connections are read in an iteration.
LONG_BYTES: Final = 16 * 1024
LONG_READS_IN_A_ROW: Final = 8
# Encrypted data that waits for a client before its application does: half a megabyte by default.
WRITTEN_BYTES: Final = 32 * 1024
# What a connection that is lost passes everything on to.
_NOTHING: Final = asyncio.Protocol()


class TlsReader(asyncio.BufferedProtocol):
    """Passes everything on to `protocol`, until the connection is lost: the event loop keeps this object, and so the
    connection would keep itself.

    All connections share the buffer: the event loop reads from no other one between `get_buffer` and `buffer_updated`.
    `share` is what all connections of the process have of the event loop for records of few bytes; `rounds` are those
    of their long reads.
    """

    _buffer: Final = memoryview(bytearray(BUFFER_BYTES))

    def __init__(self, protocol: Protocol, share: LoopShare, rounds: Rounds) -> None:
        self._protocol: asyncio.Protocol = protocol
        self._share = share
        self._rounds = rounds
        self._window = ReadWindow(share, BUFFER_BYTES)
        self._transport: asyncio.ReadTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        transport.set_read_buffer_limits(BUFFER_BYTES)  # type: ignore[attr-defined]
        transport.set_write_buffer_limits(WRITTEN_BYTES)  # type: ignore[attr-defined]
        self._transport = cast(asyncio.ReadTransport, transport)  # uvloop's transports are not of this class
        self._protocol.connection_made(transport)

    def connection_lost(self, exc: Exception | None) -> None:
        protocol, self._protocol = self._protocol, _NOTHING
        self._transport = None
        protocol.connection_lost(exc)

    def pause_writing(self) -> None:
        self._protocol.pause_writing()

    def resume_writing(self) -> None:
        self._protocol.resume_writing()

    def eof_received(self) -> bool | None:
        return self._protocol.eof_received()

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._buffer[: self._window.begin()]

    def buffer_updated(self, nbytes: int) -> None:
        data = bytes(self._buffer[:nbytes])
        is_slow = self._window.end(nbytes)
        if self._transport is not None:
            if is_slow:
                self._transport.pause_reading()
                self._share.when_free(self._take_turn)
            elif nbytes >= LONG_BYTES and not self._rounds.try_turn():
                self._transport.pause_reading()
                self._rounds.wait(self._resume)
        self._protocol.data_received(data)

    def _take_turn(self) -> None:
        if self._resume():
            self._window.take_turn()

    def _resume(self) -> bool:
        """Reads on, unless the connection has been lost, or waits for its application. Returns whether it does."""
        protocol = self._protocol
        if self._transport is None or not isinstance(protocol, Protocol) or protocol.flow.read_paused:
            return False
        self._transport.resume_reading()
        return True
