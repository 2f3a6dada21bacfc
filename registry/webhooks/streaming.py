"""Connections to the servers that requests are proxied to: kept for a while, and counted by tenant.

A server that hangs, or many watches of one tenant, must not take the sockets of others: each tenant has its own share
of connections, and the number of idle ones is bounded.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import Final

from registry.caches import LruCache
from registry.flowcontrol.loop_share import LoopShare
from registry.webhooks.connection import Dialer, Origin
from registry.webhooks.http1 import ConnectTimeouts, HttpConnection, connect

# Per tenant and process, including watches; and per process, of which a tenant may have as many as are still free. With
# its client's, a connection takes up to 0.6 MB while the client reads nothing.
CONNECTIONS_OF_TENANT: Final = 512
CONNECTIONS_OF_PROCESS: Final = 2048
# More of both, for this server's own requests: a server whose clients use up the others is not unavailable.
_OWN_OF_TENANT: Final = 32
_OWN_OF_PROCESS: Final = 256
# Idle connections, to one server and in total.
_IDLE_OF_SERVER: Final = 16
_IDLE: Final = 512
_IDLE_SECONDS: Final = 30.0
# Servers close idle connections after some seconds (uvicorn after 5): a request that must not be sent twice uses one
# that was used recently.
_FRESH_SECONDS: Final = 2.0
_SHARES: Final = 1000


_TIMEOUTS: Final = ConnectTimeouts()


class TooManyConnections(Exception):
    """The tenant has reached its limit of connections to its servers, or its share of those of the process."""


@dataclass(frozen=True, slots=True)
class PooledServer:
    """Where requests go, and how TLS is spoken there. Connections are shared by servers that are equal.

    `owner` is the tenant; `identity` stands for what `context` was made from: CA, verification and client certificate.
    """

    owner: int
    origin: Origin
    identity: Hashable
    context: ssl.SSLContext = field(compare=False)


class Connections:
    def __init__(self, dialer: Dialer, timeouts: ConnectTimeouts = _TIMEOUTS, *, most_idle: int = _IDLE) -> None:
        self._dialer = dialer
        self._timeouts = timeouts
        self._most_idle = most_idle
        # By server, the one used last at the end; with its expiry timer, and since when it is idle.
        self._idle: dict[PooledServer, list[tuple[HttpConnection, asyncio.TimerHandle, float]]] = {}
        self._idle_count = 0
        self._of_tenants: dict[int, int] = {}
        self._total = 0  # of all tenants
        self._shares: LruCache[int, LoopShare] = LruCache(_SHARES)

    async def acquire(
        self, server: PooledServer, *, fresh: bool = False, new: bool = False, own: bool = False
    ) -> HttpConnection:
        """Returns a connection for one exchange. Raises Unreachable, TooManyConnections. Give it back with `release`.

        `fresh`: one that was used recently, or a new one. `new`: a new one. `own`: for a request of this server itself.
        """
        if not own and self._of_tenants.get(server.owner, 0) > CONNECTIONS_OF_TENANT:
            raise TooManyConnections  # idle ones may be of this server's own requests
        if not new and (idle := self._take_idle(server, fresh=fresh)) is not None:
            return idle
        self._count(server.owner, 1, own=own)
        try:
            return await connect(
                self._dialer,
                server.owner,
                server.origin,
                server.context,
                self._shares.get(server.owner) or self._shares.put(server.owner, LoopShare()),
                self._timeouts,
            )
        except BaseException:
            self._count(server.owner, -1)
            raise

    def release(self, server: PooledServer, connection: HttpConnection) -> None:
        """Keeps a connection whose exchange is complete for reuse, and closes any other."""
        idle = self._idle.get(server, [])
        if connection.is_reusable and not connection.is_lost and self._has_room(server, idle):
            loop = asyncio.get_running_loop()
            timer = loop.call_later(_IDLE_SECONDS, self._expire, server, connection)
            self._idle.setdefault(server, idle).append((connection, timer, loop.time()))
            self._idle_count += 1
            return
        connection.close()
        self._count(server.owner, -1)

    def close(self) -> None:
        for server in list(self._idle):
            while (connection := self._take_idle(server, fresh=False)) is not None:
                connection.close()
                self._count(server.owner, -1)

    def _has_room(self, server: PooledServer, idle: Sequence[object]) -> bool:
        """Returns whether one more may be kept: a tenant with many servers leaves half of the room to others."""
        if len(idle) >= _IDLE_OF_SERVER or self._idle_count >= self._most_idle:
            return False
        of_tenant = sum(len(kept) for other, kept in self._idle.items() if other.owner == server.owner)
        return of_tenant < self._most_idle // 2

    def _take_idle(self, server: PooledServer, *, fresh: bool) -> HttpConnection | None:
        idle = self._idle.get(server)
        while idle:
            connection, timer, since = idle.pop()
            self._idle_count -= 1
            if not idle:
                del self._idle[server]
            timer.cancel()
            if not connection.is_lost:
                if not fresh or asyncio.get_running_loop().time() - since < _FRESH_SECONDS:
                    return connection
                connection.close()
            self._count(server.owner, -1)
        return None

    def _expire(self, server: PooledServer, connection: HttpConnection) -> None:
        idle = self._idle.get(server, [])
        left = [entry for entry in idle if entry[0] is not connection]
        if len(left) == len(idle):
            return
        self._idle_count -= 1
        if left:
            self._idle[server] = left
        else:
            del self._idle[server]
        connection.close()
        self._count(server.owner, -1)

    def _count(self, owner: int, more: int, *, own: bool = False) -> None:
        count, total = self._of_tenants.get(owner, 0) + more, self._total + more
        of_tenant = CONNECTIONS_OF_TENANT + own * _OWN_OF_TENANT
        free = CONNECTIONS_OF_PROCESS + own * _OWN_OF_PROCESS - total
        if more > 0 and count > min(of_tenant, free):
            raise TooManyConnections
        self._total = total
        if count:
            self._of_tenants[owner] = count
        else:
            self._of_tenants.pop(owner, None)
