"""Clients that decide when they read, and with TLS what becomes a record."""

from __future__ import annotations

import contextlib
import functools
import socket
import ssl


@functools.cache
def _context() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


class PlainClient:
    """A client without TLS, on a blocking socket with a small buffer, which only reads in `receive`."""

    def __init__(self, port: int) -> None:
        self.socket = socket.socket()
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        self.socket.connect(("127.0.0.1", port))

    def shake_hands(self) -> None:
        """There is nothing to do."""

    def records(self, *texts: bytes) -> bytes:
        return b"".join(texts)

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def receive(self) -> bytes:
        return self.socket.recv(65536)


class Client:
    """A client on a blocking socket with a small buffer, which only reads in `receive`."""

    def __init__(self, port: int) -> None:
        self.socket = socket.socket()
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        self.socket.connect(("127.0.0.1", port))
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = _context().wrap_bio(self._incoming, self._outgoing)

    def first(self) -> bytes:
        """The first message of the handshake."""
        with contextlib.suppress(ssl.SSLWantReadError):
            self._tls.do_handshake()
        return self._outgoing.read()

    def shake_hands(self) -> None:
        self.send(self.first())
        self.take_answer()
        self.send(b"")

    def take_answer(self) -> None:
        """Receives the server's part of the handshake; the last message of it is sent with what is sent next."""
        while True:
            self._incoming.write(self.socket.recv(65536))
            try:
                return self._tls.do_handshake()
            except ssl.SSLWantReadError:
                pass

    def records(self, *texts: bytes) -> bytes:
        for text in texts:
            self._tls.write(text)
        return self._outgoing.read()

    def send(self, data: bytes) -> None:
        self.socket.sendall(self._outgoing.read() + data)

    def receive(self) -> bytes:
        while True:
            try:
                return self._tls.read(65536)
            except ssl.SSLWantReadError:
                self._incoming.write(self.socket.recv(65536))
