"""One request of a connection and its answer: uvicorn's, but an answer of known length is sent in one write.

Head and body together are one TLS record and one system call, which saves a fifth of the CPU time of a small answer
(docs/decisions/http-server.md).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from http import HTTPStatus
from typing import Final, Protocol

from uvicorn._types import ASGIReceiveEvent, ASGISendEvent, HTTPResponseStartEvent, HTTPScope
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import RequestResponseCycle
from uvicorn.server import ServerState

from registry.http.serving.flag import Flag

# Above this, copying head and body together costs more than a second write.
JOINED_LIMIT_BYTES = 64 * 1024


def _status_line(code: int) -> bytes:
    """Returns a status line. Webhooks may refuse with codes that have no name; Go names them like this."""
    known = code in HTTPStatus._value2member_map_
    return f"HTTP/1.1 {code} {HTTPStatus(code).phrase if known else f'status code {code}'}\r\n".encode()


_STATUS_LINES: Final = {code: _status_line(code) for code in range(100, 1000)}


class _DefaultLines:
    """The headers of every answer as lines. uvicorn replaces their list each second, when the date changes."""

    def __init__(self) -> None:
        self._headers: list[tuple[bytes, bytes]] = []
        self._lines = b""

    def of(self, headers: list[tuple[bytes, bytes]]) -> bytes:
        if headers is not self._headers:
            self._headers = headers
            self._lines = b"".join(name + b": " + value + b"\r\n" for name, value in headers)
        return self._lines


_default_lines: Final = _DefaultLines()


# The scope of an answer of unknown length: what sends its parts only asks for the method.
_STREAMED: Final[HTTPScope] = {"method": "GET"}  # type: ignore[typeddict-item]


def _nothing() -> None:
    pass


class Carrier(Protocol):
    """The connection, as far as a cycle uses it."""

    @property
    def transport(self) -> asyncio.Transport: ...

    @property
    def flow(self) -> FlowControl: ...

    @property
    def logger(self) -> logging.Logger: ...

    @property
    def access_logger(self) -> logging.Logger: ...

    @property
    def server_state(self) -> ServerState: ...

    @property
    def tasks(self) -> set[asyncio.Task[None]]: ...

    def on_response_complete(self) -> None: ...

    def update_held_bytes(self) -> None:
        """Called for each consumed part of the body."""

    def begin_tunnel(self, head: bytes) -> None:
        """Called with the head of a 101."""

    def leaves_body(self) -> bool:
        """Returns whether the connection ends after the answer because too much of the body is missing."""

    def release_request(self) -> None:
        """Frees what is kept of the request, whose answer may take long."""


class Cycle(RequestResponseCycle):
    """One request and its answer.

    Invariant: `_head` is not empty exactly between the start of an answer of known length and its first body.
    """

    def __init__(self, protocol: Carrier, scope: HTTPScope, *, expects_continue: bool, keep_alive: bool) -> None:
        super().__init__(
            scope,
            protocol.transport,
            protocol.flow,
            protocol.logger,
            protocol.access_logger,
            False,
            protocol.server_state.default_headers,
            Flag(),  # type: ignore[arg-type]
            expects_continue,
            keep_alive,
            protocol.on_response_complete,
        )
        self._head = b""
        # Whether the application has asked for the body.
        self.asks_for_body = False
        # Not its methods: each bound method takes 64 bytes of a watch.
        self._protocol = protocol
        self._when_gone: Callable[[], None] = _nothing

    def end(self, task: asyncio.Task[None]) -> None:
        """The task of the application has ended."""
        self._protocol.tasks.discard(task)
        self.release()

    def release(self) -> None:
        """Drops the scope, which refers to functions of this cycle: only the garbage collector would free both."""
        self.scope = {}  # type: ignore[typeddict-item]

    def answer(self, headers: bytes, body: bytes) -> None:
        """Answers the whole request with 200, unless the client has disconnected. `headers` are lines, each with its
        end, that only contain what a header may; the length is added.

        For fast paths (fast_path.py), which have no task: the client must have read all earlier answers.
        """
        if not self.disconnected:
            end = b"\r\n\r\n" if self.keep_alive else b"\r\nconnection: close\r\n\r\n"
            head = b"%b%b%bcontent-length: %d%b" % (
                _STATUS_LINES[200],
                _default_lines.of(self.default_headers),
                headers,
                len(body),
                end,
            )
            self.response_started = True
            self.waiting_for_100_continue = False
            self._complete(head, body)
        self.on_response = _nothing
        self.release()

    @property
    def can_answer(self) -> bool:
        """Whether `answer` may be called: the client has read all earlier answers."""
        return not self.flow.write_paused

    def is_gone(self) -> bool:
        """Whether the client has disconnected."""
        return self.disconnected

    def when_gone(self, call: Callable[[], None] | None) -> None:
        """Calls `call` when the client disconnects before it is answered; None calls nothing any more."""
        self._when_gone = call or _nothing
        if self.disconnected:
            self._when_gone()

    def connection_lost(self) -> None:
        """Notifies the application, which may wait for its client."""
        self.disconnected = True
        self.message_event.set()
        self._when_gone()

    def abort(self) -> None:
        """Closes the connection at once: the answer has begun and cannot be finished."""
        self.disconnected = True
        self.transport.abort()

    async def receive(self) -> ASGIReceiveEvent:
        self.asks_for_body = True
        message = await super().receive()
        self._protocol.update_held_bytes()
        return message

    async def send(self, message: ASGISendEvent) -> None:
        if self._head:
            await self._send_with_head(message)
        elif self.chunked_encoding and message.get("more_body") and not self.response_complete:
            await self._send_chunk(message.get("body", b""))  # type: ignore[arg-type]
        elif message["type"] == "http.response.start" and not self.response_started and not self.disconnected:
            if self.flow.write_paused:
                await self.flow.drain()
            if not self.disconnected:
                self._start(message)
        else:
            await super().send(message)

    def _start(self, message: HTTPResponseStartEvent) -> None:
        """Encodes the head. It waits for its body if the length is known; heads of streams are sent at once."""
        code, length, closes = message["status"], -1, False
        parts = [_STATUS_LINES[code], _default_lines.of(self.default_headers)]
        for name, value in message.get("headers", ()):
            parts += (name, b": ", value, b"\r\n")
            if name == b"content-length":
                length = int(value)
            elif name == b"connection":
                closes = b"close" in value.lower()
        if closes:
            self.keep_alive = False
        elif code != 101 and (not self.keep_alive or self._protocol.leaves_body()):
            parts += (b"connection", b": ", b"close", b"\r\n")
        self.chunked_encoding = length < 0 and self.scope["method"] != "HEAD" and code not in (101, 204, 304)
        if self.chunked_encoding:
            parts += (b"transfer-encoding", b": ", b"chunked", b"\r\n")
        parts.append(b"\r\n")
        head, lines = b"".join(parts), len(self.default_headers) + len(parts) // 4 + 2
        self.response_started = True
        self.waiting_for_100_continue = False
        self.expected_content_length = max(length, 0)
        if head.count(b"\n") != lines or head.count(b"\r") != lines or 0 in head:
            raise RuntimeError("a header of the answer holds a line break or a NUL")
        if code == 101:
            self.keep_alive = False
            self._protocol.begin_tunnel(head)
        elif length < 0:
            self.transport.write(head)
            if self.chunked_encoding:  # a watch, which may take long
                self.scope = _STREAMED
                self._protocol.release_request()
        else:
            self._head = head

    async def _send_chunk(self, part: bytes) -> None:
        """Sends a part of an answer of unknown length that is not complete, as most of what a watch sends."""
        if self.flow.write_paused and not self.disconnected:
            await self.flow.drain()
        if part and not self.disconnected:
            self.transport.write(b"%x\r\n%b\r\n" % (len(part), part))

    async def _send_with_head(self, message: ASGISendEvent) -> None:
        if self.flow.write_paused and not self.disconnected:
            await self.flow.drain()
        head, self._head = self._head, b""
        if self.disconnected:
            return
        body = message.get("body", b"") if message["type"] == "http.response.body" else b""
        whole = not message.get("more_body") and len(body) == self.expected_content_length
        if not whole or len(body) > JOINED_LIMIT_BYTES or self.scope["method"] == "HEAD":
            self.transport.write(head)
            await super().send(message)  # which drops the body of an answer to HEAD
            return
        self._complete(head, body)

    def _complete(self, head: bytes, body: bytes) -> None:
        """Sends head and body in one write, which ends the answer."""
        self.transport.write(head + body)
        self.expected_content_length = 0
        self.response_complete = True
        self.message_event.set()
        if not self.keep_alive:  # The server began to stop in between.
            self.transport.close()
        self.on_response()
