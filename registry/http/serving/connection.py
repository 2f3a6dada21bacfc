"""A connection of a client, between its socket and the HTTP protocol: with TLS or without.

All connections of a process share one buffer for reading: the event loop reads from no other one between `get_buffer`
and `buffer_updated`. What thousands of them send at the same moment is decrypted and parsed for a few milliseconds in
each iteration of the loop, and their handshakes are answered for a few, the tenants taking turns. A connection whose
data waits for its turn is not read. Clients that send records of few bytes share a part of the loop.

What is written is encrypted in pieces, each when the client has read the ones before: a slow one keeps no encrypted
copy.
"""

from __future__ import annotations

import asyncio
import enum
import logging
import ssl
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, cast

from registry.flowcontrol.loop_share import LoopShare, ReadWindow
from registry.flowcontrol.rounds import Rounds, TimedRounds
from registry.http.serving.protocol import Protocol
from registry.http.serving.timed_protocol import READ_SECONDS
from registry.http.serving.tls_session import PIECE_BYTES, TlsSession

logger = logging.getLogger(__name__)

# What Linux receives of a connection ahead of the event loop (acceptor.py).
RECEIVED_BYTES: Final = 128 * 1024
# What is read of small records at a time: some forty of these.
_SMALL_RECORDS_BYTES: Final = 1024
# Up to so much at once, OpenSSL's buffers are what every connection has.
_SMALL_BYTES: Final = 4 * 1024
# Data that waits for a client before its application does.
WRITTEN_BYTES: Final = 32 * 1024
# How long a closed connection waits for the client to close it, too, and how much it reads meanwhile. Where data is
# left unread, the system would discard what it has not sent yet, such as the last answer (tcp(7); Go's net/http waits
# likewise). A client that is gone would hold the end of the process.
GOODBYE_SECONDS: Final = 1.0
_GOODBYE_BYTES: Final = 1024 * 1024
# What handshakes take of an iteration of the event loop, each up to a millisecond.
_HANDSHAKES_SECONDS: Final = 0.002
# What bodies take of it. A client that waits for a short answer waits for some six iterations.
_BODIES_SECONDS: Final = 0.002
# Requests that are cancelled in one iteration because their connections have ended: a watch takes 0.1 ms.
_CANCELLED_AT_ONCE: Final = 16
# Connections that are closed in one iteration because their clients have closed them: the event loop's own work for it,
# and what TLS frees, takes 0.03 ms.
_CLOSED_AT_ONCE: Final = 32
# The first bytes of a request without TLS (tlsRecordHeaderLooksLikeHTTP, and the methods that it does not know), and
# the answer of Go's net/http (server.go).
_HTTP_STARTS: Final = frozenset({b"GET /", b"HEAD ", b"POST ", b"PUT /", b"OPTIO", b"PATCH", b"DELET"})
_PLAIN_HTTP: Final = b"HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS server.\n"


@dataclass(frozen=True)
class ReadLimits:
    """What all connections of a process have of the event loop: `small_records` for records of few bytes, `handshakes`
    for these, `bodies` for the bodies of requests after their beginnings, `parsing` for what else they send and for
    their ends, `cancellations` for ends during a request, which takes most of its time when it is cancelled, in the
    next iteration, and `closings` for what the event loop does after clients have closed their connections. So a
    request without a body does not wait for those of others, of the same tenant either."""

    small_records: LoopShare = field(default_factory=LoopShare)
    handshakes: TimedRounds = field(default_factory=lambda: TimedRounds(_HANDSHAKES_SECONDS))
    bodies: TimedRounds = field(default_factory=lambda: TimedRounds(_BODIES_SECONDS))
    parsing: TimedRounds = field(default_factory=TimedRounds)
    cancellations: Rounds = field(default_factory=lambda: Rounds(_CANCELLED_AT_ONCE))
    closings: Rounds = field(default_factory=lambda: Rounds(_CLOSED_AT_ONCE))


