"""When servers are checked: at once where something has changed, whatever other servers do."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from registry.aggregation.availability import PASSED
from registry.aggregation.model import APIServer, ServiceReference
from registry.controllers.api_services.checks import FIRST_RETRY_SECONDS, ServerCheck
from registry.tasks import cancel
from tests.aggregation.backend import (
    BASE,
    GROUP,
    NAME,
    NEVER,
    RESOURCES,
    Backend,
    Request,
    backend,
    hang,
    placed,
    register,
    wait_for_condition,
)
from tests.aggregation.objects import PATH, api_service
from tests.api.client import Client, eventually
from tests.application import serving, shares_application, shares_tenant
from tests.http.loops import on_asyncio, on_uvloop

SERVICES = "/api/v1/namespaces/kube-system/services"


def spec(server: Backend, **changed: Any) -> dict[str, Any]:
    return {"service": {"namespace": "kube-system", "name": "metrics"}, "caBundle": server.bundle, **changed}


@contextlib.asynccontextmanager
async def only_changes_lead_to_checks(
    database: str, folder: Path, monkeypatch: pytest.MonkeyPatch, server: Backend, **settings: Any
) -> AsyncIterator[Client]:
    """A client of a server in which no check is repeated by itself, and none gives up."""
    monkeypatch.setattr("registry.aggregation.availability.CHECK_SECONDS", NEVER)
    monkeypatch.setattr("registry.controllers.api_services.monitor.CHECK_EVERY_SECONDS", NEVER)
    monkeypatch.setattr("registry.controllers.api_services.checks.FIRST_RETRY_SECONDS", NEVER)
    async with serving(database, folder, **(settings or placed(server))) as client:
        yield client


async def test_a_new_server_does_not_wait_for_checks_under_way(
    api_database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It waited for the end of the round: five to ten seconds beside a server that hangs."""

    async def answer(request: Request) -> None:
        if request.target.startswith("/apis/hangs.example.com/"):
            await asyncio.sleep(NEVER)
        await request.answer_json({}, 404)

    async with (
        backend(tmp_path / "server", answer) as behind,
        only_changes_lead_to_checks(api_database, tmp_path, monkeypatch, behind) as client,
    ):
        (await client.post(PATH, api_service("v1.hangs.example.com", **spec(behind)))).ok(201)
        await eventually(lambda: _is_asked(behind, "/apis/hangs.example.com/v1"))
        (await client.post(PATH, api_service(NAME, **spec(behind)))).ok(201)
        await wait_for_condition(client, NAME, "True")


