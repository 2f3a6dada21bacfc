"""What a watch takes while nothing happens."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import socket
import tracemalloc
from collections.abc import Set
from typing import Any, Final

import pytest
import uvicorn
from uvicorn.server import ServerState

from registry.http import metrics
from registry.http.serving.connection import ClientConnection, ReadLimits
from registry.http.serving.flag import Flag
from registry.http.serving.protocol import Protocol
from tests.api.client import Client
from tests.application import shares_application
from tests.http.streams import PATIENCE_SECONDS, a_slot

pytestmark = shares_application

MAPS: Final = "/api/v1/namespaces/default/configmaps"
WATCHES: Final = 40
# 14.6 kB with Python 3.11 and its own event loop.
MOST_BYTES: Final = 17_000


@pytest.mark.parametrize("body", ["\r\n", "content-length: 3\r\n\r\nabc"], ids=["without a body", "with a body"])
async def test_a_watch_ends_with_its_client(api: Client, body: str) -> None:
    async with contextlib.AsyncExitStack() as stack:
        port = await _serve(stack, api)
        stack.enter_context(contextlib.closing(await _watch(api, port)))
        before = await _served()
        client = await _watch(api, port, body)
        assert await _served() == before + 1
        client.close()
        async with asyncio.timeout(PATIENCE_SECONDS):
            while await _served() > before:
                pass


async def test_a_connection_serves_what_follows_a_watch(api: Client) -> None:
    """A watch releases the parser of its connection, which is made again: also while it lasts, for half a head."""
    async with contextlib.AsyncExitStack() as stack:
        port = await _serve(stack, api)
        client = stack.enter_context(contextlib.closing(await _watch(api, port, more="&timeoutSeconds=1")))
        loop = asyncio.get_running_loop()
        following = f"GET {api.prefix}{MAPS}/none HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {api._token}\r\n\r\n"
        await loop.sock_sendall(client, following[:50].encode())
        received = b""
        async with asyncio.timeout(PATIENCE_SECONDS):
            while b"0\r\n\r\n" not in received:
                received += await loop.sock_recv(client, 4096)
            await loop.sock_sendall(client, (following[50:] + following).encode())
            while received.count(b"HTTP/1.1 404 ") < 2 or not received.endswith(b"}\n"):
                received += await loop.sock_recv(client, 4096)


async def _served() -> float:
    """Waits a moment for what the client has done, and returns how many watches are open."""
    await asyncio.sleep(0.01)  # callers look again, or expect that nothing has changed
    return metrics.WATCHES.count


async def test_an_idle_watch_takes_little(api: Client) -> None:
    """One task, and a bounded number of bytes, its connection without TLS included."""
    async with contextlib.AsyncExitStack() as stack:
        port = await _serve(stack, api)
        stack.enter_context(contextlib.closing(await _watch(api, port)))  # what only the first of them needs
        gc.collect()
        before = asyncio.all_tasks()  # some of which may end
        tracemalloc.start()
        stack.callback(tracemalloc.stop)
        for _ in range(WATCHES):
            stack.enter_context(contextlib.closing(await _watch(api, port)))
        async with asyncio.timeout(PATIENCE_SECONDS):
            while await _new_tasks(before) > WATCHES:
                pass
        gc.collect()
        assert len(asyncio.all_tasks() - before) == WATCHES
        assert tracemalloc.get_traced_memory()[0] / WATCHES < MOST_BYTES


async def _new_tasks(before: Set[asyncio.Task[Any]]) -> int:
    """Waits a moment for tasks that have answered to end, and returns how many are new."""
    await asyncio.sleep(0.01)  # callers look again
    return len(asyncio.all_tasks() - before)


async def test_a_flag_wakes_all_that_wait_though_it_is_cleared_at_once() -> None:
    flag = Flag()
    waiting = [asyncio.create_task(flag.wait()) for _ in range(3)]
    await asyncio.sleep(0)
    waiting.pop().cancel()
    flag.set()
    flag.clear()
    async with asyncio.timeout(PATIENCE_SECONDS):
        await asyncio.gather(*waiting)
    later = asyncio.create_task(flag.wait())
    await asyncio.sleep(0)
    assert not later.done()
    flag.set()
    await later
    await flag.wait()


async def _serve(stack: contextlib.AsyncExitStack, api: Client) -> int:
    """Serves the application on a port."""
    application: Any = api._app
    config = uvicorn.Config(
        application,
        http=Protocol,
        interface="asgi3",
        lifespan="off",
        log_config=None,
        server_header=False,
        proxy_headers=False,
    )
    config.load()
    state, limits = ServerState(), ReadLimits()
    server = await asyncio.get_running_loop().create_server(
        lambda: ClientConnection(Protocol(config, state, {}, a_slot()), limits, None), "127.0.0.1", 0
    )
    stack.callback(server.close)
    port: int = server.sockets[0].getsockname()[1]
    return port


async def _watch(api: Client, port: int, body: str = "\r\n", more: str = "") -> socket.socket:
    """Begins a watch of the present revision, over a connection of its own that takes nothing in Python."""
    loop = asyncio.get_running_loop()
    client = socket.socket()
    client.setblocking(False)
    await loop.sock_connect(client, ("127.0.0.1", port))
    request = (
        f"GET {api.prefix}{MAPS}?watch=1&resourceVersion={await _revision(api)}{more} HTTP/1.1\r\nhost: x\r\n"
        f"authorization: Bearer {api._token}\r\n{body}"
    )
    await loop.sock_sendall(client, request.encode())
    async with asyncio.timeout(PATIENCE_SECONDS):
        assert (await loop.sock_recv(client, 4096)).startswith(b"HTTP/1.1 200 ")
    return client


async def _revision(api: Client) -> str:
    return str((await api.get(f"{MAPS}?limit=1")).ok()["metadata"]["resourceVersion"])
