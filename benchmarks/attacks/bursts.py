"""What hundreds of connections do at the same moment: end their handshakes, send requests, and end."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from itertools import count

from benchmarks.attacks.attacker import MAPS, TENANT, Attacker
from benchmarks.client import tls

# With its neighbours in one process: more than this takes a client longer to prepare than a server to handle.
CONNECTIONS = 700


async def bursts(attacker: Attacker) -> None:
    """700 connections whose handshakes end at the same moment, which then send sixteen requests each, and end."""
    await attacker.ask("POST", MAPS, {"metadata": {"name": "burst"}, "data": {"a": "x"}})
    request = attacker.head("GET", f"{MAPS}/burst", 0) * 16

    async def work(one: Attacker) -> None:
        clients = [_Client(one) for _ in range(CONNECTIONS)]
        try:
            await asyncio.gather(*(client.begin() for client in clients))
            for client in clients:
                client.finish()
            await asyncio.sleep(0.5)
            texts = [client.encrypted(request) for client in clients]
            for client, text in zip(clients, texts, strict=True):
                client.send(text)
            await asyncio.sleep(0.5)
        finally:
            for client in clients:
                client.end()

    await attacker.parallel(1, work)


async def tenants(attacker: Attacker) -> None:
    """200 tenants, each with a definition of its own, all at work: creates, lists, watches that begin and end."""
    numbers = count()
    names = [f"attacker-{i}" for i in range(200)]
    for name in names:
        body = {"apiVersion": "tenancy.registry/v1", "kind": "Tenant", "metadata": {"name": name}, "spec": {}}
        await attacker.ask("POST", "/clusters/system/apis/tenancy.registry/v1/tenants", body)

    async def work(one: Attacker) -> None:
        i = next(numbers)
        maps = MAPS.replace(TENANT, f"/clusters/{names[i % len(names)]}")
        await one.ask("POST", maps, {"metadata": {"name": f"m{i}"}, "data": {"a": "x" * 1000}})
        await one.ask("GET", maps)
        await one.ask("GET", f"{maps}?watch=true&timeoutSeconds=1")
        await one.ask("DELETE", f"{maps}/m{i}")

    await attacker.parallel(200, work)


class _Client:
    """A TLS connection whose client decides when its handshake ends."""

    def __init__(self, attacker: Attacker) -> None:
        self._attacker = attacker
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = tls().wrap_bio(self._incoming, self._outgoing)
        self._writer: asyncio.StreamWriter | None = None

    async def begin(self) -> None:
        """Does all of the handshake but to send its last message."""
        with contextlib.suppress(OSError):
            reader, self._writer = await asyncio.open_connection(*self._attacker.target.address)
            while True:
                try:
                    self._tls.do_handshake()
                    return
                except ssl.SSLWantReadError:
                    self._writer.write(self._outgoing.read())
                received = await reader.read(65536)
                if not received:
                    return
                self._incoming.write(received)

    def finish(self) -> None:
        self.send(self._outgoing.read())

    def encrypted(self, text: bytes) -> bytes:
        try:
            self._tls.write(text)
        except ssl.SSLError:
            return b""
        return self._outgoing.read()

    def send(self, data: bytes) -> None:
        is_open = self._writer is not None and not self._writer.is_closing()
        self._attacker.answers["sent" if is_open else "closed"] += 1
        if self._writer is not None and is_open:
            self._writer.write(data)

    def end(self) -> None:
        if self._writer is not None:
            self._writer.transport.abort()
