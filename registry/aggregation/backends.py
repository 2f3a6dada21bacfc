"""Locates the servers of a tenant's APIServices, and sends this server's own requests to them.

A service is located like that of a webhook: where the operator's configuration says, else by the tenant's Service if it
is an ExternalName, else by the operator's template. There is no cluster network: any other service has no endpoints.

Follows apiserver pkg/util/proxy/proxy.go (ResolveCluster) and kube-aggregator
pkg/controllers/status/remote/remote_available_controller.go.
"""

from __future__ import annotations

import asyncio
import ssl
import weakref
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from registry.aggregation.front_proxy import FrontProxy
from registry.aggregation.headers import framing, request_head
from registry.aggregation.model import APIServer, ServiceReference
from registry.authentication.user import ADMINISTRATORS, User
from registry.caches import ExpiringCache
from registry.codec.go_text import go_quote
from registry.flowcontrol.byte_shares import SMALL_BYTES, ByteShares
from registry.flowcontrol.fair_queue import TooManyRequests
from registry.schema.names import dns1123_label, dns1123_subdomain
from registry.store.types import Tenant, TenantId
from registry.webhooks.connection import Lost, Origin, Unreachable, socket_text
from registry.webhooks.egress import is_address
from registry.webhooks.http1 import MAX_SMALL_PIECES, HttpConnection
from registry.webhooks.https import HttpsClient
from registry.webhooks.services import Services
from registry.webhooks.streaming import Connections, PooledServer

# The user of this server's requests for discovery and OpenAPI.
AGGREGATOR: Final = User("system:kube-aggregator", (ADMINISTRATORS,))
# How long the location of a service is cached.
_PLACE_SECONDS: Final = 2.0
_PLACES: Final = 4096

# Loads the Service of a tenant; None if there is none.
FindService = Callable[[Tenant, ServiceReference], Awaitable[Mapping[str, Any] | None]]


class NotLocated(Unreachable):
    """A service has no location; `reason` is that of the condition."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


@dataclass(frozen=True, slots=True, weakref_slot=True)
class Fetched:
    """Header names are in lower case and unique. A long body counts among the tenant's as long as this exists."""

    status: int
    headers: Mapping[bytes, bytes]
    body: bytes


class Backends:
    """The connections of this process to the servers of all tenants."""

    def __init__(self, https: HttpsClient, services: Services, proxy: FrontProxy, find: FindService) -> None:
        self.connections = Connections(https.dialer)
        self._large_answers = https.large_answers
        self.proxy = proxy
        self._services = services
        self._find = find
        self._places: ExpiringCache[tuple[TenantId, ServiceReference], Origin] = ExpiringCache(_PLACES)

    def close(self) -> None:
        self.connections.close()

    async def server(self, tenant: Tenant, server: APIServer, *, fresh: bool = False) -> PooledServer:
        """Locates a server. Raises NotLocated, or Unreachable for an invalid CA bundle. `fresh` bypasses the cache."""
        key = (tenant.id, server.service)
        place = None if fresh else self._places.get(key)
        if place is None:
            place = self._places.put(key, await self._locate(tenant, server.service), _PLACE_SECONDS)
        try:
            context = await self.proxy.contexts.get(tenant.id, server.ca, insecure=server.insecure)
        except ssl.SSLError as error:
            raise Unreachable("unable to load root certificates: unable to parse bytes as PEM block") from error
        return PooledServer(tenant.id, place, (server.ca, server.insecure), context)

    async def _locate(self, tenant: Tenant, reference: ServiceReference) -> Origin:
        name, namespace, port = reference.name, reference.namespace, reference.port
        if dns1123_label(name) or dns1123_label(namespace):
            # No Service has such a name, which would become part of a header and of the TLS handshake.
            raise NotLocated("ServiceNotFound", f"service/{name} in {go_quote(namespace)} is not present")
        named = self._services.is_named(name, namespace)
        place = self._services.find(name, namespace, port)
        service = await self._find(tenant, reference)
        if service is None:
            if place is None:
                raise NotLocated("ServiceNotFound", f"service/{name} in {go_quote(namespace)} is not present")
        else:
            place = _place_of(service, reference, place, named=named)
        # A server behind an external name may be one of several there, which it selects by the Host header.
        is_external = not named and service is not None and _is_external(service)
        return Origin(
            f"{name}.{namespace}.svc", port, "", place, named, socket_text(*place) if is_external and place else ""
        )

    async def fetch(
        self,
        tenant: Tenant,
        server: APIServer,
        path: str,
        *,
        seconds: float,
        limit_bytes: int,
        accept: str = "application/json",
        method: str = "GET",
        user: User = AGGREGATOR,
        etag: str = "",
        fresh: bool = False,
        body: bytes = b"",
    ) -> Fetched:
        """The response of a server to a request of ours. Raises Unreachable, TooManyConnections, TimeoutError.

        An answer beyond `limit_bytes`, or beyond the tenant's share, is Lost. `fresh` as for `server`, `body` in JSON.
        """
        async with asyncio.timeout(seconds):
            target = await self.server(tenant, server, fresh=fresh)
            headers = [(b"accept", accept.encode()), (b"user-agent", b"registry")]
            if body:
                headers.append((b"content-type", b"application/json"))
            if etag:
                headers.append((b"if-none-match", etag.encode("latin-1", "replace")))
            head = request_head(
                method, path.encode(), target.origin.authority, headers, user, audit_id="", client=""
            ) + (b"\r\n" if method == "GET" else framing(len(body)) + body)
            return await self._exchange(target, head, limit_bytes)

    async def _exchange(self, target: PooledServer, head: bytes, limit_bytes: int) -> Fetched:
        connection = await self.connections.acquire(target, fresh=True, own=True)
        held = _HeldBytes(self._large_answers, str(target.owner))
        try:
            connection.begin(head, max_small_pieces=MAX_SMALL_PIECES)
            answer = await _whole(connection, limit_bytes, held)
        except BaseException:
            held.give_back()
            raise
        finally:
            self.connections.release(target, connection)
        weakref.finalize(answer, held.give_back).atexit = False
        return answer


