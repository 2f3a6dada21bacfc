"""The HTTP/1.1 connection: uvicorn's, with the limits, facts and speed that a public API server needs.

Added to uvicorn's:
- a time limit for the head of a request and a bound on its size: a client that trickles headers would hold a
  connection for ever; likewise for its body, and for an answer that the client does not read;
- one Host to each request: a proxy in front and we must not read two of them differently;
- the client's TLS certificate in the scope, where a client CA is configured:
  `scope["extensions"]["tls"] == {"client_certificate": b"<DER>"}`;
- an answer of known length leaves in one write, head and body together: one TLS record, one system call
  (a fifth of the CPU of a small answer; docs/decisions/http-server.md).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from uvicorn._types import ASGISendEvent, HTTPResponseStartEvent
from uvicorn.protocols.http import httptools_impl
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle

# What kube-apiserver allows: net/http's DefaultMaxHeaderBytes is 1 MiB, its ReadHeaderTimeout 32 s. Nobody needs a
# mebibyte of headers; 128 KiB hold the longest selectors and continue tokens many times over.
HEAD_LIMIT_BYTES = 128 * 1024
HEAD_SECONDS = 32.0
# For a body, which has 3 MiB at most: kube-apiserver gives a whole request a minute.
BODY_SECONDS = 60.0
# For a client that has been sent more than its connection takes to read on. What waits for it is some 64 KiB.
READ_SECONDS = 120.0

TOO_LATE = b"HTTP/1.1 408 Request Timeout\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
TOO_LARGE = b"HTTP/1.1 431 Request Header Fields Too Large\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"

# Above this, copying head and body together costs more than a second write.
JOINED_LIMIT_BYTES = 64 * 1024

# Admission webhooks may refuse with codes that have no name; Go names them like this.
for _code in range(100, 1000):
    STATUS_LINE.setdefault(_code, b"HTTP/1.1 %d status code %d\r\n" % (_code, _code))


class Cycle(RequestResponseCycle):
    """One request and its answer.

    Invariant: `_head` is not empty exactly between the start of an answer of known length and its first body.
    """

    _head = b""

    async def send(self, message: ASGISendEvent) -> None:
        if self._head:
            await self._send_with_head(message)
        elif message["type"] == "http.response.start" and not self.response_started and self._hold(message):
            pass
        else:
            await super().send(message)

    def _hold(self, message: HTTPResponseStartEvent) -> bool:
        """Whether the head can wait for its body; if so, it is encoded and kept. Streams' heads leave at once."""
        if self.disconnected or not self.keep_alive or self.scope["method"] == "HEAD":
            return False
        length = -1
        parts = [STATUS_LINE[message["status"]]]
        for name, value in (*self.default_headers, *message.get("headers", ())):
            parts += (name, b": ", value, b"\r\n")
            if name == b"content-length":
                length = int(value)
            elif name == b"connection" or name == b"transfer-encoding":
                return False
        parts.append(b"\r\n")
        head = b"".join(parts)
        lines = len(parts) // 4 + 2
        if length < 0 or head.count(b"\n") != lines or head.count(b"\r") != lines or 0 in head:
            return False  # uvicorn's own way refuses what could forge a header.
        self._head = head
        self.response_started = True
        self.waiting_for_100_continue = False
        self.chunked_encoding = False
        self.expected_content_length = length
        return True

    async def _send_with_head(self, message: ASGISendEvent) -> None:
        if self.flow.write_paused and not self.disconnected:
            await self.flow.drain()
        head, self._head = self._head, b""
        if self.disconnected:
            return
        body = message.get("body", b"") if message["type"] == "http.response.body" else b""
        whole = not message.get("more_body") and len(body) == self.expected_content_length
        if not whole or len(body) > JOINED_LIMIT_BYTES:
            self.transport.write(head)
            await super().send(message)
            return
        self.transport.write(head + body)
        self.expected_content_length = 0
        self.response_complete = True
        self.message_event.set()
        if not self.keep_alive:  # The server began to stop in between.
            self.transport.close()
        self.on_response()


