"""The HTTP/1.1 connection: uvicorn's, with the limits, information and speed that a public API server needs.

Added to uvicorn's:
- limits of time (timed_protocol.py) and size for a request's head, for the framing of its body (chunk extensions,
  trailers), for its body, for pipelined requests, and for an answer that the client does not read;
- a limit for the memory that all connections hold for requests that are not consumed yet (backlog.py);
- requests that two servers could parse differently are refused (heads.py), in the order of the answers;
- trailers are dropped: uvicorn would pass them to the application as headers, past a proxy that removes some;
- the client's TLS certificate in the scope, if a client CA is configured:
  `scope["extensions"]["tls"] == {"client_certificate": b"<DER>"}`;
- an answer of known length is sent in one write (cycle.py);
- the application may leave a fast path for further GETs in the connection (fast_path.py).
"""

from __future__ import annotations

import asyncio
from functools import lru_cache, partial
from typing import Any, Final

import httptools
from uvicorn._types import ASGI3Application
from uvicorn.config import Config
from uvicorn.server import ServerState

from registry.codec.go_url import unescape
from registry.flowcontrol.byte_shares import ABORT
from registry.flowcontrol.fair_queue import TooManyRequests
from registry.flowcontrol.interruption import WHEN_GONE
from registry.flowcontrol.time_slice import IS_GONE
from registry.http.serving.backlog import BACKLOG, SMALL_BYTES, UNASKED_BODY_BYTES, UNREAD_LIMIT_BYTES, ReceivedBody
from registry.http.serving.connection_shares import ConnectionSlot
from registry.http.serving.cycle import Cycle
from registry.http.serving.fast_path import FAST_PATHS, FastPath
from registry.http.serving.flag import WriteFlow
from registry.http.serving.heads import FIELDS_LIMIT, HeadRefused, RefusalLog, check_head
from registry.http.serving.timed_protocol import TimedProtocol
from registry.http.serving.tunnel import SWITCH, Switch, Tunnel

# kube-apiserver allows more: net/http's DefaultMaxHeaderBytes is 1 MiB. No client needs a mebibyte of headers; 128 KiB
# hold the longest selectors and continue tokens many times over.
HEAD_LIMIT_BYTES = 128 * 1024
# The limit of trailers (net/http/transfer.go).
TRAILER_LIMIT_BYTES = 4 * 1024
# Requests that wait in a connection for the answers to earlier ones.
PIPELINE_LIMIT = 16

# What a pipelined request counts as in the backlog.
_PIPELINED_BYTES: Final = 4 * 1024

# Functions, because an exception that is raised again keeps the frames of each time.
too_late: Final = partial(HeadRefused, 408)
too_large: Final = partial(HeadRefused, 431)
too_much: Final = partial(HeadRefused, 429, "the server has no room for this request now", [(b"retry-after", b"1")])


_refusals: Final = RefusalLog()


@lru_cache(64)
def _shared(address: tuple[str, int | None] | None) -> tuple[str, int | None] | None:
    """Returns one object for all connections to an address."""
    return address


