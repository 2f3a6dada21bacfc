"""Storage migration beside writes, other migrations and changed definitions, and migrations without a request."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from registry.controllers.queue import Requeue
from registry.controllers.storage_migration import controller as storage_migration
from registry.controllers.storage_migration import rewriting
from registry.controllers.storage_migration.rewriting import Pace
from tests.api.client import Client, eventually
from tests.api.widgets import DEFINITIONS, define
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


@pytest.fixture(params=["off"])
def mode(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
async def api(api_database: str, tmp_path: Path, mode: str, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Client]:
    async with serving_migrations(api_database, tmp_path, monkeypatch, mode=mode) as client:
        yield client


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

        await eventually(gone)

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
    api: Client, api_database: str, between: list[Callable[[], Awaitable[Any]]], monkeypatch: pytest.MonkeyPatch
) -> None:
    waits = asyncio.Event()
    enter = storage_migration._Lease.__aenter__

    async def enters_or_waits(lease: storage_migration._Lease) -> storage_migration._Lease:
        try:
            return await enter(lease)
        except Requeue:
            waits.set()
            raise

    monkeypatch.setattr(storage_migration._Lease, "__aenter__", enters_or_waits)
    await define(api, gears("v1"))
    for i in range(5):
        (await api.post(V1, gear(f"g{i}", i))).ok(201)
    await switched(api)
    seen = []

    async def another() -> None:
        (await api.post(MIGRATIONS, migration("second"))).ok(201)
        await waits.wait()
        seen.append((await api.get(f"{MIGRATIONS}/second")).ok()["status"])

    between.append(another)
    await migrated(api)
    assert seen == [{}], "it has not begun"
    assert (await ended(api, "second"))["Succeeded"]["status"] == "True"
    assert (await stored_versions(api), await versions_of_rows(api_database)) == (["v2"], {"v2": 5})


@pytest.mark.parametrize("mode", ["auto"], indirect=True)
async def test_a_migration_starts_automatically(api: Client, api_database: str) -> None:
    await define(api, gears("v1"))
    (await api.post(V1, gear("a", 1))).ok(201)
    await switched(api)

    async def is_reported() -> bool:
        return await stored_versions(api) == ["v2"]

    await eventually(is_reported)
    assert await versions_of_rows(api_database) == {"v2": 1}
    assert (await api.get(MIGRATIONS)).ok()["items"] == []


async def test_automatic_migrations_can_be_switched_off(api: Client, api_database: str) -> None:
    await define(api, gears("v1"))
    (await api.post(V1, gear("a", 1))).ok(201)
    await switched(api)
    (await api.post(MIGRATIONS, migration(resource="others"))).ok(201)
    await ended(api)
    assert (await stored_versions(api), await versions_of_rows(api_database)) == (["v1", "v2"], {"v1": 1})
