"""Storage migration: objects stored in an old version are rewritten; then storedVersions is updated."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from registry.controllers.storage_migration import controller as storage_migration
from registry.controllers.storage_migration import rewriting
from registry.controllers.storage_migration import runner as migrator
from registry.controllers.storage_migration.rewriting import Pace
from tests.api.client import Client
from tests.api.errors import failure
from tests.api.widgets import DEFINITIONS, GROUP, define
from tests.application import serving
from tests.conversion.webhook import Webhook
from tests.https import serving_https

MIGRATIONS = "/apis/storagemigration.k8s.io/v1beta1/storageversionmigrations"
GEARS = f"gears.{GROUP}"
V1, V2 = (f"/apis/{GROUP}/{version}/namespaces/default/gears" for version in ("v1", "v2"))
RESOURCE = {"group": GROUP, "resource": "gears"}
PATIENCE_SECONDS = 60.0


def gears(storage: str, *names: str) -> dict[str, Any]:
    """v1 and v2, or those of `names`; v2 has a default that v1 knows nothing of."""
    versions = []
    for name in names or ("v1", "v2"):
        spec: dict[str, Any] = {"teeth": {"type": "integer"}, "text": {"type": "string"}}
        if name == "v2":
            spec["color"] = {"type": "string", "default": "red"}
        versions.append(
            {
                "name": name,
                "served": True,
                "storage": name == storage,
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "properties": {"spec": {"type": "object", "properties": spec}},
                    }
                },
            }
        )
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": GEARS},
        "spec": {
            "group": GROUP,
            "scope": "Namespaced",
            "names": {"plural": "gears", "kind": "Gear"},
            "versions": versions,
        },
    }


def gear(name: str, teeth: int, version: str = "v1", **metadata: Any) -> dict[str, Any]:
    return {
        "apiVersion": f"{GROUP}/{version}",
        "kind": "Gear",
        "metadata": {"name": name, **metadata},
        "spec": {"teeth": teeth},
    }


def migration(name: str = "m", **resource: str) -> dict[str, Any]:
    return {
        "apiVersion": "storagemigration.k8s.io/v1beta1",
        "kind": "StorageVersionMigration",
        "metadata": {"name": name},
        "spec": {"resource": RESOURCE | resource},
    }


@pytest.fixture(params=["off"])
def mode(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
async def api(api_database: str, tmp_path: Path, mode: str, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Client]:
    """A server that begins a migration at once or not by itself."""
    monkeypatch.setattr(migrator, "CHECK_SECONDS", 0.1)
    monkeypatch.setattr(storage_migration, "UNKNOWN_SECONDS", 0.0)
    more = {"migrate_storage": mode, "migrate_storage_after_seconds": 0, "allow_egress_to": ("127.0.0.0/8",)}
    async with serving(api_database, tmp_path, **more) as client:
        yield client


async def until(condition: Callable[[], Awaitable[Any]]) -> Any:
    deadline = asyncio.get_running_loop().time() + PATIENCE_SECONDS
    while True:
        found = await condition()
        if found:
            return found
        assert asyncio.get_running_loop().time() < deadline, "it does not come"
        await asyncio.sleep(0.02)


async def ended(api: Client, name: str = "m") -> dict[str, dict[str, Any]]:
    """The conditions of a migration that has come to its end, by their types."""

    async def look() -> Any:
        status = (await api.get(f"{MIGRATIONS}/{name}")).ok()["status"]
        conditions = {c["type"]: c for c in status.get("conditions") or ()}
        return conditions if conditions.keys() & {"Succeeded", "Failed"} else None

    found: dict[str, dict[str, Any]] = await until(look)
    assert found["Running"]["status"] == "False"
    return found


async def migrated(api: Client, name: str = "m") -> None:
    (await api.post(MIGRATIONS, migration(name))).ok(201)
    conditions = await ended(api, name)
    assert conditions["Succeeded"]["status"] == "True", conditions


async def switched(api: Client, storage: str = "v2", *names: str) -> dict[str, Any]:
    made: dict[str, Any] = (await api.patch(f"{DEFINITIONS}/{GEARS}", {"spec": gears(storage, *names)["spec"]})).ok()
    return made


async def stored_versions(api: Client) -> list[str]:
    found: list[str] = (await api.get(f"{DEFINITIONS}/{GEARS}")).ok()["status"]["storedVersions"]
    return found


async def versions_of_rows(database: str, resource: str = GEARS) -> dict[str, int]:
    async with await psycopg.AsyncConnection.connect(database) as connection:
        rows = await connection.execute(
            "SELECT version, count(*) FROM objects WHERE resource = %s GROUP BY version", [resource]
        )
        return {row[0]: row[1] for row in await rows.fetchall()}


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


# -- what happens meanwhile


@pytest.fixture
def between(monkeypatch: pytest.MonkeyPatch) -> list[Callable[[], Awaitable[Any]]]:
    """What is to happen after the first batch of two rows has been read, and before it is written."""
    todo: list[Callable[[], Awaitable[Any]]] = []
    wait = Pace.wait

    async def interrupted(pace: Pace, rows: int) -> None:
        await wait(pace, rows)
        while todo:
            await todo.pop(0)()

    monkeypatch.setattr(rewriting, "BATCH", 2)
    monkeypatch.setattr(Pace, "wait", interrupted)
    return todo


async def test_writes_continue_during_a_migration(
    api: Client, api_database: str, between: list[Callable[[], Awaitable[Any]]]
) -> None:
    """Each is made at the revision that was read: nobody's write is lost, and what is deleted stays so."""
    await define(api, gears("v1"))
    for i in range(6):
        (await api.post(V1, gear(f"g{i}", i))).ok(201)
    await switched(api)

    async def write() -> None:
        (await api.patch(f"{V1}/g0", {"spec": {"teeth": 100}})).ok()
        (await api.patch(f"{V2}/g1", {"metadata": {"labels": {"x": "y"}}})).ok()
        (await api.delete(f"{V1}/g5")).ok()
        (await api.post(V1, gear("g9", 9))).ok(201)

    between.append(write)
    await migrated(api)
    items = (await api.get(V2)).ok()["items"]
    assert {i["metadata"]["name"]: i["spec"]["teeth"] for i in items} == {
        "g0": 100,
        "g1": 1,
        "g2": 2,
        "g3": 3,
        "g4": 4,
        "g9": 9,
    }
    assert items[1]["metadata"]["labels"] == {"x": "y"}
    assert (await stored_versions(api), await versions_of_rows(api_database)) == (["v2"], {"v2": 6})


