"""Connections to checked addresses: the address that the policy accepted is the one that is connected to.

So a name that resolves differently a moment later (DNS rebinding) has no effect: each new connection resolves, checks
and connects in one step, and a kept connection keeps its address.

Names are resolved in threads of their own: a DNS server that does not respond delays no other work.
"""

from __future__ import annotations

import asyncio
import ipaddress
import os
import socket
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final

from registry.webhooks.egress import EgressPolicy, parse_address

# Addresses of one name that are tried; a DNS server may return hundreds.
_MAX_TRIED: Final = 8


class Unreachable(Exception):
    """No connection can be made. The text is Go's: `dial tcp 192.0.2.1:443: connect: connection refused`."""


class Lost(Unreachable):
    """The connection yielded no valid answer. `may_repeat` if it had been kept, and ended before an
    answer."""

    def __init__(self, text: str, *, may_repeat: bool = False) -> None:
        super().__init__(text)
        self.may_repeat = may_repeat


class NotConnected(Unreachable):
    """No server answers at this address; another address of the host may work."""


@dataclass(frozen=True, slots=True)
class Origin:
    """A server: `host` and `port` for TLS and the Host header, `ca` in PEM, or "" for the system's roots.

    `place` is where to connect instead, for services. `trusted` says that the operator has named the place, so that it
    need not be a public address. `named_as` is the Host header, if that is another one.
    """

    host: str
    port: int
    ca: str = ""
    place: tuple[str, int] | None = None
    trusted: bool = False
    named_as: str = ""

    @property
    def authority(self) -> str:
        if self.named_as:
            return self.named_as
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == 443 else f"{host}:{self.port}"


class Dialer:
    """Decides which addresses of an origin may be connected to."""

    def __init__(self, policy: EgressPolicy, resolver: Resolver, *, resolve_seconds: float) -> None:
        self._policy = policy
        self._resolver = resolver
        self._resolve_seconds = resolve_seconds

    async def addresses(self, tenant: int, origin: Origin) -> tuple[list[str], int]:
        """Returns the addresses to try, in order, and the port. Raises Unreachable if there is none."""
        host, port = origin.place or (origin.host, origin.port)
        try:
            async with asyncio.timeout(self._resolve_seconds):
                addresses = await self._resolver.lookup(tenant, host, port)
        except TimeoutError as error:
            raise Unreachable(f"dial tcp: lookup {host}: i/o timeout") from error
        except NoSuchHost as error:
            raise Unreachable(f"dial tcp: lookup {host}: no such host") from error
        allowed = [address for address in addresses if self.allows(origin, address)]
        if not allowed:
            raise Unreachable(
                f"dial tcp {host}:{port}: the address is not one that webhooks may be called at "
                "(setting --allow-egress-to)"
            )
        return allowed[:_MAX_TRIED], port

    def allows(self, origin: Origin, address: str) -> bool:
        return origin.trusted or self._policy.allows(address)

    def check_peer(self, origin: Origin, peer: object, address_text: str) -> None:
        """Raises Unreachable if a connection leads to an address that may not be called."""
        if not (isinstance(peer, tuple) and self.allows(origin, str(peer[0]))):
            raise Unreachable(f"dial tcp {address_text}: the connection leads to another address")


def socket_text(address: str, port: int) -> str:
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"


def plain_address(address: str) -> str:
    """Returns the address as it was checked; one with a zone is unchanged."""
    return address if "%" in address else str(parse_address(address))


def connect_problem(error: BaseException | None) -> str:
    """Returns the system's message: `connection refused`, `no route to host`."""
    while error is not None:
        if isinstance(error, OSError) and error.errno is not None:
            return os.strerror(error.errno).lower()
        error = error.__cause__ or error.__context__
    return "connection failed"


# Concurrent lookups, in all and for a tenant. glibc gives up after some 10 to 30 seconds.
_THREADS: Final = 64
_LOOKUPS_OF_TENANT: Final = 4


class NoSuchHost(Exception):
    """The text is the resolver's."""


class Resolver:
    """Concurrent lookups of the same name are shared, even if the first caller has given up waiting: a name whose
    server hangs occupies one thread, however many calls need it. Of different names, a tenant has a few looked up at a
    time."""

    def __init__(self) -> None:
        self._threads: ThreadPoolExecutor | None = None
        self._under_way: dict[tuple[str, int], asyncio.Future[list[str]]] = {}
        self._of_tenants: dict[int, set[asyncio.Future[list[str]]]] = {}

    async def lookup(self, tenant: int, host: str, port: int) -> list[str]:
        """Returns the addresses of `host` in the resolver's order, each once; an address as it is. Raises
        NoSuchHost."""
        try:
            return [str(ipaddress.ip_address(host))]
        except ValueError:
            pass
        key = (host, port)
        while (future := self._under_way.get(key)) is None:
            others = self._of_tenants.get(tenant, set())
            if len(others) < _LOOKUPS_OF_TENANT:
                future = self._begin(tenant, key)
                break
            await asyncio.wait(others, return_when=asyncio.FIRST_COMPLETED)
        try:
            return await asyncio.shield(future)
        except (OSError, UnicodeError) as error:
            raise NoSuchHost(str(error)) from error

    def _begin(self, tenant: int, key: tuple[str, int]) -> asyncio.Future[list[str]]:
        if self._threads is None:
            self._threads = ThreadPoolExecutor(_THREADS, "resolve")
        future = asyncio.get_running_loop().run_in_executor(self._threads, _addresses, *key)
        self._under_way[key] = future
        self._of_tenants.setdefault(tenant, set()).add(future)
        future.add_done_callback(lambda done: self._forget(tenant, key, done))
        return future

    def _forget(self, tenant: int, key: tuple[str, int], future: asyncio.Future[list[str]]) -> None:
        self._under_way.pop(key, None)
        of_tenant = self._of_tenants[tenant]
        of_tenant.discard(future)
        if not of_tenant:
            del self._of_tenants[tenant]
        if not future.cancelled():
            future.exception()  # marks it as retrieved, even if every caller has given up

    def close(self) -> None:
        if self._threads is not None:
            self._threads.shutdown(wait=False, cancel_futures=True)


def _addresses(host: str, port: int) -> list[str]:
    entries = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(entry[4][0]) for entry in entries))
