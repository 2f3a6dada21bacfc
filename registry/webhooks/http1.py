"""An HTTP/1.1 client connection to an external server, which streams bodies.

    connection = await connect(dialer, tenant, origin, context, share, ConnectTimeouts())
    connection.begin(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n", has_answer_body=True)
    head = await connection.head()
    while piece := await connection.read(): ...

No more than BUFFER_BYTES wait for a reader that is slower than the server; heads, trailers and what frames chunks are
bounded. After 101 the connection is a plain stream in both directions. A connection serves one exchange at a time.

Follows Go's net/http transport.go for what ends an exchange and for the texts of errors. Why this is no library:
docs/decisions/http-client.md.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
import time
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Final, NamedTuple, cast

import httptools

from registry.codec.go_text import go_quote
from registry.flowcontrol.loop_share import BYTE_SECONDS, PIECE_SECONDS, LoopShare, ReadWindow
from registry.webhooks.connection import (
    Dialer,
    Lost,
    NotConnected,
    Origin,
    Unreachable,
    connect_problem,
    plain_address,
    socket_text,
)
from registry.webhooks.tls import DecryptedProtocol, open_tls, tls_failure

BUFFER_BYTES: Final = 64 * 1024
# Go's transport allows 10 MiB; a tenth of that is ample.
HEAD_LIMIT_BYTES: Final = 128 * 1024
FIELDS_LIMIT: Final = 1000
_END_OF_HEAD: Final = b"\r\n\r\n"
# The most data between two pieces of a body: chunk extensions and trailers.
_EXCESS_LIMIT_BYTES: Final = 64 * 1024
# Pieces of an answer that are shorter than 64 bytes on average: each costs about as much as a kilobyte.
MAX_SMALL_PIECES: Final = 4096
_SMALL_BYTES: Final = 64
# Decrypted and parsed at once; in chunks of one byte, it takes two milliseconds.
_PARSED_AT_ONCE: Final = 16 * 1024
# What is decrypted of small records at a time.
_SMALL_RECORDS_BYTES: Final = 128
# What the system and the event loop receive ahead of that.
_RECEIVED_BYTES: Final = 64 * 1024
# Interim responses (1xx) before the final one.
_INTERIM_LIMIT: Final = 5

Headers = list[tuple[bytes, bytes]]


class Head(NamedTuple):
    """Header names are in lower case."""

    status: int
    headers: Headers


class HttpConnection(DecryptedProtocol):
    """Invariant: `_parser` exists exactly while a response is awaited or read.

    Its work is charged to `share`, and waits while that is used up. All connections share the buffer: the event loop
    reads from no other one between `get_buffer` and `buffer_updated`.
    """

    _buffer: Final = memoryview(bytearray(_PARSED_AT_ONCE))

    def __init__(self, share: LoopShare) -> None:
        self._share = share
        self._window = ReadWindow(share, _SMALL_RECORDS_BYTES, _PARSED_AT_ONCE)
        self._offered = 0
        self._began = 0.0
        self._delayed = b""
        self._transport: asyncio.Transport | None = None
        self._parser: httptools.HttpResponseParser | None = None
        self._head: asyncio.Future[Head] | None = None
        self._headers: Headers = []
        self._pieces: deque[bytes] = deque()
        self._buffered = 0
        self._reading_paused = False
        self._end_of_last = b""
        self._reader: asyncio.Future[None] | None = None
        self._writer: asyncio.Future[None] | None = None
        self._writing_paused = False
        self._head_bytes = self._excess_bytes = self._interim = 0
        self._max_small_pieces = self._count = self._body_bytes = 0
        self._in_head = self._has_answer_body = self._is_delimited = False
        self._is_complete = self._is_interim = False
        self._problem = ""
        # A function, because an exception that is raised keeps all frames of its reader.
        self._failure: Callable[[], Lost] | None = None
        self.is_lost = False
        self.is_sent = False  # the whole request
        self._stays_open = False
        self.is_tunnel = False
        self.has_answered = False  # any byte of the response has arrived
        self.exchanges = 0

    @property
    def is_reusable(self) -> bool:
        """Whether the exchange is complete, and the whole answer has been read: the next one would get what is left."""
        return self._stays_open and not self._pieces

    # -- one exchange
    def begin(
        self, head: bytes, *, is_whole: bool = True, has_answer_body: bool = True, max_small_pieces: int = 0
    ) -> None:
        """Sends the head of a request, perhaps with its body. `has_answer_body` is False for HEAD.

        Unless it `is_whole`, the rest is to be written, and `is_sent` set then. A server that answers earlier takes
        what comes next for the rest, so that the connection serves no other request.

        More than `max_small_pieces` of less than 64 bytes on average end the exchange; 0 is no limit.
        """
        self.exchanges += 1
        self._end_of_last = b""
        self._parser = httptools.HttpResponseParser(self)
        self._head = asyncio.get_running_loop().create_future()
        self._headers = []
        self._has_answer_body = has_answer_body
        self._head_bytes = self._excess_bytes = self._interim = 0
        self._max_small_pieces, self._count, self._body_bytes = max_small_pieces, 0, 0
        self._in_head, self._is_delimited, self._is_complete, self._is_interim = True, False, False, False
        self._stays_open = self.has_answered = False
        self.is_sent = is_whole
        if self.is_lost or self._transport is None:
            self._fail("EOF", may_repeat=self.exchanges > 1)
            return
        self._transport.write(head)

    async def head(self) -> Head:
        """Returns the head of the response. Raises Lost."""
        assert self._head is not None, "an exchange has begun"
        try:
            return await self._head
        finally:
            self._head = None

    async def read(self) -> bytes:
        """Returns what has arrived of the body, or of the other side of a tunnel, since the last call; b"" at the end.

        Raises Lost if the body was cut off.
        """
        while not self._pieces:
            if self._failure is not None:
                raise self._failure()
            if self._is_complete or self.is_lost:
                return b""
            self._reader = asyncio.get_running_loop().create_future()
            await self._reader
        await self._share.turn()
        data = self._pieces[0] if len(self._pieces) == 1 else b"".join(self._pieces)
        self._share.charge(PIECE_SECONDS + len(data) * BYTE_SECONDS)
        self._pieces.clear()
        self._buffered = 0
        if self._reading_paused and self._transport is not None:
            self._reading_paused = False
            if not self._delayed:
                self._window.take_turn()
                self._transport.resume_reading()
        return data

    async def write(self, data: bytes) -> None:
        """Sends a part of the request's body, or of a tunnel. Raises Lost."""
        if self._writing_paused and not self.is_lost:
            self._writer = asyncio.get_running_loop().create_future()
            await self._writer
        await self._share.turn()
        if self.is_lost or self._transport is None:
            raise self._failure() if self._failure is not None else Lost("EOF")
        self._share.charge(PIECE_SECONDS + len(data) * BYTE_SECONDS)
        self._transport.write(data)

    def end(self) -> None:
        """Closes the connection when everything has been sent."""
        self._stays_open = False
        if self._transport is not None and not self.is_lost:
            self._transport.close()

    def close(self) -> None:
        self._stays_open = False
        if self._transport is not None and not self.is_lost:
            self._transport.abort()

    # -- called by asyncio
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's transports are not of this class
        transport.set_read_buffer_limits(_RECEIVED_BYTES)  # type: ignore[attr-defined]

    def connection_lost(self, error: Exception | None) -> None:
        self._receive_delayed()
        self.is_lost = True
        self._stays_open = False
        if self._parser is not None and not self.is_tunnel and not self._is_complete:
            if not self._in_head and not self._is_delimited and error is None:
                self._is_complete = True  # a body that ends with its connection
            else:
                reset = isinstance(error, ConnectionResetError)
                text = "read: connection reset by peer" if reset else "EOF" if self._in_head else "unexpected EOF"
                self._fail(text, may_repeat=self.exchanges > 1 and not self.has_answered)
        self._wake()
        if self._writer is not None and not self._writer.done():
            self._writer.set_result(None)
        # Both refer to this connection, and TLS keeps a quarter of a megabyte.
        self._transport = self._parser = None

    def pause_writing(self) -> None:
        self._writing_paused = True

    def resume_writing(self) -> None:
        self._writing_paused = False
        if self._writer is not None and not self._writer.done():
            self._writer.set_result(None)

    def get_buffer(self, sizehint: int) -> memoryview:
        self.has_read_all = True
        self._offered = self._window.begin()
        # Not the time that passes: threads and programs that run meanwhile would make a fast read look slow.
        self._began = time.thread_time()
        return self._buffer[: self._offered]

    def buffer_updated(self, nbytes: int) -> None:
        self.has_read_all = nbytes < self._offered
        data = bytes(self._buffer[:nbytes])
        if not self._window.end(nbytes, nbytes, time.thread_time() - self._began) and self._share.is_free:
            self._receive(data)
            return
        self._delayed += data
        if self._transport is not None:
            self._transport.pause_reading()
        self._share.when_free(self._receive_delayed)

    def _receive_delayed(self) -> None:
        data, self._delayed = self._delayed, b""
        if data:
            self._receive(data)
            if not self._reading_paused and not self.is_lost and self._transport is not None:
                self._window.take_turn()
                self._transport.resume_reading()

    def _receive(self, data: bytes) -> None:
        began = time.thread_time()
        if self.is_tunnel:
            self._keep(data)
        elif self._parser is None or self._is_complete:
            self.close()  # unsolicited data
        else:
            self.has_answered = True
            self._feed(self._parser, data)
        self._wake()
        self._share.charge(time.thread_time() - began)

    def _feed(self, parser: httptools.HttpResponseParser, data: bytes) -> None:
        before = self._buffered
        if self._in_head:
            self._head_bytes += len(data)
        self._parse(parser, data)
        if self._in_head and self._head_bytes > HEAD_LIMIT_BYTES:
            self._problem = self._problem or "net/http: server response headers exceeded the limit"
        if self._buffered == before and not self._in_head and not self._is_complete:
            self._excess_bytes += len(data)
            if self._excess_bytes > _EXCESS_LIMIT_BYTES:
                self._problem = self._problem or "chunked encoding contains too much non-data"
        else:
            self._excess_bytes = 0
        if self._problem:
            self._fail(self._problem)
            self.close()

    def _parse(self, parser: httptools.HttpResponseParser, data: bytes) -> None:
        """Parses heads one by one: what follows that of a 101 is no HTTP. The parser stops there, with an error, which
        tells where it has stopped only if the head has the headers of an upgrade."""
        fault = ""
        try:
            while data and self._in_head and not self._problem:
                head, data = self._up_to_end_of_head(data)
                parser.feed_data(head)
            if data:
                parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            fault = "malformed HTTP response: it switches protocols"
        except httptools.HttpParserError:
            fault = "net/http: HTTP/1.x transport connection broken: malformed HTTP response"
        if self.is_tunnel:
            self._keep(data)
        else:
            self._problem = self._problem or fault

    def _up_to_end_of_head(self, data: bytes) -> tuple[bytes, bytes]:
        """Divides data after the empty line that ends a head, which may have begun in `_end_of_last`."""
        known = len(self._end_of_last)
        end = (self._end_of_last + data).find(_END_OF_HEAD) + len(_END_OF_HEAD)
        if end < len(_END_OF_HEAD):
            self._end_of_last = (self._end_of_last + data)[1 - len(_END_OF_HEAD) :]
            return data, b""
        self._end_of_last = b""
        return data[: end - known], data[end - known :]

    # -- called by the parser, which continues after a problem, up to the end of the data
    def on_message_begin(self) -> None:
        if self._is_complete:
            self._stays_open = False  # more than was requested

    def on_header(self, name: bytes, value: bytes) -> None:
        if not self._in_head or self._is_complete:
            return  # trailers are dropped
        name = name.lower()
        if len(self._headers) >= FIELDS_LIMIT:
            self._problem = "net/http: server response headers exceeded the limit"
            return
        if name == b"transfer-encoding" and value.lower() != b"chunked":
            encoding = go_quote(value[:100].decode("latin-1"))
            self._problem = f"net/http: HTTP/1.x transport connection broken: unsupported transfer encoding: {encoding}"
            return
        self._headers.append((name, value))
        if name in (b"content-length", b"transfer-encoding"):
            self._is_delimited = True

    def on_headers_complete(self) -> None:
        if self._parser is None or self._is_complete or self._problem:
            return
        status = self._parser.get_status_code()
        if 100 <= status < 200 and status != 101:
            self._is_interim, self._headers = True, []
            self._interim += 1
            if self._interim > _INTERIM_LIMIT:
                self._problem = "net/http: too many 1xx informational responses"
            return
        if status < 100 or status > 999:
            self._problem = "net/http: HTTP/1.x transport connection broken: malformed HTTP status code"
            return
        self._in_head = False
        self.is_tunnel = status == 101
        if status in (204, 304) or not self._has_answer_body:
            self._is_delimited = True
            self._complete()
        if self._head is not None and not self._head.done():
            self._head.set_result(Head(status, self._headers))

    def on_body(self, body: bytes) -> None:
        if not self._is_complete and self._has_answer_body:
            self._count += 1
            self._body_bytes += len(body)
            if 0 < self._max_small_pieces < self._count and self._count * _SMALL_BYTES > self._body_bytes:
                self._problem = "the answer comes in too many pieces of few bytes"
            self._keep(body)

    def on_message_complete(self) -> None:
        if self._is_interim:
            self._is_interim = False
        elif not self._in_head and not self.is_tunnel:
            self._complete()

    def _complete(self) -> None:
        if not self._is_complete and self._parser is not None:
            # After a HEAD the parser would take further data for a body: such a connection is not reused.
            is_whole = self.is_sent and self._has_answer_body and self._is_delimited
            self._stays_open = is_whole and self._parser.should_keep_alive()
        self._is_complete = True

    def _keep(self, data: bytes) -> None:
        if not data:
            return
        self._pieces.append(data)
        self._buffered += len(data)
        if self._buffered > BUFFER_BYTES and not self._reading_paused and self._transport is not None:
            self._reading_paused = True
            self._transport.pause_reading()

    def _fail(self, text: str, *, may_repeat: bool = False) -> None:
        self._failure = self._failure or partial(Lost, text, may_repeat=may_repeat)
        if self._head is not None and not self._head.done():
            self._head.set_exception(self._failure())
            self._head.exception()  # marks it as retrieved, even if no task awaits it
        self._wake()

    def _wake(self) -> None:
        if self._reader is not None and not self._reader.done():
            self._reader.set_result(None)


