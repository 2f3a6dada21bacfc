"""Usage in the status of quotas: counted from existing objects, whichever API created or deleted them."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

import pytest

from registry.api.admission.quota import reserve_quota
from registry.api.errors import StatusError
from registry.api.options import DeleteOptions, WriteOptions
from registry.api.request import ResourceRequest
from registry.api.verbs.create import create_object
from registry.codec.stored import decode_stored
from registry.controllers.garbage.references import served_by_name
from registry.controllers.quota import _count as count
from registry.store.store import Store
from registry.store.types import ObjectKey, ResourceName, Tenant
from tests.api.client import PATIENCE_SECONDS, Client
from tests.api.errors import failure
from tests.api.widgets import WIDGETS, widget
from tests.application import has_own_application, shares_application
from tests.controllers.family import reference
from tests.controllers.processes import born, key, process, widgets

pytestmark = shares_application

QUOTA = ResourceName("resourcequotas")

QUOTAS = "/api/v1/namespaces/default/resourcequotas"
CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
SERVICES = "/api/v1/namespaces/default/services"
WIDGET_COUNT = "count/widgets.test.example.com"


def quota(name: str, **hard: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": name},
        "spec": {"hard": {k.replace("__", "/"): v for k, v in hard.items()}},
    }


async def limits(api: Client, name: str, hard: dict[str, str]) -> None:
    (await api.post(QUOTAS, {**quota(name), "spec": {"hard": hard}})).ok(201)


async def until(api: Client, name: str, used: dict[str, str]) -> dict[str, Any]:
    """The status, when it tells this use."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while True:
            status: dict[str, Any] = (await api.get(f"{QUOTAS}/{name}")).ok()["status"]
            if status.get("used") == used:
                return status
            await asyncio.sleep(0.02)


async def test_usage_follows_creates_and_deletions(api: Client) -> None:
    (await api.post(WIDGETS, widget("a"))).ok(201)
    await limits(api, "q", {WIDGET_COUNT: "2"})
    status = await until(api, "q", {WIDGET_COUNT: "1"})
    assert status["hard"] == {WIDGET_COUNT: "2"}
    (await api.post(WIDGETS, widget("b"))).ok(201)
    refused = failure(await api.post(WIDGETS, widget("c")), 403, "Forbidden")
    assert refused["message"].endswith(
        f"exceeded quota: q, requested: {WIDGET_COUNT}=1, used: {WIDGET_COUNT}=2, limited: {WIDGET_COUNT}=2"
    )
    (await api.delete(WIDGETS)).ok()
    await until(api, "q", {WIDGET_COUNT: "0"})
    (await api.post(WIDGETS, widget("c"))).ok(201)


async def test_a_changed_limit_applies(api: Client) -> None:
    await limits(api, "q", {WIDGET_COUNT: "0", "pods": "3"})
    await until(api, "q", {WIDGET_COUNT: "0", "pods": "0"})
    failure(await api.post(WIDGETS, widget("a")), 403, "Forbidden")
    (await api.patch(f"{QUOTAS}/q", {"spec": {"hard": {WIDGET_COUNT: None}}})).ok()
    await until(api, "q", {"pods": "0"})
    (await api.post(WIDGETS, widget("a"))).ok(201)


async def test_a_resource_without_a_definition_is_refused(api: Client) -> None:
    await limits(api, "q", {"count/unheard.of": "5", "count/events": "5", "count/deployments.apps": "5"})
    status = await until(api, "q", {"count/deployments.apps": "0"})
    assert sorted(status["hard"]) == ["count/deployments.apps", "count/events", "count/unheard.of"]


