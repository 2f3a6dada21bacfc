"""Servers of several tenants: each has its own, and each server can tell the tenants apart."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from registry.http import proxy
from tests.aggregation.backend import BASE, METRICS, Request, backend, placed, register
from tests.api.client import eventually
from tests.application import serving


def tenant(name: str) -> dict[str, Any]:
    return {"apiVersion": "tenancy.registry/v1", "kind": "Tenant", "metadata": {"name": name}}


async def test_tenants_have_servers_of_their_own(api_database: str, tmp_path: Path) -> None:
    async def answer_by(text: str) -> Callable[[Request], Any]:
        async def answer(request: Request) -> None:
            await request.answer_json({"server": text})

        return answer

    async with (
        backend(tmp_path / "one", await answer_by("one")) as one,
        backend(tmp_path / "two", await answer_by("two"), name="other.kube-system.svc") as two,
        serving(api_database, tmp_path, **placed(one, services={"other.kube-system": two})) as client,
    ):
        tenants = "/clusters/system/apis/tenancy.registry/v1/tenants"
        for name in ("acme", "globex"):
            (await client.post(tenants, tenant(name))).ok(201)
        acme, globex = client.of_tenant("acme"), client.of_tenant("globex")
        await register(acme, one)
        assert (await globex.get(METRICS)).code == 404
        assert (await client.get(METRICS)).code == 404
        assert "metrics.example.com" not in (await globex.get("/apis")).text
        await register(globex, two, service={"namespace": "kube-system", "name": "other"})
        assert (await acme.get(METRICS)).ok(200) == {"server": "one"}
        assert (await globex.get(METRICS)).ok(200) == {"server": "two"}
        # What is passed on has no trace of the tenant in its path.
        assert one.requests[-1].target == METRICS


async def test_writes_of_a_suspended_tenant_are_not_forwarded(api_database: str, tmp_path: Path) -> None:
    async with backend(tmp_path / "server") as server, serving(api_database, tmp_path, **placed(server)) as client:
        tenants = "/clusters/system/apis/tenancy.registry/v1/tenants"
        (await client.post(tenants, tenant("acme"))).ok(201)
        acme = client.of_tenant("acme")
        await register(acme, server)
        (await acme.post(METRICS, {"a": 1})).ok(200)
        (await client.patch(f"{tenants}/acme", {"spec": {"suspended": True}})).ok(200)

        async def is_refused() -> bool:
            return (await acme.post(METRICS, {"a": 1})).code == 403

        await eventually(is_refused)
        (await acme.get(METRICS)).ok(200)


async def test_forwarded_requests_name_their_tenant(api_database: str, tmp_path: Path) -> None:
    """Anybody may name the server of another tenant: it must not take their word for who asks."""
    config_map = "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication"
    async with serving(api_database, tmp_path) as client:
        tenants = "/clusters/system/apis/tenancy.registry/v1/tenants"
        for name in ("acme", "globex"):
            (await client.post(tenants, tenant(name))).ok(201)
        found = {}

        async def are_there() -> bool:
            for name in ("acme", "globex"):
                found[name] = await client.of_tenant(name).get(config_map)
            return all(answer.code == 200 for answer in found.values())

        await eventually(are_there)
        authorities = {n: answer.json["data"]["requestheader-client-ca-file"] for n, answer in found.items()}
    assert authorities["acme"] != authorities["globex"]
    async with (
        backend(tmp_path / "server", client_ca=authorities["acme"]) as server,
        serving(api_database, tmp_path, **placed(server)) as client,
    ):
        await register(client.of_tenant("acme"), server)
        (await client.of_tenant("acme").get(METRICS)).ok(200)
        await register(client.of_tenant("globex"), server, available=False)
        assert (await client.of_tenant("globex").get(METRICS)).code == 503
    assert {request.target for request in server.requests} == {BASE, METRICS, "/apis", "/openapi/v3"}
    assert len(server.of(METRICS)) == 1


async def test_a_watch_ends_with_its_tenant(api_database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It went on for as long as the other server sent something."""
    monkeypatch.setattr(proxy, "_CHECK_SECONDS", 0.05)
    more = asyncio.Event()

    async def send(request: Request, number: int) -> None:
        request.writer.write(b'c\r\n{"number":%d}\r\n1\r\n\n\r\n' % number)
        await request.writer.drain()

    async def answer(request: Request) -> None:
        if "watch" not in request.target:
            await request.answer(b"", 404)
            return
        request.writer.write(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")
        await send(request, 1)
        await more.wait()
        await send(request, 2)

    async with (
        backend(tmp_path / "server") as server,
        serving(api_database, tmp_path, **placed(server)) as client,
        asyncio.timeout(30),
    ):
        tenants = "/clusters/system/apis/tenancy.registry/v1/tenants"
        for name in ("acme", "globex"):
            (await client.post(tenants, tenant(name))).ok(201)
            await register(client.of_tenant(name), server)
        server.answer = answer
        path = f"{METRICS}?watch=true"
        async with client.of_tenant("acme").watch(path) as acme, client.of_tenant("globex").watch(path) as globex:
            assert [await acme.event(), await globex.event()] == [{"number": 1}] * 2
            (await client.delete(f"{tenants}/acme")).ok()
            with pytest.raises(EOFError):
                await acme.event()
            more.set()
            assert await globex.event() == {"number": 2}
