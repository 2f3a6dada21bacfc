"""Connections to the servers that requests are proxied to: kept for a while, and counted by tenant.

A server that hangs, or many watches of one tenant, must not take the sockets of others: each tenant has its own share
of connections, and the number of idle ones is bounded.
"""

from __future__ import annotations

import asyncio
import math
import ssl
from collections import Counter
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
# The shortest time between two looks at the idle connections.
_EXPIRY_SECONDS: Final = 1.0
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

    def __hash__(self) -> int:
        # Enough to tell most servers apart. A hash of all fields takes ten times as long, several times a request.
        return hash((self.owner, self.origin.host, self.origin.port))


class Connections:
    def __init__(self, dialer: Dialer, timeouts: ConnectTimeouts = _TIMEOUTS, *, most_idle: int = _IDLE) -> None:
        self._dialer = dialer
        self._timeouts = timeouts
        self._most_idle = most_idle
        # By server, the one used last at the end; with the time since when it is idle.
        self._idle: dict[PooledServer, list[tuple[HttpConnection, float]]] = {}
        self._idle_count = 0
        self._idle_of_tenants: Counter[int] = Counter()
        # Exists while there are idle connections: one for each would be started and cancelled by each request.
        self._expiry: asyncio.TimerHandle | None = None
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
            if not idle:
                self._idle[server] = idle
            idle.append((connection, loop.time()))
            self._count_idle(server, idle, 1)
            if self._expiry is None:
                self._expiry = loop.call_later(_IDLE_SECONDS, self._expire)
            return
        connection.close()
        self._count(server.owner, -1)

    def close(self) -> None:
        for server in list(self._idle):
            while (connection := self._take_idle(server, fresh=False)) is not None:
                connection.close()
                self._count(server.owner, -1)
        if self._expiry is not None:
            self._expiry.cancel()
            self._expiry = None

    def _has_room(self, server: PooledServer, idle: Sequence[object]) -> bool:
        """Returns whether one more may be kept: a tenant with many servers leaves half of the room to others."""
        if len(idle) >= _IDLE_OF_SERVER or self._idle_count >= self._most_idle:
            return False
        return self._idle_of_tenants[server.owner] < self._most_idle // 2

    def _take_idle(self, server: PooledServer, *, fresh: bool) -> HttpConnection | None:
        idle = self._idle.get(server)
        while idle:
            connection, since = idle.pop()
            self._count_idle(server, idle, -1)
            if not connection.is_lost:
                if not fresh or asyncio.get_running_loop().time() - since < _FRESH_SECONDS:
                    return connection
                connection.close()
            self._count(server.owner, -1)
        return None

    def _expire(self) -> None:
        """Closes the connections that have been idle for long."""
        loop = asyncio.get_running_loop()
        now, next_since = loop.time(), math.inf
        for server, idle in list(self._idle.items()):
            while idle and idle[0][1] + _IDLE_SECONDS <= now:
                connection, _ = idle.pop(0)
                self._count_idle(server, idle, -1)
                connection.close()
                self._count(server.owner, -1)
            if idle:
                next_since = min(next_since, idle[0][1])
        seconds = max(next_since + _IDLE_SECONDS - now, _EXPIRY_SECONDS)
        self._expiry = loop.call_later(seconds, self._expire) if self._idle else None

    def _count_idle(self, server: PooledServer, idle: Sequence[object], more: int) -> None:
        """Counts a connection that has been added to the `idle` ones of a server, or removed from them."""
        self._idle_count += more
        self._idle_of_tenants[server.owner] += more
        if not self._idle_of_tenants[server.owner]:
            del self._idle_of_tenants[server.owner]
        if not idle:
            del self._idle[server]

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
