"""A connection that is used again has nothing of the answer before."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from registry.webhooks.egress import EgressPolicy
from registry.webhooks.http1 import HttpConnection
from registry.webhooks.https import HttpsClient
from registry.webhooks.streaming import Connections, PooledServer, TooManyConnections
from tests.api.client import eventually
from tests.webhooks.hostile import certificates, serving


async def _answer_each(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answers `GET /N` with N, in a body of always the same length."""
    while True:
        head = await reader.readuntil(b"\r\n\r\n")
        number = head.split(b" ")[1].lstrip(b"/")
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\n" + number.rjust(1000))
        await writer.drain()


async def _body(connection: HttpConnection) -> bytes:
    """Reads the body, which may arrive in parts."""
    return b"".join([part async for part in _parts(connection)])


async def _parts(connection: HttpConnection) -> AsyncIterator[bytes]:
    while part := await connection.read():
        yield part


@pytest.mark.parametrize("is_read", [False, True], ids=["left", "read"])
async def test_an_answer_that_is_not_read_is_dropped(tmp_path: Path, is_read: bool) -> None:
    """A client that disconnects, or an answer that is refused, leaves one that has arrived: the next request got it."""
    async with serving(certificates(tmp_path), _answer_each) as origin:
        https = HttpsClient(EgressPolicy(["127.0.0.0/8"]))
        connections = Connections(https.dialer)
        server = PooledServer(1, origin.origin, "", ssl.create_default_context(cadata=origin.ca))
        first = await connections.acquire(server)
        first.begin(b"GET /1 HTTP/1.1\r\n\r\n")
        await first.head()
        if is_read:
            assert await _body(first) == b"1".rjust(1000)
        connections.release(server, first)
        second = await connections.acquire(server)
        assert (second is first) is is_read
        second.begin(b"GET /2 HTTP/1.1\r\n\r\n")
        await second.head()
        assert await _body(second) == b"2".rjust(1000)
        connections.release(server, second)
        connections.close()
        await https.aclose()


async def test_a_kept_connection_of_this_server_is_not_beyond_the_limit_of_clients(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("registry.webhooks.streaming.CONNECTIONS_OF_TENANT", 1)
    async with serving(certificates(tmp_path), _answer_each) as origin:
        https = HttpsClient(EgressPolicy(["127.0.0.0/8"]))
        connections = Connections(https.dialer)
        server = PooledServer(1, origin.origin, "", ssl.create_default_context(cadata=origin.ca))
        clients, own = await connections.acquire(server), await connections.acquire(server, own=True)
        own.begin(b"GET /1 HTTP/1.1\r\n\r\n")
        await own.head()
        await _body(own)
        connections.release(server, own)
        with pytest.raises(TooManyConnections):
            await connections.acquire(server)
        assert await connections.acquire(server, own=True) is own
        connections.release(server, own)
        connections.release(server, clients)
        connections.close()
        await https.aclose()


async def test_a_connection_that_is_idle_for_long_is_closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One timer looks at all of them: it closes those that are due, the others later, and none that is in use."""
    monkeypatch.setattr("registry.webhooks.streaming._IDLE_SECONDS", 1.5)
    monkeypatch.setattr("registry.webhooks.streaming._EXPIRY_SECONDS", 0.01)
    async with serving(certificates(tmp_path), _answer_each) as origin:
        https = HttpsClient(EgressPolicy(["127.0.0.0/8"]))
        connections = Connections(https.dialer)
        context = ssl.create_default_context(cadata=origin.ca)
        servers = [PooledServer(owner, origin.origin, "", context) for owner in (1, 2, 3)]

        async def use(server: PooledServer) -> HttpConnection:
            connection = await connections.acquire(server)
            connection.begin(b"GET /1 HTTP/1.1\r\n\r\n")
            await connection.head()
            await _body(connection)
            connections.release(server, connection)
            return connection

        async def closed() -> bool:
            return used[0].is_lost and last.is_lost

        used = [await use(server) for server in servers[:2]]
        assert await connections.acquire(servers[1]) is used[1]
        last = await use(servers[2])
        await eventually(closed)
        assert not used[1].is_lost
        assert await connections.acquire(servers[0]) is not used[0]
        connections.close()
        await https.aclose()