@pytest.mark.parametrize("path", ["/apis", "/openapi/v3"])
async def test_the_condition_does_not_wait_for_documents(
    api_database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    """Only the version's own discovery decides; kube-aggregator reads the others elsewhere."""

    async def answer(request: Request) -> None:
        if request.target == path:
            await asyncio.sleep(NEVER)
        await request.answer_json({}, 404)

    async with (
        backend(tmp_path / "server", answer) as behind,
        only_changes_lead_to_checks(api_database, tmp_path, monkeypatch, behind) as client,
    ):
        await register(client, behind)
        await eventually(lambda: _is_asked(behind, path))


async def test_a_changed_server_ends_a_check_under_way(
    api_database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with (
        backend(tmp_path / "server") as behind,
        backend(tmp_path / "other", name="other.kube-system.svc") as other,
        only_changes_lead_to_checks(
            api_database, tmp_path, monkeypatch, behind, **placed(behind, services={"other.kube-system": other})
        ) as client,
    ):
        behind.discovery = hang
        (await client.post(PATH, api_service(NAME, **spec(behind)))).ok(201)
        await eventually(lambda: _is_asked(behind, BASE))
        service = {"service": {"namespace": "kube-system", "name": "other"}, "caBundle": other.bundle}
        (await client.patch(f"{PATH}/{NAME}", {"spec": service})).ok(200)
        await wait_for_condition(client, NAME, "True")
        # Its CA bundle.
        (await client.patch(f"{PATH}/{NAME}", {"spec": {"caBundle": behind.bundle}})).ok(200)
        await wait_for_condition(client, NAME, "False")
        (await client.patch(f"{PATH}/{NAME}", {"spec": {"caBundle": other.bundle}})).ok(200)
        await wait_for_condition(client, NAME, "True")


async def test_a_changed_service_is_noticed(api_database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def service(*ports: int) -> dict[str, Any]:
        return {"metadata": {"name": "metrics"}, "spec": {"ports": [{"name": f"p{p}", "port": p} for p in ports]}}

    async with (
        backend(tmp_path / "server") as behind,
        only_changes_lead_to_checks(api_database, tmp_path, monkeypatch, behind) as client,
    ):
        await register(client, behind)
        made = (await client.post(SERVICES, service(444))).ok(201)
        assert (await wait_for_condition(client, NAME, "False"))["reason"] == "ServicePortError"
        made["spec"]["ports"].append({"name": "https", "port": 443})
        (await client.put(f"{SERVICES}/metrics", made)).ok(200)
        await wait_for_condition(client, NAME, "True")
        (await client.patch(f"{SERVICES}/metrics", {"spec": {"ports": [{"port": 444}]}})).ok(200)
        await wait_for_condition(client, NAME, "False")
        (await client.delete(f"{SERVICES}/metrics")).ok(200)
        await wait_for_condition(client, NAME, "True")


async def test_a_process_checks_what_another_one_has_registered(
    api_database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with (
        backend(tmp_path / "server") as behind,
        only_changes_lead_to_checks(api_database, tmp_path, monkeypatch, behind) as client,
        serving(api_database, tmp_path, **placed(behind)) as other,
    ):
        await register(client, behind)
        await eventually(lambda: _is_listed(client, GROUP))
        (await other.post(PATH, api_service("v2.other.example.com", **spec(behind)))).ok(201)
        behind.answer = _resources_of("other.example.com/v2")
        await wait_for_condition(other, "v2.other.example.com", "True")
        await eventually(lambda: _is_listed(client, "other.example.com"))


async def test_requests_hasten_the_check_of_an_unavailable_server(
    api_database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process may have changed its Service, of which this one knows nothing."""

    async def fail(request: Request) -> None:
        await request.answer_json({}, 500)

    async with (
        backend(tmp_path / "server") as behind,
        only_changes_lead_to_checks(api_database, tmp_path, monkeypatch, behind) as client,
    ):
        behind.discovery = fail
        await register(client, behind, available=False)
        behind.discovery = None

        async def is_back() -> bool:
            return (await client.get(f"{BASE}/namespaces/default/metrics")).code == 200

        await eventually(is_back)
        found = await wait_for_condition(client, NAME, "True")
        assert (found["reason"], found["message"]) == (PASSED.reason, PASSED.message)


async def test_many_writes_lead_to_few_checks(
    api_database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with (
        backend(tmp_path / "server") as behind,
        only_changes_lead_to_checks(api_database, tmp_path, monkeypatch, behind) as client,
    ):
        await register(client, behind)
        before = len(behind.of(BASE))
        loop = asyncio.get_running_loop()
        began = loop.time()
        for number in range(40):
            (await client.patch(f"{PATH}/{NAME}", {"metadata": {"labels": {"a": str(number)}}})).ok(200)
        # At most one begins in a tenth of a second, each with one request to this path.
        assert len(behind.of(BASE)) - before <= (loop.time() - began) / 0.1 + 2


@pytest.mark.parametrize(
    "kind, port, reason, message",
    [
        pytest.param("ClusterIP", 444, "ServicePortError", "is not listening on port 443", id="cluster IP"),
        pytest.param("ClusterIP", 443, "EndpointsNotFound", "cannot find endpointslices", id="no endpoints"),
        pytest.param("NodePort", 444, "FailedDiscoveryCheck", 'no service port 443 found for service "m"', id="node"),
        pytest.param("LoadBalancer", 444, "FailedDiscoveryCheck", 'no service port 443 found for service "m"', id="lb"),
        pytest.param("NodePort", 443, "FailedDiscoveryCheck", "has no address", id="node address"),
        pytest.param("LoadBalancer", 443, "FailedDiscoveryCheck", "has no address", id="lb address"),
    ],
)
@shares_tenant
@shares_application
async def test_types_of_services(api: Client, kind: str, port: int, reason: str, message: str) -> None:
    """Ports and endpoints have a reason of their own for services of type ClusterIP only, as in kube-aggregator."""
    name = f"v1.{kind.lower()}{port}.example.com"
    await _delete(api, f"{SERVICES}/m")
    body = {"metadata": {"name": "m"}, "spec": {"type": kind, "ports": [{"port": port}]}}
    (await api.post(SERVICES, body)).ok(201)
    (await api.post(PATH, api_service(name, service={"namespace": "kube-system", "name": "m"}))).ok(201)
    found = await wait_for_condition(api, name, "False")
    assert found["reason"] == reason
    assert message in found["message"]
    await _delete(api, f"{PATH}/{name}")


@pytest.mark.parametrize("run", [on_asyncio, on_uvloop])
def test_a_check_is_hurried_just_before_it_begins(run: Callable[[Any], None]) -> None:
    """Then uvloop returns a handle that does not say when it is due."""
    checked = []

    async def check(which: ServerCheck) -> bool:
        checked.append(which.server)
        return True

    async def hurry() -> None:
        server = APIServer(GROUP, "v1", ServiceReference("kube-system", "metrics", 443), "", False, 100, 15)
        checks = ServerCheck(server, check, NEVER)
        checks.hurry(FIRST_RETRY_SECONDS)
        await checks.wait(checks.checked, 30)
        await cancel(checks.close())

    run(hurry)
    assert len(checked) == 1


async def _delete(client: Client, path: str) -> None:
    await client.delete(path)


async def _is_asked(server: Backend, path: str) -> bool:
    return bool(server.of(path))


def _resources_of(group_version: str) -> Callable[[Request], Any]:
    async def answer(request: Request) -> None:
        if request.target == f"/apis/{group_version}":
            await request.answer_json({**RESOURCES, "groupVersion": group_version})
        else:
            await request.answer_json({}, 404)

    return answer


async def _is_listed(client: Client, group: str) -> bool:
    accept = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
    items = (await client.get("/apis", accept=accept)).ok(200)["items"]
    found = [item["versions"][0] for item in items if item["metadata"]["name"] == group]
    return bool(found) and found[0]["freshness"] == "Current" and bool(found[0].get("resources"))
