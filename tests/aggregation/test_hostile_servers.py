"""What servers of APIServices send to cost: this server's own requests to them, and what is kept of the answers."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from tests.aggregation.backend import NAME, RESOURCES, Request, backend, placed, register, wait_for_condition
from tests.aggregation.objects import PATH, api_service
from tests.api.client import eventually
from tests.application import serving


async def test_discovery_in_tiny_pieces(api_database: str, tmp_path: Path) -> None:
    """Four megabytes in chunks of one byte took seconds, and hundreds of megabytes."""

    async def drip(request: Request) -> None:
        request.writer.write(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")
        document = json.dumps(RESOURCES).encode() + b" " * 10_000
        request.writer.write(b"".join(b"1\r\n%c\r\n" % byte for byte in document) + b"0\r\n\r\n")
        await asyncio.sleep(0)

    async with backend(tmp_path / "server") as server, serving(api_database, tmp_path, **placed(server)) as client:
        server.discovery = drip
        await register(client, server, available=False)
        condition = await wait_for_condition(client, NAME, "False")
        assert "too many pieces of few bytes" in condition["message"]


async def test_long_documents_that_do_not_end(
    api_database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each of a tenant's servers could have a process hold megabytes of discovery, as long as a check lasts."""
    monkeypatch.setattr("registry.webhooks.https._LARGE_BYTES_IN_ALL", 4 * 1024 * 1024)
    size = 1024 * 1024

    async def answer(request: Request) -> None:
        if ".endless.example.com" not in request.target:
            # Of another tenant, and so long that it counts.
            whole = {**RESOURCES, "x": " " * 100_000}
            await request.answer(json.dumps(whole).encode(), content_type="application/json")
            return
        request.writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % (size + 1) + b" " * size)
        await request.writer.drain()
        await request.reader.read()

    async with backend(tmp_path / "server", answer) as server, serving(api_database, tmp_path, **placed(server)) as api:
        server.discovery = answer
        for name in ("acme", "globex"):
            tenant = {"apiVersion": "tenancy.registry/v1", "kind": "Tenant", "metadata": {"name": name}}
            (await api.post("/clusters/system/apis/tenancy.registry/v1/tenants", tenant)).ok(201)
        acme, globex = api.of_tenant("acme"), api.of_tenant("globex")
        names = [f"v1.a{i}.endless.example.com" for i in range(6)]
        spec = {"service": {"namespace": "kube-system", "name": "metrics"}, "caBundle": server.bundle}
        for name in names:
            (await acme.post(PATH, api_service(name, **spec))).ok(201)
        await register(globex, server)
        messages = [(await wait_for_condition(acme, name, "False"))["message"] for name in names]
        assert any("too many long answers are being read" in message for message in messages)
        for name in names:
            (await acme.delete(f"{PATH}/{name}")).ok(200)

        async def is_given_back() -> bool:
            return "registry_webhook_answer_bytes 0.0" in (await api.get("/metrics")).text

        await eventually(is_given_back)
