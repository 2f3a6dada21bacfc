"""A resource of two versions, and what tests of storage migration do with it."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from registry.controllers.storage_migration import controller as storage_migration
from registry.controllers.storage_migration import runner
from tests.api.client import Client, eventually
from tests.api.widgets import DEFINITIONS, GROUP
from tests.application import serving

MIGRATIONS = "/apis/storagemigration.k8s.io/v1beta1/storageversionmigrations"
GEARS = f"gears.{GROUP}"
V1, V2 = (f"/apis/{GROUP}/{version}/namespaces/default/gears" for version in ("v1", "v2"))
RESOURCE = {"group": GROUP, "resource": "gears"}


@contextlib.asynccontextmanager
async def serving_migrations(
    database_url: str, folder: Path, monkeypatch: pytest.MonkeyPatch, *, mode: str = "off"
) -> AsyncIterator[Client]:
    """A server that waits for nothing before a migration. With the mode `auto` it begins them without a request."""
    monkeypatch.setattr(runner, "CHECK_SECONDS", 0.1)
    monkeypatch.setattr(storage_migration, "UNKNOWN_SECONDS", 0.0)
    more = {"migrate_storage": mode, "migrate_storage_after_seconds": 0, "allow_egress_to": ("127.0.0.0/8",)}
    async with serving(database_url, folder, **more) as client:
        yield client


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


async def ended(api: Client, name: str = "m") -> dict[str, dict[str, Any]]:
    """The conditions of a migration that has come to its end, by their types."""

    async def look() -> Any:
        status = (await api.get(f"{MIGRATIONS}/{name}")).ok()["status"]
        conditions = {c["type"]: c for c in status.get("conditions") or ()}
        return conditions if conditions.keys() & {"Succeeded", "Failed"} else None

    found: dict[str, dict[str, Any]] = await eventually(look)
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
