"""Storage migration: objects stored in an old version are rewritten; then storedVersions is updated."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.api.client import Client
from tests.api.errors import failure
from tests.api.widgets import DEFINITIONS, GROUP, define
from tests.controllers.gears import (
    GEARS,
    MIGRATIONS,
    V1,
    V2,
    ended,
    gear,
    gears,
    migrated,
    migration,
    serving_migrations,
    stored_versions,
    switched,
    versions_of_rows,
)
from tests.conversion.webhook import Webhook
from tests.https import serving_https


@pytest.fixture
async def api(api_database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Client]:
    async with serving_migrations(api_database, tmp_path, monkeypatch) as client:
        yield client


async def test_rows_are_rewritten_without_changing_objects(api: Client, api_database: str) -> None:
    await define(api, gears("v1"))
    (await api.post(V1, gear("a", 1, labels={"l": "x"}))).ok(201)
    (await api.post(V2, gear("b", 2, "v2"))).ok(201)
    (await api.post(V1, gear("held", 3, finalizers=["example.com/hold"]))).ok(201)
    (await api.delete(f"{V1}/held")).ok()
    assert (await switched(api))["status"]["storedVersions"] == ["v1", "v2"]
    (await api.post(V2, gear("c", 4, "v2"))).ok(201)
    before = {name: (await api.get(f"{V1}/{name}")).ok() for name in ("a", "b", "c", "held")}
    assert await versions_of_rows(api_database) == {"v1": 3, "v2": 1}
    failure(await api.patch(f"{DEFINITIONS}/{GEARS}", {"spec": gears("v2", "v2")["spec"]}), 422, "Invalid")
    await migrated(api)
    assert await versions_of_rows(api_database) == {"v2": 4}
    for name, old in before.items():
        new = (await api.get(f"{V1}/{name}")).ok()
        revisions = [int(obj["metadata"].pop("resourceVersion")) for obj in (old, new)]
        assert (revisions[0] < revisions[1]) == (name != "c"), "what was of the storage version already is left alone"
        assert new == old
    assert (await api.get(f"{V2}/a")).ok()["spec"] == {"teeth": 1, "color": "red"}
    found = (await api.get(V1 + "?labelSelector=l%3Dx")).ok()["items"]
    assert [item["metadata"]["name"] for item in found] == ["a"]


async def test_stored_versions_of_the_definition_are_updated(api: Client) -> None:
    await define(api, gears("v1"))
    (await api.post(V1, gear("a", 1))).ok(201)
    generation = (await switched(api))["metadata"]["generation"]
    await migrated(api)
    status = (await api.get(f"{DEFINITIONS}/{GEARS}")).ok()["status"]
    assert status["storedVersions"] == ["v2"]
    [condition] = [c for c in status["conditions"] if c["type"] == "StorageMigrating"]
    assert (condition["status"], condition["reason"], condition["observedGeneration"]) == (
        "False",
        "MigrationSucceeded",
        generation,
    )
    assert (await switched(api, "v2", "v2"))["status"]["storedVersions"] == ["v2"]
    assert (await api.get(f"{V2}/a")).ok()["spec"]["teeth"] == 1


async def test_watchers_get_new_resource_versions(api: Client) -> None:
    await define(api, gears("v1"))
    made = (await api.post(V1, gear("a", 1))).ok(201)
    await switched(api)
    async with api.watch(f"{V1}?watch=1&resourceVersion={made['metadata']['resourceVersion']}") as watch:
        await migrated(api)
        event = await watch.event()
    assert (event["type"], event["object"]["spec"]) == ("MODIFIED", made["spec"])
    assert event["object"]["metadata"]["managedFields"] == made["metadata"]["managedFields"]


async def test_objects_invalid_under_the_current_schema_are_rewritten_too(api: Client) -> None:
    await define(api, gears("v2"))
    before = (await api.post(V2, gear("a", 1, "v2"))).ok(201)
    made = gears("v2")["spec"]
    made["versions"][1]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["size"] = {
        "type": "integer",
        "default": 7,
    }
    (await api.patch(f"{DEFINITIONS}/{GEARS}", {"spec": made})).ok()
    await migrated(api)
    after = (await api.get(f"{V2}/a")).ok()
    assert after["spec"] == {"teeth": 1, "color": "red", "size": 7}
    assert after["metadata"]["resourceVersion"] != before["metadata"]["resourceVersion"]
    await migrated(api, "again")
    assert (await api.get(f"{V2}/a")).ok() == after


async def test_defaulting_beyond_the_request_budget_fails_the_migration(api: Client, api_database: str) -> None:
    """40 defaults for each of 60,000 items, of a version at which the object was not stored."""
    definition = gears("v1")
    for version, added in zip(definition["spec"]["versions"], ({}, {"type": "string", "default": "x"}), strict=True):
        item = {"type": "object", "properties": {f"f{i}": added for i in range(40) if added}}
        spec = version["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
        spec["items"] = {"type": "array", "items": item}
    await define(api, definition)
    large = gear("large", 1)
    large["spec"]["items"] = [{}] * 60_000
    (await api.post(V1, large)).ok(201)
    (await api.post(V1, gear("small", 1))).ok(201)
    for version in definition["spec"]["versions"]:
        version["storage"] = version["name"] == "v2"
    (await api.patch(f"{DEFINITIONS}/{GEARS}", {"spec": definition["spec"]})).ok()
    (await api.post(MIGRATIONS, migration())).ok(201)
    failed = (await ended(api))["Failed"]
    assert "takes more work than a request may" in failed["message"]
    assert await versions_of_rows(api_database) == {"v1": 1, "v2": 1}


@pytest.mark.parametrize(
    "resource, succeeds",
    [
        pytest.param({"group": "", "resource": "configmaps"}, True, id="built in"),
        pytest.param({"resource": "nothings"}, False, id="unknown"),
        pytest.param({"group": "none.example.com"}, False, id="unknown group"),
    ],
)
async def test_other_resources(api: Client, resource: dict[str, str], *, succeeds: bool) -> None:
    (await api.post(MIGRATIONS, migration(**resource))).ok(201)
    conditions = await ended(api)
    if succeeds:
        assert conditions["Succeeded"]["reason"] == "StorageVersionMigrationSucceeded"
    else:
        assert (conditions["Failed"]["reason"], conditions["Failed"]["message"]) == (
            "StorageVersionMigrationFailed",
            "resource does not exist in discovery",
        )


async def test_an_unreadable_row_fails_the_migration_and_the_others_are_rewritten(
    api: Client, api_database: str
) -> None:
    await define(api, gears("v0", "v0", "v1", "v2"))
    (await api.post(f"/apis/{GROUP}/v0/namespaces/default/gears", gear("lost", 1, "v0"))).ok(201)
    await switched(api, "v1", "v0", "v1", "v2")
    (await api.post(V1, gear("a", 2))).ok(201)
    # As by hand: the definition forgets v0 although a row is of it.
    (await api.patch(f"{DEFINITIONS}/{GEARS}/status", {"status": {"storedVersions": ["v1"]}})).ok()
    await switched(api, "v2", "v1", "v2")
    (await api.post(MIGRATIONS, migration())).ok(201)
    failed = (await ended(api))["Failed"]
    assert failed["message"].startswith("migration encountered unhandled error: ")
    assert "the definition has no version v0 any more" in failed["message"]
    assert await stored_versions(api) == ["v1", "v2"]
    assert await versions_of_rows(api_database) == {"v0": 1, "v2": 1}
    # The way out that the message names.
    await switched(api, "v2", "v0", "v1", "v2")
    await migrated(api, "again")
    assert (await stored_versions(api), await versions_of_rows(api_database)) == (["v2"], {"v2": 2})


@pytest.fixture
def webhook_definition(tmp_path: Path) -> Iterator[dict[str, Any]]:
    """A definition whose versions a webhook converts, which is served."""
    with serving_https(Webhook, tmp_path / "webhook") as webhook:
        yield webhook.definition()


async def test_objects_are_converted_by_the_webhook(
    webhook_definition: dict[str, Any], api: Client, api_database: str
) -> None:
    """Rows are converted many at a time, and are what the webhook makes of them."""
    spec, path = webhook_definition["spec"], f"/apis/{webhook_definition['spec']['group']}"
    for version in spec["versions"]:
        version["storage"] = version["name"] == "v1beta1"
    await define(api, webhook_definition)
    plural = spec["names"]["plural"]
    for i in range(5):
        body = {
            "apiVersion": f"{spec['group']}/v1beta1",
            "kind": spec["names"]["kind"],
            "metadata": {"name": f"e{i}"},
            "spec": {"hostPort": f"h:{i + 1}"},
        }
        (await api.post(f"{path}/v1beta1/namespaces/default/{plural}", body)).ok(201)
    for version in spec["versions"]:
        version["storage"] = version["name"] == "v1"
    name = webhook_definition["metadata"]["name"]
    (await api.patch(f"{DEFINITIONS}/{name}", {"spec": spec})).ok()
    (await api.post(MIGRATIONS, migration(group=spec["group"], resource=plural))).ok(201)
    assert (await ended(api))["Succeeded"]["status"] == "True"
    assert await versions_of_rows(api_database, name) == {"v1": 5}
    listed = (await api.get(f"{path}/v1beta1/namespaces/default/{plural}")).ok()["items"]
    assert [item["spec"] for item in listed] == [{"hostPort": f"h:{i + 1}"} for i in range(5)]


async def test_a_failing_webhook_fails_the_migration(
    webhook_definition: dict[str, Any], api: Client, api_database: str
) -> None:
    spec = webhook_definition["spec"]
    for version in spec["versions"]:
        version["storage"] = version["name"] == "v1beta1"
    await define(api, webhook_definition)
    plural, group, name = spec["names"]["plural"], spec["group"], webhook_definition["metadata"]["name"]
    for made, text in (("good", "h:1"), ("bad", "nowhere")):
        body = {
            "apiVersion": f"{group}/v1beta1",
            "kind": spec["names"]["kind"],
            "metadata": {"name": made},
            "spec": {"hostPort": text},
        }
        (await api.post(f"/apis/{group}/v1beta1/namespaces/default/{plural}", body)).ok(201)
    for version in spec["versions"]:
        version["storage"] = version["name"] == "v1"
    (await api.patch(f"{DEFINITIONS}/{name}", {"spec": spec})).ok()
    (await api.post(MIGRATIONS, migration(group=group, resource=plural))).ok(201)
    assert "bad: hostPort is not HOST:PORT" in (await ended(api))["Failed"]["message"]
    assert await versions_of_rows(api_database, name) == {"v1": 1, "v1beta1": 1}
    status = (await api.get(f"{DEFINITIONS}/{name}")).ok()["status"]
    assert status["storedVersions"] == ["v1beta1", "v1"]
    [condition] = [c for c in status["conditions"] if c["type"] == "StorageMigrating"]
    assert (condition["status"], condition["reason"]) == ("False", "MigrationFailed")