class Protocol(TimedProtocol):
    """One connection.

    Invariant: `_last_words` is written when earlier requests are answered, after which the connection is closed;
    nothing is read once it is set.
    """

    # Those of uvicorn, too: with a dictionary each connection would take 1.2 kB more.
    __slots__ = (
        "_body", "_extensions", "_head_bytes", "_is_lost", "_kept_bytes", "_last_words",
        "_parsed_bytes", "_read_messages", "_reading_body", "_reading_head", "_running", "_slot",
        "_trailer_bytes", "_tunnel", "access_log", "access_logger", "app", "app_state", "asgi_version", "client",
        "config", "connections", "cycle", "expect_100_continue", "fast_path", "flow", "headers", "is_last",
        "limit_concurrency", "logger", "loop", "parser", "pipeline", "root_path", "scheme", "scope", "server",
        "server_state", "tasks", "tenant", "timeout_keep_alive", "timeout_keep_alive_task", "transport", "url",
        "was_made", "ws_protocol_class",
    )  # fmt: skip

    # The last request; None before the first, and once one is complete and answered.
    cycle: Cycle

    def __init__(
        self, config: Config, server_state: ServerState, app_state: dict[str, Any], slot: ConnectionSlot
    ) -> None:
        super().__init__(config, server_state, app_state)
        self.pipeline: list[tuple[Cycle, ASGI3Application]] = []  # type: ignore[assignment] # a deque takes 600 bytes
        self._slot = slot
        self._extensions: dict[str, Any] | None = None
        # Whether there is a connection, or has been.
        self.was_made = False
        self._is_lost = False
        # Whether the next answer is the last one of the connection.
        self.is_last = False
        self._reading_head = self._reading_body = False
        # Of the last request: the sizes of its head, as received and as parsed, and of its trailers.
        self._head_bytes = self._parsed_bytes = self._trailer_bytes = 0
        # Its body; None before the first of it, and without one.
        self._body: ReceivedBody | None = None
        self._kept_bytes = self._read_messages = 0
        self._running: Cycle | None = None
        # Receives all further data once protocols have been switched.
        self._tunnel: Tunnel | None = None
        self._last_words: bytes | None = None
        # How to answer further GETs without the application; None until the application sets it.
        self.fast_path: FastPath | None = None
        # The tenant that the last request counted for; the application sets it.
        self.tenant = ""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.server = _shared(self.server)
        self.flow = WriteFlow(transport)
        self.was_made = True
        self._slot.attach(self.has_request, self._close_now)
        self._begin_head()
        tls = transport.get_extra_info("ssl_object")
        certificate = tls.getpeercert(binary_form=True) if tls is not None else None
        if certificate is not None:
            self._extensions = {"tls": {"client_certificate": certificate}}

    def drain(self) -> None:
        """Closes the connection after the next answer; an idle one may still receive a request that is in transit."""
        self.is_last = True
        if self.cycle is not None and not self.cycle.response_complete:
            self.cycle.keep_alive = False

    @property
    def has_client_certificate(self) -> bool:
        """Whether the client presented a valid certificate when the connection was made."""
        return self._extensions is not None

    def connection_lost(self, exc: Exception | None) -> None:
        self._end_head()
        self._end_body()
        self.resume_writing()
        for waiting, _ in self.pipeline:
            waiting.release()
        self.pipeline.clear()
        if self._running is not None and not self._running.response_complete:
            # uvicorn only notifies the last request, which need not be the one in progress.
            self._running.connection_lost()
        super().connection_lost(exc)
        self._end_idle()
        if self._tunnel is not None:
            self._tunnel.end()
        self._is_lost = True
        self._keep(0)
        BACKLOG.end_head(self._refuse_head)
        self._reading_head = self._reading_body = False
        self.fast_path = None
        self._forget()  # A request that was not answered refers to this connection, which holds the buffers of TLS.
        self._slot.end()

    def connection_failed(self) -> None:
        """To be called instead of `connection_made` if the handshake fails: the parser refers to this connection."""
        self.parser = None  # type: ignore[assignment]

    def count_for(self, tenant: str) -> None:
        """See FastPaths."""
        if tenant != self._slot.tenant and not self._slot.count_for(tenant):
            self.drain()
            raise TooManyRequests

    def keep_buffers(self) -> None:
        """Counts the buffers of TLS, which have grown. Without room for them the connection ends with an answer."""
        if not self._slot.keep_buffers():
            self.drain()

    def _count_waiting(self) -> None:
        """Counts what waits for a client that does not read. Without room for it the connection is closed."""
        is_waited_for = self.flow.write_paused and not self._is_lost
        if is_waited_for and not self._slot.keep_waiting(self.transport.get_write_buffer_size()):
            self.transport.abort()

    def has_request(self) -> bool:
        """Returns whether a request is in progress, or a tunnel is open."""
        return self._tunnel is not None or not self._is_answered()

    def _close_now(self) -> None:
        """Closes the connection in favour of others."""
        if self.flow.write_paused or self.has_request():
            self.transport.abort()
        else:
            self.transport.close()

    # -- input
    @property
    def receives_body(self) -> bool:
        """Whether a body has begun, and more of it is missing."""
        return self._reading_body and self._body is not None

    def data_received(self, data: bytes) -> None:
        if self._tunnel is not None:
            self._tunnel.feed(data)
            return
        self._unset_keepalive_if_required()
        if self._last_words is not None or self.transport.is_closing():
            return
        in_body = self._reading_body
        self._read_messages = 0
        try:
            self._feed(data)
        except httptools.HttpParserError as error:
            cause = error.__context__
            refused = cause if isinstance(cause, HeadRefused) else HeadRefused(400)
            self._refuse(refused.with_traceback(None))  # whose frames hold the connection and what was received
            return
        if self._reading_head:
            self._head_bytes += len(data)
            if self._head_bytes > HEAD_LIMIT_BYTES:
                self._refuse(too_large())
            elif self._head_timer is None:
                self._begin_head()
        elif self._reading_body:
            body = self._received_body()
            if not body.end_data(len(data) if in_body and not self._read_messages else 0):
                self._refuse(HeadRefused(400, "chunked encoding contains too much non-data"))
            if body.unread_bytes > UNREAD_LIMIT_BYTES:
                self.transport.close()
            else:
                body.limit_time(self.flow, self._body_is_late)
                self._limit_unread()
        elif self._head_timer is None and self._idle_since is None and self._is_answered():
            # Bytes between requests (empty lines, which the parser skips) have stopped the idle timer.
            self._begin_head()
        if self._kept_bytes or self._reading_head or self._reading_body or len(data) > SMALL_BYTES:
            self.update_held_bytes()
        if BACKLOG.is_full and self._kept_bytes - self._body_bytes() > SMALL_BYTES:
            self._make_room()

    def _feed(self, data: bytes) -> None:
        """Parses data. After a request to switch protocols comes the next request, until they have been switched."""
        if self.parser is None:
            self.parser = httptools.HttpRequestParser(self)  # type: ignore[unreachable]
            self.parser.set_dangerous_leniencies(lenient_data_after_close=True)  # as uvicorn does
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            rest = memoryview(data)[upgrade.args[0] :]
            while rest:
                try:
                    self.parser.feed_data(rest)
                    return
                except httptools.HttpParserUpgrade as another:
                    rest = rest[another.args[0] :]

    def leaves_body(self) -> bool:
        """Whether more of the body is missing than is dropped after an answer. The connection will end then, so the
        answer has to announce it: otherwise the client would lose its next request."""
        if not self._reading_body or self._running is not self.cycle:
            return False
        length = next((int(value) for name, value in self.headers if name == b"content-length"), 0)
        return length - (self._body.size if self._body is not None else 0) > UNREAD_LIMIT_BYTES

    def _may_switch(self) -> bool:
        """Whether nothing has been received after the last request."""
        waits = self._head_timer is not None or self._last_words is not None
        return not (self.pipeline or self._reading_head or waits or self.transport.is_closing())

    def begin_tunnel(self, head: bytes) -> None:
        """Sends the head of 101; from now on the connection does not speak HTTP."""
        if not self._may_switch():
            self.transport.abort()
            return
        self.transport.write(head)
        self._tunnel = Tunnel(self.transport, self.flow)

    def _current_tunnel(self) -> Tunnel:
        assert self._tunnel is not None, "101 has been sent"
        return self._tunnel

    def _should_upgrade(self) -> bool:
        return False

    def on_message_begin(self) -> None:
        if len(self.pipeline) >= PIPELINE_LIMIT:
            raise too_much()
        super().on_message_begin()
        self._read_messages += 1
        self._reading_head = True
        self._head_bytes = self._parsed_bytes = self._trailer_bytes = 0
        self._body = None
        if self._extensions is not None:
            self.scope["extensions"] = self._extensions

    def on_header(self, name: bytes, value: bytes) -> None:
        if not self._reading_head:
            self._trailer_bytes += len(name) + len(value) + 4
            if self._trailer_bytes > TRAILER_LIMIT_BYTES:
                raise HeadRefused(400, "suspiciously long trailer after chunked body")
            return
        self._parsed_bytes += len(name) + len(value) + 4
        if self._parsed_bytes > HEAD_LIMIT_BYTES or len(self.headers) >= FIELDS_LIMIT:
            raise too_large()
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """As uvicorn's, except for the class of the cycle, for which there is no hook, and without its upgrades."""
        if self._head_timer is not None:
            self._end_head()
        parser, scope = self.parser, self.scope
        method, version = parser.get_method(), parser.get_http_version()
        check_head(method, version, self.url, self.headers, upgrades=parser.should_upgrade())
        url = httptools.parse_url(self.url)
        scope["method"] = method.decode("ascii")
        scope["http_version"] = version
        scope["path"] = unescape(url.path) if b"%" in url.path else url.path.decode("ascii")
        scope["raw_path"] = url.path
        scope["query_string"] = url.query or b""
        keep_alive = version != "1.0" and parser.should_keep_alive() and not self.is_last
        before = self.cycle
        cycle = Cycle(self, scope, expects_continue=self.expect_100_continue, keep_alive=keep_alive)
        scope[IS_GONE] = cycle.is_gone  # type: ignore[typeddict-unknown-key]
        scope[WHEN_GONE] = cycle.when_gone  # type: ignore[typeddict-unknown-key]
        scope[ABORT] = cycle.abort  # type: ignore[typeddict-unknown-key]
        scope[FAST_PATHS] = self  # type: ignore[typeddict-unknown-key]
        if parser.should_upgrade():
            scope[SWITCH] = Switch(self._may_switch, self._current_tunnel)  # type: ignore[typeddict-unknown-key]
        self.cycle = cycle
        self._reading_head = False
        self._reading_body = True
        self._head_bytes = self._parsed_bytes + len(self.url)
        if before is None or before.response_complete:
            if self.fast_path is None or method != b"GET" or not self._takes_fast_path(self.fast_path, cycle):
                self._start_asgi_task(cycle, self.app)
        else:
            self.flow.pause_reading()
            self.pipeline.insert(0, (cycle, self.app))

    def _received_body(self) -> ReceivedBody:
        if self._body is None:
            self._body = ReceivedBody()
        return self._body

    def on_chunk_header(self) -> None:
        self._received_body().count_chunk()

    def on_body(self, body: bytes) -> None:
        received = self._received_body()
        received.size += len(body)
        if self.cycle.response_complete:
            received.unread_bytes += len(body)
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._reading_body = False
        if self._body is not None and self._body.timer is not None:
            self._body.end()
        super().on_message_complete()
        if self.cycle.response_complete:
            self._forget()

    # -- memory
    def _limit_unread(self) -> None:
        """Reads no more of a body that the application has not asked for, or for which there is no room, until the
        application asks for what has been read."""
        is_limited = not self.cycle.asks_for_body or BACKLOG.is_full
        if is_limited and self._body_bytes() > UNASKED_BODY_BYTES:
            self.flow.pause_reading()

    def _make_room(self) -> None:
        """Refuses a request whose head takes much: the oldest that is unfinished, or else this connection's, unless it
        is complete."""
        if not BACKLOG.refuse_oldest_head() and (self._reading_body or self.pipeline):
            self._refuse(too_much())

    def _refuse_head(self) -> None:
        """Refuses a request whose head is unfinished, and frees that at once: the connection still waits for its
        client before it ends."""
        self._refuse(too_much())
        self._reading_head = False
        self.headers, self.url = [], b""
        self.parser = None  # type: ignore[assignment] # which holds the last header; nothing more is parsed
        self.update_held_bytes()

    def release_request(self) -> None:
        """Frees the parser, which is made again for further data, and the parsed request, if it is complete: together
        some 2 kB, with a token more."""
        if not self._reading_head and not self._reading_body:
            self.parser = self.scope = None  # type: ignore[assignment]
            self.headers, self.url = [], b""

    def _body_bytes(self) -> int:
        return len(self.cycle.body) if self.cycle is not None and not self.cycle.response_complete else 0

    def update_held_bytes(self) -> None:
        """Updates the memory held for requests, after data was received or consumed."""
        if self._is_lost:
            return
        held = len(self.pipeline) * _PIPELINED_BYTES
        cycle = self.cycle
        if cycle is not None and not cycle.response_complete:
            held += self._head_bytes + self._body_bytes()
        elif self._reading_head:
            held += self._head_bytes
        self._keep(held)
        if self._reading_head and held > SMALL_BYTES:
            BACKLOG.begin_head(self._refuse_head)
        else:
            BACKLOG.end_head(self._refuse_head)

    def _keep(self, count: int) -> None:
        BACKLOG.bytes += count - self._kept_bytes
        self._kept_bytes = count

    def _forget(self) -> None:
        """Drops the last request, which is complete and answered, so that an idle connection holds nothing of it."""
        self.cycle = self._running = None  # type: ignore[assignment]
        self.headers, self.url = [], b""
        self.scope = None  # type: ignore[assignment]
        self._body = None

    # -- output
    def _start_asgi_task(self, cycle: Cycle, app: ASGI3Application) -> None:  # type: ignore[override]
        self._running = cycle
        task = self.loop.create_task(cycle.run_asgi(app))
        self.tasks.add(task)
        task.add_done_callback(cycle.end)

    def _takes_fast_path(self, path: FastPath, cycle: Cycle) -> bool:
        self._running = cycle
        return path.begin(cycle, partial(self._give_back, cycle))

    def _give_back(self, cycle: Cycle) -> None:
        """Has the application serve a request that the fast path has taken and cannot answer."""
        if self._is_lost:
            cycle.release()
        else:
            self._start_asgi_task(cycle, self.app)

    def _is_answered(self) -> bool:
        """Whether no request waits for its answer."""
        return self._running is None or self._running.response_complete

    def on_response_complete(self) -> None:
        self.server_state.total_requests += 1
        if not self.transport.is_closing():
            self.flow.resume_reading()
            if self.pipeline:
                self._start_asgi_task(*self.pipeline.pop())
            else:
                self._begin_idle()
        if self._is_answered():
            if self._last_words is not None:
                self._end()
            elif not self._reading_head and not self._reading_body:
                self._forget()
            elif self._reading_body:
                self.cycle.body = bytearray()
        if self._kept_bytes:
            self.update_held_bytes()

    def _refuse(self, refused: HeadRefused) -> None:
        """Closes the connection with this answer, after the answers to earlier complete requests."""
        if self._last_words is not None:
            return
        _refusals.note(self.client, refused)
        self._last_words = refused.encode(self.server_state.default_headers)
        self._end_body()
        broken = self.cycle if self._reading_body else None
        if broken is not None and self.pipeline and self.pipeline[0][0] is broken:
            self.pipeline.pop(0)[0].release()
        elif broken is not None and not broken.response_complete and not broken.response_started:
            self._end()
        elif broken is not None:
            self.transport.close()
        if not self.transport.is_closing() and self._is_answered():
            self._end()

    def _end(self) -> None:
        if not self.transport.is_closing():
            self.transport.write(self._last_words or b"")
            self.transport.close()

    def pause_writing(self) -> None:
        super().pause_writing()
        self.loop.call_soon(self._count_waiting)  # after the whole text that is being written

    def resume_writing(self) -> None:
        self._slot.free_waiting()
        super().resume_writing()

    def _end_body(self) -> None:
        if self._body is not None:
            self._body.end()

    def _body_is_late(self) -> None:
        if not self.transport.is_closing():
            self._refuse(too_late())
