"""Hundreds of connections that send many requests each at the same moment: the event loop serves others meanwhile."""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from registry.http.serving.fast_path import FAST_PATHS
from registry.http.serving.protocol import PIPELINE_LIMIT
from registry.http.serving.tls import ensure_certificates, server_context
from tests.http.acceptors import accepting
from tests.http.loops import on_asyncio, on_uvloop
from tests.http.streams import REQUEST, hello
from tests.http.tls_client import Client, PlainClient

CLIENTS = 300
FIELDS = b"".join(b"x-%d: x\r\n" % i for i in range(40))
KINDS = [pytest.param(Client, id="TLS"), pytest.param(PlainClient, id="plain")]
AnyClient = Client | PlainClient
LONG = b"GET /a HTTP/1.1\r\nhost: x\r\n" + FIELDS + b"\r\n"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("run", [on_asyncio, on_uvloop])
def test_requests_are_parsed_for_a_few_milliseconds_at_a_time(
    run: Callable[[Any], None], kind: type[AnyClient], tmp_path: Path
) -> None:
    """Those of 300 clients took 0.2 s, those of 2,000 half a second, in which nothing else ran."""

    async def attacked() -> None:
        context = _context(tmp_path) if kind is Client else None
        begun, begun_before_neighbour, may_end = 0, 0, asyncio.Event()

        async def application(scope: dict[str, Any], receive: Any, send: Any) -> None:
            nonlocal begun, begun_before_neighbour
            scope[FAST_PATHS].tenant = scope["path"]
            if scope["path"] == "/a":
                begun += 1
                await may_end.wait()
            else:
                begun_before_neighbour = begun
            await hello(scope, receive, send)

        async with accepting(1000, context, application) as (_, port):
            clients = [await asyncio.to_thread(_shaken, kind, port) for _ in range(CLIENTS)]
            neighbour = await asyncio.to_thread(_shaken, kind, port)
            await asyncio.to_thread(neighbour.send, neighbour.records(REQUEST))  # the connection is known now
            assert (await asyncio.to_thread(neighbour.receive)).startswith(b"HTTP/1.1 200")
            blows = [client.records(LONG * PIPELINE_LIMIT) for client in clients]
            for client, blow in zip(clients, blows, strict=True):
                client.send(blow)  # all of it fits into what the system keeps
            neighbour.send(neighbour.records(REQUEST))
            longest = 0.0
            while begun < CLIENTS:
                began = time.thread_time()
                await asyncio.sleep(0)
                longest = max(longest, time.thread_time() - began)
            assert (await asyncio.to_thread(neighbour.receive)).startswith(b"HTTP/1.1 200")
            may_end.set()
            for client in [*clients, neighbour]:
                client.socket.close()
        assert longest < 0.08
        assert begun_before_neighbour < CLIENTS

    run(attacked)


def _context(folder: Path) -> ssl.SSLContext:
    made = ensure_certificates(folder, "127.0.0.1", ())
    return server_context(made.certificate, made.key)


def _shaken(kind: type[AnyClient], port: int) -> AnyClient:
    client = kind(port)
    client.shake_hands()
    return client


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("run", [on_asyncio, on_uvloop])
def test_all_of_them_are_answered_in_order(run: Callable[[Any], None], kind: type[AnyClient], tmp_path: Path) -> None:
    async def served() -> None:
        context = _context(tmp_path) if kind is Client else None
        async with accepting(1000, context) as (_, port):
            clients = [await asyncio.to_thread(_shaken, kind, port) for _ in range(20)]
            for client in clients:
                posts = (
                    b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n%b" % (n, b"x" * n) for n in range(16)
                )
                await asyncio.to_thread(client.send, client.records(b"".join(posts)))
            for client in clients:
                received = b""
                while received.count(b"HTTP/1.1 200") < 16 or not received.endswith(b"\r\n\r\n15"):
                    received += await asyncio.to_thread(client.receive)
                bodies = [part.partition(b"\r\n\r\n")[2] for part in received.split(b"HTTP/1.1 200")[1:]]
                assert bodies == [b"%d" % n for n in range(16)]
                client.socket.close()

    run(served)
