"""Resolves names in its own threads: a DNS server that does not respond delays no other work.

Concurrent lookups of the same name are shared, even if the first caller has given up waiting: a name whose server hangs
occupies one thread, however many calls need it. Of different names, a tenant has a few looked up at a time.
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from concurrent.futures import ThreadPoolExecutor
from typing import Final

# Concurrent lookups, in all and for a tenant. glibc gives up after some 10 to 30 seconds.
_THREADS: Final = 64
_LOOKUPS_OF_TENANT: Final = 4


class NoSuchHost(Exception):
    """The text is the resolver's."""


class Resolver:
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