async def test_ports_and_balancers_of_services(api: Client) -> None:
    for name, kind, ports in (("a", "NodePort", (80, 81)), ("b", "LoadBalancer", (80,)), ("c", "ClusterIP", (80,))):
        spec = {"type": kind, "ports": [{"port": p, "name": f"p{p}"} for p in ports]}
        (
            await api.post(SERVICES, {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": spec})
        ).ok(201)
    await limits(api, "q", {"services": "9", "services.nodeports": "9", "services.loadbalancers": "9"})
    await until(api, "q", {"services": "3", "services.nodeports": "3", "services.loadbalancers": "1"})


def service(name: str, kind: str, *ports: int, **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name},
        "spec": {"type": kind, "ports": [{"port": p, "name": f"p{p}"} for p in ports], **spec},
    }


async def test_ports_and_balancers_are_limited(api: Client) -> None:
    await limits(api, "q", {"services.nodeports": "2", "services.loadbalancers": "1"})
    await until(api, "q", {"services.nodeports": "0", "services.loadbalancers": "0"})
    (await api.post(SERVICES, service("a", "LoadBalancer", 80))).ok(201)
    refused = failure(
        await api.post(SERVICES, service("b", "LoadBalancer", 80, allocateLoadBalancerNodePorts=False)),
        403,
        "Forbidden",
    )
    assert refused["message"].endswith(
        "exceeded quota: q, requested: services.loadbalancers=1, used: "
        "services.loadbalancers=1, limited: services.loadbalancers=1"
    )
    (await api.post(SERVICES, service("b", "ClusterIP", 80, 81))).ok(201)
    # An update counts by what it needs more, in a dry run too, and gives back what it needs no more.
    ported = {"spec": {"type": "NodePort"}}
    for query in ("", "?dryRun=All"):
        refused = failure(await api.patch(f"{SERVICES}/b{query}", ported), 403, "Forbidden")
        assert "requested: services.nodeports=2, used: services.nodeports=1" in refused["message"]
    (await api.patch(f"{SERVICES}/a", {"spec": {"type": "ClusterIP"}})).ok()
    await until(api, "q", {"services.nodeports": "0", "services.loadbalancers": "0"})
    (await api.patch(f"{SERVICES}/b", ported)).ok()
    assert (await api.get(f"{QUOTAS}/q")).ok()["status"]["used"]["services.nodeports"] == "2"


@has_own_application
async def test_creates_are_refused_while_the_usage_is_unknown(api_database: str) -> None:
    """Reported before anything that is exceeded, with all that the quota limits of the kind."""
    async with process(api_database) as client:
        full = {"hard": {"configmaps": "0"}, "used": {"configmaps": "0"}}
        unknown = {"hard": {"count/configmaps": "5", "configmaps": "5"}, "used": {"configmaps": "0"}}
        quotas = served_by_name(await client.catalog(), QUOTA)
        for name, status in (("a", full), ("b", unknown)):
            assert quotas is not None
            request = ResourceRequest(
                client.backend, client.context(), await client.catalog(), quotas, "default", "", "", {}
            )
            await create_object(request, quota(name), WriteOptions(), "tests", "create")
            await client.change("", "resourcequotas", key(name), partial(_with_status, status), "status")
        maps = served_by_name(await client.catalog(), ResourceName("configmaps"))
        assert maps is not None
        making = ResourceRequest(client.backend, client.context(), await client.catalog(), maps, "default", "", "", {})
        with pytest.raises(StatusError) as refused:
            async with reserve_quota(making, {"metadata": {"name": "x"}}, dry_run=False):
                pass
        assert str(refused.value) == (
            'configmaps "x" is forbidden: status unknown for quota: b, resources: configmaps,count/configmaps'
        )


def _with_status(status: dict[str, Any], old: dict[str, Any]) -> dict[str, Any]:
    return {**old, "metadata": dict(old["metadata"]), "status": status}


@has_own_application
async def test_a_create_in_progress_keeps_its_reservation(api_database: str) -> None:
    """Between what admission says of it and its object: only a second count, which finds the same, takes it back."""
    async with process(api_database) as client:
        catalog = await client.catalog()
        quotas = served_by_name(catalog, QUOTA)
        assert quotas is not None
        request = ResourceRequest(client.backend, client.context(), catalog, quotas, "default", "", "", {})
        limited = {**quota("q"), "spec": {"hard": {WIDGET_COUNT: "2"}}}
        await create_object(request, limited, WriteOptions(), "tests", "create")
        assert (await count(client, "default", {}))[0]

        async def used() -> str:
            row, _ = await client.backend.store.load(client.tenant, QUOTA, key("q"))
            assert row is not None
            return str(decode_stored('{"metadata":{' + row.body)["status"]["used"][WIDGET_COUNT])

        catalog = await client.catalog()
        making = ResourceRequest(
            client.backend, client.context(), catalog, await widgets(client), "default", "", "", {}
        )
        async with reserve_quota(making, widget("a"), dry_run=False):
            assert await used() == "1"
            changed, lower = await count(client, "default", {})
            assert (changed, len(lower), await used()) == (False, 1, "1")
        # It comes to nothing after all.
        assert (await count(client, "default", lower))[0]
        assert await used() == "0"


@has_own_application
async def test_quotas_of_other_resources_are_read_once(api_database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """300 of them made each create in the namespace take 90 ms."""
    read: list[str] = []
    load = Store.load

    async def record_count(store: Store, tenant: Tenant, resource: ResourceName, at: ObjectKey) -> Any:
        if resource == QUOTA:
            read.append(at)
        return await load(store, tenant, resource, at)

    async with process(api_database) as client:
        quotas = served_by_name(await client.catalog(), QUOTA)
        assert quotas is not None
        for name, counted_resource in (("a", "configmaps"), ("b", WIDGET_COUNT), ("c", "count/secrets")):
            request = ResourceRequest(
                client.backend, client.context(), await client.catalog(), quotas, "default", "", "", {}
            )
            await create_object(request, quota(name), WriteOptions(), "tests", "create")
            status = {"hard": {counted_resource: "5"}, "used": {counted_resource: "0"}}
            await client.change("", "resourcequotas", key(name), partial(_with_status, status), "status")
        making = ResourceRequest(
            client.backend, client.context(), await client.catalog(), await widgets(client), "default", "", "", {}
        )
        monkeypatch.setattr(Store, "load", record_count)
        async with reserve_quota(making, widget("x"), dry_run=False):
            assert read == [key("b")]


@has_own_application
async def test_reserving_leaves_what_the_garbage_collector_finds_a_quota_by(api_database: str) -> None:
    """A crashed process's foreground deletion of a quota was never finished, nor was the quota found by its owners."""
    async with process(api_database) as client:
        owner = await born(client, "owner")
        quotas = served_by_name(await client.catalog(), QUOTA)
        assert quotas is not None
        request = ResourceRequest(
            client.backend, client.context(), await client.catalog(), quotas, "default", "", "", {}
        )
        limited = {**quota("q"), "spec": {"hard": {WIDGET_COUNT: "2"}}}
        limited["metadata"] |= {"ownerReferences": [reference(owner)], "finalizers": ["example.com/hold"]}
        await create_object(request, limited, WriteOptions(), "tests", "create")
        await count(client, "default", {})
        await client.delete(quotas, key("q"), DeleteOptions(propagation_policy="Foreground"))
        making = ResourceRequest(
            client.backend, client.context(), await client.catalog(), await widgets(client), "default", "", "", {}
        )
        async with reserve_quota(making, widget("a"), dry_run=False):
            pass
        lookups = client.backend.store.lookups
        assert (QUOTA, key("q")) in [(resource, at) for _, resource, at in await lookups.pending(100)]
        assert [row.key for row in await lookups.owned_by(client.tenant, [owner["metadata"]["uid"]])] == [key("q")]