async def test_the_storage_version_changes_again(
    api: Client, api_database: str, between: list[Callable[[], Awaitable[Any]]]
) -> None:
    """What is left in status.storedVersions is always true."""
    await define(api, gears("v1"))
    for i in range(6):
        (await api.post(V1, gear(f"g{i}", i))).ok(201)
    await switched(api)
    between.append(lambda: switched(api, "v1"))
    await migrated(api)
    assert (await stored_versions(api), await versions_of_rows(api_database)) == (["v1"], {"v1": 6})


async def test_a_definition_changed_during_the_last_step_is_reloaded(
    api: Client, api_database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    await define(api, gears("v1"))
    (await api.post(V1, gear("a", 1))).ok(201)
    await switched(api)
    finish = storage_migration._finish_definition
    calls = []

    async def late(*arguments: Any) -> None:
        calls.append(arguments)
        if len(calls) == 1:
            await switched(api, "v1")
            (await api.post(V1, gear("b", 2))).ok(201)
            await switched(api, "v2")
        await finish(*arguments)

    monkeypatch.setattr(storage_migration, "_finish_definition", late)
    await migrated(api)
    assert len(calls) == 2
    assert (await stored_versions(api), await versions_of_rows(api_database)) == (["v2"], {"v2": 2})


async def test_the_definition_is_deleted_during_a_migration(
    api: Client, between: list[Callable[[], Awaitable[Any]]]
) -> None:
    await define(api, gears("v1"))
    for i in range(4):
        (await api.post(V1, gear(f"g{i}", i))).ok(201)
    await switched(api)

    async def delete() -> None:
        (await api.delete(f"{DEFINITIONS}/{GEARS}")).ok()

        async def gone() -> bool:
            return (await api.get(f"{DEFINITIONS}/{GEARS}")).code == 404

        await until(gone)

    between.append(delete)
    (await api.post(MIGRATIONS, migration())).ok(201)
    assert "the resource is gone" in (await ended(api))["Failed"]["message"]


async def test_a_migration_continues_after_its_time_slice(
    api: Client, api_database: str, between: list[Callable[[], Awaitable[Any]]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(storage_migration, "SLICE_SECONDS", 0.0)
    await define(api, gears("v1"))
    for i in range(5):
        (await api.post(V1, gear(f"g{i}", i))).ok(201)
    await switched(api)
    await migrated(api)
    assert (await stored_versions(api), await versions_of_rows(api_database)) == (["v2"], {"v2": 5})


async def test_a_long_migration_reports_its_progress(
    api: Client, between: list[Callable[[], Awaitable[Any]]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """In an annotation, over the slices: the batches have two rows."""
    monkeypatch.setattr(storage_migration, "PROGRESS_SECONDS", 0.0)
    monkeypatch.setattr(storage_migration, "SLICE_SECONDS", 0.0)
    await define(api, gears("v1"))
    for i in range(5):
        (await api.post(V1, gear(f"g{i}", i))).ok(201)
    await switched(api)
    (await api.post(MIGRATIONS, migration())).ok(201)
    await ended(api)
    found: list[str] = []
    for entry in (await api.get(f"{MIGRATIONS}/m/history?object=true")).ok()["items"]:
        text = (entry["object"]["metadata"].get("annotations") or {}).get(storage_migration.PROGRESS)
        found += [text] if text and text not in found else []
    assert found == ["5/5", "4/5", "2/5"]


async def test_migrations_of_one_resource_wait_for_each_other(
    api: Client, api_database: str, between: list[Callable[[], Awaitable[Any]]]
) -> None:
    await define(api, gears("v1"))
    for i in range(5):
        (await api.post(V1, gear(f"g{i}", i))).ok(201)
    await switched(api)
    seen = []

    async def another() -> None:
        (await api.post(MIGRATIONS, migration("second"))).ok(201)
        await asyncio.sleep(0.1)  # The runner looks again after CHECK_SECONDS, and must not begin it.
        seen.append((await api.get(f"{MIGRATIONS}/second")).ok()["status"])

    between.append(another)
    await migrated(api)
    assert seen == [{}], "it has not begun"
    assert (await ended(api, "second"))["Succeeded"]["status"] == "True"
    assert (await stored_versions(api), await versions_of_rows(api_database)) == (["v2"], {"v2": 5})


# -- by itself


@pytest.mark.parametrize("mode", ["auto"], indirect=True)
async def test_a_migration_starts_automatically(api: Client, api_database: str) -> None:
    await define(api, gears("v1"))
    (await api.post(V1, gear("a", 1))).ok(201)
    await switched(api)

    async def is_reported() -> bool:
        return await stored_versions(api) == ["v2"]

    await until(is_reported)
    assert await versions_of_rows(api_database) == {"v2": 1}
    assert (await api.get(MIGRATIONS)).ok()["items"] == []


async def test_automatic_migrations_can_be_switched_off(api: Client, api_database: str) -> None:
    await define(api, gears("v1"))
    (await api.post(V1, gear("a", 1))).ok(201)
    await switched(api)
    (await api.post(MIGRATIONS, migration(resource="others"))).ok(201)
    await ended(api)
    assert (await stored_versions(api), await versions_of_rows(api_database)) == (["v1", "v2"], {"v1": 1})
