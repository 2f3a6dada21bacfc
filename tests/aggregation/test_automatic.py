"""The APIServices of what is served here."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from registry.aggregation.automatic import ALWAYS, LABEL, ON_START, ReconciledServices, changes
from registry.api import api_services, automatic_api_services
from registry.api.catalog import TenantCatalog
from registry.api.request import Backend
from registry.caches import LruCache
from registry.codec.stored import decode_stored
from registry.store.types import Tenant, TenantName
from tests.aggregation.objects import PATH, api_service, service
from tests.api.client import Client, eventually
from tests.api.widgets import define, definition
from tests.application import shares_application


def stored(label: str = "", **spec: Any) -> dict[str, Any]:
    obj = api_service("v1.a", **spec)
    obj["metadata"]["labels"] = {LABEL: label} if label else {}
    return obj


DEFINED, BUILT_IN = stored(ALWAYS), stored(ON_START)
OTHER: dict[str, Any] = {"versionPriority": 7}


@pytest.mark.parametrize(
    "wanted, found, at_start, done",
    [
        # The rows and columns of the table in registry/aggregation/automatic.py.
        pytest.param(None, stored(), True, "", id="none-unlabelled"),
        pytest.param(None, stored(ON_START), False, "", id="none-onstart"),
        pytest.param(None, stored(ON_START), True, "delete", id="none-onstart-at-start"),
        pytest.param(None, stored(ALWAYS), False, "delete", id="none-always"),
        pytest.param(BUILT_IN, None, True, "create", id="builtin-missing-at-start"),
        pytest.param(BUILT_IN, None, False, "", id="builtin-missing"),
        pytest.param(BUILT_IN, stored(**OTHER), True, "", id="builtin-unlabelled"),
        pytest.param(BUILT_IN, stored(ON_START, **OTHER), False, "", id="builtin-onstart"),
        pytest.param(BUILT_IN, stored(ON_START, **OTHER), True, "update", id="builtin-onstart-at-start"),
        pytest.param(BUILT_IN, stored(ON_START), True, "", id="builtin-equal"),
        pytest.param(DEFINED, None, False, "create", id="defined-missing"),
        pytest.param(DEFINED, stored(**service()), True, "", id="defined-unlabelled"),
        pytest.param(DEFINED, stored(ALWAYS, **OTHER), False, "update", id="defined-always"),
        pytest.param(DEFINED, stored(ON_START), False, "update", id="defined-onstart"),
        pytest.param(DEFINED, stored(ALWAYS), False, "", id="defined-equal"),
        pytest.param(DEFINED, stored("false", **OTHER), False, "", id="another-label"),
    ],
)
def test_automatic_api_services_are_reconciled(wanted: Any, found: Any, at_start: bool, done: str) -> None:
    of = {"v1.a": wanted} if wanted else {}
    result = changes(of, {"v1.a": found} if found else {}, at_start=at_start)
    assert [name for name, value in result._asdict().items() if value] == ([done] if done else [])


async def names(api: Client) -> dict[str, str]:
    items = (await api.get(PATH)).ok(200)["items"]
    return {i["metadata"]["name"]: (i["metadata"].get("labels") or {}).get(LABEL, "") for i in items}


@shares_application
async def test_api_services_of_a_new_tenant(api: Client) -> None:
    found = await names(api)
    assert found["v1."] == found["v1.rbac.authorization.k8s.io"] == "onstart"
    assert found["v1.test.example.com"] == "true"
    assert "v1.apiregistration.k8s.io" not in found
    items = (await api.get(PATH)).ok(200)["items"]
    assert {c["reason"] for i in items for c in i["status"]["conditions"]} == {"Local"}
    [defined] = [i for i in items if i["metadata"]["name"] == "v1.test.example.com"]
    assert (defined["spec"]["groupPriorityMinimum"], defined["spec"]["versionPriority"]) == (1000, 100)
    [core] = [i for i in items if i["metadata"]["name"] == "v1."]
    assert core["spec"] == {"version": "v1", "groupPriorityMinimum": 18000, "versionPriority": 1}


@shares_application
async def test_they_follow_definitions(api: Client) -> None:
    async with api.watch(f"{PATH}?watch=true") as watch:
        name = "v1.later.example.com"
        await define(api, definition("things", "Thing", group="later.example.com"))
        while (event := await watch.event())["object"]["metadata"]["name"] != name:
            pass
        assert event["type"] == "ADDED"
        (await api.delete("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/things.later.example.com")).ok()
        while (event := await watch.event())["type"] != "DELETED":
            pass
        assert event["object"]["metadata"]["name"] == name


@shares_application
async def test_a_deleted_automatic_api_service_is_recreated(api: Client) -> None:
    path = f"{PATH}/v1.test.example.com"
    first = (await api.get(path)).ok(200)
    (await api.patch(path, {"spec": {"versionPriority": 7}})).ok(200)

    async def restored() -> bool:
        return bool((await api.get(path)).ok(200)["spec"]["versionPriority"] == 100)

    await eventually(restored)
    (await api.delete(path)).ok(200)

    async def is_back() -> bool:
        found = await api.get(path)
        return found.code == 200 and found.json["metadata"]["uid"] != first["metadata"]["uid"]

    await eventually(is_back)
    (await api.delete(f"{PATH}/v1.coordination.k8s.io")).ok(200)
    assert "v1.coordination.k8s.io" not in await names(api)


@shares_application
async def test_an_api_service_without_the_label_is_left_to_its_owner(api: Client) -> None:
    """As in kube-apiserver: who removes the label may give a group that is served here to another server."""
    path = f"{PATH}/v1.test.example.com"
    await names(api)
    change = {"metadata": {"labels": {LABEL: None}}, "spec": {**service(name="none")}}
    (await api.patch(path, change)).ok(200)
    widgets = "/apis/test.example.com/v1/namespaces/default/widgets"
    found = await api.get(widgets)
    assert (found.code, found.text) == (503, "service unavailable\n")
    (await api.patch(path, {"spec": {"service": None}})).ok(200)
    (await api.get(widgets)).ok(200)

    async def is_local() -> bool:
        [condition] = (await api.get(path)).ok(200)["status"]["conditions"]
        return bool(condition["reason"] == "Local")

    await eventually(is_local)


@shares_application
async def test_the_group_of_api_services_is_always_local(api: Client) -> None:
    (await api.post(PATH, api_service("v1.apiregistration.k8s.io", **service(name="none")))).ok(201)
    (await api.get(PATH)).ok(200)
    (await api.delete(f"{PATH}/v1.apiregistration.k8s.io")).ok(200)


@shares_application
async def test_the_api_services_of_a_tenant_are_written_by_one_at_a_time(
    api: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The third arrives when the first has left, and the second, which had waited for it, is at work."""
    backend: Backend = api._app.state.backend  # type: ignore[attr-defined]
    await names(api)
    tenant = await backend.store.tenant(TenantName(api.prefix.rpartition("/")[2]))
    current, within = backend.catalogs.current, 0

    async def enter(of: Tenant) -> TenantCatalog:
        nonlocal within
        within += of == tenant
        assert within <= 1
        return await current(of)

    class Reconciled(LruCache[int, ReconciledServices]):
        def put(self, key: int, value: ReconciledServices) -> ReconciledServices:
            nonlocal within
            within -= key == tenant.id
            return super().put(key, value)

    monkeypatch.setattr(backend.catalogs, "current", enter)
    monkeypatch.setattr(backend.api_services, "reconciled", Reconciled(100))
    first, second = (asyncio.create_task(automatic_api_services.write_api_services(backend, tenant)) for _ in range(2))
    await first
    await asyncio.gather(second, automatic_api_services.write_api_services(backend, tenant))
    assert within == 0


