"""Requests while the definitions of a tenant are read for the first time: each needs one of them, not all."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any, Final

import pytest
import pytest_asyncio

from registry.api import catalogs
from registry.api.bound_definitions import DEFINITIONS
from registry.api.first_reading import CatalogIncomplete, SingleEntry
from registry.api.request import Backend
from registry.store.store import Store
from registry.store.types import ObjectKey, TenantName
from tests.api.client import Client
from tests.api.widgets import GROUP, NAMESPACES, WIDGETS, define, definition, make, widget
from tests.application import shares_application

POLICIES: Final = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"
POLICY: Final[dict[str, Any]] = {
    "metadata": {"name": "all"},
    "spec": {
        "matchConstraints": {
            "resourceRules": [{"apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*"], "operations": ["CREATE"]}]
        },
        "validations": [{"expression": "true"}],
    },
}


class Held:
    """The reading of a tenant's definitions, which stops after the first until it is `released`."""

    def __init__(self, backend: Backend, tenant: str) -> None:
        self._backend = backend
        self._tenant = tenant
        self.released = asyncio.Event()

    async def is_read(self) -> bool:
        tenant = await self._backend.store.tenant(TenantName(self._tenant))
        return self._backend.catalogs.recall(tenant) is not None


@pytest_asyncio.fixture(loop_scope="module")
async def held(tenant_api: Client, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Callable[[], Held]]:
    """Returns a function after whose call the process knows no definitions, and reads only the first."""
    for plural, kind in (("gadgets", "Gadget"), ("zebras", "Zebra")):
        await define(tenant_api, definition(plural, kind))
    served: Any = tenant_api._app
    backend: Backend = served.state.backend
    name, scan, begun = tenant_api.prefix.removeprefix("/clusters/"), Store.scan, list[Held]()

    async def scan_first(self: Store, tenant: Any, resource: Any, **options: Any) -> Any:
        async for chunk in scan(self, tenant, resource, **options):
            yield chunk
            if begun and resource == DEFINITIONS and tenant.name == name:
                await begun[0].released.wait()

    def begin() -> Held:
        monkeypatch.setattr(catalogs, "FEW", 1)
        monkeypatch.setattr(Store, "scan", scan_first)
        begun.append(Held(backend, name))
        backend.catalogs._catalogs.clear()
        return begun[0]

    yield begin
    for one in begun:
        one.released.set()


@shares_application
async def test_requests_on_one_resource_do_not_wait_for_the_others(
    tenant_api: Client, held: Callable[[], Held]
) -> None:
    await make(tenant_api, "a", color="red")
    reading = held()
    assert (await tenant_api.get(f"{WIDGETS}/a")).ok(200)["spec"]["color"] == "red"
    made = (await tenant_api.post(WIDGETS, widget("b", size=1))).ok(201)
    assert made["spec"]["color"] == "grey", "the definition applies"
    (await tenant_api.post(WIDGETS, widget("c", size=-1))).ok(422)
    (await tenant_api.patch(f"{WIDGETS}/b", {"spec": {"size": 2}})).ok(200)
    (await tenant_api.patch(f"{WIDGETS}/b/status", {"status": {"phase": "Ready"}})).ok(200)
    assert [item["metadata"]["name"] for item in (await tenant_api.get(WIDGETS)).ok(200)["items"]] == ["a", "b"]
    (await tenant_api.delete(f"{WIDGETS}/b")).ok(200)
    (await tenant_api.get(f"{NAMESPACES}/default")).ok(200)
    assert not await reading.is_read()
    reading.released.set()
    assert (await tenant_api.get(f"/apis/{GROUP}/v1")).ok(200)["resources"]
    assert await reading.is_read()


async def discover(api: Client) -> Any:
    return (await api.get(f"/apis/{GROUP}/v1")).ok(200)["resources"]


async def get_dependents(api: Client) -> Any:
    return (await api.get(f"{WIDGETS}/a?dependents=true")).ok(200)


async def create_under_policy(api: Client) -> Any:
    return (await api.post(WIDGETS, widget("b"))).ok(201)


@shares_application
@pytest.mark.parametrize("request_", [discover, get_dependents, create_under_policy])
async def test_requests_that_need_other_definitions_wait_for_them(
    tenant_api: Client, held: Callable[[], Held], request_: Callable[[Client], Coroutine[Any, Any, Any]]
) -> None:
    (owner,) = await make(tenant_api, "a")
    reference = {"apiVersion": owner["apiVersion"], "kind": "Widget", "name": "a", "uid": owner["metadata"]["uid"]}
    gadget = {"apiVersion": f"{GROUP}/v1", "kind": "Gadget", "metadata": {"name": "g", "ownerReferences": [reference]}}
    (await tenant_api.post(WIDGETS.replace("widgets", "gadgets"), gadget)).ok(201)
    if request_ is create_under_policy:
        (await tenant_api.post(POLICIES, POLICY)).ok(201)
    reading = held()
    waiting = asyncio.create_task(request_(tenant_api))
    if request_ is not create_under_policy:
        (await tenant_api.get(f"{NAMESPACES}/default")).ok(200)
    assert not waiting.done()
    assert not await reading.is_read()
    reading.released.set()
    assert await waiting


@shares_application
async def test_a_definition_changed_during_the_first_load_applies(tenant_api: Client, held: Callable[[], Held]) -> None:
    """The commit of a write and each read show that the definition was replaced; then all are waited for."""
    await make(tenant_api, "a", color="red")
    reading = held()
    (await tenant_api.get(f"{WIDGETS}/a")).ok(200)
    path = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/size/default"
    changing = asyncio.create_task(
        tenant_api.patch(
            f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets.{GROUP}",
            [{"op": "add", "path": path, "value": 3}],
            content_type="application/json-patch+json",
        )
    )
    reading.released.set()
    (await changing).ok(200)
    assert (await tenant_api.post(WIDGETS, widget("b", color="red"))).ok(201)["spec"]["size"] == 3
    assert (await tenant_api.get(f"{WIDGETS}/a")).ok(200)["spec"]["size"] == 3


def test_a_single_entry_knows_nothing_of_others() -> None:
    present, absent = SingleEntry(ObjectKey("a"), 1), SingleEntry[int](ObjectKey("a"), None)
    assert (present.get(ObjectKey("a")), absent.get(ObjectKey("a"))) == (1, None)
    for look in (lambda: present.get(ObjectKey("b")), lambda: list(present), lambda: len(absent)):
        with pytest.raises(CatalogIncomplete):
            look()
