"""Connections are shared between tenants: a flood leaves room for a new client."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import ssl
from collections.abc import AsyncIterator, Iterator

import psutil
import pytest

from registry.http.serving import acceptor as accepting_module
from registry.http.serving.connection_shares import IDLE_BYTES, UNKNOWN, ConnectionShares, ConnectionSlot
from tests.folders import data_folder
from tests.http.acceptors import accepting
from tests.http.streams import PATIENCE_SECONDS, REQUEST, Streams, answer, ended
from tests.running import RunningServer, running_server

LIMIT = 60


MAPS = "/api/v1/namespaces/default/configmaps"


class Flood:
    """Connections of a process without sockets, by tenant."""

    def __init__(self, limit: int) -> None:
        self.shares = ConnectionShares(limit)
        self.closed: list[ConnectionSlot] = []

    def open(self, tenant: str = UNKNOWN, *, busy: bool = False) -> ConnectionSlot | None:
        """A new connection; None if it was refused."""
        slot = self.shares.open()
        if slot is None:
            return None
        slot.attach(lambda: busy, lambda: self.closed.append(slot))
        if slot.count_for(tenant):
            return slot
        slot.end()
        return None


def test_connections_without_a_credential_have_a_third() -> None:
    flood = Flood(300)
    opened = [flood.open(busy=busy) for busy in [False, True] * 300]
    assert None not in opened
    assert 90 < flood.shares.count <= 100
    assert len(flood.closed) == 600 - flood.shares.count
    # Those without a request go first, the oldest of them first of all.
    assert flood.closed[:3] == [opened[0], opened[2], opened[4]]


def test_a_tenant_has_half() -> None:
    flood = Flood(300)
    opened = [flood.open("a", busy=True) for _ in range(300)]
    assert opened.count(None) == 150
    # Another one has as many as are free, and those without a credential have some.
    assert sum(flood.open("b", busy=True) is not None for _ in range(300)) == 75
    assert flood.open() is not None
    assert flood.closed == []


def test_an_idle_connection_gives_way_to_one_of_its_tenant() -> None:
    flood = Flood(300)
    of_other = flood.open("b")
    opened = [flood.open("a", busy=i < 10) for i in range(300)]
    assert None not in opened
    assert flood.closed[:3] == opened[10:13]
    assert of_other not in flood.closed
    assert len(flood.closed) == 301 - flood.shares.count


def test_a_process_that_only_tenants_fill_refuses_others() -> None:
    flood = Flood(4)
    assert None not in [flood.open(tenant, busy=True) for tenant in "abcd"]
    assert flood.open() is None
    assert flood.closed == []


def test_an_ended_connection_leaves_its_room() -> None:
    flood = Flood(4)
    slot = flood.open("a", busy=True)
    assert slot is not None
    for _ in range(2):
        slot.end()
        assert flood.shares.count == 0
    assert slot.count_for("b")
    assert flood.shares.count == 0


async def test_silent_connections_keep_nobody_out() -> None:
    """As many connections as a process may have, on which nothing was sent, kept all others out."""
    async with accepting(LIMIT) as (acceptor, port):
        silent = [await asyncio.open_connection("127.0.0.1", port) for _ in range(2 * LIMIT)]
        client = await asyncio.open_connection("127.0.0.1", port)
        client[1].write(REQUEST)
        assert (await answer(client[0]))[0] == 200
        assert acceptor.shares.count < LIMIT / 2
        assert await ended(silent[0][0]) == b""
        for _, writer in [client, *silent]:
            writer.close()


async def test_a_full_process_closes_new_connections_at_once() -> None:
    async with accepting(2) as (acceptor, port):
        slots = []
        for tenant in "ab":
            slot = acceptor.shares.open()
            assert slot is not None
            assert slot.count_for(tenant)
            slots.append(slot)
        before = accepting_module.REFUSED._value.get()
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        assert await ended(reader) == b""
        assert accepting_module.REFUSED._value.get() == before + 1
        writer.close()
        for slot in slots:
            slot.end()


@pytest.fixture(scope="module")
def server() -> Iterator[RunningServer]:
    with data_folder() as folder, running_server(folder / "data", "--max-connections", str(LIMIT)) as running:
        yield running


@contextlib.asynccontextmanager
async def connected(server: RunningServer, *, received_bytes: int = 0) -> AsyncIterator[Streams]:
    """A TLS connection, which receives so many bytes ahead of its reader; 0 for as many as is usual."""
    plain = socket.create_connection(("127.0.0.1", server.port))
    if received_bytes:
        plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, received_bytes)
    context = ssl.create_default_context(cafile=str(server.authority))
    reader, writer = await asyncio.open_connection(
        sock=plain, ssl=context, server_hostname="127.0.0.1", limit=received_bytes or 1 << 16
    )
    try:
        yield reader, writer
    finally:
        writer.transport.abort()


def head(server: RunningServer, method: str, path: str, length: int = 0) -> bytes:
    return (
        f"{method} {path} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {server.token}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {length}\r\n\r\n"
    ).encode()


async def ask(server: RunningServer, method: str, path: str, body: object = None) -> tuple[int, bytes]:
    data = b"" if body is None else json.dumps(body).encode()
    async with connected(server) as (reader, writer):
        writer.write(head(server, method, path, len(data)) + data)
        return await answer(reader)


async def begin(server: RunningServer, path: str, stack: contextlib.AsyncExitStack) -> tuple[bytes, Streams]:
    """The first bytes of an answer on a new connection, which stays open."""
    streams = await stack.enter_async_context(connected(server))
    streams[1].write(head(server, "GET", path))
    return await asyncio.wait_for(streams[0].read(12), PATIENCE_SECONDS), streams


@pytest.mark.slow
async def test_watches_of_a_tenant_leave_connections_to_others(server: RunningServer) -> None:
    async with contextlib.AsyncExitStack() as stack:
        heads = [(await begin(server, f"{MAPS}?watch=true", stack))[0] for _ in range(LIMIT)]
        assert set(heads) == {b"HTTP/1.1 200", b"HTTP/1.1 429"}
        assert LIMIT / 3 < heads.count(b"HTTP/1.1 200") <= LIMIT / 2
        assert (await ask(server, "GET", MAPS))[0] == 429
        assert (await ask(server, "GET", "/clusters/system/api/v1/namespaces"))[0] == 200
        assert (await ask(server, "GET", "/livez"))[0] == 200


@pytest.mark.slow
async def test_idle_connections_of_a_tenant_give_way(server: RunningServer) -> None:
    async with contextlib.AsyncExitStack() as stack:
        opened = [await begin(server, "/api/v1/namespaces/default", stack) for _ in range(2 * LIMIT)]
        assert {code for code, _ in opened} == {b"HTTP/1.1 200"}
        assert await asyncio.wait_for(opened[0][1][0].read(), PATIENCE_SECONDS)  # the rest of its answer, and the end


def test_large_buffers_count_as_connections() -> None:
    flood = Flood(300)
    slots = [flood.open("a", busy=True) for _ in range(100)]
    assert [slot is not None and slot.keep_buffers() for slot in slots[:51]] == [True] * 50 + [False]
    assert (flood.shares.count, flood.shares.units) == (100, 151)
    assert flood.open("a", busy=True) is None
    assert flood.open("b", busy=True) is not None
    first = slots[0]
    assert first is not None
    assert first.units == 2
    assert first.keep_buffers()  # they are as large as before
    assert first.keep_waiting(2 * IDLE_BYTES) is False
    assert first.units == 4
    first.free_waiting()
    assert first.units == 2
    for slot in slots:
        assert slot is not None
        slot.end()
    assert flood.shares.units == 1


def test_idle_connections_give_way_to_large_buffers() -> None:
    flood = Flood(300)
    idle = [flood.open("a") for _ in range(100)]
    slots = [flood.open("a", busy=True) for _ in range(5)]
    assert all(slot is not None and slot.keep_waiting(20 * IDLE_BYTES) for slot in slots)
    assert flood.closed == idle[: len(flood.closed)]
    assert flood.shares.units <= 150


@pytest.mark.slow
async def test_connections_that_have_received_much_count_as_two(server: RunningServer) -> None:
    body = json.dumps({"metadata": {"name": "large"}, "data": {"a": "x" * 500_000}}).encode()
    async with contextlib.AsyncExitStack() as stack:
        for _ in range(LIMIT // 2):
            reader, writer = await stack.enter_async_context(connected(server))
            writer.write(head(server, "POST", f"{MAPS}?dryRun=All", len(body)) + body)
            assert (await answer(reader))[0] == 201
        _, text = await ask(server, "GET", "/metrics")
        [count] = [line for line in text.decode().splitlines() if line.startswith("registry_open_connections ")]
        assert 2 < float(count.split()[1]) <= LIMIT / 4 + 1  # and this one


@pytest.mark.slow
async def test_an_idle_connection_keeps_little_of_its_answers() -> None:
    """OpenSSL kept a buffer of 340 kB for each connection that had sent an answer of 256 kB."""
    count, letters = 150, 240_000
    with data_folder() as folder, running_server(folder / "data") as server:
        made = {"metadata": {"name": "large"}, "data": {"a": "x" * letters}}
        assert (await ask(server, "POST", MAPS, made))[0] == 201
        process = psutil.Process(server.process.pid)
        for _ in range(3):
            await ask(server, "GET", f"{MAPS}/large")
        before = process.memory_info().rss
        async with contextlib.AsyncExitStack() as stack:
            for _ in range(count):
                reader, writer = await stack.enter_async_context(connected(server))
                writer.write(head(server, "GET", f"{MAPS}/large"))
                status, body = await answer(reader)
                assert (status, len(body) > letters) == (200, True)
            assert process.memory_info().rss - before < count * 120_000


@pytest.mark.slow
async def test_answers_that_wait_for_clients_count_as_connections(server: RunningServer) -> None:
    """A part of a large answer waits in the connection, the last one also when its request has ended."""
    made = {"metadata": {"name": "waiting"}, "data": {"a": "x" * 600_000}}
    assert (await ask(server, "POST", MAPS, made))[0] == 201
    async with contextlib.AsyncExitStack() as stack:
        for _ in range(LIMIT // 2):
            _, writer = await stack.enter_async_context(connected(server, received_bytes=4096))
            writer.write(head(server, "GET", f"{MAPS}/waiting") * 12)  # more than sockets take
        async with asyncio.timeout(PATIENCE_SECONDS):
            while True:
                _, text = await ask(server, "GET", "/metrics")
                [count] = [line for line in text.decode().splitlines() if line.startswith("registry_open_connections ")]
                if 2 < float(count.split()[1]) < LIMIT / 3:
                    break
                await asyncio.sleep(0.2)
