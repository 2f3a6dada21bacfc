"""TLS with a tenant's server: its handshake is charged to the tenant, and the end of the TCP connection is kept from it
until everything before it has been decrypted.

The TLS of asyncio and of uvloop drops what it has not decrypted when the peer closes the connection: after
`eof_received` it fills one more buffer of a BufferedProtocol, or none while reading is paused, and shuts down
(`_do_flush` of SSLProtocol). Of a server that sends an answer and closes, the last tens of kilobytes
would be lost.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
import time
from contextvars import ContextVar
from typing import Final, cast

from registry.flowcontrol.loop_share import LoopShare

# Of the task that opens a connection, and of the callbacks that it starts.
_share: Final[ContextVar[LoopShare | None]] = ContextVar("share", default=None)


class MeteredTls(ssl.SSLObject):
    """Charges the steps of a handshake. A server chooses the keys of its certificates, of which each may take 8 ms."""

    _charged: LoopShare | None = None

    def do_handshake(self) -> None:
        self._charged = share = self._charged or _share.get()
        began = time.thread_time()
        try:
            super().do_handshake()
        finally:
            if share is not None:
                share.charge_handshake(time.thread_time() - began)


class DecryptedProtocol(asyncio.BufferedProtocol):
    """What TLS passes decrypted data on to. It says whether it has read everything, before each read and after it."""

    _has_read_all = True
    _keeper: EndKeeper | None = None

    @property
    def has_read_all(self) -> bool:
        """Whether the last read has left nothing to decrypt."""
        return self._has_read_all

    @has_read_all.setter
    def has_read_all(self, value: bool) -> None:
        self._has_read_all = value
        if value and self._keeper is not None:
            self._keeper.schedule()

    def keep(self, keeper: EndKeeper | None) -> None:
        """Notifies `keeper` when everything has been read."""
        self._keeper = keeper


class EndKeeper(asyncio.BufferedProtocol):
    """Stands between a TCP connection and its TLS."""

    def __init__(self, transport: asyncio.Transport, application: DecryptedProtocol) -> None:
        """`transport` is the TCP connection, whose protocol is TLS."""
        self._transport = transport
        self._tls = cast(asyncio.BufferedProtocol, transport.get_protocol())
        self._application = application
        self._is_scheduled = False
        # These two need nothing of their own.
        self.get_buffer = self._tls.get_buffer  # type: ignore[method-assign]
        self.connection_lost = self._tls.connection_lost  # type: ignore[method-assign]

    def pause_writing(self) -> None:
        self._tls.pause_writing()

    def resume_writing(self) -> None:
        self._tls.resume_writing()

    def buffer_updated(self, nbytes: int) -> None:
        self._application.has_read_all = False
        self._tls.buffer_updated(nbytes)

    def eof_received(self) -> bool | None:
        if self._application.has_read_all:
            return self._tls.eof_received()
        self._application.keep(self)
        return True

    def schedule(self) -> None:
        """Passes the end on, after the callback that has read everything, unless there is more."""
        if not self._is_scheduled:
            self._is_scheduled = True
            asyncio.get_running_loop().call_soon(self._end)

    def _end(self) -> None:
        self._is_scheduled = False
        if self._application.has_read_all:
            self._application.keep(None)
            if not self._transport.is_closing() and not self._tls.eof_received():
                self._transport.close()


async def open_tls(
    opened: socket.socket, context: ssl.SSLContext, host: str, application: DecryptedProtocol, share: LoopShare
) -> None:
    """Begins TLS on a connected socket, for `application`; `share` is that to which the handshake is charged if
    the context's objects are MeteredTls. Raises OSError and ssl.SSLError."""
    loop = asyncio.get_running_loop()
    _share.set(share)
    plain, _ = await loop.create_connection(asyncio.Protocol, sock=opened)
    try:
        # Of a connection that has ended by now, uvloop raises in a callback instead of here.
        if plain.is_closing():
            raise ConnectionResetError
        transport = await loop.start_tls(plain, application, context, server_hostname=host)
    except BaseException:
        plain.abort()
        raise
    # The connection has ended during the handshake, or just after it: then uvloop's has no protocol.
    if transport is None or plain.get_protocol() is None:
        raise ConnectionResetError
    plain.set_protocol(EndKeeper(plain, application))
    application.connection_made(transport)
