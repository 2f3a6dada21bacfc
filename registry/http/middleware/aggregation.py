"""Proxies requests for group versions that another server serves, after they are authorized (registry/http/proxy.py).

Runs between the tenant's limits and the routes, since the paths are those of the tenant's APIServices.

    503 `service unavailable`           the APIService is not Available
    503 `error trying to reach service` there is no answer
    502                                 the answer is a redirect
    504                                 no answer within a minute, watches and upgrades excepted

Follows kube-aggregator pkg/apiserver/handler_proxy.go.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Final, NamedTuple

from starlette.types import ASGIApp, Receive, Scope, Send

from registry.aggregation import headers as fields
from registry.aggregation.backends import Backends
from registry.aggregation.model import APIServer
from registry.api.catalog import TenantCatalog
from registry.api.errors import StatusError, deadline_exceeded, from_store
from registry.api.request import Backend
from registry.controllers.api_services.monitor import Monitor
from registry.flowcontrol.fair_queue import FairQueue, TooManyRequests
from registry.http.middleware.authorization import forbidden_to
from registry.http.proxy import UNAVAILABLE, ProxiedRequest, ServerUnavailable, send_text
from registry.http.request_info import RequestInfo, request_info
from registry.http.request_state import NO_TENANT, STATE, RequestState
from registry.http.responses import PageNotFound
from registry.store.errors import StoreError, TenantNotFound, TenantSuspended
from registry.webhooks.streaming import TooManyConnections

# kube-apiserver's timeouts for requests that are not long-running, and for discovery of another server.
REQUEST_SECONDS: Final = 60.0
DISCOVERY_SECONDS: Final = 5.0
_CHANGES: Final = frozenset({"create", "update", "patch", "delete", "deletecollection", "post", "put"})
_OPENAPI: Final = "/openapi/v3"


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
        self._store = backend.store
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
        if _may_write(state) and tenant.attributes.get("suspended"):
            raise from_store(TenantSuspended("the tenant is suspended"))
        if not fields.is_plain_path(state.info.path):
            raise PageNotFound
        self._queue.release(state.seat)  # the rest is the work of another server
        if not await self._monitor.is_available(tenant, server):
            self._monitor.refused(tenant, server)
            await send_text(send, scope, 503, UNAVAILABLE)
            return
        may_continue = partial(self._may_continue, state)
        proxied = ProxiedRequest(self._backends, self._stopping, scope, receive, send, server, may_continue)
        seconds = _seconds(state)
        try:
            await proxied.run(seconds)
        except TimeoutError as late:
            if proxied.end_late():
                return
            if seconds != DISCOVERY_SECONDS:
                raise deadline_exceeded() from late
            await send_text(send, scope, 503, "error trying to reach service: context deadline exceeded")
        except ServerUnavailable as unavailable:
            await send_text(send, scope, 503, str(unavailable))
            self._monitor.suspect(tenant, server)
        except TooManyConnections as error:
            raise TooManyRequests from error

    async def _may_continue(self, state: RequestState) -> bool:
        """Returns False once the tenant has been deleted, or suspended during a write or in an open tunnel."""
        try:
            tenant = await self._store.tenant(state.authorized.tenant.name)
        except TenantNotFound:
            return False
        except StoreError:  # PostgreSQL is unavailable
            return True
        is_refused = _may_write(state) and tenant.attributes.get("suspended")
        return tenant.id == state.authorized.tenant.id and not is_refused

    async def _authorize_again(self, state: RequestState) -> None:
        """Authorizes the resource itself if a query stands for a subresource: the other server ignores such a query."""
        info = state.info
        if not info.query:
            return
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


def _may_write(state: RequestState) -> bool:
    """Whether the request may change something. What a client sends through a tunnel nobody sees, so that tunnels count
    as writes whatever their method is; a watch over a WebSocket only reads."""
    verb = state.info.verb
    return verb in _CHANGES or (verb != "watch" and fields.upgrade_of(state.headers) != "")


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
    if info.is_long_running or fields.upgrade_of(state.headers):
        return None
    is_discovery = not info.resource and len(info.document_path.strip("/").split("/")) == 3
    return DISCOVERY_SECONDS if is_discovery else REQUEST_SECONDS
