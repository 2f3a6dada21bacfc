"""In a suspended tenant the server finishes pending work, and accepts no new writes."""

from __future__ import annotations

import copy

import psycopg
import pytest

from registry.api.admission.namespace_lifecycle import NAMESPACES
from registry.api.options import DeleteOptions, WriteOptions
from registry.api.request import ResourceRequest
from registry.api.served import Served
from registry.api.verbs.create import create_object
from registry.controllers import namespaces
from registry.controllers.controller_client import ControllerClient
from registry.controllers.garbage.references import served_by_name
from registry.store.types import ObjectKey, ResourceName
from tests.api.client import Client, eventually
from tests.api.errors import failure
from tests.api.widgets import GROUP
from tests.authentication.identities import who
from tests.controllers.processes import WIDGETS, born, key, manager_of, names, process, widgets
from tests.tenancy.tenants import CONFIG_MAPS, change, config_map, make, token_of

DEFINITIONS = ResourceName("customresourcedefinitions.apiextensions.k8s.io")


async def served(client: ControllerClient, resource: ResourceName) -> Served:
    found = served_by_name(await client.catalog(), resource)
    assert found is not None
    return found


async def created(client: ControllerClient, resource: ResourceName, namespace: str, name: str) -> None:
    """An object that says no more than its name."""
    kind = await served(client, resource)
    obj = {"apiVersion": kind.api_version, "kind": kind.kind.name, "metadata": {"name": name}}
    request = ResourceRequest(client.backend, client.context(), await client.catalog(), kind, namespace, "", "", {})
    await create_object(request, copy.deepcopy(obj), WriteOptions(), "tests", "create")


async def is_gone(client: ControllerClient, resource: ResourceName, name: ObjectKey) -> bool:
    row, _ = await client.backend.store.load(client.tenant, resource, name)
    return row is None


async def test_objects_deleted_before_the_suspension_are_cleaned_up(
    api_database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Everything is deleted by a process that goes on with nothing; then the tenant is suspended."""
    monkeypatch.setattr(namespaces, "GRACE_SECONDS", 0.0)
    async with process(api_database) as dying:
        await dying.backend.store.heartbeats(seconds=0.05).renew(0.0)
        root = await born(dying, "root")
        await born(dying, "child", root)
        await created(dying, NAMESPACES, "", "going")
        await created(dying, ResourceName("configmaps"), "going", "content")
        await dying.delete(await widgets(dying), key("root"), DeleteOptions())
        await dying.delete(await served(dying, NAMESPACES), ObjectKey("going"), DeleteOptions())
        with psycopg.connect(api_database) as connection:
            connection.execute("UPDATE tenants SET suspended = true WHERE name = 'default'")
        async with process(api_database) as next_one, manager_of(next_one):

            async def clean() -> bool:
                return await names(next_one) == set() and await is_gone(next_one, NAMESPACES, ObjectKey("going"))

            await eventually(clean)
            assert await is_gone(next_one, ResourceName("configmaps"), ObjectKey("going/content"))


async def test_a_definition_is_deleted_with_its_objects(api_database: str) -> None:
    async with process(api_database) as dying:
        await born(dying, "a")
        await dying.delete(await served(dying, DEFINITIONS), ObjectKey(WIDGETS), DeleteOptions())
        with psycopg.connect(api_database) as connection:
            connection.execute("UPDATE tenants SET suspended = true WHERE name = 'default'")
        async with process(api_database) as next_one, manager_of(next_one):

            async def gone() -> bool:
                return await is_gone(next_one, DEFINITIONS, ObjectKey(WIDGETS))

            await eventually(gone)
            assert await is_gone(next_one, WIDGETS, key("a"))


async def test_a_user_with_the_name_of_the_server_has_no_exemption(api: Client) -> None:
    """Neither where the tenant is suspended nor where it is full."""
    system = api.of_tenant("system")
    acme = await make(system, "acme")
    (await acme.post(CONFIG_MAPS, config_map("a"))).ok(201)
    named = acme.with_token(await token_of(api, "acme", "system:masters", user="system:apiserver"))
    assert (await who(named, named._token))["username"] == "system:apiserver"
    acting = {"impersonate-user": "system:apiserver", "impersonate-group": "system:masters"}
    for spec in ({"suspended": True}, {"suspended": False, "quotas": {"objects": 1}}):
        (await change(system, "acme", spec)).ok()
        for client, headers in ((named, {}), (acme, acting)):
            failure(await client.post(CONFIG_MAPS, config_map("b"), headers=headers), 403, "Forbidden")
    (await change(system, "acme", {"suspended": True})).ok()
    failure(await acme.delete(f"{CONFIG_MAPS}/a", headers=acting), 403, "Forbidden")


async def test_a_tenant_that_was_never_used_can_be_read(api: Client) -> None:
    acme = await make(api.of_tenant("system"), "acme", suspended=True)
    assert (await acme.get("/api/v1/namespaces/default")).ok()["status"]["phase"] == "Active"
    failure(await acme.post(CONFIG_MAPS, config_map("a")), 403, "Forbidden")
    assert (await acme.get(f"/apis/{GROUP}/v1")).code == 404
