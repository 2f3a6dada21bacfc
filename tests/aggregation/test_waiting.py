"""What discovery and OpenAPI wait for beside servers that hang: two constants, and nothing that a server does."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from registry.aggregation.openapi_documents import WAIT_SECONDS
from registry.controllers.api_services.monitor import DISCOVERY_WAIT_SECONDS
from tests.aggregation.objects import PATH, api_service
from tests.api.client import eventually
from tests.application import serving
from tests.webhooks.hostile import certificates

NEVER = 3600.0
AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
DOCUMENTS = (
    ("/api", "application/json"), ("/apis", "application/json"), ("/api", AGGREGATED), ("/apis", AGGREGATED),
    ("/apis/hangs.example.com", "application/json"), ("/apis/apiextensions.k8s.io/v1", "application/json"),
    ("/openapi/v2", "application/json"), ("/openapi/v3", "application/json"),
    ("/openapi/v3/apis/apiextensions.k8s.io/v1", "application/json"),
)  # fmt: skip


@contextlib.asynccontextmanager
async def hanging(folder: Path, where: str) -> AsyncIterator[tuple[int, asyncio.Event]]:
    """A server that accepts connections, and says no more from a certain point on; and whether it has got there."""
    reached, ended = asyncio.Event(), asyncio.Event()
    writers: list[asyncio.StreamWriter] = []

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers.append(writer)
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            if where in ("head", "body"):
                await reader.readuntil(b"\r\n\r\n")
            if where == "body":
                writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n{")
            reached.set()
            await ended.wait()

    context: ssl.SSLContext | None = None if where == "TLS" else certificates(folder, "a.n.svc").context
    server = await asyncio.start_server(handle, "127.0.0.1", 0, ssl=context)
    try:
        yield server.sockets[0].getsockname()[1], reached
    finally:
        ended.set()
        server.close()
        for writer in writers:
            writer.transport.abort()
            with contextlib.suppress(OSError):
                await writer.wait_closed()


def test_the_constants() -> None:
    """A document takes a tenth of a second more at most, of which the rest of its work needs a part."""
    assert max(DISCOVERY_WAIT_SECONDS, WAIT_SECONDS) <= 0.08


@pytest.mark.parametrize("where", ["TLS", "head", "body"])
async def test_documents_wait_for_no_server(
    api_database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    """With both constants zero, and no timeout for a server: whatever waited for one would not end."""
    monkeypatch.setattr("registry.controllers.api_services.monitor.DISCOVERY_WAIT_SECONDS", 0.0)
    monkeypatch.setattr("registry.aggregation.openapi_documents.WAIT_SECONDS", 0.0)
    monkeypatch.setattr("registry.aggregation.openapi_documents._FETCH_SECONDS", NEVER)
    monkeypatch.setattr("registry.aggregation.availability.CHECK_SECONDS", NEVER)
    async with hanging(tmp_path / "server", where) as (port, reached):
        settings = {"webhook_services": (f"a.n=127.0.0.1:{port}",)}
        async with serving(api_database, tmp_path, **settings) as client, asyncio.timeout(120):
            for number in range(3):
                spec = {"service": {"namespace": "n", "name": "a"}, "insecureSkipTLSVerify": True}
                (await client.post(PATH, api_service(f"v{number + 1}.hangs.example.com", **spec))).ok(201)
            await reached.wait()
            for _ in range(2):
                for path, accept in DOCUMENTS:
                    (await client.get(path, accept=accept)).ok(200)
            # Nor does a namespace whose contents are all here, once its servers count as unavailable.
            monkeypatch.setattr("registry.controllers.namespaces.GRACE_SECONDS", 0.0)
            monkeypatch.setattr("registry.controllers.namespaces.UNAVAILABLE_SECONDS", 0.0)
            (await client.post("/api/v1/namespaces", {"metadata": {"name": "space"}})).ok(201)
            (await client.post("/api/v1/namespaces/space/configmaps", {"metadata": {"name": "a"}})).ok(201)
            (await client.delete("/api/v1/namespaces/space")).ok(200)

            async def is_empty() -> bool:
                found = await client.get("/api/v1/namespaces/space/configmaps")
                return found.code == 404 or not found.ok(200)["items"]

            await eventually(is_empty)
