"""Connections to checked addresses: the address that the policy accepted is the one that is connected to.

So a name that resolves differently a moment later (DNS rebinding) has no effect: each new connection resolves, checks
and connects in one step, and a kept connection keeps its address.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import httpcore

from registry.webhooks.egress import EgressPolicy, parse_address
from registry.webhooks.resolver import NoSuchHost, Resolver

# Addresses of one name that are tried; a DNS server may return hundreds.
_MAX_TRIED: Final = 8


class Unreachable(Exception):
    """No connection can be made. The text is Go's: `dial tcp 192.0.2.1:443: connect: connection refused`."""


class NotConnected(Unreachable):
    """No server answers at this address; another address of the host may work."""


@dataclass(frozen=True, slots=True)
class Origin:
    """A server: `host` and `port` for TLS and the Host header, `ca` in PEM, or "" for the system's roots.

    `place` is where to connect instead, for services. `trusted` says that the operator has named the place, so that it
    need not be a public address.
    """

    host: str
    port: int
    ca: str = ""
    place: tuple[str, int] | None = None
    trusted: bool = False

    @property
    def authority(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == 443 else f"{host}:{self.port}"


class Dialer:
    """Decides which addresses of an origin may be connected to."""

    def __init__(self, policy: EgressPolicy, resolver: Resolver, *, resolve_seconds: float) -> None:
        self._policy = policy
        self._resolver = resolver
        self._resolve_seconds = resolve_seconds

    async def addresses(self, origin: Origin) -> tuple[list[str], int]:
        """Returns the addresses to try, in order, and the port. Raises Unreachable if there is none."""
        host, port = origin.place or (origin.host, origin.port)
        try:
            async with asyncio.timeout(self._resolve_seconds):
                addresses = await self._resolver.lookup(host, port)
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


class AddressCheckingBackend(httpcore.AsyncNetworkBackend):
    """The network of one origin's connection pool. Raises Unreachable; the pool passes it on."""

    def __init__(self, origin: Origin, dialer: Dialer, *, connect_seconds: float) -> None:
        self._origin = origin
        self._dialer = dialer
        self._connect_seconds = connect_seconds
        self._network = httpcore.AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109
        local_address: str | None = None,
        socket_options: Iterable[httpcore.SOCKET_OPTION] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        addresses, port = await self._dialer.addresses(self._origin)
        for address in addresses[:-1]:
            try:
                return await self._connect(address, port)
            except NotConnected:
                continue
        return await self._connect(addresses[-1], port)

    async def _connect(self, address: str, port: int) -> httpcore.AsyncNetworkStream:
        peer = socket_text(address, port)
        try:
            stream = await self._network.connect_tcp(plain_address(address), port, timeout=self._connect_seconds)
        except httpcore.ConnectTimeout as error:
            raise NotConnected(f"dial tcp {peer}: i/o timeout") from error
        except httpcore.ConnectError as error:
            raise NotConnected(f"dial tcp {peer}: connect: {connect_problem(error)}") from error
        try:
            self._dialer.check_peer(self._origin, stream.get_extra_info("server_addr"), peer)
        except Unreachable:
            await stream.aclose()
            raise
        return stream

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


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
