"""Servers that are dead in every way, all at once: what they delay, and how one sees it."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.aggregation.backend import wait_for_condition
from tests.aggregation.objects import PATH, api_service
from tests.api.client import Client, eventually
from tests.application import new_tenant, serving
from tests.webhooks.hostile import certificates

AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
DOCUMENTS = (
    ("/api", "application/json"), ("/apis", "application/json"), ("/api", AGGREGATED), ("/apis", AGGREGATED),
    ("/apis/test.example.com", "application/json"), ("/apis/test.example.com/v1", "application/json"),
    ("/openapi/v2", "application/json"), ("/openapi/v3", "application/json"),
    ("/openapi/v3/apis/test.example.com/v1", "application/json"),
)  # fmt: skip
# What a server says after the handshake; None if it says nothing. The others do not get so far.
ANSWERS = {
    "silent": None,
    "reset": b"",
    "nonsense": b"\x00\xff" * 100 + b"\r\n\r\n",
    "redirect": b"HTTP/1.1 302 Found\r\nlocation: https://127.0.0.1:1/\r\ncontent-length: 0\r\n\r\n",
    "wrong-kind": b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n[]",
    "failing": b"HTTP/1.1 500 No\r\ncontent-length: 0\r\n\r\n",
}
KINDS = (*ANSWERS, "closed", "unreachable", "no-tls", "other-name")
# The most that they may add to a document.
SECONDS = 0.1


@contextlib.asynccontextmanager
async def dead_servers(folder: Path) -> AsyncIterator[dict[str, int]]:
    """The port of each of KINDS."""
    ended = asyncio.Event()
    writers: list[asyncio.StreamWriter] = []

    async def start(stack: contextlib.AsyncExitStack, kind: str, context: ssl.SSLContext | None) -> int:
        async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writers.append(writer)
            answer = ANSWERS.get(kind)
            with contextlib.suppress(OSError, asyncio.IncompleteReadError):
                if answer is None:
                    await ended.wait()
                    return
                await reader.readuntil(b"\r\n\r\n")
                writer.write(answer)
                await writer.drain()
            writer.transport.abort()

        server = await stack.enter_async_context(await asyncio.start_server(handle, "127.0.0.1", 0, ssl=context))
        return int(server.sockets[0].getsockname()[1])

    async with contextlib.AsyncExitStack() as stack:
        own = {kind: certificates(folder / kind, f"{kind}.n.svc").context for kind in ANSWERS}
        contexts = {**own, "no-tls": None, "other-name": certificates(folder / "other", "else.n.svc").context}
        ports = {kind: await start(stack, kind, context) for kind, context in contexts.items()}
        closed, full = stack.enter_context(socket.socket()), stack.enter_context(socket.socket())
        for listener in (closed, full):
            listener.bind(("127.0.0.1", 0))
        # No connection is accepted, and more than these are not even begun.
        full.listen(0)
        for _ in range(3):
            waiting = stack.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(full.getsockname())
        yield {**ports, "closed": closed.getsockname()[1], "unreachable": full.getsockname()[1]}
        ended.set()
        for writer in writers:
            writer.transport.abort()
            with contextlib.suppress(OSError):
                await writer.wait_closed()


async def fastest(client: Client, document: tuple[str, str]) -> float:
    """The seconds that a document takes; of several times the least, for the machine may be busy."""
    times = []
    for _ in range(5):
        began = time.monotonic()
        (await client.get(document[0], accept=document[1])).ok(200)
        times.append(time.monotonic() - began)
    return min(times)


async def test_dead_servers_delay_nothing_but_what_is_theirs(
    api_database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with dead_servers(tmp_path / "servers") as ports:
        placed = tuple(f"{kind}.n=127.0.0.1:{port}" for kind, port in ports.items())
        async with serving(api_database, tmp_path, webhook_services=placed) as application:
            alone, client = await new_tenant(application), await new_tenant(application)
            names = [f"v1.{kind}.example.com" for kind in KINDS]
            for kind, name in zip(KINDS, names, strict=True):
                tls = {} if kind == "other-name" else {"insecureSkipTLSVerify": True}
                service = {"namespace": "n", "name": kind}
                (await client.post(PATH, api_service(name, service=service, **tls))).ok(201)
            # Checks of some are under way.
            await compare(client, alone)
            # As in kube-apiserver, one that answers with 200 is available, whatever it says.
            assert (await wait_for_condition(client, names[KINDS.index("wrong-kind")], "True"))["reason"] == "Passed"
            for name in names:
                if "wrong-kind" in name:
                    continue
                condition = await wait_for_condition(client, name, "False")
                assert condition["reason"] == "FailedDiscoveryCheck", condition
                exposed = (await application.get("/metrics")).text
                assert f'aggregator_unavailable_apiservice{{name="{name}"}} 1.0' in exposed
            await compare(client, alone)
            await delete_namespace(client, monkeypatch)


async def compare(client: Client, alone: Client) -> None:
    for document in DOCUMENTS:
        added = await fastest(client, document) - await fastest(alone, document)
        assert added < SECONDS, f"{document}: {added:.3f} s more beside dead servers"


async def delete_namespace(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """All that is not theirs goes at once, and the namespace after a bounded time."""
    space = "/api/v1/namespaces/space"
    (await client.post("/api/v1/namespaces", {"metadata": {"name": "space"}})).ok(201)
    (await client.post(f"{space}/configmaps", {"metadata": {"name": "a"}})).ok(201)
    (await client.delete(space)).ok(200)

    async def is_empty() -> bool:
        return not (await client.get(f"{space}/configmaps")).ok(200)["items"]

    await eventually(is_empty)
    monkeypatch.setattr("registry.controllers.namespaces.UNAVAILABLE_SECONDS", 0.0)

    async def is_gone() -> bool:
        return (await client.get(space)).code == 404

    await eventually(is_gone)
