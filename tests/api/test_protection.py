"""Deletion protection of definitions and namespaces, by annotation and by the tenant's policy."""

from __future__ import annotations

import asyncio

import pytest

from registry.api.admission.protection import ANNOTATION
from tests.api.client import Client, eventually
from tests.api.errors import failure
from tests.api.widgets import DEFINITIONS, GROUP, NAMESPACES, WIDGETS, define, definition, make, widget
from tests.application import has_own_application, shares_application

pytestmark = shares_application

NAME = f"widgets.{GROUP}"
DEFINITION = f"{DEFINITIONS}/{NAME}"


async def protect(api: Client, path: str, value: str) -> None:
    (await api.patch(path, {"metadata": {"annotations": {ANNOTATION: value}}})).ok()


async def policy(api: Client, value: str) -> None:
    path = "/apis/tenancy.registry/v1/tenants/default"
    (await api.of_tenant("system").patch(path, {"spec": {"deletionProtection": value}})).ok()


async def test_by_default_nothing_is_protected(api: Client) -> None:
    await make(api, "a")
    (await api.delete(DEFINITION)).ok()


async def test_a_definition_with_objects_is_kept(api: Client) -> None:
    await make(api, "a", "b", "c")
    await protect(api, DEFINITION, "WhileUsed")
    for query in ("", "?dryRun=All"):
        said = failure(await api.delete(DEFINITION + query), 403, "Forbidden")
        assert said["message"] == (
            f'customresourcedefinitions.apiextensions.k8s.io "{NAME}" is forbidden: it is protected from deletion '
            "while it has objects, and it has 3 objects; to delete it anyway, lift the protection first: kubectl "
            f"annotate customresourcedefinition {NAME} {ANNOTATION}=Off --overwrite"
        )
        assert said["details"]["causes"][0]["reason"] == "DeletionProtected"
    assert not (await api.get(DEFINITION)).ok()["metadata"].get("deletionTimestamp")
    failure(await api.delete(DEFINITIONS), 403, "Forbidden")  # with all others
    await make(api, "d")  # and it goes on to be served
    await protect(api, DEFINITION, "Off")
    (await api.delete(DEFINITION)).ok()


async def test_a_definition_without_objects_is_deleted(api: Client) -> None:
    await protect(api, DEFINITION, "WhileUsed")
    await make(api, "a")
    (await api.delete(f"{WIDGETS}/a")).ok()
    (await api.delete(DEFINITION)).ok()


@pytest.mark.parametrize("value", ["Always", "true", ""])
async def test_protection_always(api: Client, value: str) -> None:
    await protect(api, DEFINITION, value)
    failure(await api.delete(DEFINITION), 403, "Forbidden")


async def test_a_namespace_with_objects_is_kept(api: Client) -> None:
    made = {
        "kind": "Namespace",
        "apiVersion": "v1",
        "metadata": {"name": "held", "annotations": {ANNOTATION: "WhileUsed"}},
    }
    (await api.post(NAMESPACES, made)).ok(201)
    path = WIDGETS.replace("default", "held")

    async def has_defaults() -> bool:
        return (await api.get(f"{NAMESPACES}/held/configmaps/kube-root-ca.crt")).code == 200

    await eventually(has_defaults)
    await make(api, "a", path=path)
    assert "holds" in failure(await api.delete(f"{NAMESPACES}/held"), 403, "Forbidden")["message"]
    (await api.delete(f"{path}/a")).ok()
    # What the server has put there is no reason to keep it.
    (await api.delete(f"{NAMESPACES}/held")).ok()


@has_own_application
async def test_the_policy_of_the_tenant(api: Client) -> None:
    await policy(api, "WhileUsed")
    await make(api, "a")
    failure(await api.delete(DEFINITION), 403, "Forbidden")
    await policy(api, "Always")
    failure(await api.delete(f"{NAMESPACES}/kube-node-lease"), 403, "Forbidden")
    await protect(api, DEFINITION, "Off")
    (await api.delete(DEFINITION)).ok()


async def test_a_concurrent_create_is_ordered_before_or_after_the_deletion(api: Client) -> None:
    """Either the object was there first, and the definition stays; or the definition went first, and it is refused."""
    for turn in range(8):
        plural = f"gadgets{turn}"
        made = definition(plural, f"Gadget{turn}")
        made["metadata"]["annotations"] = {ANNOTATION: "WhileUsed"}
        await define(api, made)
        path = f"/apis/{GROUP}/v1/namespaces/default/{plural}"
        body = {**widget("a"), "kind": f"Gadget{turn}"}
        created, deleted = await asyncio.gather(api.post(path, body), api.delete(f"{DEFINITIONS}/{plural}.{GROUP}"))
        assert (created.code, deleted.code) in ((201, 403), (403, 200), (404, 200)), (created.text, deleted.text)
