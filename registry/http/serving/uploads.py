"""Bytes of request bodies that a process holds, shared between tenants.

A body counts from its first byte until its request is answered. A tenant may hold as much as is still free: alone half
of the limit, with n others that want as much the n+2nd part of it. So there is always room for a tenant that
holds nothing, without anything being set aside for it.

Follows the dynamic thresholds of shared-memory switches (Choudhury and Hahne, IEEE/ACM Transactions on Networking 6(2),
1998), with a factor of one.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, Final

from prometheus_client import Counter, Gauge

from registry.flowcontrol.fair_queue import TooManyRequests

HELD: Final = Gauge("registry_upload_bytes", "Bytes of request bodies that are held until their requests are answered.")
REFUSED: Final = Counter("registry_uploads_refused", "Requests refused since bodies held too many bytes.")

MIB: Final = 1024 * 1024

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]


class Uploads:
    """Invariant: `held_bytes` is the sum over tenants, of which none is listed with nothing."""

    def __init__(self, limit_bytes: int) -> None:
        self._limit_bytes = limit_bytes
        self.held_bytes = 0
        self._of_tenants: dict[str, int] = {}

    def begin(self, tenant: str) -> Upload:
        return Upload(self, tenant)

    def take(self, tenant: str, count: int) -> None:
        """Raises TooManyRequests, and takes nothing, where the tenant would hold more than is free."""
        held = self._of_tenants.get(tenant, 0) + count
        if held > self._limit_bytes - self.held_bytes - count:
            REFUSED.inc()
            raise TooManyRequests
        self._of_tenants[tenant] = held
        self._add(count)

    def give_back(self, tenant: str, count: int) -> None:
        left = self._of_tenants.pop(tenant) - count
        if left:
            self._of_tenants[tenant] = left
        self._add(-count)

    def _add(self, count: int) -> None:
        self.held_bytes += count
        HELD.set(self.held_bytes)


class Upload:
    """The body of one request. `end` is called once it is answered."""

    __slots__ = ("_bytes", "_tenant", "_uploads")

    def __init__(self, uploads: Uploads, tenant: str) -> None:
        self._uploads = uploads
        self._tenant = tenant
        self._bytes = 0

    def receiving(self, receive: Receive) -> Receive:
        """`receive` that counts what comes. Raises TooManyRequests instead of giving out what there is no room for."""

        async def counted() -> Message:
            message = await receive()
            count = len(message.get("body", b""))
            if count:
                self._uploads.take(self._tenant, count)
                self._bytes += count
            return message

        return counted

    def end(self) -> None:
        if self._bytes:
            self._uploads.give_back(self._tenant, self._bytes)
            self._bytes = 0
