"""A silent network failure between server and PostgreSQL: calls time out, and everything recovers."""

from __future__ import annotations

import asyncio
import socket
import ssl
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import httpx
import pytest

from registry.store import migrate
from registry.store.database import CONNECT_TIMEOUT_SECONDS
from tests.api.widgets import WIDGETS
from tests.databases import temporary_database
from tests.faults.clients import ServerClient, Watcher, assert_unavailable, eventually
from tests.proxy import Proxy
from tests.replication import Node, running_node
from tests.running import RunningServer, running_server

pytestmark = pytest.mark.slow


def trust(server: RunningServer) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=str(server.authority))


@pytest.fixture(scope="module")
def node() -> Iterator[Node]:
    """It is never hurt: only the network is. Its own database is the template of those of tests."""
    with running_node() as node:
        node.execute("CREATE DATABASE template")
        migrate.upgrade(node.database("template").url)
        yield node


@pytest.fixture
def database(node: Node) -> Iterator[str]:
    with temporary_database(node.url, "template") as url:
        yield url


@pytest.fixture
def proxy(node: Node) -> Iterator[Proxy]:
    with Proxy("127.0.0.1", node.port) as proxy:
        yield proxy


@pytest.fixture
def server(proxy: Proxy, database: str, folder: Path) -> Iterator[RunningServer]:
    arguments = ("--database-url", proxy.url(database), "--shutdown-seconds", "6", "--no-sql-views")
    with running_server(folder / "server", *arguments) as server:
        yield server


@pytest.fixture
async def client(server: RunningServer) -> AsyncIterator[ServerClient]:
    async with ServerClient(server.url, server.token, verify=trust(server)) as client:
        await client.define_widgets()
        yield client


async def test_a_frozen_network(client: ServerClient, server: RunningServer, proxy: Proxy) -> None:
    """Connections stay open and carry nothing: no call hangs, readiness is answered at once, watches go on later."""
    assert (await client.create("before")).status_code == 201
    watcher = Watcher(client, 0)
    await watcher.reach(await client.revision())
    with proxy.frozen():
        begun = time.monotonic()
        answers = await asyncio.gather(
            client.request("GET", f"{WIDGETS}/before"), client.request("GET", WIDGETS), client.create("lost")
        )
        # The probe finds out, and ends what waits.
        assert time.monotonic() - begun < 60  # not as long as the network is frozen
        for answer in answers:
            assert_unavailable(answer)
        # From then on it is known.
        for method, path in (("GET", WIDGETS), ("GET", f"{WIDGETS}/before"), ("DELETE", f"{WIDGETS}/before")):
            begun = time.monotonic()
            assert_unavailable(await client.request(method, path))
            assert time.monotonic() - begun < CONNECT_TIMEOUT_SECONDS
        ready = await client.request("GET", "/readyz")
        assert ready.status_code == 500
        assert "[-]database failed" in ready.text
        # Without asking PostgreSQL: 0.1 s on a machine that has nothing else to do.
        assert ready.elapsed.total_seconds() < CONNECT_TIMEOUT_SECONDS

    async def can_write() -> bool:
        # 409: an attempt whose answer was lost has made it.
        return (await client.create("after")).status_code in (201, 409)

    await eventually(can_write)
    await watcher.reach(await client.revision())
    await watcher.stop()
    names = [name for _, _, name in watcher.seen]
    assert names[0] == "before"
    assert names[-1] == "after"
    lines = [line for line in server.log.splitlines() if " warning " in line or " error " in line]
    assert len([line for line in lines if "PostgreSQL is away" in line and "registry.store" in line]) == 1
    assert len(lines) < 12, "\n".join(lines)
    assert "Traceback" not in server.log


async def test_a_stop_while_postgresql_hangs(client: ServerClient, server: RunningServer, proxy: Proxy) -> None:
    """Within --shutdown-seconds, whatever hangs."""
    assert (await client.create("before")).status_code == 201
    with proxy.frozen():
        write = asyncio.create_task(client.request("POST", WIDGETS, {"kind": "Widget"}))
        read = asyncio.create_task(client.request("GET", WIDGETS))
        await asyncio.to_thread(server.stop, timeout_seconds=60)
        await asyncio.gather(write, read, return_exceptions=True)


async def test_a_disconnected_client_does_not_delay_a_stop(server: RunningServer) -> None:
    """A TLS connection is closed by both sides; this one's other side says nothing."""
    context = trust(server)
    with (
        socket.create_connection(("127.0.0.1", server.port)) as plain,
        context.wrap_socket(plain, server_hostname="127.0.0.1") as connection,
    ):
        connection.sendall(b"GET /livez HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        assert b"200" in connection.recv(4096)
        assert await asyncio.to_thread(server.stop) == 0
        assert "did not finish in time" not in server.log


async def test_a_request_in_transit_at_the_start_of_a_stop(client: ServerClient, server: RunningServer) -> None:
    """A connection that idles is answered once more, with Connection: close, rather than cut."""
    assert (await client.request("GET", "/livez")).headers.get("connection") is None
    stop = asyncio.create_task(asyncio.to_thread(server.stop))

    async def refused() -> bool:
        try:
            async with httpx.AsyncClient(verify=trust(server), trust_env=False) as other:
                await other.get(f"{server.url}/livez")
        except httpx.ConnectError:
            return True
        return False

    answer = await client.request("GET", "/livez")
    while answer.headers.get("connection") is None:  # the signal has not come yet
        answer = await client.request("GET", "/livez")
    assert answer.status_code == 200
    assert answer.headers["connection"] == "close"
    assert await eventually(refused)
    assert await stop == 0
