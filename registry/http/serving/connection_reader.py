"""Reads connections into one buffer of the process.

Without it each read allocates 256 KiB, whatever it returns (uvloop's sslproto.pyx, `_do_read__copied`, and stream.pyx).
The C library could then neither map texts of that size, nor return them when they are freed
(registry/flowcontrol/allocator.py).

Clients that send records of few bytes share a part of the event loop: each of them waits for its turn. Of those that
send long bodies, a few are read in each iteration of the loop. What they send is parsed, and their ends are handled,
for a few milliseconds in each iteration: thousands of connections may send sixteen requests each at the same moment.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from functools import partial
from typing import Final, cast

from registry.flowcontrol.loop_share import LoopShare
from registry.flowcontrol.read_window import ReadWindow
from registry.flowcontrol.rounds import Rounds
from registry.flowcontrol.timed_rounds import TimedRounds
from registry.http.serving.protocol import Protocol

# What is read of a connection at a time, and decrypted; more is not read of it meanwhile. The event loop reads 256 KiB
# at once: if all of that were decrypted, a round with hundreds of uploads would take a tenth of a second.
BUFFER_BYTES: Final = 64 * 1024
# A part of a long body. Decrypted and kept, a whole buffer takes 0.1 ms; so many connections are read in an iteration.
LONG_BYTES: Final = 16 * 1024
LONG_READS_IN_A_ROW: Final = 8
# What Linux receives of a connection ahead of the event loop (acceptor.py), which reads all of it at once.
RECEIVED_BYTES: Final = 128 * 1024
# How often TLS keeps what was read at once: in the event loop's buffer, and in OpenSSL's, which has a third more.
_KEPT_TIMES: Final = 2 + 1 / 3
_SMALL_READ_BYTES: Final = 4 * 1024
# Data that waits for a client before its application does: with TLS half a megabyte by default.
WRITTEN_BYTES: Final = 32 * 1024
# What a connection that is lost passes everything on to.
_NOTHING: Final = asyncio.Protocol()


@dataclass(frozen=True)
class ReadLimits:
    """What all connections of a process have of the event loop: `small_records` for records of few bytes, `long_reads`
    in one iteration, and `parsing` for what they send and for their ends."""

    small_records: LoopShare = field(default_factory=LoopShare)
    long_reads: Rounds = field(default_factory=lambda: Rounds(LONG_READS_IN_A_ROW))
    parsing: TimedRounds = field(default_factory=TimedRounds)


class ConnectionReader(asyncio.BufferedProtocol):
    """Passes everything on to `protocol`, until the connection is lost: the event loop keeps this object, and so the
    connection would keep itself.

    All connections share the buffer: the event loop reads from no other one between `get_buffer` and `buffer_updated`.
    Reading is paused while what was read waits to be parsed (`_unparsed`), and while the next read waits for its turn.
    """

    _buffer: Final = memoryview(bytearray(BUFFER_BYTES))

    def __init__(self, protocol: Protocol, limits: ReadLimits) -> None:
        self._protocol: asyncio.Protocol = protocol
        self._limits = limits
        self._window = ReadWindow(limits.small_records, BUFFER_BYTES)
        self._transport: asyncio.ReadTransport | None = None
        self._is_tls = False
        self._unparsed = b""
        self._waits_to_read = False
        # Of smaller reads the buffers are what every connection has.
        self._largest_read = _SMALL_READ_BYTES

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._is_tls = transport.get_extra_info("ssl_object") is not None
        if self._is_tls:
            transport.set_read_buffer_limits(BUFFER_BYTES)  # type: ignore[attr-defined]
        transport.set_write_buffer_limits(WRITTEN_BYTES)  # type: ignore[attr-defined]
        self._transport = cast(asyncio.ReadTransport, transport)  # uvloop's transports are not of this class
        self._protocol.connection_made(transport)

    def connection_lost(self, exc: Exception | None) -> None:
        protocol, self._protocol = self._protocol, _NOTHING
        self._transport = None
        lose = partial(protocol.connection_lost, exc)
        try:
            if self._unparsed:
                data, self._unparsed = self._unparsed, b""
                protocol.data_received(data)  # which takes it only if another protocol than HTTP is spoken
        finally:
            if not self._limits.parsing.try_run(lose):
                self._limits.parsing.wait(_tenant_of(protocol), lose)

    def pause_writing(self) -> None:
        self._protocol.pause_writing()

    def resume_writing(self) -> None:
        self._protocol.resume_writing()

    def eof_received(self) -> bool | None:
        """Closes the connection: requests that wait to be parsed are not served, like those that are in progress."""
        return self._protocol.eof_received()

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._buffer[: self._window.begin()]

    def buffer_updated(self, nbytes: int) -> None:
        self._unparsed += bytes(self._buffer[:nbytes])
        is_slow = self._window.end(nbytes)
        if nbytes > self._largest_read:
            self._count_buffers(nbytes)
        if (transport := self._transport) is not None:
            if is_slow:
                self._waits_to_read = True
                transport.pause_reading()
                self._limits.small_records.when_free(self._take_turn)
            elif nbytes >= LONG_BYTES and not self._limits.long_reads.try_turn():
                self._waits_to_read = True
                transport.pause_reading()
                self._limits.long_reads.wait(self._read_on)
        if not self._limits.parsing.try_run(self._parse):
            if transport is not None:
                transport.pause_reading()
            self._limits.parsing.wait(_tenant_of(self._protocol), self._parse_in_turn)

    def _count_buffers(self, count: int) -> None:
        """Counts what TLS keeps for so much that was read at once."""
        self._largest_read = count
        if self._is_tls and isinstance(self._protocol, Protocol):
            received = count if count < BUFFER_BYTES else RECEIVED_BYTES
            self._protocol.keep_received(int(_KEPT_TIMES * received))

    def _parse_in_turn(self) -> None:
        self._parse()
        self._resume()

    def _parse(self) -> None:
        if self._unparsed:
            data, self._unparsed = self._unparsed, b""
            self._protocol.data_received(data)

    def _take_turn(self) -> None:
        if self._read_on():
            self._window.take_turn()

    def _read_on(self) -> bool:
        """Ends the wait for the next read. Returns whether reading continues."""
        self._waits_to_read = False
        return self._resume()

    def _resume(self) -> bool:
        """Reads on, unless something else is waited for or the connection has been lost. Returns whether it does."""
        protocol = self._protocol
        if self._transport is None or not isinstance(protocol, Protocol) or protocol.flow.read_paused:
            return False
        if self._unparsed or self._waits_to_read:
            return False
        self._transport.resume_reading()
        return True


def _tenant_of(protocol: asyncio.Protocol) -> str:
    return protocol.tenant if isinstance(protocol, Protocol) else ""
