"""What makes controllers work for a tenant: deletions, migrations and indexes of large or many objects."""

from __future__ import annotations

import asyncio
import contextlib
from itertools import count, cycle
from typing import Any

from benchmarks.attacks.attacker import ANYTHING, DEFINITIONS, MAPS, MERGE_PATCH, TENANT, Attacker, an_object

MIGRATIONS = f"{TENANT}/apis/storagemigration.k8s.io/v1beta1/storageversionmigrations"
# A stored object of 1.4 MB, of many values.
_ITEMS = [{"name": f"n{i}", "value": i} for i in range(45_000)]


async def collections(attacker: Attacker) -> None:
    """Collections of objects of two megabytes, deleted at once."""
    path = await attacker.define("collected", ANYTHING)
    bodies = cycle([{"text": "x" * 2_000_000}, {"list": [*range(280_000)]}, {"items": _ITEMS}])

    async def work(one: Attacker) -> None:
        for i in range(12):
            await one.ask("POST", path, an_object(path, f"large{i}", next(bodies)))
        await one.ask("DELETE", path)

    await attacker.parallel(1, work)


async def migrations(attacker: Attacker) -> None:
    """Objects of a megabyte that are migrated again and again, with defaults for each of 45,000 items."""
    path = await attacker.define("migrated", _listed({}))
    for i in range(8):
        await attacker.ask("POST", path, an_object(path, f"large{i}", {"items": _ITEMS}))
    numbers = count()
    definition = f"{DEFINITIONS}/migrated.migrated.example.com"

    async def work(one: Attacker) -> None:
        i = next(numbers)
        version = {"name": "v1", "served": True, "storage": True}
        extra = {f"d{i}": {"type": "string", "default": "x" * 60}}
        schema = {"openAPIV3Schema": {"type": "object", "properties": {"spec": _listed(extra)}}}
        await one.ask("PATCH", definition, {"spec": {"versions": [{**version, "schema": schema}]}}, kind=MERGE_PATCH)
        body: dict[str, Any] = {
            "apiVersion": "storagemigration.k8s.io/v1beta1",
            "kind": "StorageVersionMigration",
            "metadata": {"name": f"m{i}"},
            "spec": {"resource": {"group": "migrated.example.com", "resource": "migrated"}},
        }
        await one.ask("POST", MIGRATIONS, body)
        await asyncio.sleep(0.5)

    await attacker.parallel(1, work)


def _listed(extra: dict[str, Any]) -> dict[str, Any]:
    item = {"name": {"type": "string"}, "value": {"type": "integer"}, **extra}
    items = {"type": "array", "items": {"type": "object", "properties": item}}
    return {"type": "object", "properties": {"items": items}}


async def indexes(attacker: Attacker) -> None:
    """Other indexes and other columns of reports for objects of a megabyte, again and again."""
    path = await attacker.define("reindexed", _listed({}))
    for i in range(8):
        await attacker.ask("POST", path, an_object(path, f"large{i}", {"items": _ITEMS}))
    names = cycle(["spec.items.name", "spec.items.value", "metadata.uid"])
    columns = cycle(["spec.a", ".metadata.generation", ""])
    definition = f"{DEFINITIONS}/reindexed.reindexed.example.com"

    async def work(one: Attacker) -> None:
        wanted = {"query.registry/indexes": next(names), "reporting.registry/indexes": next(columns)}
        await one.ask("PATCH", definition, {"metadata": {"annotations": wanted}}, kind=MERGE_PATCH)
        await asyncio.sleep(0.5)

    await attacker.parallel(1, work)


async def dependents(attacker: Attacker) -> None:
    """Owners of 500 objects of 100 kB each, deleted with all of them; some wait for a finalizer in the foreground."""
    numbers = count()

    async def work(one: Attacker) -> None:
        name = f"owner{next(numbers)}"
        with contextlib.suppress(KeyError):
            owner = {**await one.owner(name), "blockOwnerDeletion": True}
            for i in range(200):
                made = {"apiVersion": "v1", "kind": "ConfigMap", "data": {"text": "x" * 100_000}}
                await one.ask("POST", MAPS, {**made, "metadata": {"name": f"{name}-{i}", "ownerReferences": [owner]}})
            await one.ask("DELETE", f"{MAPS}/{name}?propagationPolicy=Foreground")

    await attacker.parallel(4, work)
