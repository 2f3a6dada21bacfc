"""The life of an API by the order of the documentation on versioning, and what is left when somebody skips a step."""

from __future__ import annotations

from typing import Any

import pytest

from tests.api.client import APPLY, Client, eventually
from tests.api.widgets import DEFINITIONS, define
from tests.conversion.webhook import Webhook

pytestmark = pytest.mark.slow  # a server and a database for each

GROUP = "life.example.com"
NAME = f"crons.{GROUP}"


def path(version: str) -> str:
    return f"/apis/{GROUP}/{version}/namespaces/default/crons"


def version(name: str, *, storage: bool = False, **more: Any) -> dict[str, Any]:
    spec = {"type": "object", "properties": {"host": {"type": "string"}, "replicas": {"type": "integer"}}}
    return {
        "name": name,
        "served": True,
        "storage": storage,
        "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}},
        **more,
    }


def definition(*versions: dict[str, Any]) -> dict[str, Any]:
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": NAME},
        "spec": {
            "group": GROUP,
            "scope": "Namespaced",
            "names": {"plural": "crons", "kind": "Cron"},
            "versions": list(versions),
        },
    }


def cron(name: str, at: str) -> dict[str, Any]:
    return {"apiVersion": f"{GROUP}/{at}", "kind": "Cron", "metadata": {"name": name}, "spec": {"host": name}}


async def write(api: Client, *versions: dict[str, Any]) -> dict[str, Any]:
    made: dict[str, Any] = (await api.patch(f"{DEFINITIONS}/{NAME}", {"spec": {"versions": list(versions)}})).ok()
    return made


def with_defaults(name: str, *, storage: bool = False, **defaults: str) -> dict[str, Any]:
    """A version whose objects have a `host` and texts with defaults, all at the top."""
    texts = {field: {"type": "string", "default": value} for field, value in defaults.items()}
    schema = {"type": "object", "properties": {"host": {"type": "string"}, **texts}}
    return {**version(name, storage=storage), "schema": {"openAPIV3Schema": schema}}


async def test_defaults_missing_in_the_storage_version_are_neither_returned_nor_a_change(api: Client) -> None:
    versions = with_defaults("v1", storage=True, note="stored"), with_defaults("v2", level="lost")
    await define(api, definition(*versions))
    a = f"{path('v2')}/a"
    applied = {"apiVersion": f"{GROUP}/v2", "kind": "Cron", "metadata": {"name": "a"}, "host": "h"}
    created = (await api.patch(f"{a}?fieldManager=me", applied, APPLY)).ok(201)
    assert "level" not in created
    filled = (await api.patch(f"{a}?fieldManager=me", applied, APPLY)).ok()  # the default of v1 comes to be stored
    again = (await api.patch(f"{a}?fieldManager=me", applied, APPLY)).ok()
    assert again == filled
    assert again["metadata"]["generation"] == 1
    for verb in (api.patch, api.put):
        body = {"host": "other"} if verb == api.patch else {**again, "host": "other"}
        dry = (await verb(f"{a}?dryRun=All", body)).ok()
        assert (dry["host"], dry["metadata"]["resourceVersion"]) == ("other", again["metadata"]["resourceVersion"])
        assert "level" not in dry
    assert "level" not in (await api.post(f"{path('v2')}?dryRun=All", cron("b", "v2"))).ok(201)


