"""TLS without input and output: what was received becomes data, and data becomes what is to be sent.

An event loop's own TLS keeps a buffer of 256 KiB for each connection, and decrypts and signs as soon as anything
arrives (uvloop's and asyncio's sslproto). Here the connection decides when that is done, and how much at a time, so
that a session keeps little: OpenSSL's buffers stay as large as the longest text that was passed through at once.
"""

from __future__ import annotations

import ssl
from typing import Final

# What is passed through at once: as much as a record of TLS has. OpenSSL keeps a third more (BUF_MEM_grow).
PIECE_BYTES: Final = 16 * 1024


class TlsSession:
    """The server's side of a TLS connection. All methods but `encrypt` and `close` may produce output, such as alerts
    and key updates: see `take_output`."""

    __slots__ = ("_incoming", "_outgoing", "has_ended", "tls")

    def __init__(self, context: ssl.SSLContext) -> None:
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls = context.wrap_bio(self._incoming, self._outgoing, server_side=True)
        # Whether the client has announced that it sends nothing more.
        self.has_ended = False

    def shake_hands(self, received: bytes) -> bool:
        """Returns whether the handshake is done. Raises SSLError."""
        self._incoming.write(received)
        try:
            self.tls.do_handshake()
        except ssl.SSLWantReadError:
            return False
        return True

    def decrypt(self, received: bytes) -> bytes:
        """Returns the data of all records that are complete. Raises SSLError."""
        incoming, tls = self._incoming, self.tls
        incoming.write(received)
        data, more = b"", []
        try:
            while incoming.pending or tls.pending():
                record = tls.read(PIECE_BYTES)
                if not record:  # OpenSSL has none for empty records
                    self.has_ended = True
                    break
                if data:
                    more.append(record)
                else:
                    data = record
        except ssl.SSLWantReadError:
            pass
        return b"".join((data, *more)) if more else data

    def encrypt(self, data: bytes | bytearray | memoryview) -> bytes:
        """Returns what is to be sent for at most PIECE_BYTES of data. Raises SSLError."""
        self.tls.write(data)
        return self._outgoing.read()

    @property
    def has_output(self) -> bool:
        return self._outgoing.pending > 0

    def take_output(self) -> bytes:
        """Returns what TLS itself has to send."""
        return self._outgoing.read() if self._outgoing.pending else b""

    def close(self) -> bytes:
        """Returns the announcement that nothing more is sent."""
        try:
            self.tls.unwrap()
        except ssl.SSLError:  # usually since the client has not announced the same
            pass
        return self._outgoing.read()
