"""Accepts connections from the listening sockets, in the shares of connection_shares.py; more are closed before TLS.

uvicorn would let the event loop accept: without a limit, and with one TLS context for good. Here a connection counts
from the moment that it is accepted, so those that never finish their handshake count too, and `context` can be
replaced at any time: each connection uses the one in force when it is accepted.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import resource
import socket
import ssl
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from prometheus_client import Counter

from registry.flowcontrol.allocator import heap_cutter
from registry.flowcontrol.rounds import Rounds
from registry.http.serving.connection_reader import RECEIVED_BYTES, ConnectionReader, ReadLimits
from registry.http.serving.connection_shares import ConnectionShares, ConnectionSlot
from registry.http.serving.protocol import Protocol

logger = logging.getLogger(__name__)

REFUSED: Final = Counter("registry_connections_refused", "Connections closed at once, for there were too many.")

# The timeout of a client's TLS handshake; afterwards the limits of protocol.py apply.
HANDSHAKE_SECONDS: Final = 30.0
# The timeout for a client's part of closing a TLS connection. A client that is gone would otherwise hold the
# connection, and the end of the process, for half a minute.
GOODBYE_SECONDS: Final = 1.0
# File descriptors for other purposes: PostgreSQL, webhooks, files.
OTHER_FILES: Final = 128
# The first bytes of a request without TLS (tlsRecordHeaderLooksLikeHTTP, and the methods that it does not know).
_HTTP_STARTS: Final = frozenset({b"GET /", b"HEAD ", b"POST ", b"PUT /", b"OPTIO", b"PATCH", b"DELET"})
_PLAIN_HEAD_BYTES: Final = 64 * 1024
# Connections that are accepted in a row, before other work continues.
_IN_A_ROW: Final = 16
# TLS handshakes that begin in one iteration of the event loop: each takes up to a millisecond.
_HANDSHAKES_IN_A_ROW: Final = 2
# The time before the next attempt if the process or the machine has no more files.
_RETRY_SECONDS: Final = 1.0
_NO_ROOM: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
# How often the log reports refused connections.
_TELL_SECONDS: Final = 60.0


def most_connections(wanted: int) -> int:
    """Returns the limit of a process: the setting, but no more than it can have files open."""
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return wanted if files == resource.RLIM_INFINITY else max(1, min(wanted, files - OTHER_FILES))


class Acceptor:
    """Accepts between `start` and `stop`."""

    def __init__(
        self,
        listeners: Sequence[socket.socket],
        make: Callable[[ConnectionSlot], Protocol],
        context: ssl.SSLContext | None,
        shares: ConnectionShares,
    ) -> None:
        self.context = context
        self._read_limits = ReadLimits()
        self._handshake_rounds = Rounds(_HANDSHAKES_IN_A_ROW)
        self._cut_heap = heap_cutter()
        self._listeners = listeners
        self._make = make
        self.shares = shares
        self._handshakes: set[asyncio.Task[None]] = set()
        self._retry: asyncio.TimerHandle | None = None
        self._reported = -_TELL_SECONDS

    def start(self) -> None:
        loop = asyncio.get_running_loop()
        self._retry = None
        for listener in self._listeners:
            loop.add_reader(listener, self._accept, listener)

    def stop(self) -> None:
        """Stops accepting and ends connections in their handshake; others are not affected."""
        self._pause()
        if self._retry is not None:
            self._retry.cancel()
        for task in self._handshakes:
            task.cancel()

    def _pause(self) -> None:
        loop = asyncio.get_running_loop()
        for listener in self._listeners:
            loop.remove_reader(listener)

    def _accept(self, listener: socket.socket) -> None:
        for _ in range(_IN_A_ROW):
            try:
                accepted, _address = listener.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as problem:
                if problem.errno not in _NO_ROOM:
                    raise
                logger.error("no connection can be accepted: %s", problem.strerror)
                self._pause()
                self._retry = asyncio.get_running_loop().call_later(_RETRY_SECONDS, self.start)
                return
            slot = self.shares.open()
            if slot is None:
                self._refuse(accepted)
            else:
                self._begin(accepted, slot)

    def _refuse(self, accepted: socket.socket) -> None:
        accepted.close()
        REFUSED.inc()
        now = asyncio.get_running_loop().time()
        if now - self._reported >= _TELL_SECONDS:
            self._reported = now
            logger.warning("%d connections are open, which is the limit: others are refused", self.shares.limit)

    def _begin(self, accepted: socket.socket, slot: ConnectionSlot) -> None:
        accepted.setblocking(False)
        # Linux takes twice as much.
        accepted.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVED_BYTES // 2)
        task = asyncio.get_running_loop().create_task(self._connect(accepted, slot))
        slot.close = partial(_cancel, task)
        self._handshakes.add(task)
        task.add_done_callback(self._handshakes.discard)

    async def _connect(self, accepted: socket.socket, slot: ConnectionSlot) -> None:
        protocol = self._make(slot)
        try:
            if self.context is not None:
                if await _speaks_plain_http(accepted):
                    _refuse_plain_http(accepted)
                    return
                await self._handshake_rounds.turn()
                self._cut_heap()  # for the buffer that TLS keeps
            await asyncio.get_running_loop().connect_accepted_socket(
                lambda: ConnectionReader(protocol, self._read_limits),
                accepted,
                ssl=self.context,
                ssl_handshake_timeout=HANDSHAKE_SECONDS if self.context is not None else None,
                ssl_shutdown_timeout=GOODBYE_SECONDS if self.context is not None else None,
            )
        except OSError as problem:  # SSLError and timeouts are OSErrors
            logger.debug("a connection could not be set up: %s", problem)
        finally:
            if not protocol.was_made:
                accepted.close()
                protocol.connection_failed()
                slot.end()


def _cancel(task: asyncio.Task[None]) -> None:
    task.cancel()


async def _speaks_plain_http(accepted: socket.socket) -> bool:
    """Whether the first bytes, which are only peeked at, start an HTTP request. Raises TimeoutError without any."""
    loop = asyncio.get_running_loop()
    readable = loop.create_future()
    loop.add_reader(accepted, _set, readable)
    try:
        async with asyncio.timeout(HANDSHAKE_SECONDS):
            await readable
    finally:
        loop.remove_reader(accepted)
    return accepted.recv(5, socket.MSG_PEEK) in _HTTP_STARTS


def _set(readable: asyncio.Future[None]) -> None:
    if not readable.done():
        readable.set_result(None)


def _refuse_plain_http(accepted: socket.socket) -> None:
    """Answers with the message of Go's net/http (server.go). Reads the request first: a close would discard both."""
    accepted.recv(_PLAIN_HEAD_BYTES)
    accepted.send(b"HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS server.\n")
    accepted.shutdown(socket.SHUT_WR)