async def test_a_new_version_replaces_the_old_one(api: Client) -> None:
    await define(api, definition(version("v1beta1", storage=True)))
    (await api.post(path("v1beta1"), cron("old", "v1beta1"))).ok(201)
    # A new version is served beside the old one, and the old one is deprecated.
    beta = version("v1beta1", storage=True, deprecated=True, deprecationWarning="use v1")
    await write(api, beta, version("v1"))
    assert (await api.get(f"{path('v1beta1')}/old")).ok()["apiVersion"] == f"{GROUP}/v1beta1"

    async def warned() -> bool:
        return "use v1" in str((await api.get(f"{path('v1beta1')}/old")).headers.get("warning"))

    await eventually(warned)
    new = await api.get(f"{path('v1')}/old")
    assert new.ok()["apiVersion"] == f"{GROUP}/v1"
    assert "warning" not in new.headers
    # The new one becomes the storage version; the definition tells of both.
    beta["storage"] = False
    changed = await write(api, beta, version("v1", storage=True))
    assert changed["status"]["storedVersions"] == ["v1beta1", "v1"]
    # The old one cannot go as long as objects may be of it.
    refused = await api.patch(f"{DEFINITIONS}/{NAME}", {"spec": {"versions": [version("v1", storage=True)]}})
    assert refused.code == 422
    assert refused.json["details"]["causes"][0]["field"] == "status.storedVersions[0]"
    # It is no longer served; each object is written again, and the definition updated.
    await write(api, {**beta, "served": False}, version("v1", storage=True))
    assert (await api.get(f"{path('v1beta1')}/old")).code == 404
    current = (await api.get(f"{path('v1')}/old")).ok()
    (await api.put(f"{path('v1')}/old", {**current, "spec": {"host": "again"}})).ok()
    (await api.patch(f"{DEFINITIONS}/{NAME}/status", {"status": {"storedVersions": ["v1"]}})).ok()
    await write(api, version("v1", storage=True))
    assert (await api.get(f"{path('v1')}/old")).ok()["spec"] == {"host": "again"}


async def test_an_object_of_a_removed_version_does_not_affect_others(api: Client) -> None:
    await define(api, definition(version("v0", storage=True), version("v1")))
    (await api.post(path("v0"), cron("lost", "v0"))).ok(201)
    await write(api, version("v0"), version("v1", storage=True))
    (await api.post(path("v1"), cron("there", "v1"))).ok(201)
    (await api.patch(f"{DEFINITIONS}/{NAME}/status", {"status": {"storedVersions": ["v1"]}})).ok()
    await write(api, version("v1", storage=True))
    gone = await api.get(f"{path('v1')}/lost")
    assert gone.code == 500
    assert "add it to spec.versions again" in gone.json["message"]
    listed = await api.get(path("v1"))
    assert [item["metadata"]["name"] for item in listed.ok()["items"]] == ["there"]
    assert "1 object is left out, default/lost: " in str(listed.headers["warning"])
    # The way out that the message names.
    await write(api, {**version("v0"), "served": False}, version("v1", storage=True))
    assert (await api.get(f"{path('v1')}/lost")).ok()["spec"] == {"host": "lost"}


async def test_scale_through_a_webhook(api: Client, definition: dict[str, Any], webhook: Webhook) -> None:
    """Only v1 has the port that stands for the replicas here."""
    scale = {"specReplicasPath": ".spec.port", "statusReplicasPath": ".status.port"}
    definition["spec"]["versions"][0]["subresources"]["scale"] = scale
    definition["spec"]["versions"][0]["storage"], definition["spec"]["versions"][1]["storage"] = False, True
    await define(api, definition)
    v1, beta = (f"/apis/net.example.com/{v}/namespaces/default/endpoints" for v in ("v1", "v1beta1"))
    (
        await api.post(
            beta,
            {
                "apiVersion": "net.example.com/v1beta1",
                "kind": "Endpoint",
                "metadata": {"name": "a"},
                "spec": {"hostPort": "h:3"},
            },
        )
    ).ok(201)
    assert (await api.get(f"{v1}/a/scale")).ok()["spec"] == {"replicas": 3}
    assert (await api.patch(f"{v1}/a/scale", {"spec": {"replicas": 5}})).ok()["spec"] == {"replicas": 5}
    assert (await api.get(f"{beta}/a")).ok()["spec"] == {"hostPort": "h:5"}
    assert webhook.calls > 0