@shares_application
async def test_a_write_of_an_api_service_reads_no_others(api: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    await names(api)
    for i in range(40):
        (await api.post(PATH, api_service(f"v1.g{i}.example.com", **service(name="none")))).ok(201)
    await names(api)
    decoded = 0

    def decode(text: str) -> Any:
        nonlocal decoded
        decoded += 1
        return decode_stored(text)

    for module in (api_services, automatic_api_services):
        monkeypatch.setattr(module, "decode_stored", decode)
    for i in range(10):
        path = f"{PATH}/v1.g{i}.example.com"
        (await api.patch(path, {"spec": {"versionPriority": 7 + i}})).ok(200)
        assert (await api.get(f"/apis/g{i}.example.com/v1/things")).code == 503
        await names(api)
    # Each write of the server's condition is a change too.
    assert decoded < 200, decoded


@shares_application
async def test_the_servers_used_are_the_first_ones_as_they_change(api: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(api_services, "SERVERS_LIMIT", 2)

    async def used() -> list[int]:
        codes = [(await api.get(f"/apis/g{i}.example.com/v1/things")).code for i in range(4)]
        return [i for i, code in enumerate(codes) if code == 503]

    for i, wanted in ((3, [3]), (1, [1, 3]), (2, [1, 2]), (0, [0, 1])):
        (await api.post(PATH, api_service(f"v1.g{i}.example.com", **service(name="none")))).ok(201)
        assert await used() == wanted
    (await api.delete(f"{PATH}/v1.g0.example.com")).ok(200)
    assert await used() == [1, 2]
    local = {"spec": {"service": None}}
    (await api.patch(f"{PATH}/v1.g1.example.com", local)).ok(200)
    assert await used() == [2, 3]