class _Stage(enum.Enum):
    HANDSHAKE = enum.auto()
    OPEN = enum.auto()
    # It has been closed: nothing more is sent, and what is received is discarded.
    GOODBYE = enum.auto()
    LOST = enum.auto()


class ClientConnection(asyncio.BufferedProtocol, asyncio.Transport):
    """The protocol of the socket's transport, and the transport of `protocol`, until the connection is lost.

    Invariants: `_received` is what was read and waits for its turn; `_left` is what was written and waits for the
    client to read, not encrypted yet.
    """

    __slots__ = (
        "_closes", "_context", "_discarded", "_has_ended", "_is_full", "_is_held", "_is_large", "_is_reading", "_left",
        "_limits", "_opened", "_protocol", "_received", "_session", "_stage", "_transport", "_waits_for_share",
        "_window",
    )  # fmt: skip

    _buffer: Final = memoryview(bytearray(PIECE_BYTES))

    def __init__(self, protocol: Protocol, limits: ReadLimits, context: ssl.SSLContext | None) -> None:
        super().__init__()
        self._protocol: Protocol | None = protocol
        self._limits = limits
        self._context = context
        # Made for the first bytes, so that a silent connection takes little.
        self._session: TlsSession | None = None
        self._stage = _Stage.HANDSHAKE
        self._transport: asyncio.Transport | None = None
        self._window = ReadWindow(limits.small_records, _SMALL_RECORDS_BYTES, PIECE_BYTES)
        self._received = b""
        self._discarded = 0
        # Whether the protocol has paused reading; whether data may only be read in the turn of small records; and
        # whether, therefore, nothing is read now.
        self._is_held = self._waits_for_share = False
        self._is_reading = True
        # Whether the client has closed its side, which is reported once everything is parsed.
        self._has_ended = False
        self._left: list[memoryview] = []  # a deque takes 600 bytes
        # Whether the socket's transport takes no more; whether the connection ends once nothing is left.
        self._is_full = self._closes = False
        # Whether its buffers have grown.
        self._is_large = False
        self._opened: asyncio.Future[None] | None = None

    async def opened(self) -> None:
        """Returns when the protocol has its connection, or the connection is lost before."""
        if self._stage is _Stage.HANDSHAKE:
            self._opened = asyncio.get_running_loop().create_future()
            await self._opened

    # -- the protocol of the socket's transport
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's transports are not of this class
        if self._stage is _Stage.GOODBYE:
            self._transport.abort()
            return
        self._transport.set_write_buffer_limits(WRITTEN_BYTES)
        if self._context is None:
            self._open()

    def _open(self) -> None:
        self._stage = _Stage.OPEN
        assert self._protocol is not None, "it has not been lost"
        self._protocol.connection_made(self)
        self._end_wait()

    def _end_wait(self) -> None:
        if self._opened is not None and not self._opened.done():
            self._opened.set_result(None)
        self._opened = None

    def connection_lost(self, exc: Exception | None) -> None:
        """Drops everything: the event loop keeps this object for a while."""
        protocol, self._protocol = self._protocol, None
        was_open = protocol is not None and protocol.was_made
        self._stage = _Stage.LOST
        # Freed in its turn, which takes as long as the rest.
        session = [self._session]
        self._transport = self._session = None
        self._received = b""
        self._left.clear()
        if protocol is not None and was_open:
            lose = partial(_lose, protocol, exc, session)
            if protocol.has_request():
                self._limits.cancellations.run(partial(_run, lose), protocol.tenant)
            elif not self._limits.parsing.try_run(lose):
                self._limits.parsing.wait(protocol.tenant, lose)
        self._end_wait()

    def eof_received(self) -> bool:
        """Keeps the transport open: it is closed in its turn."""
        self._has_ended = True
        if not self._received:
            self._limits.closings.run(self._close_in_turn, self._protocol.tenant if self._protocol is not None else "")
        return True

    def _close_in_turn(self) -> bool:
        """Returns whether it was still open."""
        if self._transport is None:
            return False
        if self._stage is _Stage.OPEN and self._protocol is not None:
            self._protocol.eof_received()
        self._transport.close()
        return True

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._buffer[: self._window.begin()]

    def buffer_updated(self, nbytes: int) -> None:
        if self._stage is _Stage.GOODBYE:
            self._discarded += nbytes
            if self._discarded > _GOODBYE_BYTES:
                self.abort()
            return
        self._received += bytes(self._buffer[:nbytes])
        if not self._rounds().try_run(self._proceed):
            self._rounds().wait(self._protocol.tenant if self._protocol is not None else "", self._proceed_in_turn)
            self._update_reading()

    def _rounds(self) -> TimedRounds:
        if self._stage is not _Stage.OPEN or self._protocol is None:
            return self._limits.handshakes
        return self._limits.bodies if self._protocol.receives_body else self._limits.parsing

    def _proceed_in_turn(self) -> None:
        self._proceed()
        if self._has_ended:
            if self._stage is _Stage.OPEN and self._protocol is not None:
                self._protocol.eof_received()
            self.close()
        self._update_reading()

    def _proceed(self) -> None:
        """Decrypts and parses what was received."""
        received, self._received = self._received, b""
        if self._stage is _Stage.OPEN:
            self._receive(received)
        elif self._stage is _Stage.HANDSHAKE and received:
            self._shake_hands(received)

    def _receive(self, received: bytes) -> None:
        protocol, session = self._protocol, self._session
        assert protocol is not None, "it is open"
        if session is None:
            self._window.end(len(received), len(received), 0.0)
            protocol.data_received(received)
            return
        # Not the time that passes: threads and programs that run meanwhile would make a fast read look slow.
        began = time.thread_time()
        try:
            data = session.decrypt(received)
        except ssl.SSLError as problem:
            self._fail(session, problem)
            return
        if self._window.end(len(received), len(data), time.thread_time() - began):
            self._waits_for_share = True
            self._limits.small_records.when_free(self._take_turn)
            self._update_reading()
        self._send_output(session)
        if len(received) > _SMALL_BYTES and not self._is_large:
            self._count_buffers()
        if data:
            protocol.data_received(data)
        if session.has_ended and not self.is_closing():
            protocol.eof_received()
            self.close()

    def _shake_hands(self, received: bytes) -> None:
        session = self._session
        if session is None:
            if received[:5] in _HTTP_STARTS:
                self._say_goodbye(_PLAIN_HTTP)
                return
            assert self._context is not None, "without TLS there is no handshake"
            session = self._session = TlsSession(self._context)
        try:
            is_done = session.shake_hands(received)
        except ssl.SSLError as problem:
            self._fail(session, problem)
            return
        self._send_output(session)
        if is_done:
            self._open()
            self._receive(b"")

    def _send_output(self, session: TlsSession) -> None:
        """Sends what TLS itself has to send. While the client reads nothing, that waits, and nothing is read of it:
        it could ask for new keys for ever."""
        if self._is_full:
            self._update_reading()
        elif (output := session.take_output()) and self._transport is not None:
            self._transport.write(output)

    def _fail(self, session: TlsSession, problem: ssl.SSLError) -> None:
        logger.debug("TLS failed: %s", problem)
        self._left.clear()
        self._say_goodbye(session.take_output())

    def _take_turn(self) -> None:
        self._waits_for_share = False
        self._window.take_turn()
        self._update_reading()

    def _update_reading(self) -> None:
        if self._transport is None:
            return
        waits = self._is_held or self._waits_for_share or self._received or self._has_output_to_keep()
        is_wanted = not waits or self._stage is _Stage.GOODBYE
        if is_wanted != self._is_reading:
            self._is_reading = is_wanted
            if is_wanted:
                self._transport.resume_reading()
            else:
                self._transport.pause_reading()

    def _has_output_to_keep(self) -> bool:
        return self._is_full and self._session is not None and self._session.has_output

    def pause_writing(self) -> None:
        self._is_full = True
        if self._stage is _Stage.OPEN and self._protocol is not None:
            self._protocol.pause_writing()

    def resume_writing(self) -> None:
        self._is_full = False
        if self._session is not None and self._session.has_output:
            self._send_output(self._session)
            self._update_reading()
        self._write_left()
        if not self._left and self._stage is not _Stage.HANDSHAKE and self._protocol is not None:
            self._protocol.resume_writing()

    # -- the transport of the HTTP protocol
    def write(self, data: bytes | bytearray | memoryview) -> None:
        if self._stage is not _Stage.OPEN or self._closes or not data:
            return
        assert self._transport is not None, "it is open"
        if self._session is None:
            self._transport.write(data)
        elif len(data) <= PIECE_BYTES and not self._is_full:
            self._encrypt(self._session, data)
        else:
            self._left.append(memoryview(data))
            self._write_left()

    def _write_left(self) -> None:
        left = self._left
        while left and not self._is_full and self._session is not None:
            text = left.pop(0)
            if len(text) > PIECE_BYTES:
                left.insert(0, text[PIECE_BYTES:])
            self._encrypt(self._session, text[:PIECE_BYTES])
        if self._closes and not left:
            self._close()

    def _encrypt(self, session: TlsSession, data: bytes | bytearray | memoryview) -> None:
        if len(data) > _SMALL_BYTES and not self._is_large:
            self._count_buffers()
        try:
            encrypted = session.encrypt(data)
        except ssl.SSLError as problem:
            logger.debug("TLS failed: %s", problem)
            self.abort()
            return
        if self._transport is not None:
            self._transport.write(encrypted)

    def _count_buffers(self) -> None:
        self._is_large = True
        if self._protocol is not None:
            self._protocol.keep_buffers()

    def close(self) -> None:
        """Closes the connection once all has been written."""
        self._closes = True
        if not self._left:
            self._close()

    def _close(self) -> None:
        if self._stage is _Stage.HANDSHAKE:
            self.abort()
        elif self._stage is _Stage.OPEN:
            self._say_goodbye(b"" if self._session is None else self._session.close())

    def _say_goodbye(self, last: bytes) -> None:
        self._stage, self._closes = _Stage.GOODBYE, True
        self._received = b""
        transport = self._transport
        if transport is None or transport.is_closing():
            return
        if last:
            transport.write(last)
        transport.write_eof()
        if self._has_ended:
            transport.close()
            return
        self._update_reading()
        loop = asyncio.get_running_loop()
        loop.call_later(GOODBYE_SECONDS, self._end_goodbye, loop.time() + READ_SECONDS)

    def _end_goodbye(self, latest: float) -> None:
        if self._transport is None:
            return
        loop = asyncio.get_running_loop()
        if self._transport.get_write_buffer_size() and loop.time() < latest:
            loop.call_later(GOODBYE_SECONDS, self._end_goodbye, latest)
        else:
            self._transport.abort()

    def abort(self) -> None:
        self._closes = True
        self._left.clear()
        if self._stage is not _Stage.LOST:
            self._stage = _Stage.GOODBYE
        if self._transport is not None:
            self._transport.abort()

    def is_closing(self) -> bool:
        return self._closes or self._transport is None or self._transport.is_closing()

    def pause_reading(self) -> None:
        self._is_held = True
        self._update_reading()

    def resume_reading(self) -> None:
        self._is_held = False
        self._update_reading()

    def get_write_buffer_size(self) -> int:
        below = 0 if self._transport is None else self._transport.get_write_buffer_size()
        return below + sum(map(len, self._left))

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        if name == "sslcontext":
            return default if self._context is None else self._context
        if name == "ssl_object":
            return default if self._session is None else self._session.tls
        return default if self._transport is None else self._transport.get_extra_info(name, default)


def _lose(protocol: Protocol, exc: Exception | None, session: list[TlsSession | None]) -> None:
    protocol.connection_lost(exc)
    session.clear()


def _run(work: Callable[[], None]) -> bool:
    work()
    return True
