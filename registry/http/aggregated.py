"""Proxies requests for group versions that another server serves; authorized before, with bodies streamed.

Runs between the tenant's limits and the routes, since the paths are those of the tenant's APIServices. Of a body only
what a connection buffers is held, so watches and uploads of any length pass. A request whose client disconnects is
cancelled (middleware/deadline.py), which closes its connection to the server.

    503 `service unavailable`           the APIService is not Available
    503 `error trying to reach service` there is no answer
    502                                 the answer is a redirect
    504                                 no answer within a minute, watches and upgrades excepted

Follows kube-aggregator pkg/apiserver/handler_proxy.go and apimachinery pkg/util/proxy/{upgradeaware,transport}.go.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Coroutine
from typing import Final, NamedTuple

from starlette.types import ASGIApp, Receive, Scope, Send

from registry import logs
from registry.aggregation import headers as fields
from registry.aggregation.backends import Backends, NotLocated
from registry.aggregation.model import APIServer
from registry.api.catalog import TenantCatalog
from registry.api.errors import StatusError, deadline_exceeded, from_store
from registry.api.request import Backend
from registry.controllers.api_services.monitor import Monitor
from registry.flowcontrol.byte_shares import ABORT
from registry.flowcontrol.fair_queue import FairQueue, TooManyRequests
from registry.flowcontrol.interruption import WHEN_GONE
from registry.flowcontrol.time_slice import IS_GONE, ClientGone
from registry.http import metrics
from registry.http.documents.answers import TEXT
from registry.http.middleware.authorization import forbidden_to
from registry.http.request_info import RequestInfo, request_info
from registry.http.request_state import NO_TENANT, STATE, RequestState
from registry.http.responses import PageNotFound, headers_for, send_body, send_part
from registry.http.serving.tunnel import SWITCH, Switch, Tunnel, TunnelClosed
from registry.store.errors import TenantSuspended
from registry.webhooks.connection import Lost, Unreachable
from registry.webhooks.http1 import Connection, Head
from registry.webhooks.streaming import PooledServer, TooManyConnections

# kube-apiserver's timeouts for requests that are not long-running, and for discovery of another server.
REQUEST_SECONDS: Final = 60.0
DISCOVERY_SECONDS: Final = 5.0
# The longest that a server takes the rest of what a client has sent before it disconnected.
_REST_SECONDS: Final = 5.0
# While a server answers within this time, nothing waits for this process to stop.
_PROMPT_SECONDS: Final = 0.05
_REPEATABLE: Final = frozenset({"GET", "HEAD", "OPTIONS"})
_CHANGES: Final = frozenset({"create", "update", "patch", "delete", "deletecollection", "post", "put"})
_WITH_BODY: Final = frozenset({"POST", "PUT", "PATCH"})
_LONG_SUBRESOURCES: Final = frozenset({"attach", "exec", "proxy", "log", "portforward"})
_UNAVAILABLE: Final = "service unavailable"
_OPENAPI: Final = "/openapi/v3"
_REDIRECT: Final = b"the backend attempted to redirect this request, which is not permitted"


class ServerUnavailable(Exception):
    """503 with this text."""


class Aggregation(NamedTuple):
    """State of a process for the servers of all tenants."""

    backends: Backends
    monitor: Monitor


class AggregationMiddleware:
    def __init__(
        self, app: ASGIApp, backend: Backend, aggregation: Aggregation, queue: FairQueue, stopping: asyncio.Event
    ) -> None:
        self._app = app
        self._catalogs = backend.catalogs
        self._authorizer = backend.authorizer
        self._backends = aggregation.backends
        self._monitor = aggregation.monitor
        self._queue = queue
        self._stopping = stopping

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        state: RequestState = scope[STATE]
        tenant, info = state.authorized.tenant, state.info
        if tenant is NO_TENANT or state.authorized.wildcard is not None or not _may_be_aggregated(info):
            await self._app(scope, receive, send)
            return
        catalog = await self._monitor.catalog(tenant, info.group, info.resource)
        server = find_server(catalog, info)
        if server is None:
            try:
                await self._app(scope, receive, send)
                return
            except (PageNotFound, StatusError) as error:
                if isinstance(error, StatusError) and error.code != 404:
                    raise
                # The catalog may have been outdated.
                server = find_server(await self._catalogs.get(tenant), info)
                if server is None:
                    raise
        await self._serve(scope, receive, send, server)

    async def _serve(self, scope: Scope, receive: Receive, send: Send, server: APIServer) -> None:
        state: RequestState = scope[STATE]
        tenant = state.authorized.tenant
        await self._authorize_again(state)
        if state.info.verb in _CHANGES and tenant.attributes.get("suspended"):
            raise from_store(TenantSuspended("the tenant is suspended"))
        if not fields.is_plain_path(state.info.path):
            raise PageNotFound
        self._queue.release(state.seat)  # the rest is the work of another server
        if not await self._monitor.is_available(tenant, server):
            self._monitor.refused(tenant, server)
            await _send_text(send, scope, 503, _UNAVAILABLE)
            return
        exchange = _Exchange(self._backends, self._stopping, scope, receive, send, server)
        try:
            async with asyncio.timeout(_seconds(state)):
                await exchange.run()
        except TimeoutError:
            await exchange.end_late()
        except ServerUnavailable as unavailable:
            await exchange.end_unavailable(str(unavailable))
            self._monitor.suspect(tenant, server)
        except TooManyConnections as error:
            raise TooManyRequests from error

    async def _authorize_again(self, state: RequestState) -> None:
        """Authorizes the resource itself if a query stands for a subresource: the other server ignores such a query."""
        info = state.info
        plain = request_info("GET", info.path).subresource
        if info.subresource == plain:
            return
        attributes = info._replace(subresource=plain).attributes()
        user = state.authorized.user
        if user.is_administrator:
            return
        decision = await self._authorizer.decide(state.tenant, user, attributes)
        if not decision.allowed:
            raise forbidden_to(user, attributes, decision.reason)


def find_server(catalog: TenantCatalog, info: RequestInfo) -> APIServer | None:
    """Returns the other server that serves a path; None if there is none."""
    if not catalog.aggregated:
        return None
    path = info.document_path
    if path.startswith(_OPENAPI):
        path = path.removeprefix(_OPENAPI)
    if path == "/api" or path.startswith("/api/"):
        return catalog.aggregated.find("", path.split("/")[2] if path.startswith("/api/") else "")
    parts = path.split("/", 4)
    return catalog.aggregated.find(parts[2], parts[3]) if path.startswith("/apis/") and len(parts) > 3 else None


def _may_be_aggregated(info: RequestInfo) -> bool:
    return info.is_api or info.path.startswith(f"{_OPENAPI}/api")


def _seconds(state: RequestState) -> float | None:
    """Returns the timeout of the whole request; None if it is long-running."""
    info = state.info
    if info.verb == "watch" or info.subresource in _LONG_SUBRESOURCES or fields.upgrade_of(state.headers):
        return None
    is_discovery = not info.resource and len(info.document_path.strip("/").split("/")) == 3
    return DISCOVERY_SECONDS if is_discovery else REQUEST_SECONDS


class _Exchange:
    """Proxies one request and its answer."""

    def __init__(
        self, backends: Backends, stopping: asyncio.Event, scope: Scope, receive: Receive, send: Send, server: APIServer
    ) -> None:
        self._backends = backends
        self._stopping = stopping
        self._scope = scope
        self._receive = receive
        self._send = send
        self._server = server
        self._state: RequestState = scope[STATE]
        self._upgrade = fields.upgrade_of(self._state.headers)
        self._started = False
        self._tasks: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        """Raises ClientGone, and Unavailable before anything is sent; never Lost."""
        tenant = self._state.authorized.tenant
        try:
            target = await self._backends.server(tenant, self._server)
            await self._run(target)
        except Lost as error:
            self._end_broken(error)
        except NotLocated as error:
            raise ServerUnavailable(_UNAVAILABLE) from error
        except Unreachable as error:
            raise ServerUnavailable(f"error trying to reach service: {error}") from error
        except fields.InvalidHeader as error:
            raise ServerUnavailable(f"error trying to reach service: {error}") from error
        finally:
            for task in self._tasks:
                task.cancel()

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
        request = self._head(target) + self._framing(body, more=more) + body_in_chunk(body, chunked=self._is_chunked)
        repeatable = method in _REPEATABLE and not body and not more
        if not await self._try(target, request, more=more, new=False, repeatable=repeatable):
            await self._try(target, request, more=more, new=True, repeatable=False)

    async def _try(self, target: PooledServer, request: bytes, *, more: bool, new: bool, repeatable: bool) -> bool:
        """Returns False if a kept connection, closed by the server, failed a `repeatable` request."""
        method, connections = self._scope["method"], self._backends.connections
        connection = await connections.acquire(target, fresh=method not in _REPEATABLE, new=new)
        timer = asyncio.get_running_loop().call_later(_PROMPT_SECONDS, self._close_when_stopping, connection)
        try:
            connection.begin(request, is_whole=not more, has_answer_body=method != "HEAD")
            if more:
                self._begin(self._send_body(connection))
            try:
                head = await connection.head()
            except Lost as lost:
                if repeatable and lost.may_repeat and connection.exchanges > 1 and not self._is_over():
                    return False
                raise
            await self._answer(connection, head)
            return True
        finally:
            timer.cancel()
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

    async def _send_body(self, connection: Connection) -> None:
        """Sends the rest of the body as it arrives."""
        try:
            while True:
                message = await self._receive()
                if message["type"] == "http.disconnect":
                    connection.close()
                    return
                if piece := message.get("body", b""):
                    await connection.write(body_in_chunk(piece, chunked=self._is_chunked))
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

    def _close_when_stopping(self, connection: Connection) -> None:
        async def close() -> None:
            await self._stopping.wait()
            connection.close()

        self._begin(close())

    def _begin(self, work: Coroutine[None, None, None]) -> None:
        self._tasks.add(asyncio.create_task(work))

    # -- the answer
    async def _answer(self, connection: Connection, head: Head) -> None:
        passed, length = fields.answer_headers(head.headers)
        status, is_watch = head.status, self._state.info.verb == "watch"
        if self._upgrade:
            await self._answer_upgrade(connection, head, passed)
            return
        if status == 101:
            raise Lost("the backend switches protocols, which was not asked for")
        if 300 <= status < 400 and any(name == b"location" for name, _ in passed):
            connection.close()
            await self._start(502, [], len(_REDIRECT))
            await self._send({"type": "http.response.body", "body": _REDIRECT})
            return
        await self._start(status, passed, length)
        if self._scope["method"] == "HEAD" or status in (204, 304):
            await self._send({"type": "http.response.body", "body": b""})
            return
        if length is None:
            await send_part(self._send, b"")  # sends the head now: clients of watches wait for it
        if is_watch:
            metrics.WATCHES.inc()
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
                metrics.WATCHES.dec()
        await self._send({"type": "http.response.body", "body": b""})

    async def _answer_upgrade(self, connection: Connection, head: Head, passed: fields.Headers) -> None:
        """Makes a tunnel of both connections after a 101; returns an error unchanged."""
        if head.status >= 400:
            self._upgrade = ""
            await self._answer(connection, head)
            return
        switch: Switch | None = self._scope.get(SWITCH)
        if head.status != 101:
            raise Lost(f"invalid upgrade response: status code {head.status}")
        if switch is None or not switch.is_possible():
            raise Lost("the connection of the client cannot switch protocols")
        passed, _ = fields.answer_headers(head.headers, upgrade=True)
        self._started = True
        self._scope.get(WHEN_GONE, _ignore)(None)  # what the client has sent before it disconnects is to arrive
        metrics.WATCHES.inc()
        try:
            await self._send({"type": "http.response.start", "status": 101, "headers": passed})
            tunnel = switch.tunnel()
            self._begin(_send_up(tunnel, connection))
            while piece := await connection.read():
                await tunnel.write(piece)
        except TunnelClosed:
            await _drop_rest(connection)
        finally:
            metrics.WATCHES.dec()
        await self._send({"type": "http.response.body", "body": b""})

    async def _start(self, status: int, passed: fields.Headers, length: int | None) -> None:
        names = {name for name, _ in passed}
        ours = headers_for("", self._state.warnings)
        passed += [(name, value) for name, value in ours if name not in names and value]
        if length is not None:
            passed.append((b"content-length", b"%d" % length))
        self._started = True
        await self._send({"type": "http.response.start", "status": status, "headers": passed})

    # -- ends without an answer
    async def end_unavailable(self, text: str) -> None:
        await _send_text(self._send, self._scope, 503, text)

    async def end_late(self) -> None:
        if self._started:
            if (abort := self._scope.get(ABORT)) is not None:
                abort()
            return
        if _seconds(self._state) == DISCOVERY_SECONDS:
            await self.end_unavailable("error trying to reach service: context deadline exceeded")
            return
        raise deadline_exceeded()


async def _send_up(tunnel: Tunnel, connection: Connection) -> None:
    """Sends the client's data until it disconnects."""
    try:
        while data := await tunnel.receive():
            await connection.write(data)
    except Lost:
        pass
    connection.end()


async def _drop_rest(connection: Connection) -> None:
    """Reads what the server sends to a client that has disconnected, until it has got all of the client's data."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_REST_SECONDS):
            while await connection.read():
                pass


def _ignore(_: object) -> None:
    """Servers other than ours do not report that a client has disconnected."""


def body_in_chunk(piece: bytes, *, chunked: bool) -> bytes:
    return b"%x\r\n%b\r\n" % (len(piece), piece) if chunked and piece else piece


async def _send_text(send: Send, scope: Scope, code: int, text: str) -> None:
    """Answers as Go's http.Error does."""
    state: RequestState = scope[STATE]
    await send_body(send, scope, code, headers_for(TEXT, state.warnings), text.encode() + b"\n")
