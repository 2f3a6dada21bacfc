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

from registry.http.serving.connection import RECEIVED_BYTES, ClientConnection, ReadLimits
from registry.http.serving.connection_shares import ConnectionShares, ConnectionSlot, no_request
from registry.http.serving.protocol import Protocol

logger = logging.getLogger(__name__)

REFUSED: Final = Counter("registry_connections_refused", "Connections closed at once, for there were too many.")

# The timeout of a client's TLS handshake; afterwards the limits of protocol.py apply.
HANDSHAKE_SECONDS: Final = 30.0
# File descriptors for other purposes: PostgreSQL, webhooks, files.
OTHER_FILES: Final = 128
# Connections that are accepted in a row, before other work continues.
_IN_A_ROW: Final = 16
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

    @property
    def is_open(self) -> bool:
        return bool(self._listeners)

    def close(self) -> None:
        """Stops, and frees the port."""
        self.stop()
        for listener in self._listeners:
            listener.close()
        self._listeners = ()

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
        slot.attach(no_request, partial(_cancel, task))
        self._handshakes.add(task)
        task.add_done_callback(self._handshakes.discard)

    async def _connect(self, accepted: socket.socket, slot: ConnectionSlot) -> None:
        protocol = self._make(slot)
        connection = ClientConnection(protocol, self._read_limits, self.context)
        loop = asyncio.get_running_loop()
        is_connected = False
        try:
            async with asyncio.timeout(HANDSHAKE_SECONDS):
                await loop.connect_accepted_socket(lambda: connection, accepted)
                is_connected = True
                await connection.opened()
        except OSError as problem:  # such as a timeout
            logger.debug("a connection could not be set up: %s", problem)
        finally:
            if not is_connected:
                # uvloop closes the transport of a cancelled call without connection_lost(), even if connection_made()
                # has been called.
                connection.connection_lost(None)
            if not protocol.was_made:
                connection.abort()
                accepted.close()
                protocol.connection_failed()
                slot.end()


def _cancel(task: asyncio.Task[None]) -> None:
    task.cancel()
