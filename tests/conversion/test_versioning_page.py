"""The documentation's page on versions of definitions, walked in its order: from one version to another, by a webhook.

Several versions, their priority, deprecation, conversion, the storage version, storage migration, and the removal of
the old version. The page writes its definitions in both forms, so each state is read and written in the older one too.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.api.client import Client, eventually
from tests.api.widgets import DEFINITIONS, define
from tests.conversion.webhook import Webhook

pytestmark = pytest.mark.slow  # a server, TLS and a database

GROUP = "net.example.com"
NAME = f"endpoints.{GROUP}"
V1, BETA = (f"/apis/{GROUP}/{version}/namespaces/default/endpoints" for version in ("v1", "v1beta1"))
MIGRATIONS = "/apis/storagemigration.k8s.io/v1beta1/storageversionmigrations"
# In the order in which clients are to prefer them, as the page lists it.
PRIORITY = ["v10", "v2", "v1", "v11beta2", "v10beta3", "v3beta1", "v12alpha1", "v11alpha2", "foo1", "foo10"]


def endpoint(name: str, version: str, **spec: Any) -> dict[str, Any]:
    return {"apiVersion": f"{GROUP}/{version}", "kind": "Endpoint", "metadata": {"name": name}, "spec": spec}


async def change(api: Client, **spec: Any) -> dict[str, Any]:
    made: dict[str, Any] = (await api.patch(f"{DEFINITIONS}/{NAME}", {"spec": spec})).ok()
    return made


async def warned(api: Client, path: str, text: str) -> None:
    async def look() -> bool:
        return (await api.get(path)).warnings == ([text] if text else [])

    await eventually(look)


async def same_in_the_older_form(api: Client) -> None:
    """Writing what is read at v1beta1 changes nothing."""
    path = f"/apis/apiextensions.k8s.io/v1beta1/customresourcedefinitions/{NAME}"

    async def storage_versions() -> Any:
        older = (await api.get(path)).ok()
        answer = await api.put(path, older)
        if answer.code == 409:
            return None  # a condition was written in between
        assert answer.ok()["metadata"]["resourceVersion"] == older["metadata"]["resourceVersion"]
        return older

    older = await eventually(storage_versions)
    assert older["spec"]["preserveUnknownFields"] is False
    assert older["spec"]["version"] == older["spec"]["versions"][0]["name"]


async def test_the_page_works_in_order(api: Client, definition: dict[str, Any], webhook: Webhook) -> None:
    versions = {v["name"]: v for v in definition["spec"]["versions"]}
    conversion = definition["spec"]["conversion"]
    v1, beta = versions["v1"], versions["v1beta1"]
    v1["storage"], beta["storage"] = False, True
    # One version; then another beside it, without conversion.
    definition["spec"] |= {"versions": [beta], "conversion": {"strategy": "None"}}
    await define(api, definition)
    (await api.post(BETA, endpoint("old", "v1beta1", hostPort="h:1"))).ok(201)
    await change(api, versions=[beta, v1])

    async def served() -> bool:
        return (await api.get(V1)).code == 200

    await eventually(served)
    # What the new version does not know is not shown there: hence conversion.
    assert (await api.get(f"{V1}/old")).ok().get("spec") == {}
    await same_in_the_older_form(api)
    # Deprecation, with the server's text and with one's own.
    await change(api, versions=[{**beta, "deprecated": True}, v1])
    await warned(api, BETA, f"{GROUP}/v1beta1 Endpoint is deprecated; use {GROUP}/v1 Endpoint")
    beta |= {"deprecated": True, "deprecationWarning": "endpoints of v1beta1 go in May"}
    await change(api, versions=[beta, v1])
    await warned(api, f"{BETA}/old", "endpoints of v1beta1 go in May")
    await warned(api, V1, "")
    await same_in_the_older_form(api)
    # Conversion by a webhook.
    await change(api, conversion=conversion)

    async def converted() -> bool:
        return bool((await api.get(f"{V1}/old")).ok()["spec"] == {"host": "h", "port": 1})

    await eventually(converted)
    assert webhook.calls > 0
    (await api.post(V1, endpoint("new", "v1", host="k", port=2))).ok(201)
    assert [i["spec"] for i in (await api.get(BETA)).ok()["items"]] == [{"hostPort": "k:2"}, {"hostPort": "h:1"}]
    await same_in_the_older_form(api)
    # The storage version is switched: both are stored versions, and the old one may not go.
    v1["storage"], beta["storage"] = True, False
    assert (await change(api, versions=[beta, v1]))["status"]["storedVersions"] == ["v1beta1", "v1"]
    assert (await api.patch(f"{DEFINITIONS}/{NAME}", {"spec": {"versions": [v1]}})).code == 422
    await same_in_the_older_form(api)
    # Storage migration: what is stored is written again, and the old version is no stored version any more.
    (
        await api.post(
            MIGRATIONS,
            {
                "apiVersion": "storagemigration.k8s.io/v1beta1",
                "kind": "StorageVersionMigration",
                "metadata": {"name": "m"},
                "spec": {"resource": {"group": GROUP, "resource": "endpoints"}},
            },
        )
    ).ok(201)

    async def migrated() -> bool:
        return bool((await api.get(f"{DEFINITIONS}/{NAME}")).ok()["status"]["storedVersions"] == ["v1"])

    await eventually(migrated)
    await same_in_the_older_form(api)
    # It is served no longer, then it goes, and the webhook with it.
    await change(api, versions=[{**beta, "served": False}, v1])

    async def gone() -> bool:
        return (await api.get(BETA)).code == 404

    await eventually(gone)
    await change(api, versions=[v1], conversion={"strategy": "None", "webhook": None})
    await same_in_the_older_form(api)
    calls = webhook.calls
    assert {i["metadata"]["name"]: i["spec"] for i in (await api.get(V1)).ok()["items"]} == {
        "old": {"host": "h", "port": 1},
        "new": {"host": "k", "port": 2},
    }
    assert webhook.calls == calls


async def test_versions_are_preferred_in_the_order_of_the_page(api: Client) -> None:
    schema = {"openAPIV3Schema": {"type": "object"}}
    versions = [
        {"name": name, "served": True, "storage": name == "foo1", "schema": schema} for name in sorted(PRIORITY)
    ]
    await define(
        api,
        {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": "orders.priority.example.com"},
            "spec": {
                "group": "priority.example.com",
                "scope": "Namespaced",
                "names": {"plural": "orders", "kind": "Order"},
                "versions": versions,
            },
        },
    )

    async def find_group() -> Any:
        answer = await api.get("/apis/priority.example.com")
        return answer.json if answer.code == 200 else None

    group = await eventually(find_group)
    assert [v["version"] for v in group["versions"]] == PRIORITY
    assert group["preferredVersion"]["version"] == PRIORITY[0]
