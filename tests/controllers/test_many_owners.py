"""Objects of many owners, which the garbage collector looks up together."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from registry.api.options import DeleteOptions
from registry.controllers.controller_client import ControllerClient
from registry.controllers.garbage import deletion
from registry.controllers.garbage.absent_owner_cache import AbsentOwnerCache
from registry.controllers.garbage.deletion import Garbage
from registry.controllers.work import Work
from registry.store.connection import Pool
from registry.store.reads.points import PointReader
from registry.store.statements import Statement
from registry.store.types import ObjectKey, ResourceName
from tests.controllers.processes import WIDGETS, born, key, names, process, widgets


@pytest.fixture
async def client(api_database: str) -> AsyncIterator[ControllerClient]:
    async with process(api_database) as client:
        yield client


@pytest.fixture
def queries(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the statements that run, and `point` for each read of one object."""
    seen: list[str] = []
    fetch, load = Pool.fetch, PointReader.load

    async def record_fetch(pool: Pool, query: Statement, *arguments: Any, **named: Any) -> Any:
        seen.append(query.name)
        return await fetch(pool, query, *arguments, **named)

    async def record_load(reader: PointReader, *which: Any) -> Any:
        seen.append("point")
        return await load(reader, *which)

    monkeypatch.setattr(Pool, "fetch", record_fetch)
    monkeypatch.setattr(PointReader, "load", record_load)
    return seen


def _nobody(number: int) -> dict[str, Any]:
    return {"metadata": {"name": f"nobody{number}", "uid": f"00000000-0000-4000-8000-{number:012x}"}}


EVENTS = ResourceName("events")


async def _reconcile(client: ControllerClient, at: ObjectKey) -> None:
    garbage = Garbage(client, AbsentOwnerCache(), lambda _: None, lambda _: None)
    await garbage.reconcile(Work(client.tenant, WIDGETS, at))


async def test_absent_owners_are_looked_up_in_few_queries(client: ControllerClient, queries: list[str]) -> None:
    """Each of 2,000 took two."""
    await born(client, "child", *(_nobody(i) for i in range(2_000)))
    queries.clear()
    await _reconcile(client, key("child"))
    assert await names(client) == set()
    assert [queries.count(name) for name in ("owners", "keys-of-uids")] == [4, 4]
    assert len(queries) < 20


async def test_owners_of_several_queries_are_classified(
    client: ControllerClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deletion, "_LOOKED_UP_AT_ONCE", 3)
    served = await widgets(client)
    living = [await born(client, f"living{i}") for i in range(3)]
    held = [await born(client, f"held{i}", finalizers=["example.com/hold"]) for i in range(4)]
    for number, owner in enumerate(held):
        policy = "Foreground" if number % 2 else "Background"
        await client.delete(served, key(owner["metadata"]["name"]), DeleteOptions(propagation_policy=policy))
    other = {"metadata": {"name": "living0", "uid": _nobody(0)["metadata"]["uid"]}}
    absent = [other, *(_nobody(i) for i in range(1, 5))]
    owners = [*living, *held, *absent]
    await born(client, "child", *(owners[i * 5 % len(owners)] for i in range(len(owners))))
    await _reconcile(client, key("child"))
    row, _ = await client.backend.store.load(client.tenant, WIDGETS, key("child"))
    assert row is not None
    left = {r["name"] for r in served.object(row)["metadata"]["ownerReferences"]}
    assert left == {"living0", "living1", "living2", "held0", "held2"}


async def test_owners_that_exceed_a_query_are_classified_in_another(
    client: ControllerClient, monkeypatch: pytest.MonkeyPatch, queries: list[str]
) -> None:
    """Bodies of terminating owners are read, which may have megabytes each."""
    monkeypatch.setattr("registry.store.reads.lookups.READ_BYTES", 100)
    held = [await born(client, f"held{i}", finalizers=["example.com/hold"]) for i in range(3)]
    for owner in held:
        options = DeleteOptions(propagation_policy="Foreground")
        await client.delete(await widgets(client), key(owner["metadata"]["name"]), options)
    await born(client, "child", *held, _nobody(1))
    queries.clear()
    await _reconcile(client, key("child"))
    assert queries.count("owners") == 4
    assert "child" not in await names(client)


async def test_events_about_owners_in_other_namespaces_are_bounded(client: ControllerClient) -> None:
    owners = [await born(client, f"owner{i}") for i in range(30)]
    await born(client, "child", *owners, namespace="kube-system")
    await _reconcile(client, ObjectKey("kube-system/child"))
    assert await client.backend.store.lookups.count(client.tenant, EVENTS) == 25
