"""Resolves names in its own threads: a DNS server that does not respond delays no other work.

Concurrent lookups of the same name are shared, even if the first caller has given up waiting: a name whose server hangs
occupies one thread, however many calls need it.
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from concurrent.futures import ThreadPoolExecutor
from typing import Final

# Concurrent lookups. glibc gives up after some 10 to 30 seconds.
_THREADS: Final = 16


class NoSuchHost(Exception):
    """The text is the resolver's."""


class Resolver:
    def __init__(self) -> None:
        self._threads: ThreadPoolExecutor | None = None
        self._under_way: dict[tuple[str, int], asyncio.Future[list[str]]] = {}

    async def lookup(self, host: str, port: int) -> list[str]:
        """Returns the addresses of `host` in the resolver's order, each once; an address as it is. Raises
        NoSuchHost."""
        try:
            return [str(ipaddress.ip_address(host))]
        except ValueError:
            pass
        key = (host, port)
        future = self._under_way.get(key)
        if future is None:
            if self._threads is None:
                self._threads = ThreadPoolExecutor(_THREADS, "resolve")
            future = asyncio.get_running_loop().run_in_executor(self._threads, _addresses, host, port)
            self._under_way[key] = future
            future.add_done_callback(lambda done: self._finished(key, done))
        try:
            return await asyncio.shield(future)
        except (OSError, UnicodeError) as error:
            raise NoSuchHost(str(error)) from error

    def _finished(self, key: tuple[str, int], future: asyncio.Future[list[str]]) -> None:
        self._under_way.pop(key, None)
        if not future.cancelled():
            future.exception()  # marks it as retrieved, even if every caller has given up

    def close(self) -> None:
        if self._threads is not None:
            self._threads.shutdown(wait=False, cancel_futures=True)


def _addresses(host: str, port: int) -> list[str]:
    entries = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(entry[4][0]) for entry in entries))
