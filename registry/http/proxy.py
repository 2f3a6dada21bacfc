"""Proxies one request to another server, and its answer back.

Of a body only what a connection buffers is held, so watches and uploads of any length pass. A request whose client
disconnects is cancelled (middleware/deadline.py), which closes its connection to the server.

Follows apimachinery pkg/util/proxy/{upgradeaware,transport}.go.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Coroutine
from typing import Final

from starlette.types import Receive, Scope, Send

from registry import logs
from registry.aggregation import headers as fields
from registry.aggregation.backends import Backends, NotLocated
from registry.aggregation.model import APIServer
from registry.codec.go_text import go_quote
from registry.flowcontrol.byte_shares import ABORT
from registry.flowcontrol.interruption import WHEN_GONE
from registry.flowcontrol.time_slice import IS_GONE, ClientGone
from registry.http import metrics
from registry.http.documents.answers import TEXT
from registry.http.request_state import STATE, RequestState
from registry.http.responses import headers_for, send_body, send_part
from registry.http.serving.tunnel import SWITCH, Switch, Tunnel, TunnelClosed
from registry.webhooks.connection import Lost, Unreachable
from registry.webhooks.http1 import Head, HttpConnection
from registry.webhooks.streaming import PooledServer

# The longest that a server takes the rest of what a client has sent before it disconnected.
_REST_SECONDS: Final = 5.0
# A request that is answered within this time needs neither a timeout nor checks.
_PROMPT_SECONDS: Final = 0.05
# How often a watch, a tunnel or an upload is checked: its tenant may have been deleted.
_CHECK_SECONDS: Final = 5.0
_REPEATABLE: Final = frozenset({"GET", "HEAD", "OPTIONS"})
_WITH_BODY: Final = frozenset({"POST", "PUT", "PATCH"})
_WITHOUT_BODY: Final = frozenset({204, 304})
_REDIRECT: Final = b"the backend attempted to redirect this request, which is not permitted"
UNAVAILABLE: Final = "service unavailable"


class ServerUnavailable(Exception):
    """503 with this text."""


class ProxiedRequest:
    """`may_continue` returns whether the request would still be accepted."""

    def __init__(
        self,
        backends: Backends,
        stopping: asyncio.Event,
        scope: Scope,
        receive: Receive,
        send: Send,
        server: APIServer,
        may_continue: Callable[[], Awaitable[bool]],
    ) -> None:
        self._backends = backends
        self._stopping = stopping
        self._may_continue = may_continue
        self._scope = scope
        self._receive = receive
        self._send = send
        self._server = server
        self._state: RequestState = scope[STATE]
        self._upgrade = fields.upgrade_of(self._state.headers)
        self._started = False
        # While an exchange is under way, and whether none may be any more.
        self._connection: HttpConnection | None = None
        self._is_closed = False
        self._tasks: set[asyncio.Task[None]] = set()

    async def run(self, seconds: float | None) -> None:
        """Raises ClientGone, TimeoutError after `seconds`, ServerUnavailable before anything is sent; never Lost."""
        loop = asyncio.get_running_loop()
        until = None if seconds is None else loop.time() + seconds
        async with asyncio.timeout(None) as limit:
            # The only timer of most requests: the others start when it ends.
            prompt = loop.call_later(_PROMPT_SECONDS, self._limit, limit, until)
            try:
                await self._serve()
            finally:
                prompt.cancel()

    def _limit(self, limit: asyncio.Timeout, until: float | None) -> None:
        limit.reschedule(until)
        self._begin(self._close_when_over())

    async def _serve(self) -> None:
        tenant = self._state.authorized.tenant
        try:
            target = await self._backends.server(tenant, self._server)
            await self._run(target)
        except Lost as error:
            self._end_broken(error)
        except NotLocated as error:
            raise ServerUnavailable(UNAVAILABLE) from error
        except Unreachable as error:
            raise ServerUnavailable(f"error trying to reach service: {error}") from error
        except fields.InvalidHeader as error:
            raise ServerUnavailable(f"error trying to reach service: {error}") from error
        finally:
            for task in self._tasks:
                task.cancel()
            self._tasks.clear()  # they refer to this object

    def _end_broken(self, error: Lost) -> None:
        if self._scope.get(IS_GONE, lambda: False)():
            raise ClientGone from error
        if not self._started:
            raise ServerUnavailable(f"error trying to reach service: {error}") from error
        if not self._stopping.is_set() and (abort := self._scope.get(ABORT)) is not None:
            abort()  # the client must not take a partial answer for the whole

    async def _run(self, target: PooledServer) -> None:
        method = self._scope["method"]
        body, more = await self._first_part()
        request = self._head(target) + self._framing(body, more=more) + _in_chunk(body, chunked=self._is_chunked)
        repeatable = method in _REPEATABLE and not body and not more
        if not await self._try(target, request, more=more, new=False, repeatable=repeatable):
            await self._try(target, request, more=more, new=True, repeatable=False)

    async def _try(self, target: PooledServer, request: bytes, *, more: bool, new: bool, repeatable: bool) -> bool:
        """Returns False if a kept connection, closed by the server, failed a `repeatable` request."""
        method, connections = self._scope["method"], self._backends.connections
        connection = await connections.acquire(target, fresh=method not in _REPEATABLE, new=new)
        self._connection = connection
        if self._is_closed:
            connection.close()
        try:
            connection.begin(request, is_whole=not more, has_answer_body=method != "HEAD")
            if more:
                self._begin(self._send_body(connection))
            try:
                head = await connection.head()
            except Lost as lost:
                if repeatable and lost.may_repeat and not self._is_over():
                    return False
                raise
            await self._answer(connection, head)
            return True
        finally:
            self._connection = None
            connections.release(target, connection)

    async def _first_part(self) -> tuple[bytes, bool]:
        """Returns the beginning of the body, and whether there is more of it."""
        headers = self._state.headers
        if b"content-length" not in headers and b"transfer-encoding" not in headers:
            return b"", False
        first = await self._receive()
        if first["type"] == "http.disconnect":
            raise ClientGone
        return first.get("body", b""), first.get("more_body", False)

    def _is_over(self) -> bool:
        return self._stopping.is_set() or bool(self._scope.get(IS_GONE, lambda: False)())

    # -- the request
    def _head(self, target: PooledServer) -> bytes:
        state, client = self._state, self._scope.get("client")
        return fields.request_head(
            self._scope["method"],
            fields.target(state.info.path, state.info.query),
            target.origin.authority,
            self._scope["headers"],
            state.authorized.user,
            audit_id=logs.audit_id(),
            client=client[0] if client else "",
            upgrade=self._upgrade,
        )

    def _framing(self, body: bytes, *, more: bool) -> bytes:
        self._is_chunked = False
        if more:
            length = self._state.headers.get(b"content-length", b"")
            self._is_chunked = not length.isdigit()
            return fields.framing(None if self._is_chunked else int(length))
        return fields.framing(len(body)) if body or self._scope["method"] in _WITH_BODY else b"\r\n"

    async def _send_body(self, connection: HttpConnection) -> None:
        """Sends the rest of the body as it arrives."""
        try:
            while True:
                message = await self._receive()
                if message["type"] == "http.disconnect":
                    connection.close()
                    return
                if piece := message.get("body", b""):
                    await connection.write(_in_chunk(piece, chunked=self._is_chunked))
                    self._give_back()
                if not message.get("more_body", False):
                    break
            if self._is_chunked:
                await connection.write(b"0\r\n\r\n")
            connection.is_sent = True
        except Lost:
            pass  # the answer has the reason

    def _give_back(self) -> None:
        """Releases the part of the upload that has been sent."""
        if self._state.upload is not None:
            self._state.upload.end()

    async def _close_when_over(self) -> None:
        """Closes the connection when this process stops, or the request may not continue."""
        while not self._stopping.is_set() and await self._may_continue():
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_CHECK_SECONDS):
                    await self._stopping.wait()
        self._is_closed = True
        if self._connection is not None:
            self._connection.close()

    def _begin(self, work: Coroutine[None, None, None]) -> None:
        self._tasks.add(asyncio.create_task(work))

    # -- the answer
    async def _answer(self, connection: HttpConnection, head: Head) -> None:
        passed, length = fields.answer_headers(head.headers)
        status, is_watch = head.status, self._state.info.verb == "watch"
        if has_no_body := status in _WITHOUT_BODY:
            length = None  # that of a 304 is of the document that it stands for
        if self._upgrade:
            await self._answer_upgrade(connection, head, passed)
            return
        if status == 101:
            protocol = go_quote(dict(head.headers).get(b"upgrade", b"").decode("latin-1"))
            raise ServerUnavailable(f'backend tried to switch protocol {protocol} when "" was requested')
        if 300 <= status < 400 and any(name == b"location" for name, _ in passed):
            connection.close()
            await self._start(502, [], len(_REDIRECT))
            await self._send({"type": "http.response.body", "body": _REDIRECT})
            return
        await self._start(status, passed, length)
        if self._scope["method"] == "HEAD" or has_no_body:
            await self._send({"type": "http.response.body", "body": b""})
            return
        if length is None:
            await send_part(self._send, b"")  # sends the head now: clients of watches wait for it
        if is_watch:
            metrics.WATCHES.count += 1
        try:
            left = length
            while piece := await connection.read():
                if left is not None:
                    left -= len(piece)
                if left == 0:
                    await self._send({"type": "http.response.body", "body": piece})
                    return
                await send_part(self._send, piece)
        finally:
            if is_watch:
                metrics.WATCHES.count -= 1
        await self._send({"type": "http.response.body", "body": b""})

    async def _answer_upgrade(self, connection: HttpConnection, head: Head, passed: fields.Headers) -> None:
        """Makes a tunnel of both connections after a 101; returns an error unchanged."""
        if head.status >= 400:
            self._upgrade = ""
            await self._answer(connection, head)
            return
        switch: Switch | None = self._scope.get(SWITCH)
        if head.status != 101:
            raise ServerUnavailable(f"invalid upgrade response: status code {head.status}")
        if switch is None or not switch.is_possible():
            raise Lost("the connection of the client cannot switch protocols")
        passed, _ = fields.answer_headers(head.headers, upgrade=True)
        self._started = True
        self._scope.get(WHEN_GONE, _ignore)(None)  # what the client has sent before it disconnects is to arrive
        metrics.WATCHES.count += 1
        try:
            await self._send({"type": "http.response.start", "status": 101, "headers": passed})
            tunnel = switch.tunnel()
            self._begin(_send_up(tunnel, connection))
            self._begin(_close_late(tunnel, connection))
            while piece := await connection.read():
                await tunnel.write(piece)
        except TunnelClosed:
            await _drop_rest(connection)
        finally:
            metrics.WATCHES.count -= 1
        await self._send({"type": "http.response.body", "body": b""})

    async def _start(self, status: int, passed: fields.Headers, length: int | None) -> None:
        # Both Cache-Control headers count, so that no cache keeps what one user may read.
        names = {name for name, _ in passed} - {b"cache-control"}
        ours = headers_for("", self._state.warnings)
        passed += [(name, value) for name, value in ours if name not in names and value]
        if length is not None:
            passed.append((b"content-length", b"%d" % length))
        self._started = True
        await self._send({"type": "http.response.start", "status": status, "headers": passed})

    def end_late(self) -> bool:
        """Ends an answer that takes too long. Returns False if none has begun."""
        if self._started and (abort := self._scope.get(ABORT)) is not None:
            abort()
        return self._started


async def _send_up(tunnel: Tunnel, connection: HttpConnection) -> None:
    """Sends the client's data until it disconnects."""
    try:
        while data := await tunnel.receive():
            await connection.write(data)
    except Lost:
        pass
    connection.end()


async def _close_late(tunnel: Tunnel, connection: HttpConnection) -> None:
    """Closes the connection to a server that does not take what a client has sent before it disconnected."""
    await tunnel.wait_until_closed()
    await asyncio.sleep(_REST_SECONDS)
    connection.close()


async def _drop_rest(connection: HttpConnection) -> None:
    """Reads what the server sends to a client that has disconnected, until it has got all of the client's data."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_REST_SECONDS):
            while await connection.read():
                pass


def _ignore(_: object) -> None:
    """Servers other than ours do not report that a client has disconnected."""


def _in_chunk(piece: bytes, *, chunked: bool) -> bytes:
    return b"%x\r\n%b\r\n" % (len(piece), piece) if chunked and piece else piece


async def send_text(send: Send, scope: Scope, code: int, text: str) -> None:
    """Answers as Go's http.Error does."""
    state: RequestState = scope[STATE]
    await send_body(send, scope, code, headers_for(TEXT, state.warnings), text.encode() + b"\n")
