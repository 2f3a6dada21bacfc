"""When an APIService is not available, why, and what its requests are answered."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.aggregation.backend import (
    BASE,
    METRICS,
    NAME,
    Proxied,
    Request,
    backend,
    placed,
    register,
    wait_for_condition,
)
from tests.application import new_tenant, serving, shares_application


@pytest.mark.parametrize(
    "spec, reason, message",
    [
        pytest.param(
            {"service": {"namespace": "default", "name": "none"}},
            "ServiceNotFound",
            'service/none in "default" is not present',
            id="no service",
        ),
        pytest.param(
            {"service": {"namespace": "default", "name": "a\r\nx-remote-user: root\r\n"}},
            "ServiceNotFound",
            'in "default" is not present',
            id="a name that is no name",
        ),
        pytest.param(
            {"service": {"namespace": "default", "name": "inside"}},
            "EndpointsNotFound",
            'cannot find endpointslices for service/inside in "default"',
            id="no endpoints",
        ),
        pytest.param(
            {"service": {"namespace": "default", "name": "inside", "port": 9}},
            "ServicePortError",
            'service/inside in "default" is not listening on port 9',
            id="another port",
        ),
        pytest.param(
            {"service": {"namespace": "default", "name": "outside", "port": 1}},
            "FailedDiscoveryCheck",
            "failing or missing response from https://outside.default.svc:1/apis/metrics.example.com/v1: Get "
            '"https://outside.default.svc:1/apis/metrics.example.com/v1": dial tcp 127.0.0.1:1: the address is not one '
            "that webhooks may be called at (setting --allow-egress-to)",
            id="egress",
        ),
        pytest.param(
            {"caBundle": "bm90IGEgY2VydGlmaWNhdGU="},
            "FailedDiscoveryCheck",
            "unable to load root certificates: unable to parse bytes as PEM block",
            id="no certificates",
        ),
    ],
)
@shares_application
async def test_reasons_for_unavailable_servers(
    proxied: Proxied, spec: dict[str, Any], reason: str, message: str
) -> None:
    client = await new_tenant(proxied.application)
    services = "/api/v1/namespaces/default/services"
    inside = {"metadata": {"name": "inside"}, "spec": {"ports": [{"port": 443}]}}
    (await client.post(services, inside)).ok(201)
    outside = {"metadata": {"name": "outside"}, "spec": {"type": "ExternalName", "externalName": "127.0.0.1"}}
    (await client.post(services, outside)).ok(201)
    await register(client, proxied.server, available=False, **spec)
    condition = await wait_for_condition(client, NAME, "False")
    assert condition["reason"] == reason
    assert message in condition["message"]
    found = await client.get(METRICS)
    assert (found.code, found.text) == (503, "service unavailable\n")
    assert found.header("content-type") == "text/plain; charset=utf-8"


async def test_the_certificate_is_verified(api_database: str, tmp_path: Path) -> None:
    async with (
        backend(tmp_path / "server", name="other.kube-system.svc") as server,
        serving(api_database, tmp_path, **placed(server)) as client,
    ):
        await register(client, server, available=False)
        condition = await wait_for_condition(client, NAME, "False")
        assert "tls: failed to verify certificate: x509: certificate is not valid" in condition["message"]
        path = f"/apis/apiregistration.k8s.io/v1/apiservices/{NAME}"
        (await client.patch(path, {"spec": {"caBundle": None, "insecureSkipTLSVerify": True}})).ok(200)
        await wait_for_condition(client, NAME, "True")
        (await client.get(METRICS)).ok(200)


async def test_the_service_may_be_an_external_name(api_database: str, tmp_path: Path) -> None:
    async with (
        backend(tmp_path / "server", name="outside.default.svc") as server,
        serving(api_database, tmp_path, allow_egress_to=("127.0.0.1/32",)) as client,
    ):
        outside = {"metadata": {"name": "outside"}, "spec": {"type": "ExternalName", "externalName": "127.0.0.1"}}
        (await client.post("/api/v1/namespaces/default/services", outside)).ok(201)
        await register(client, server, service={"namespace": "default", "name": "outside", "port": server.port})
        seen = (await client.get(METRICS)).ok(200)
    # The certificate is for the service, but the server may be one of several behind its name.
    host = f"127.0.0.1:{server.port}"
    headers = dict(seen["headers"])
    assert (headers["host"], headers["x-forwarded-host"]) == (host, host)
    assert {request.header("host") for request in server.of(BASE)} == {host}


async def test_a_server_is_registered_and_removed(api_database: str, tmp_path: Path) -> None:
    alive = False

    async def discovery(request: Request) -> None:
        await request.answer_json({}, 200 if alive else 500)

    async with backend(tmp_path / "server") as server, serving(api_database, tmp_path, **placed(server)) as client:
        server.discovery = discovery
        await register(client, server, available=False)
        condition = await wait_for_condition(client, NAME, "False")
        assert condition["message"].endswith(f"bad status from https://metrics.kube-system.svc:443{BASE}: 500")
        exposed = (await client.get("/metrics")).text
        assert f'aggregator_unavailable_apiservice{{name="{NAME}"}} 1.0' in exposed
        alive = True
        await wait_for_condition(client, NAME, "True")
        exposed = (await client.get("/metrics")).text
        assert f'aggregator_unavailable_apiservice{{name="{NAME}"}} 0.0' in exposed