class _HeldBytes:
    """What an answer counts for: nothing up to SMALL_BYTES, all of it beyond."""

    def __init__(self, shares: ByteShares, tenant: str) -> None:
        self._shares = shares
        self._tenant = tenant
        self._counted = 0

    def grow(self, size: int) -> None:
        """Raises Lost if there is no room for an answer of this size."""
        if size > SMALL_BYTES:
            try:
                self._shares.take(self._tenant, size - self._counted)
            except TooManyRequests:
                raise Lost("too many long answers are being read") from None
            self._counted = size

    def give_back(self) -> None:
        if self._counted:
            self._shares.give_back(self._tenant, self._counted)
            self._counted = 0


async def _whole(connection: HttpConnection, limit_bytes: int, held: _HeldBytes) -> Fetched:
    head = await connection.head()
    pieces, size = [], 0
    try:
        while piece := await connection.read():
            size += len(piece)
            if size > limit_bytes:
                connection.close()
                raise Lost(f"the answer is longer than {limit_bytes} bytes")
            held.grow(size)
            pieces.append(piece)
        return Fetched(head.status, dict(head.headers), b"".join(pieces))
    finally:
        pieces.clear()  # an error keeps its frames alive while it is handled


def _is_external(service: Mapping[str, Any]) -> bool:
    return (service.get("spec") or {}).get("type") == "ExternalName"


def _place_of(
    service: Mapping[str, Any], reference: ServiceReference, place: tuple[str, int] | None, *, named: bool
) -> tuple[str, int]:
    """The host and port of a service. Raises NotLocated. The operator's configuration (`named`) takes precedence."""
    spec = service.get("spec") or {}
    name, namespace = reference.name, go_quote(reference.namespace)
    if _is_external(service):
        if named and place is not None:
            return place
        host = str(spec.get("externalName") or "").removesuffix(".")
        if dns1123_subdomain(host.lower()) and not is_address(host):
            raise Unreachable(f"dial tcp: lookup {go_quote(host[:253])}: no such host")
        return host, reference.port
    is_cluster_ip = spec.get("type", "ClusterIP") == "ClusterIP"
    if not any(port.get("port") == reference.port for port in spec.get("ports") or ()):
        if is_cluster_ip:
            message = f"service/{name} in {namespace} is not listening on port {reference.port}"
            raise NotLocated("ServicePortError", message)
        # Services of the other types have no condition of their own for this.
        message = f"no service port {reference.port} found for service {go_quote(name)}"
        raise NotLocated("FailedDiscoveryCheck", message)
    if place is None:
        if is_cluster_ip:
            raise NotLocated("EndpointsNotFound", f"cannot find endpointslices for service/{name} in {namespace}")
        raise Unreachable(f"dial tcp: service/{name} in {namespace} has no address: there is no cluster network")
    return place