class ConnectTimeouts(NamedTuple):
    """Seconds for the TCP connection to one address, and for TLS over it."""

    connect_seconds: float = 5
    tls_seconds: float = 10


async def connect(
    dialer: Dialer, tenant: int, origin: Origin, context: ssl.SSLContext, share: LoopShare, timeouts: ConnectTimeouts
) -> HttpConnection:
    """Opens a connection to a permitted address of the origin. Raises Unreachable."""
    addresses, port = await dialer.addresses(tenant, origin)
    for address in addresses[:-1]:
        try:
            return await _connect(dialer, origin, (address, port), context, share, timeouts)
        except NotConnected:
            continue
    return await _connect(dialer, origin, (addresses[-1], port), context, share, timeouts)


async def _connect(
    dialer: Dialer,
    origin: Origin,
    address: tuple[str, int],
    context: ssl.SSLContext,
    share: LoopShare,
    timeouts: ConnectTimeouts,
) -> HttpConnection:
    loop, peer = asyncio.get_running_loop(), socket_text(*address)
    family, kind, protocol, _, place = socket.getaddrinfo(
        plain_address(address[0]), address[1], type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST
    )[0]
    opened = socket.socket(family, kind, protocol)
    try:
        opened.setblocking(False)
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _RECEIVED_BYTES)
        try:
            async with asyncio.timeout(timeouts.connect_seconds):
                await loop.sock_connect(opened, place)
            connected_to = opened.getpeername()
        except TimeoutError as error:
            raise NotConnected(f"dial tcp {peer}: i/o timeout") from error
        except OSError as error:
            raise NotConnected(f"dial tcp {peer}: connect: {connect_problem(error)}") from error
        dialer.check_peer(origin, connected_to, peer)
        await share.handshake_turn()
        try:
            async with asyncio.timeout(timeouts.tls_seconds):
                connection = HttpConnection(share)
                await open_tls(opened, context, origin.host, connection, share)
        except TimeoutError as error:
            raise Unreachable("net/http: TLS handshake timeout") from error
        except (OSError, ssl.SSLError) as error:
            raise tls_failure(error) from error
    except BaseException:
        opened.close()
        raise
    return connection