# uvicorn looks its class up by this name for each request and offers no other way to replace it.
httptools_impl.RequestResponseCycle = Cycle  # type: ignore[misc]


class Protocol(HttpToolsProtocol):
    """One connection.

    Invariant: `_head_timer` is armed exactly while a request's head is incomplete, from the first byte on (for the
    first request: from the connection on). `_body_timer` is armed while a body is incomplete that did not come with its
    head, `_stall_timer` while more has been written than the client takes.
    """

    _extensions: dict[str, Any] | None = None
    _head_timer: asyncio.TimerHandle | None = None
    _body_timer: asyncio.TimerHandle | None = None
    _stall_timer: asyncio.TimerHandle | None = None
    # Whether there is a connection, or was; told of its end, once.
    was_made = False
    when_lost: Callable[[], None] = staticmethod(lambda: None)
    _reading_head = False
    _reading_body = False
    _head_bytes = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.was_made = True
        self._head_timer = self.loop.call_later(HEAD_SECONDS, self._head_is_late)
        tls = transport.get_extra_info("ssl_object")
        certificate = tls.getpeercert(binary_form=True) if tls is not None else None
        if certificate is not None:
            self._extensions = {"tls": {"client_certificate": certificate}}

    @property
    def shows_certificate(self) -> bool:
        """Whether the client has shown one that was good when the connection was made."""
        return self._extensions is not None

    def connection_lost(self, exc: Exception | None) -> None:
        self._disarm()
        self._disarm_body()
        self.resume_writing()
        super().connection_lost(exc)
        self.when_lost()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self._reading_head:
            self._head_bytes += len(data)
            if self._head_bytes > HEAD_LIMIT_BYTES:
                self.transport.write(TOO_LARGE)
                self.transport.close()
            elif self._head_timer is None:
                self._head_timer = self.loop.call_later(HEAD_SECONDS, self._head_is_late)
        elif self._reading_body:
            if self._body_timer is None:
                self._body_timer = self.loop.call_later(BODY_SECONDS, self._body_is_late)
        elif self._head_timer is None and self.timeout_keep_alive_task is None and self.cycle.response_complete:
            # Bytes between requests (empty lines, which the parser skips) have stopped the time for idle connections.
            self._head_timer = self.loop.call_later(HEAD_SECONDS, self._head_is_late)

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._reading_head = True
        self._head_bytes = 0
        if self._extensions is not None:
            self.scope["extensions"] = self._extensions

    def on_headers_complete(self) -> None:
        self._reading_head = False
        if self._head_timer is not None:
            self._disarm()
        hosts = [name for name, _ in self.headers if name == b"host"]
        if len(hosts) != 1 and (hosts or self.parser.get_http_version() == "1.1"):
            raise ValueError("not one Host")    # httptools makes a parser's error of it: 400, and the end
        self._reading_body = True
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        self._reading_body = False
        if self._body_timer is not None:
            self._disarm_body()
        super().on_message_complete()

    def pause_writing(self) -> None:
        super().pause_writing()
        if self._stall_timer is None:
            self._stall_timer = self.loop.call_later(READ_SECONDS, self._client_does_not_read)

    def resume_writing(self) -> None:
        if self._stall_timer is not None:
            self._stall_timer.cancel()
            self._stall_timer = None
        super().resume_writing()

    def _disarm(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _disarm_body(self) -> None:
        if self._body_timer is not None:
            self._body_timer.cancel()
            self._body_timer = None

    def _body_is_late(self) -> None:
        self._body_timer = None
        if self.transport.is_closing():
            return
        if self.flow.read_paused:
            # It is us who do not read on.
            self._body_timer = self.loop.call_later(BODY_SECONDS, self._body_is_late)
            return
        if self.cycle is not None and not self.cycle.response_started:
            self.transport.write(TOO_LATE)
        self.transport.close()

    def _client_does_not_read(self) -> None:
        self._stall_timer = None
        self.transport.abort()

    def _head_is_late(self) -> None:
        self._head_timer = None
        if not self.transport.is_closing():
            self.transport.close()
